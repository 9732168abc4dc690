package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// process is a process of this machine, which leads its own group. The start time
// tells it from a later one with the same number.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the machine's boot
}

func processOf(pid int) (process, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return process{}, err
	}
	st, err := p.Stat()
	return process{pid, st.Starttime}, err
}

// this is the process that calls.
func this() (process, error) { return processOf(os.Getpid()) }

func (p process) alive() bool {
	if p.PID == 0 {
		return false
	}
	now, err := procfs.NewProc(p.PID)
	if err != nil {
		return false
	}
	st, err := now.Stat()
	return err == nil && st.Starttime == p.Start && !ended(st)
}

// ended reports that a process has only to be waited for. One that was killed looks so, too, while
// other threads of it are still in a call to a disk: it has its files, locks and ports.
func ended(st procfs.ProcStat) bool { return st.State == "Z" && st.NumThreads <= 1 }

func (p process) signal(sig syscall.Signal) error {
	if !p.alive() {
		return fmt.Errorf("process %d is gone", p.PID)
	}
	return syscall.Kill(p.PID, sig)
}

// end kills the whole group and returns when nothing of it is left.
func (p process) end(ctx context.Context) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(-p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", p.PID, err)
	}
	return await(ctx, fmt.Sprintf("end of process group %d", p.PID), time.Minute, func(context.Context) (bool, error, error) {
		return !groupAlive(p.PID), nil, nil
	})
}

func groupAlive(group int) bool {
	all, err := procfs.AllProcs()
	if err != nil {
		return false
	}
	for _, p := range all {
		if st, err := p.Stat(); err == nil && st.PGRP == group && !ended(st) {
			return true
		}
	}
	return false
}

// start runs a program in the lab's namespace, in a group of its own, with its output
// at the end of a log, and puts it on record. It may outlive this process.
func (l *Lab) start(name, log string, args ...string) (process, error) {
	// The shell opens the log and is then replaced, so the number stays.
	const script = `log=$1; shift; exec "$@" >>"$log" 2>&1`
	cmd := exec.Command("ip", append([]string{"netns", "exec", netns, "sh", "-c", script, "sh", log}, args...)...)
	cmd.Env = withoutKaas(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	p, err := processOf(cmd.Process.Pid)
	if err == nil {
		err = record(name, p)
	}
	l.children.Go(func() { _ = cmd.Wait() }) // Down waits; how it ended is in its log
	if err != nil {
		return process{}, errors.Join(err, cmd.Process.Kill())
	}
	return p, nil
}

// running is the process on record under a name.
func running(name string) (process, error) {
	var p process
	err := recorded(name, &p)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !p.alive() {
		return process{}, fmt.Errorf("%s is not running", name)
	}
	return p, err
}

// status is one word or two of what the process on record under a name does.
func status(name string) string {
	p, err := running(name)
	if err != nil {
		return "not running"
	}
	if proc, err := procfs.NewProc(p.PID); err == nil {
		if st, err := proc.Stat(); err == nil && strings.EqualFold(st.State, "t") {
			return "paused"
		}
	}
	return "running"
}

// withoutKaas leaves out what a broker would take for its settings.
func withoutKaas(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "KAAS_") {
			out = append(out, kv)
		}
	}
	return out
}

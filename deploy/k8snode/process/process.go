// Package process runs the programs of a node as children that do not outlive it.
//
// A child is killed when its context ends, and by the kernel when its parent ends in whatever
// way (PR_SET_PDEATHSIG). What is kept is kept by an etcd, which is made for that. It leaves NAME.log and, while it runs, NAME.pid. A child that ends by itself is started again, with the same arguments, once
// it has been ready; before that its end is the error that Run returns.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const respite = 200 * time.Millisecond // from the end of a child to the next one

// Process is one program, run over and over.
type Process struct {
	Name string
	Path string
	Args []string
	Env  []string // in addition to ours
	Logs string   // the directory of the log
	Pids string   // the directory of the pid

	ready atomic.Bool
}

// Ready says that the program has come up: from now on it is started again when it ends.
func (p *Process) Ready() { p.ready.Store(true) }

// Run returns when the context ends, with nil, or when the program ends before it was ready.
func (p *Process) Run(ctx context.Context) error {
	// The kernel's signal comes when the thread that made the child ends, and Go ends a thread
	// with the goroutine that is locked to it. This one waits for the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		ended := p.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case !p.ready.Load():
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.Name, ended, p.lastLines())
		}
		select {
		case <-time.After(respite):
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *Process) once(ctx context.Context) error {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = p.note(cmd.Process.Pid)
	ended := cmd.Wait()
	if ended == nil {
		ended = errors.New("exit status 0")
	}
	return errors.Join(ended, err, os.Remove(p.pid()))
}

// note writes the pid file whole, for others wait for it and read it.
func (p *Process) note(pid int) error {
	fresh := p.pid() + ".new"
	if err := os.WriteFile(fresh, []byte(strconv.Itoa(pid)+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, p.pid())
}

func (p *Process) pid() string { return filepath.Join(p.Pids, p.Name+".pid") }
func (p *Process) log() string { return filepath.Join(p.Logs, p.Name+".log") }

func (p *Process) lastLines() []byte {
	b, _ := os.ReadFile(p.log()) // without it the error says less
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-15):], []byte("\n"))
}

package lab

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// leaderVar has this binary be a process whose first thread has ended, and others have not.
const leaderVar = "NFSLAB_TEST_LEADER"

func init() {
	if os.Getenv(leaderVar) != "" {
		runtime.LockOSThread() // init runs on the first thread
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
}

// A process of which a thread is left has not ended, whatever its first thread looks like: the
// file server that was killed had its lock and its port, and the next one ended at once.
func TestThreadsThatAreLeft(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), leaderVar+"=1")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { // killed it is in any case
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	p, err := processOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	err = await(t.Context(), "end of the first thread", 20*time.Second, func(ctx context.Context) (bool, error, error) {
		proc, err := procfs.NewProc(p.PID)
		if err != nil {
			return false, nil, err
		}
		st, err := proc.Stat()
		return st.State == "Z", nil, err
	})
	if err != nil {
		t.Skipf("this kernel does not tell of it: %v", err)
	}
	if !p.alive() || !groupAlive(p.PID) {
		t.Errorf("alive is %v, of the group %v, of a process that has threads", p.alive(), groupAlive(p.PID))
	}
	if err := p.end(t.Context()); err != nil {
		t.Error(err)
	}
	if p.alive() || groupAlive(p.PID) {
		t.Errorf("alive is %v, of the group %v, of one that was killed", p.alive(), groupAlive(p.PID))
	}
}

package e2e

import (
	"bytes"
	"context"
	"os/exec"
	"testing"
	"time"
)

func TestKcatByteIdentical(t *testing.T) {
	need(t, "kcat")
	b := startBroker(t)
	run(t, command(t, "kcat", "-P", "-b", b.addr, "-t", topic, "-l", textFile(t)))
	wantSame(t, kcatConsume(t, b.addr), text())
	b.stop()
	b.start()
	wantSame(t, kcatConsume(t, b.addr), text())
}

func TestKcatKilledBroker(t *testing.T) {
	need(t, "kcat")
	b := startBroker(t)
	want := split(text())
	// -E: kcat gives up on the first moment without a broker otherwise. It ends with
	// an error if one line was not acknowledged in the end.
	cmd := command(t, "kcat", "-P", "-E", "-b", b.addr, "-t", topic, "-l", textFile(t))
	wait := spawn(t, cmd)
	b.killAt(wait.done, 0.1, 0.5)
	wait.ended(t)
	wantFirstAppearances(t, split(kcatConsume(t, b.addr)), want)
}

// The same as an idempotent producer: no line stands twice.
func TestKcatIdempotentKilledBroker(t *testing.T) {
	need(t, "kcat")
	b := startBroker(t)
	want := split(text())
	cmd := command(t, "kcat", "-P", "-E", "-X", "enable.idempotence=true", "-b", b.addr, "-t", topic, "-l", textFile(t))
	wait := spawn(t, cmd)
	b.killAt(wait.done, 0.1, 0.5)
	wait.ended(t)
	wantLines(t, split(kcatConsume(t, b.addr)), want)
}

// command is a client's command; it is killed when it takes too long.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, name, args...)
}

// kcatConsume reads the topic from its beginning to its end.
func kcatConsume(t *testing.T, addr string) []byte {
	t.Helper()
	return run(t, command(t, "kcat", "-C", "-e", "-q", "-b", addr, "-t", topic, "-o", "beginning"))
}

// run returns what a command printed, and fails the test unless it ended well.
func run(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Args[0], err, tail(stderr.Bytes(), 4096))
	}
	return stdout.Bytes()
}

// running is a command that runs beside the test.
type running struct {
	cmd  *exec.Cmd
	out  bytes.Buffer // read when done is closed
	err  error
	done chan struct{}
}

func spawn(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &r.out, &r.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = cmd.Wait()
		close(r.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error says that it has ended
		<-r.done
	})
	return r
}

// ended waits for the command and fails the test unless it ended well.
func (r *running) ended(t *testing.T) {
	t.Helper()
	<-r.done
	if r.err != nil {
		t.Fatalf("%s: %v\n%s", r.cmd.Args[0], r.err, tail(r.out.Bytes(), 4096))
	}
}

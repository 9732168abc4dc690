package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// fsyncCounter counts a process's calls of fsync and fdatasync with perf, which
// lets the kernel count: the process is not stopped, as it would be by a tracer.
// A nil counter counts nothing.
type fsyncCounter struct {
	cmd     *exec.Cmd
	control *os.File // commands to perf
	acks    *bufio.Reader
	ack     *os.File
	out     bytes.Buffer
	ended   chan struct{}
}

// perfTime bounds each answer of perf.
const perfTime = 5 * time.Second

// countFsyncs returns a counter that waits to be enabled, or nil if perf cannot
// count here.
func countFsyncs(pid int) *fsyncCounter {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return nil
	}
	controlRead, control, err := os.Pipe()
	if err != nil {
		return nil
	}
	ack, ackWrite, err := os.Pipe()
	if err != nil {
		controlRead.Close()
		control.Close()
		return nil
	}
	c := &fsyncCounter{control: control, ack: ack, acks: bufio.NewReader(ack), ended: make(chan struct{})}
	c.cmd = exec.Command(perf, "stat", "-x", ",", "-e", "syscalls:sys_enter_fdatasync,syscalls:sys_enter_fsync",
		"-D", "-1", "--control", "fd:3,4", "-p", strconv.Itoa(pid))
	c.cmd.ExtraFiles = []*os.File{controlRead, ackWrite}
	c.cmd.Stderr = &c.out
	err = c.cmd.Start()
	controlRead.Close()
	ackWrite.Close()
	if err != nil {
		control.Close()
		ack.Close()
		return nil
	}
	go func() { // close waits for it
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	if !c.ask("ping") {
		c.close()
		return nil
	}
	return c
}

// ask sends perf a command and waits until it is done.
func (c *fsyncCounter) ask(command string) bool {
	if _, err := c.control.WriteString(command + "\n"); err != nil {
		return false
	}
	if c.ack.SetReadDeadline(time.Now().Add(perfTime)) != nil {
		return false
	}
	line, err := c.acks.ReadString('\n')
	return err == nil && strings.Contains(line, "ack")
}

func (c *fsyncCounter) enable() {
	if c != nil {
		c.ask("enable")
	}
}

// take ends the count and returns it, or nil if perf has none.
func (c *fsyncCounter) take() *int64 {
	if c == nil || !c.ask("disable") {
		return nil
	}
	c.close()
	return sumCounts(c.out.String())
}

// sumCounts adds up the lines "12,,event,…" of perf.
func sumCounts(out string) *int64 {
	var sum int64
	seen := false
	for line := range strings.Lines(out) {
		fields := strings.Split(line, ",")
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "syscalls:") {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil // "<not counted>"
		}
		sum, seen = sum+n, true
	}
	if !seen {
		return nil
	}
	return &sum
}

// close ends perf. It may be called again.
func (c *fsyncCounter) close() {
	if c == nil {
		return
	}
	_ = c.cmd.Process.Signal(os.Interrupt) // an error says that it has ended
	select {
	case <-c.ended:
	case <-time.After(perfTime):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
	c.control.Close()
	c.ack.Close()
}

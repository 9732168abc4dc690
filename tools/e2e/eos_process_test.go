package e2e

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// copierKind is a make of client that copies.
type copierKind struct {
	// command makes a process that copies. Of two with one ID the later one has the place of
	// the other; nil where an ID cannot be given.
	command func(l *eosLoop, id string, timeout time.Duration) *exec.Cmd
	ids     bool           // two processes can have one transactional ID
	lives   bool           // a process goes on by itself after whatever it is told
	fenced  *regexp.Regexp // in a line, where it is told that another has its place
	refused *regexp.Regexp // the same, but by its group alone
}

// copierProcess is a process that copies.
type copierProcess struct {
	id   string
	cmd  *exec.Cmd
	kind *copierKind
	done chan struct{}
	news chan struct{} // gets one when it has been fenced or refused; never blocks

	mu       sync.Mutex
	said     []string // its last lines
	part     string   // of a line
	fenced   string   // the first line that says so, since it was last asked
	refused  string
	over     bool // it has ended
	replaced bool // another has its ID
	asked    bool // to end
}

const mostSaid = 60 // lines that are kept

func (c *copierProcess) start() error {
	c.cmd.Stdout, c.cmd.Stderr = c, c
	c.done, c.news = make(chan struct{}), make(chan struct{}, 1)
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = c.cmd.Wait() // how it ended is in cmd.ProcessState
		c.set(&c.over)
		close(c.done)
	}()
	return nil
}

// Write takes what the process says.
func (c *copierProcess) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(c.part+string(b), "\n")
	c.part = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		c.said = append(c.said, line)
		c.said = c.said[max(0, len(c.said)-mostSaid):]
		switch {
		case c.kind.fenced.MatchString(line) && c.fenced == "":
			c.fenced = line
		case c.kind.refused.MatchString(line) && c.refused == "":
			c.refused = line
		default:
			continue
		}
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}

// lately are the lines that said that another has its place, and that its group did, since
// this was last asked.
func (c *copierProcess) lately() (fenced, refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fenced, refused = c.fenced, c.refused
	c.fenced, c.refused = "", ""
	return fenced, refused
}

func (c *copierProcess) lastWords() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.said, "\n")
}

func (c *copierProcess) is(flag *bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *flag
}

func (c *copierProcess) set(flag *bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*flag = true
}

// replace notes that another gets its ID, unless it has ended, which has another get it anyway.
func (c *copierProcess) replace() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced = !c.over
	return c.replaced
}

func (c *copierProcess) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) } // an error says that it has ended

// end has it end, and wants it to do so well.
func (c *copierProcess) end(t *testing.T) {
	c.set(&c.asked)
	c.signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Errorf("%s has not ended a minute after SIGTERM:\n%s", c.id, c.lastWords())
		c.signal(syscall.SIGKILL)
		<-c.done
	}
}

// endedWell reports that it ended as it is to: with code 0, or by the signal it was sent, for
// which Java has a code.
func (c *copierProcess) endedWell() bool {
	code := c.cmd.ProcessState.ExitCode()
	return code == 0 || code == 128+int(syscall.SIGTERM) && c.is(&c.asked)
}

// heard waits until it has been turned away or has ended.
func (c *copierProcess) heard(ctx context.Context) {
	select {
	case <-c.news:
	case <-c.done:
	case <-ctx.Done():
	}
}

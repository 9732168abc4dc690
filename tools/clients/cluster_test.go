package clients

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// foreign is the program that runs in the place of a broker of kaas, such as as-kafka.
var foreign = os.Getenv(gate + "_BROKER")

// running names brokers that run already, ONE;THREE.
var running = os.Getenv(gate + "_RUNNING")

// startTime is how long brokers may take to be ready.
const startTime = 2 * time.Minute

// cluster is brokers on one directory, each a process. They are ended at the test's end.
type cluster struct {
	t       *testing.T
	brokers []*broker
	mark    string // keeps names of topics apart from those of runs before
}

type broker struct {
	addr, http string
	more       map[string]string // addresses of listeners, the first's too
	log        *bytes.Buffer     // read when the process has ended
	cmd        *exec.Cmd
	done       chan struct{} // closed when the process has ended
}

// startClusters gives one broker and three, or those that run already.
func startClusters(t *testing.T, program string) map[string]*cluster {
	t.Helper()
	if running == "" {
		three := launchCluster(t, program, 3)
		one := launchCluster(t, program, 1)
		three.waitReady()
		one.waitReady()
		return map[string]*cluster{"one": one, "three": three}
	}
	one, three, ok := strings.Cut(running, ";")
	if !ok {
		t.Fatalf("%s_RUNNING=%s: not ONE;THREE", gate, running)
	}
	return map[string]*cluster{"one": runningCluster(one), "three": runningCluster(three)}
}

func runningCluster(bootstrap string) *cluster {
	c := &cluster{mark: "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)}
	for addr := range strings.SplitSeq(bootstrap, ",") {
		c.brokers = append(c.brokers, &broker{addr: addr})
	}
	return c
}

// launchCluster starts brokers 1 to n; one alone has no node.id. Where there is a setting
// listeners, it has just names.
func launchCluster(t *testing.T, program string, n int, sets ...string) *cluster {
	t.Helper()
	c := &cluster{t: t}
	dir := t.TempDir()
	t.Cleanup(c.end)
	for id := 1; id <= n; id++ {
		b := &broker{addr: freeAddr(t), http: freeAddr(t), log: &bytes.Buffer{}, done: make(chan struct{})}
		args := append([]string{"log.dirs=" + dir, "listeners=PLAINTEXT://" + b.addr, "http.listeners=" + b.http, "log.level=info", "group.initial.rebalance.delay.ms=0"}, b.listen(t, sets)...)
		// Members by the consumer protocol learn at their heartbeats what they are to do.
		args = append(args, "group.consumer.heartbeat.interval.ms=200", "group.consumer.min.heartbeat.interval.ms=200")
		if foreign != "" {
			args = slices.DeleteFunc(args, func(s string) bool { return strings.HasPrefix(s, "log.level=") })
		}
		if n > 1 {
			args = append(args, "node.id="+strconv.Itoa(id))
		}
		b.cmd = exec.Command(program)
		for _, set := range args {
			b.cmd.Args = append(b.cmd.Args, "--set", set)
		}
		b.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KAAS_") }) // ours are no settings
		b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
		if err := b.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = b.cmd.Wait() // how it ended is in cmd.ProcessState
			close(b.done)
		}()
		c.brokers = append(c.brokers, b)
	}
	return c
}

// listen finds an address for each listener that the settings name.
func (b *broker) listen(t *testing.T, sets []string) (out []string) {
	for _, set := range sets {
		if names, ok := strings.CutPrefix(set, "listeners="); ok {
			b.more = map[string]string{}
			var all []string
			for i, name := range strings.Split(names, ",") {
				b.more[name] = freeAddr(t)
				all = append(all, name+"://"+b.more[name])
				if i == 0 {
					b.addr = b.more[name]
				}
			}
			set = "listeners=" + strings.Join(all, ",")
		}
		out = append(out, set)
	}
	return out
}

func (c *cluster) bootstrap() string {
	var addrs []string
	for _, b := range c.brokers {
		addrs = append(addrs, b.addr)
	}
	return strings.Join(addrs, ",")
}

// listeners are the brokers' addresses by the names of listeners.
func (c *cluster) listeners() map[string]string {
	all := map[string]string{}
	for _, b := range c.brokers {
		for name, addr := range b.more {
			all[name] = strings.TrimPrefix(all[name]+","+addr, ",")
		}
	}
	return all
}

func (c *cluster) waitReady() {
	c.t.Helper()
	late := time.After(startTime)
	for _, b := range c.brokers {
		for !b.isReady() {
			select {
			case <-b.done:
				c.t.Fatalf("a broker has ended: %v\n%s", b.cmd.ProcessState, b.log.Bytes())
			case <-late:
				c.t.Fatalf("no answer from %s after %v", b.addr, startTime)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

func (b *broker) isReady() bool {
	if foreign != "" {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}
	cl := http.Client{Timeout: time.Second}
	resp, err := cl.Get("http://" + b.http + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// end stops the brokers, and wants those of kaas to end well.
func (c *cluster) end() {
	for _, b := range c.brokers {
		_ = b.cmd.Process.Signal(syscall.SIGTERM) // an error says that it is gone
	}
	late := time.After(time.Minute)
	for _, b := range c.brokers {
		select {
		case <-b.done:
		case <-late:
			_ = b.cmd.Process.Kill()
			<-b.done
		}
		if foreign == "" && !b.cmd.ProcessState.Success() {
			c.t.Errorf("a broker has ended: %v", b.cmd.ProcessState)
		}
		if c.t.Failed() {
			log := b.log.Bytes()
			c.t.Logf("the last of the log of %s:\n%s", b.addr, log[max(0, len(log)-4096):])
		}
	}
}

// freeAddr is an address for a broker, and nobody else's until the test ends: a socket that is
// bound there and never listens keeps the kernel from giving the port to others, also while the
// broker is down, and lets the broker listen.
func freeAddr(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}

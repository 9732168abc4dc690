package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/kaas-check/history"
	"kaas.dev/kaas/tools/kaas-check/traffic"
)

// groupMember is one of a group.
type groupMember interface {
	// Leave has it leave, and returns when it is gone.
	Leave()
}

// crowdKind is a make of client and a protocol.
type crowdKind struct {
	name    string
	owners  bool // a partition has one owner at a time, as the members are told
	next    bool // the next-generation protocol (KIP-848)
	changes int
	every   time.Duration // between two changes, on average
	slow    bool          // to join
	deaf    bool          // to an answer that comes late: it settles when its time to give partitions up is over
	join    func(c *crowd, n int) (groupMember, error)
}

func franzMembers(name string, next bool, balancer kgo.GroupBalancer) crowdKind {
	return crowdKind{name: name, owners: next, next: next, changes: 200, every: 400 * time.Millisecond, join: func(c *crowd, n int) (groupMember, error) {
		return c.env.Join(c.id, c.name, next, balancer, n)
	}}
}

// rdkafkaMembers are members of librdkafka. This version has the next-generation protocol as
// a preview, so whether a partition has one owner is not looked at. An answer to a heartbeat that
// comes after a second is lost on it, and it does not ask for what was in it again: what it is to
// give up, it has until its time for that is over, and the group puts it out.
func rdkafkaMembers(t *testing.T, name, protocol string) crowdKind {
	bin, err := buildRdkafka()
	if err != nil {
		t.Fatal(err)
	}
	next := protocol == "consumer"
	return crowdKind{name: name, next: next, deaf: next, changes: 200, every: 400 * time.Millisecond, join: func(c *crowd, n int) (groupMember, error) {
		return c.process(n, c.told, exec.Command(bin, "-bootstrap", c.env.Seeds[0], "-group", c.name, "-topic", c.env.Topics[0].Name, "-protocol", protocol))
	}}
}

// buildRdkafka makes the member of librdkafka, once for all tests.
var buildRdkafka = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kaas-e2e-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "rdkafka-member")
	cmd := exec.Command("go", "build", "-C", "../clients", "-o", bin, "./rdkafka-member")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the client: %w\n%s", err, out)
	}
	return bin, nil
})

// javaMembers are processes of the console consumer. A virtual machine for each takes
// long to start, so there are fewer changes.
func javaMembers(cp, name, protocol string) crowdKind {
	return crowdKind{name: name, next: protocol == "consumer", changes: 24, every: 3500 * time.Millisecond, slow: true, join: func(c *crowd, n int) (groupMember, error) {
		args := []string{
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
			"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
			"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer.internals=info",
			"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer.internals.CommitRequestManager=debug",
			"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer.internals.ConsumerCoordinator=debug",
			"-cp", cp, "org.apache.kafka.tools.consumer.ConsoleConsumer",
			"--bootstrap-server", c.env.Seeds[0], "--topic", c.env.Topics[0].Name, "--group", c.name, "--from-beginning",
			"--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true", "--formatter-property", "print.value=false",
		}
		properties := []string{"group.protocol=" + protocol, "auto.commit.interval.ms=500", "metadata.max.age.ms=5000", "reconnect.backoff.max.ms=500", "request.timeout.ms=5000"}
		if protocol == "classic" {
			properties = append(properties, fmt.Sprint("session.timeout.ms=", classicSession.Milliseconds()), "heartbeat.interval.ms=500")
		}
		for _, p := range properties {
			args = append(args, "--command-property", p)
		}
		return c.process(n, c.heardJava, exec.Command("java", args...))
	}}
}

// memberProcess is a member that is a process, and tells what it does in lines.
type memberProcess struct {
	c     *crowd
	cmd   *exec.Cmd
	said  lockedBuffer // on standard error
	done  chan struct{}
	proc  int32
	name  string
	given atomic.Int64 // when partitions were last given to it, of a Java one

	commits map[int64]history.Op // by partition, under way; of the reader of its lines, then of who waits for it

	mu    sync.Mutex
	asked bool            // to leave
	since map[int32]int64 // by partition, from when on it has it
}

// process starts a member that is a process. Each of its lines goes to hear.
func (c *crowd) process(n int, hear func(*memberProcess, string), cmd *exec.Cmd) (groupMember, error) {
	m := &memberProcess{c: c, cmd: cmd, done: make(chan struct{}), since: map[int32]int64{}, commits: map[int64]history.Op{}, name: fmt.Sprintf("member %d of group %s", n, c.name)}
	m.proc = c.env.Log.ProcOf(c.id, m.name, history.Member)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var readers sync.WaitGroup
	each := func(from io.Reader, hear func(string)) {
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			hear(lines.Text())
		}
	}
	readers.Go(func() { each(stdout, func(line string) { hear(m, line) }) })
	readers.Go(func() {
		each(stderr, func(line string) {
			fmt.Fprintln(&m.said, line)
			hear(m, line)
		})
	})
	go func() {
		readers.Wait()
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		m.ended()
		close(m.done)
	}()
	return m, nil
}

// Leave implements groupMember.
func (m *memberProcess) Leave() {
	m.mu.Lock()
	m.asked = true
	m.mu.Unlock()
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	select {
	case <-m.done:
	case <-time.After(settlePatience):
		m.c.fail("%s has not ended %v after SIGTERM:\n%s", m.name, settlePatience, tail(m.said.Bytes(), 2048))
		_ = m.cmd.Process.Kill()
		<-m.done
	}
}

// ended gives up what the process still had. It is to end only when it is asked to.
func (m *memberProcess) ended() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.asked {
		m.c.fail("%s ended by itself: %v\n%s", m.name, m.cmd.ProcessState, tail(m.said.Bytes(), 4096))
	}
	for part := range m.commits {
		m.committed(part, m.c.env.Log.Now(), history.Unknown)
	}
	for part, since := range m.since {
		m.c.env.Log.Owned(m.proc, m.c.parts[part], since, m.c.env.Log.Now(), 0, history.OK)
	}
}

func (m *memberProcess) has(at int64, parts []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		m.since[int32(p)] = at
	}
}

func (m *memberProcess) gone(at int64, outcome history.Outcome, parts []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		if since, ok := m.since[int32(p)]; ok {
			delete(m.since, int32(p))
			m.c.env.Log.Owned(m.proc, m.c.parts[p], since, at, 0, outcome)
		}
	}
}

// told takes a line of rdkafka-member.
func (c *crowd) told(m *memberProcess, line string) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return
	}
	var n []int64
	for _, w := range words[1:] {
		v, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return // a word of the library
		}
		n = append(n, v)
	}
	log, at := c.env.Log, c.env.Log.At(time.Unix(0, n[0]))
	switch n := n[1:]; words[0] {
	case "assigned":
		m.has(at, n)
	case "revoked":
		m.gone(at, history.OK, n)
	case "lost":
		m.gone(at, history.Unknown, n)
	case "processed":
		log.Add(history.Op{Kind: history.Process, Outcome: history.OK, Proc: m.proc, Part: c.parts[n[0]], Epoch: -1, Offset: n[1], Count: int32(n[2]), Invoke: at, Complete: at})
	case "committing":
		m.commits[n[0]] = history.Op{Kind: history.Commit, Proc: m.proc, Part: c.parts[n[0]], Epoch: -1, Offset: n[1], Invoke: at}
	case "committed":
		m.committed(n[0], at, history.OK)
	case "uncertain":
		m.committed(n[0], at, history.Unknown)
	}
}

// committed notes what came of a commit, if there is one.
func (m *memberProcess) committed(part, at int64, outcome history.Outcome) {
	if op, ok := m.commits[part]; ok {
		delete(m.commits, part)
		op.Complete, op.Outcome = at, outcome
		m.c.env.Log.Add(op)
	}
}

var (
	javaRecord = regexp.MustCompile(`^Partition:(\d+)\tOffset:(\d+)`)
	javaGiven  = regexp.MustCompile(`^(\S+) .*(Adding newly assigned partitions|Reconciling assignment with)`)
	javaSends  = regexp.MustCompile(`^(\S+) .*(Enqueuing OffsetCommit request for offsets|Sending OffsetCommit request with)(.*)`)
	javaOffset = regexp.MustCompile(`records-(\d+)=OffsetAndMetadata\{offset=(\d+)`)
	javaCommit = regexp.MustCompile(`^(\S+) .*(?:OffsetCommit completed successfully for offset|Committed offset) (\d+) (?:for )?partition records-(\d+)`)
	javaBegins = regexp.MustCompile(`Setting offset for partition \S+-(\d+) to the committed offset FetchPosition\{offset=(\d+),|Found no committed offset for partition \S+-(\d+)`)
)

// heardJava takes a line of the console consumer: a record, or what its client logs of
// what it commits and where it begins. It asks for that after it was given partitions.
func (c *crowd) heardJava(m *memberProcess, line string) {
	log, now := c.env.Log, c.env.Log.Now()
	if r := javaRecord.FindStringSubmatch(line); r != nil {
		log.Processed(m.proc, c.parts[number(r[1])], now, now, number(r[2]))
	} else if g := javaGiven.FindStringSubmatch(line); g != nil {
		if at, err := time.Parse(time.RFC3339Nano, g[1]); err == nil {
			m.given.Store(log.At(at))
		}
	} else if s := javaSends.FindStringSubmatch(line); s != nil {
		c.javaSent(m, s[1], s[3])
	} else if d := javaCommit.FindStringSubmatch(line); d != nil {
		m.javaCommitted(d[1], number(d[3]), number(d[2]))
	} else if b := javaBegins.FindStringSubmatch(line); b != nil && b[1] != "" {
		log.Observe(m.proc, c.parts[number(b[1])], history.Committed, number(b[2]), -1, m.given.Load())
	} else if b != nil {
		log.Observe(m.proc, c.parts[number(b[3])], history.Committed, -1, -1, m.given.Load())
	}
}

// javaSent notes a commit that is under way. What comes of it is not known where another
// follows before it is acknowledged.
func (c *crowd) javaSent(m *memberProcess, at, offsets string) {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return
	}
	now := c.env.Log.At(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range javaOffset.FindAllStringSubmatch(offsets, -1) {
		part := number(o[1])
		if m.commits[part].Offset != number(o[2]) {
			m.committed(part, now, history.Unknown)
		}
		m.commits[part] = history.Op{Kind: history.Commit, Proc: m.proc, Part: c.parts[part], Epoch: -1, Offset: number(o[2]), Invoke: now}
	}
}

// javaCommitted notes an acknowledgement, of the newest commit if it is of that.
func (m *memberProcess) javaCommitted(at string, part, offset int64) {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.c.env.Log.At(t.Add(time.Millisecond)) // times are told in whole ones
	if op, ok := m.commits[part]; ok && op.Offset == offset {
		m.committed(part, now, history.OK)
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // digits alone
	return n
}

// watch asks for what the crowd has committed until ctx ends.
func (c *crowd) watch(ctx context.Context) {
	if err := c.env.Watch(ctx, c.id, c.name); err != nil {
		c.fail("%v", err)
	}
}

var _ groupMember = (*traffic.Member)(nil)

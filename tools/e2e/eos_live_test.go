package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	eosAway     = 10 * time.Second
	eosAwayOnce = 5 // so many kills, the broker is away for longer than sessions and transactions last
)

// eosPatience is how long is waited for what has to come.
var eosPatience = func() time.Duration {
	if foreign != "" {
		return 5 * time.Minute
	}
	return 2 * time.Minute
}()

// eosTime is for how long there are traffic and faults.
func eosTime(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("KAAS_E2E_EOS"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("KAAS_E2E_EOS: %v", err)
		}
		return d
	}
	if os.Getenv("KAAS_E2E") == "all" {
		return 5 * time.Minute
	}
	return 45 * time.Second
}

// TestExactlyOnceOfAllMakes has three makes of clients copy a topic each in transactions, side
// by side, while the broker is killed every ten seconds, and clients are stopped until others
// have their place, and go on. Every copy has what its source has, in order and each once, at
// any time and in the end.
func TestExactlyOnceOfAllMakes(t *testing.T) {
	need(t, "gcc", "javac")
	b := startBroker(t, "group.initial.rebalance.delay.ms=500", "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")
	var loops []*eosLoop
	for name, kind := range map[string]func(*testing.T) copierKind{"franz-go": franzCopiers, "librdkafka": rdkafkaCopiers, "streams": streamsCopiers} {
		if only := os.Getenv("KAAS_E2E_KINDS"); only == "" || strings.Contains(only, name) {
			loops = append(loops, newEosLoop(t, b, name, kind(t)))
		}
	}
	r := &eosRun{t: t, b: b, loops: loops}
	r.run(eosTime(t))
	r.judge()
}

// eosRun is the broker and all that goes on with it.
type eosRun struct {
	t     *testing.T
	b     *broker
	loops []*eosLoop
	kills int
}

func newEosLoop(t *testing.T, b *broker, name string, kind copierKind) *eosLoop {
	t.Helper()
	l := &eosLoop{name: name, copierKind: kind, t: t, addr: b.addr, client: func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(20 * time.Millisecond), kgo.FetchMaxWait(200 * time.Millisecond)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}}
	rs, err := patient(l.client()).CreateTopics(t.Context(), eosParts, 1, nil, l.in(), l.out())
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run has everything go on for a time, and waits until all is copied.
func (r *eosRun) run(most time.Duration) {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	var readers, producers, zombies sync.WaitGroup
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	faults, rest := context.WithTimeout(ctx, most)
	defer rest()
	for _, l := range r.loops {
		l.start()
		follower := l.client(kgo.ConsumeTopics(l.out()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		readers.Go(func() { l.seen.follow(ctx, r.t, follower, l.out()) })
		producers.Go(func() { l.produce(traffic) })
		zombies.Go(func() { l.haunt(faults) })
	}
	r.killing(faults)
	rest() // if it has failed
	ended := time.Now()
	zombies.Wait()
	stop()
	producers.Wait()
	for _, l := range r.loops {
		r.copied(l)
	}
	r.t.Logf("all is copied %v after the last fault", time.Since(ended).Round(time.Millisecond))
	cancel()
	readers.Wait()
	var halts sync.WaitGroup
	for _, l := range r.loops {
		halts.Go(l.halt)
	}
	halts.Wait()
	r.t.Logf("all clients have ended %v after the last fault", time.Since(ended).Round(time.Millisecond))
}

// killing kills the broker and starts it, again and again until ctx ends, or it has failed.
func (r *eosRun) killing(ctx context.Context) {
	for wait(ctx, killEvery) && !r.t.Failed() {
		r.kills++
		r.down()
		if r.kills%eosAwayOnce == eosAwayOnce-1 {
			wait(r.t.Context(), eosAway)
		}
		r.b.start()
	}
}

// down kills the broker. Apache Kafka is asked to end: 4.4.0, killed, showed readers
// aborted records and records twice, and left transactions open that its coordinator had ended.
func (r *eosRun) down() {
	if foreign == "" || os.Getenv("KAAS_E2E_EOS_KILL") != "" {
		r.b.kill()
		return
	}
	_ = r.b.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	<-r.b.done
}

// copied waits until a reader has seen all that was sent, unless something is wrong with it.
func (r *eosRun) copied(l *eosLoop) {
	late, cancel := context.WithTimeout(r.t.Context(), eosPatience)
	defer cancel()
	want := l.soFar()
	for got := l.seen.progress(); got != want; got = l.seen.progress() {
		if l.seen.isWrong() {
			return // it has been told
		}
		if wait(late, 50*time.Millisecond) {
			continue
		}
		r.t.Errorf("%s: %v is copied of %v", l.name, got, want)
		for place := range eosCopiers {
			c := l.at(place)
			r.t.Logf("%s last said:\n%s", c.id, c.lastWords())
		}
		return
	}
}

// judge looks at what there is in the end.
func (r *eosRun) judge() {
	t := r.t
	ctx, cancel := context.WithTimeout(t.Context(), eosPatience)
	defer cancel()
	t.Logf("the broker was killed %d times", r.kills)
	if r.kills == 0 {
		t.Error("nothing was interrupted")
	}
	for _, l := range r.loops {
		wantNumbers(t, ctx, l.client, l.in(), l.soFar())
		got := finally(t, ctx, l.client, l.out(), l.soFar())
		t.Logf("%s: %d records copied; %d transactions committed and %d aborted, with %d records of which %d were aborted on purpose; "+
			"%d zombies, %d of them fenced and %d refused by their group; %d processes started again",
			l.name, got.seen, got.committed, got.aborted, got.records-got.seen, got.notToBeSeen, l.zombies.Load(), l.fenced.Load(), l.refused.Load(), l.ended.Load())
		switch {
		case got.committed < 20:
			t.Errorf("%s: too little has happened", l.name)
		case got.aborted == 0 || got.notToBeSeen == 0:
			t.Errorf("%s: nothing was aborted", l.name)
		case !l.turnedOneAway():
			t.Errorf("%s: no zombie was fenced", l.name)
		}
	}
}

var (
	copierFenced  = regexp.MustCompile(`^fenced `)
	copierRefused = regexp.MustCompile(`^refused `)
)

func franzCopiers(t *testing.T) copierKind {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return copierKind{ids: true, fenced: copierFenced, refused: copierRefused, command: func(l *eosLoop, id string, timeout time.Duration) *exec.Cmd {
		return exec.Command(self, append([]string{franzCopierArg}, l.flags(id, timeout)...)...)
	}}
}

func rdkafkaCopiers(t *testing.T) copierKind {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "rdkafka-copier")
	build := exec.Command("go", "build", "-C", "../clients", "-o", bin, "./rdkafka-copier")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the client: %v\n%s", err, out)
	}
	return copierKind{ids: true, fenced: copierFenced, refused: copierRefused, command: func(l *eosLoop, id string, timeout time.Duration) *exec.Cmd {
		return exec.Command(bin, l.flags(id, timeout)...)
	}}
}

// streamsCopiers are applications of Kafka Streams, which gives them transactional IDs that no
// two have. What a thread does of which another has the tasks is to begin anew.
func streamsCopiers(t *testing.T) copierKind {
	t.Helper()
	cp, classes := needJava(t), t.TempDir()
	if out, err := exec.Command("javac", "-cp", cp, "-d", classes, "java/Copier.java").CombinedOutput(); err != nil {
		t.Fatalf("compile the application: %v\n%s", err, out)
	}
	return copierKind{
		lives:   true,
		fenced:  regexp.MustCompile(`Detected that the thread is being fenced`),
		refused: regexp.MustCompile(`lost due to missed rebalance`),
		command: func(l *eosLoop, id string, timeout time.Duration) *exec.Cmd {
			return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
				"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
				"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients=error",
				"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.streams.processor.internals.StreamsRebalanceListener=info",
				"-cp", classes+string(os.PathListSeparator)+cp, "Copier", l.addr, l.group(), l.in(), l.out(), filepath.Join(classes, id), strconv.FormatInt(timeout.Milliseconds(), 10))
		},
	}
}

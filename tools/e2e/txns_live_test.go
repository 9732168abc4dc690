package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	copyParts   = 4
	copyWorkers = 2
	copyGroup   = "copiers"
	copyFor     = 12 * time.Second // of traffic, with faults; on a slow machine more
)

// TestExactlyOnceKilledBroker has workers copy one topic to another in transactions, while the
// broker is killed every few seconds.
func TestExactlyOnceKilledBroker(t *testing.T) {
	need(t)
	b := startBroker(t, "group.initial.rebalance.delay.ms=0")
	l := startCopy(t, b.addr)
	l.during(5*time.Second, func() {
		b.kill()
		b.start()
	})
	l.ended()
}

// TestExactlyOnceKilledCoordinator does it on three brokers, of which that is killed which
// coordinates the transactions of a worker.
func TestExactlyOnceKilledCoordinator(t *testing.T) {
	need(t)
	c := startCluster(t, quickLoss...)
	l := startCopy(t, c.addrs()...)
	n := 0
	l.during(6*time.Second, func() {
		id := c.txnCoordinator(workerID(n % copyWorkers))
		n++
		t.Logf("kill -9 of broker %d", id)
		c.broker(id).kill()
		as := c.other(id)
		c.await("another coordinator", func() bool {
			now, _ := c.txnCoordinators(as, workerID(0), workerID(1))
			return len(now) == 2 && now[0] != id && now[1] != id
		})
		c.broker(id).start()
		c.settled()
	})
	l.ended()
}

func workerID(n int) string { return fmt.Sprintf("copier-%d", n) }

// copying is a producer that numbers its records, and workers that copy each to the partition
// of another topic that has the number of its own. Of some they write a copy that is not to
// be seen, because they abort.
type copying struct {
	t     *testing.T
	seeds []string
	sent  [copyParts]int // how many records a partition of the source has; the producer's
	stop  context.CancelFunc
	halt  context.CancelFunc
	made  sync.WaitGroup // the producer
	work  sync.WaitGroup

	committed, aborted, again atomic.Int64 // transactions; sessions begun again
}

const mustNotBeSeen = "aborted "

// newCopying makes the topics.
func newCopying(t *testing.T, seeds ...string) *copying {
	t.Helper()
	l := &copying{t: t, seeds: seeds}
	rs, err := patient(l.client()).CreateTopics(t.Context(), copyParts, 1, nil, "source", "copy")
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func startCopy(t *testing.T, seeds ...string) *copying {
	t.Helper()
	l := newCopying(t, seeds...)
	var making, working context.Context
	making, l.stop = context.WithCancel(t.Context())
	working, l.halt = context.WithCancel(t.Context())
	l.made.Go(func() { l.produce(making) })
	for n := range copyWorkers {
		l.work.Go(func() { l.worker(working, n) })
	}
	t.Cleanup(func() { // if the test has failed
		l.stop()
		l.halt()
		l.made.Wait()
		l.work.Wait()
	})
	return l
}

func (l *copying) options(opts ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(l.seeds...), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(20 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)
}

func (l *copying) client(opts ...kgo.Opt) *kgo.Client {
	l.t.Helper()
	cl, err := kgo.NewClient(l.options(opts...)...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(cl.Close)
	return cl
}

// produce sends numbers to every partition of the source, until ctx ends.
func (l *copying) produce(ctx context.Context) {
	cl := l.client()
	for wait(ctx, 5*time.Millisecond) {
		for p := range l.sent {
			cl.Produce(context.Background(), &kgo.Record{Topic: "source", Partition: int32(p), Value: []byte(strconv.Itoa(l.sent[p]))}, func(_ *kgo.Record, err error) {
				if err != nil {
					l.t.Errorf("a record of the source: %v", err)
				}
			})
			l.sent[p]++
		}
	}
	flush, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.Flush(flush); err != nil {
		l.t.Errorf("the records of the source: %v", err)
	}
}

// worker has one session after the other until ctx ends. What ends one by itself are errors
// that a client cannot go on after.
func (l *copying) worker(ctx context.Context, n int) {
	for ctx.Err() == nil {
		err := l.session(ctx, n)
		if ctx.Err() == nil {
			l.again.Add(1)
			l.t.Logf("worker %d begins again: %v", n, err)
			wait(ctx, 100*time.Millisecond)
		}
	}
}

func (l *copying) session(ctx context.Context, n int) error {
	s, err := kgo.NewGroupTransactSession(l.options(kgo.TransactionalID(workerID(n)), kgo.TransactionTimeout(20*time.Second),
		kgo.ConsumerGroup(copyGroup), kgo.ConsumeTopics("source"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond), kgo.Balancers(kgo.CooperativeStickyBalancer()))...)
	if err != nil {
		return err
	}
	defer s.Close()
	for round := 1; ; round++ {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fs := s.PollRecords(poll, 500)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fs.NumRecords() == 0 {
			continue
		}
		if err := l.copy(ctx, s, fs, round%5 == 0); err != nil {
			return err
		}
	}
}

// copy is one transaction.
func (l *copying) copy(ctx context.Context, s *kgo.GroupTransactSession, fs kgo.Fetches, abort bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := s.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	e := kgo.AbortingFirstErrPromise(s.Client())
	fs.EachRecord(func(r *kgo.Record) {
		value := string(r.Value)
		if abort {
			value = mustNotBeSeen + value
		}
		s.Produce(ctx, &kgo.Record{Topic: "copy", Partition: r.Partition, Value: []byte(value)}, e.Promise())
	})
	failed := e.Err()
	if abort && failed == nil && ctx.Err() == nil {
		if err := s.Client().Flush(ctx); err != nil { // that there is something to abort
			failed = err
		}
	}
	ok, err := s.End(ctx, kgo.TransactionEndTry(failed == nil && !abort))
	switch {
	case err != nil:
		return fmt.Errorf("end: %w", err)
	case ok:
		l.committed.Add(1)
	default:
		l.aborted.Add(1)
	}
	if failed != nil && !errors.Is(failed, kerr.TransactionAbortable) {
		l.t.Logf("aborted because of %v", failed)
	}
	return nil
}

// enough reports whether what has happened shows anything.
func (l *copying) enough() bool { return l.committed.Load() >= 20 && l.aborted.Load() >= 3 }

// during has the traffic go on for a time, with a fault every so often.
func (l *copying) during(every time.Duration, fault func()) {
	for began := time.Now(); time.Since(began) < copyFor || !l.enough() && time.Since(began) < eosPatience; {
		before := l.committed.Load()
		time.Sleep(every) // traffic to interrupt
		if l.committed.Load() == before {
			l.t.Logf("no transaction was committed in %v", every)
		}
		fault()
	}
}

// ended stops the producer, waits until everything is copied, and looks at what there is.
func (l *copying) ended() {
	t := l.t
	t.Helper()
	l.stop()
	l.made.Wait()
	total := 0
	for _, n := range l.sent {
		total += n
	}
	l.read(total)
	l.halt()
	l.work.Wait()
	if !t.Failed() {
		// Nothing comes after it: all transactions have ended, and the last stable offset is the end.
		l.nothingBeyond(total)
	}
	t.Logf("%d records; transactions: %d committed, %d aborted; %d sessions begun again", total, l.committed.Load(), l.aborted.Load(), l.again.Load())
	if !l.enough() {
		t.Error("too little has happened")
	}
}

// read reads the copy as far as it is committed, until as many records have come as are
// wanted. In each partition they are the source's, in order, each once.
func (l *copying) read(total int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), eosPatience)
	defer cancel()
	cl := l.client(kgo.ConsumeTopics("copy"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond))
	var next [copyParts]int
	for n := 0; n < total; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			l.t.Errorf("%d of %d records are copied after %v: %v of %v", n, total, eosPatience, next, l.sent)
			return
		}
		fs.EachRecord(func(r *kgo.Record) {
			n++
			want := strconv.Itoa(next[r.Partition])
			next[r.Partition]++
			if string(r.Value) != want && !l.t.Failed() {
				l.t.Errorf("partition %d has %q at offset %d where %q is next", r.Partition, r.Value, r.Offset, want)
			}
		})
	}
}

// nothingBeyond wants what is committed to be all there is, and something else to have been
// aborted.
func (l *copying) nothingBeyond(total int) {
	l.t.Helper()
	committed := l.consumed(kgo.ReadCommitted())
	if bad := aborted(committed); len(committed) != total || bad > 0 {
		l.t.Errorf("in the end there are %d committed records of %d, %d of them of aborted transactions", len(committed), total, bad)
	}
	if aborted(l.consumed(kgo.ReadUncommitted())) == 0 {
		l.t.Error("no record was ever aborted")
	}
}

// consumed are the values of the copy, up to its end when no transaction is open.
func (l *copying) consumed(isolation kgo.IsolationLevel) (values []string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), eosPatience)
	defer cancel()
	ends := closedEnds(l.t, ctx, kadm.NewClient(l.client()), "copy")
	cl := l.client(kgo.ConsumeTopics("copy"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	readTo(l.t, ctx, cl, ends, func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			values = append(values, string(r.Value))
		}
	})
	return values
}

// aborted is how many of them are not to be seen.
func aborted(values []string) (n int) {
	for _, v := range values {
		if strings.HasPrefix(v, mustNotBeSeen) {
			n++
		}
	}
	return n
}

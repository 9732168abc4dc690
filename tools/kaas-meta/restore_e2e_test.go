package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/tools/internal/child"
	"kaas.dev/kaas/tools/kaas-check/cluster"
	"kaas.dev/kaas/tools/kaas-meta/restore"
)

// brokersBinary is made once for all tests.
var brokersBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kaas-meta-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "kaas")
	return bin, child.Build(context.Background(), bin)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("KAAS_E2E") != "" {
		if bin, err := brokersBinary(); err == nil {
			os.RemoveAll(filepath.Dir(bin))
		}
	}
	os.Exit(code)
}

// lab is whole brokers with clients.
type lab struct {
	t   *testing.T
	ctx context.Context
	*cluster.Local
	dir string // the volume
	adm *kadm.Client
}

func startLab(t *testing.T, brokers int, sets ...string) *lab {
	t.Helper()
	return startLabOf(t, cluster.Config{Brokers: brokers, Sets: sets, Died: func(node int32, state string) { t.Errorf("broker %d ended: %s", node, state) }})
}

// startLabOf starts brokers, and skips the test unless such tests are wanted.
func startLabOf(t *testing.T, cfg cluster.Config) *lab {
	t.Helper()
	if os.Getenv("KAAS_E2E") == "" {
		t.Skip("starts whole brokers: set KAAS_E2E=1 to run it")
	}
	var err error
	cfg.Binary, err = brokersBinary()
	check(t, err)
	d, err := substrate.OpenDir(t.TempDir())
	check(t, err)
	cfg.Dir = d
	l, err := cluster.NewLocal(cfg)
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	t.Cleanup(func() {
		cancel()
		l.Close()
		if t.Failed() {
			for _, id := range l.Nodes() {
				b, _ := os.ReadFile(filepath.Join(d.Root(), fmt.Sprintf("broker-%d.log", id)))
				t.Logf("broker %d said last:\n%s", id, b[max(0, len(b)-6000):])
			}
		}
	})
	check(t, l.Start(ctx))
	e := &lab{t: t, ctx: ctx, Local: l, dir: filepath.Join(d.Root(), "data")}
	e.adm = kadm.NewClient(e.client())
	return e
}

func (e *lab) client(opts ...kgo.Opt) *kgo.Client {
	e.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(e.Addrs()...), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	check(e.t, err)
	e.t.Cleanup(cl.Close)
	return cl
}

// transactor is a client whose transactions are left open as long as a test takes.
func (e *lab) transactor(id string) *kgo.Client {
	e.t.Helper()
	return e.client(kgo.TransactionalID(id), kgo.TransactionTimeout(15*time.Minute))
}

// await waits until ok, which answers why not.
func (e *lab) await(what string, ok func() error) {
	e.t.Helper()
	var err error
	defer func(began time.Time) { e.t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), what) }(time.Now())
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end) && e.ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	e.t.Fatalf("%s: %v", what, err)
}

func (e *lab) meta(args ...string) string {
	e.t.Helper()
	out, err := run(append([]string{"--dir", e.dir}, args...)...)
	e.t.Logf("kaas-meta %s\n%s", strings.Join(args, " "), out)
	check(e.t, err)
	return out
}

// later is a time after all that was done, and before all that will be.
func later() string {
	time.Sleep(10 * time.Millisecond)
	defer time.Sleep(10 * time.Millisecond)
	return time.Now().UTC().Format(time.RFC3339Nano)
}

// traffic is an idempotent producer that goes on through everything.
type traffic struct {
	e     *lab
	cl    *kgo.Client
	topic string
	stop  context.CancelFunc
	wg    sync.WaitGroup
	mu    sync.Mutex
	acked map[string]bool
	err   error
}

func (e *lab) produce(topic string, partitions int) *traffic {
	tr := &traffic{e: e, topic: topic, acked: map[string]bool{}}
	tr.cl = e.client(kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	ctx, cancel := context.WithCancel(e.ctx)
	tr.stop = cancel
	tr.wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			value := topic + "-" + strconv.Itoa(n)
			// Not ctx: what was begun is to be answered.
			tr.cl.Produce(e.ctx, &kgo.Record{Value: []byte(value), Partition: int32(n % partitions)}, func(_ *kgo.Record, err error) {
				tr.mu.Lock()
				defer tr.mu.Unlock()
				if err != nil {
					tr.err = errors.Join(tr.err, err)
				} else {
					tr.acked[value] = true
				}
			})
			time.Sleep(2 * time.Millisecond)
		}
	})
	return tr
}

func (tr *traffic) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.acked)
}

// goesOn waits for more acknowledged records, all of those that wait included.
func (tr *traffic) goesOn() {
	tr.e.t.Helper()
	from := tr.count()
	tr.e.await("the producer of "+tr.topic+" goes on", func() error {
		if n := tr.count(); n < from+100 {
			return fmt.Errorf("%d records acknowledged, were %d", n, from)
		}
		return nil
	})
}

// end ends the producer, and finds every acknowledged record in the topic once.
func (tr *traffic) end() {
	tr.e.t.Helper()
	tr.stop()
	tr.wg.Wait()
	check(tr.e.t, tr.cl.Flush(tr.e.ctx))
	check(tr.e.t, tr.err)
	got := tr.e.readAll(tr.topic)
	for v := range tr.acked {
		if got[v] != 1 {
			tr.e.t.Errorf("%s, acknowledged, is there %d times", v, got[v])
		}
	}
	tr.e.t.Logf("%d records of %s", len(tr.acked), tr.topic)
}

// readAll reads what is committed of a topic up to its end, by value.
func (e *lab) readAll(topic string) map[string]int {
	e.t.Helper()
	got := map[string]int{}
	ends, err := e.adm.ListEndOffsets(e.ctx, topic)
	check(e.t, errors.Join(err, ends.Error()))
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl := e.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			e.t.Fatalf("%s is not read to its end: %v are left", topic, left)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				got[string(r.Value)]++
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return got
}

// offsets are those that a group has committed, by partition of a topic.
func (e *lab) offsets(group, topic string) (map[int32]int64, error) {
	rs, err := e.adm.FetchOffsets(e.ctx, group)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	rs.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			err = errors.Join(err, o.Err)
			out[o.Partition] = o.At
		}
	})
	return out, err
}

// wantOffsets waits for a group to have committed just these offsets.
func (e *lab) wantOffsets(group, topic string, want map[int32]int64) {
	e.t.Helper()
	e.await("offsets of "+group, func() error {
		got, err := e.offsets(group, topic)
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("are %v, want %v", got, want)
		}
		return err
	})
}

func (e *lab) config(topic, name string) string {
	e.t.Helper()
	rs, err := e.adm.DescribeTopicConfigs(e.ctx, topic)
	check(e.t, err)
	rc, err := rs.On(topic, nil)
	check(e.t, errors.Join(err, rc.Err))
	i := slices.IndexFunc(rc.Configs, func(c kadm.Config) bool { return c.Key == name })
	return rc.Configs[i].MaybeValue()
}

func (e *lab) setConfig(topic, name, value string) {
	e.t.Helper()
	e.await("change of "+topic, func() error {
		rs, err := e.adm.AlterTopicConfigs(e.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
		if err == nil {
			_, err = rs.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
		}
		return err
	})
}

func (e *lab) create(topic string, partitions int32) {
	e.t.Helper()
	e.await("creation of "+topic, func() error {
		_, err := e.adm.CreateTopic(e.ctx, partitions, 1, nil, topic)
		if errors.Is(err, kerr.TopicAlreadyExists) { // a try before has made it after all
			return nil
		}
		return err
	})
}

func (e *lab) commit(group, topic string, at map[int32]int64) {
	e.t.Helper()
	os := kadm.Offsets{}
	for p, o := range at {
		os.AddOffset(topic, p, o, -1)
	}
	e.await("commit of "+group, func() error { return e.adm.CommitAllOffsets(e.ctx, group, os) })
}

// member is a consumer that lives, and commits nothing by itself.
type member struct {
	cl   *kgo.Client
	mu   sync.Mutex
	from map[int32]int64 // where it has begun since its last assignment
	wg   sync.WaitGroup
}

func (e *lab) join(group, topic string, opts ...kgo.Opt) *member {
	m := &member{from: map[int32]int64{}}
	m.cl = e.client(append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			clear(m.from)
		}), kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) {}))...)
	ctx, cancel := context.WithCancel(e.ctx)
	e.t.Cleanup(func() { cancel(); m.wg.Wait() })
	m.wg.Go(func() {
		for ctx.Err() == nil {
			m.cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				m.mu.Lock()
				defer m.mu.Unlock()
				if _, ok := m.from[r.Partition]; !ok {
					m.from[r.Partition] = r.Offset
				}
			})
		}
	})
	return m
}

// leaveStatic takes a static member out, as an administrator does.
func leaveStatic(e *lab, group, instance string) error {
	b := kadm.LeaveGroup(group).InstanceIDs(instance)
	rs, err := e.adm.LeaveGroup(e.ctx, b)
	return errors.Join(err, rs.Error())
}

// begins waits until the member has begun at these offsets.
func (e *lab) begins(m *member, want map[int32]int64) {
	e.t.Helper()
	e.await("the member begins", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !maps.Equal(m.from, want) {
			return fmt.Errorf("at %v, want %v", m.from, want)
		}
		return nil
	})
}

// transact runs one transaction of two records.
func (e *lab) transact(cl *kgo.Client, topic string, n int, end kgo.TransactionEndTry) error {
	if err := cl.BeginTransaction(); err != nil {
		return errors.Join(err, cl.EndTransaction(e.ctx, kgo.TryAbort)) // one of a try before, whose end is not known
	}
	err := cl.ProduceSync(e.ctx, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "tx-%d-%v", n, end), Partition: 0},
		&kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "tx-%d-%v'", n, end), Partition: 1}).FirstErr()
	if err != nil {
		return errors.Join(err, cl.EndTransaction(e.ctx, kgo.TryAbort))
	}
	return cl.EndTransaction(e.ctx, end)
}

// TestRestoreEndToEnd has a cluster used, changed and troubled, and put back to before, while its
// brokers run and while they are stopped. Clients go on, and nothing acknowledged is lost.
func TestRestoreEndToEnd(t *testing.T) {
	e := startLab(t, 3)
	e.create("orders", 4)
	e.create("pays", 2)
	e.setConfig("orders", "retention.ms", "111000000")
	orders := e.produce("orders", 4)
	orders.goesOn()
	tx := e.transactor("pay")
	check(t, e.transact(tx, "pays", 1, kgo.TryCommit))
	open := e.transactor("open")
	check(t, open.BeginTransaction())
	check(t, open.ProduceSync(e.ctx, &kgo.Record{Topic: "pays", Value: []byte("open then"), Partition: 0}).FirstErr())
	then := map[int32]int64{0: 5, 1: 6, 2: 7, 3: 8}
	e.commit("billing", "orders", then)
	e.commit("next", "orders", then)
	at := later()

	// What is to be undone, or to stay.
	check(t, open.EndTransaction(e.ctx, kgo.TryCommit))
	check(t, e.transact(tx, "pays", 2, kgo.TryCommit))
	check(t, e.Kill(2))
	e.setConfig("orders", "retention.ms", "222000000")
	e.create("since", 2)
	e.commit("billing", "orders", map[int32]int64{0: 20, 1: 20, 2: 20, 3: 20})
	e.commit("since", "orders", map[int32]int64{0: 3})
	late := e.transactor("late")
	check(t, late.BeginTransaction())
	check(t, late.ProduceSync(e.ctx, &kgo.Record{Topic: "pays", Value: []byte("open now"), Partition: 1}).FirstErr())
	check(t, e.Run(e.ctx, 2))
	since := e.produce("since", 2)
	since.goesOn()
	twenties := map[int32]int64{0: 20, 1: 20, 2: 20, 3: 20}
	e.commit("next", "orders", twenties)
	m, n := e.join("billing", "orders", kgo.InstanceID("static")), e.join("next", "orders", kgo.ServerSideBalancer())
	e.begins(m, twenties)
	e.begins(n, twenties)

	before := e.meta("restore", "--at", at, "--dry-run")
	has(t, before, "topic orders, retention.ms=111000000", "stays topic since", `group "billing": 4 offset(s), 1 member(s) join anew`,
		"loses its data session", "the controller", "dry run: nothing was changed")
	if got := e.config("orders", "retention.ms"); got != "222000000" {
		t.Fatalf("a dry run has changed retention.ms to %s", got)
	}
	out := e.meta("restore", "--at", at)
	has(t, out, "cluster is restored, as ", "raised")

	restored := func() {
		t.Helper()
		e.await("the configuration is back", func() error {
			if got := e.config("orders", "retention.ms"); got != "111000000" {
				return errors.New(got)
			}
			return nil
		})
		e.wantOffsets("billing", "orders", then)
		e.wantOffsets("since", "orders", map[int32]int64{0: 3})
	}
	restored()
	e.begins(m, then) // it has joined anew
	e.begins(n, then)
	orders.goesOn()
	since.goesOn()
	check(t, late.EndTransaction(e.ctx, kgo.TryCommit)) // it was open all the time
	e.await("a transaction", func() error { return e.transact(tx, "pays", 3, kgo.TryCommit) })
	if got := e.readAll("pays"); got["open then"] != 1 || got["open now"] != 1 || got["tx-2-true"] != 1 {
		t.Errorf("pays has %v", got)
	}
	if out := e.meta("restore", "--at", at); !strings.Contains(out, "there is nothing to restore") {
		t.Error("restoring twice is not as once")
	}

	// The same with nobody running, from a file.
	file := filepath.Join(t.TempDir(), "backup")
	has(t, e.meta("backup", file, "--at", at), "it holds no secrets")
	m.cl.LeaveGroup() // a static one stays
	check(t, leaveStatic(e, "billing", "static"))
	n.cl.Close()
	e.setConfig("orders", "retention.ms", "333000000")
	e.commit("billing", "orders", map[int32]int64{0: 30})
	since.end()
	check(t, e.Stop())
	has(t, e.meta("restore", file, "--prune"), "topic since", "deleted, with its records", "cluster is restored")
	check(t, e.Start(e.ctx))
	e.await("topic since is gone", func() error {
		ts, err := e.adm.ListTopics(e.ctx)
		if err == nil && ts.Has("since") {
			err = errors.New("it is there")
		}
		return err
	})
	e.wantOffsets("billing", "orders", then)
	e.await("a transaction", func() error { return e.transact(tx, "pays", 4, kgo.TryCommit) })
	orders.goesOn()
	orders.end()
	e.readAll("pays")
	e.await("its files are gone", func() error {
		es, err := os.ReadDir(filepath.Join(e.dir, "topics"))
		if err == nil && len(es) != 2 {
			err = fmt.Errorf("%v", es)
		}
		return err
	})
	e.meta("verify")
}

// TestRestoreOfALaterFile restores transactional IDs from a file that is ahead of the volume, as one is
// when the volume was taken back. Whom the volume knows too little of has to come anew, what it had
// open is aborted, and readers of what is committed are not held up.
func TestRestoreOfALaterFile(t *testing.T) {
	e := startLab(t, 2)
	e.create("pays", 2)
	tx := e.transactor("pay")
	check(t, e.transact(tx, "pays", 1, kgo.TryCommit))
	check(t, tx.BeginTransaction())
	check(t, tx.ProduceSync(e.ctx, &kgo.Record{Topic: "pays", Value: []byte("open"), Partition: 0}).FirstErr())
	file := filepath.Join(t.TempDir(), "backup")
	e.meta("backup", file, "--streams", "txns")
	b, err := restore.Read(file)
	check(t, err)
	for i := range b.Saved {
		st, err := txns.Decode(b.Saved[i].State)
		check(t, err)
		for x := range st.Txns() {
			later := *x
			later.Epoch += 5
			ev, err := txns.NewEvent(&txns.TxnChanged{Txn: later})
			check(t, err)
			st, err = txns.Apply(st, []metalog.Event{ev})
			check(t, err)
		}
		b.Saved[i].State, err = txns.Encode(st)
		check(t, err)
	}
	check(t, b.Write(file+"-later"))
	has(t, e.meta("restore", file+"-later"), `1 transactional ID(s) above the epoch of then: their producers come anew ("pay")`,
		`1 open transaction(s) of them are aborted ("pay")`, "is restored, as ")

	err = tx.EndTransaction(e.ctx, kgo.TryCommit)
	if err == nil {
		t.Error("a producer of before has committed")
	}
	t.Logf("it is told: %v", err)
	again := e.transactor("pay")
	e.await("a transaction", func() error { return e.transact(again, "pays", 2, kgo.TryCommit) })
	if got := e.readAll("pays"); got["open"] != 0 || got["tx-1-true"] != 1 || got["tx-2-true"] != 1 {
		t.Errorf("pays has %v", got)
	}
	if err := e.transact(tx, "pays", 3, kgo.TryCommit); err == nil {
		t.Error("the zombie has committed another one")
	}
}

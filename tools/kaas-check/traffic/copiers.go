package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

// copiers is a consumer group whose members read what is committed of some topics, and in
// one transaction write a record for each that they have read and commit their offsets.
type copiers struct {
	env    *Env // its topics are those that are read
	name   string
	next   bool // the next-generation protocol (KIP-848)
	to     []place
	id     int32
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const copierMembers = 2

// Copiers are the groups of which each record is processed exactly once. They are stopped
// with the other groups.
func (e *Env) Copiers() []Traffic {
	source := e.with(func(t Topic) bool { return t.Txns == All })
	to := e.places(func(t Topic) bool { return t.Txns == Copies })
	return []Traffic{
		&copiers{env: source, name: "copiers", to: to},
		&copiers{env: source, name: "copiers-next", to: to, next: true},
	}
}

func (g *copiers) Start() error {
	own := history.Group{Name: g.name, Committed: true}
	for _, t := range g.env.Topics {
		own.Topics = append(own.Topics, t.Name)
	}
	g.id = g.env.Log.Group(own)
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(context.Background())
	for n := range copierMembers {
		c := &copier{g: g, number: n, rng: rand.New(rand.NewPCG(uint64(g.env.Seed), uint64(g.id)<<8|uint64(n)))}
		g.wg.Go(func() { c.run(ctx) })
	}
	g.wg.Go(func() { _ = g.env.Watch(ctx, g.id, g.name) })
	return nil
}

// Stop lets the members come to the end.
func (g *copiers) Stop(ctx context.Context) {
	_ = g.env.AwaitCommitted(ctx, g.id, g.name) // the checker finds it
	g.cancel()
	g.wg.Wait()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = g.env.AwaitCommitted(last, g.id, g.name)
}

// copier is a member with a transactional ID, which has one session after the other.
type copier struct {
	g      *copiers
	number int
	rng    *rand.Rand
	made   int
}

func (c *copier) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.made++
		s, err := c.begin(ctx)
		if err == nil {
			for ctx.Err() == nil && s.once(ctx) {
			}
			s.over(ctx.Err() == nil)
		}
		sleep.For(ctx, 4*loosely)
	}
	// A transaction that was lost at last does not wait for its timeout.
	last, cancel := context.WithTimeout(context.Background(), initTime)
	defer cancel()
	if s, err := c.begin(last); err == nil {
		s.over(false)
	}
}

// copySession is one client's.
type copySession struct {
	txnClient
	c    *copier
	from []place
	s    *kgo.GroupTransactSession
}

func (c *copier) begin(ctx context.Context) (*copySession, error) {
	e, id := c.g.env, fmt.Sprintf("%s-%d", c.g.name, c.number)
	s := &copySession{c: c, from: e.places(nil), txnClient: txnClient{env: e, id: id, wire: &wire{dial: e.Dial}}}
	opts := []kgo.Opt{
		kgo.TransactionalID(id), kgo.TransactionTimeout(txnTimeout), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.WithHooks(&s.txnClient),
		kgo.ConsumerGroup(c.g.name), kgo.ConsumeTopics(c.g.topics()...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.SessionTimeout(e.session()), kgo.RebalanceTimeout(rebalanceTime), kgo.HeartbeatInterval(heartbeat), kgo.Balancers(kgo.CooperativeStickyBalancer()),
	}
	if c.g.next {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	var err error
	if s.s, err = kgo.NewGroupTransactSession(e.options(s.wire.connect, opts...)...); err != nil {
		return nil, err
	}
	s.cl = s.s.Client()
	s.proc = e.Log.Join(history.Proc{Name: fmt.Sprintf("%s, session %d", id, c.made), Role: history.Transactional, Group: c.g.id, TxnID: id})
	if err := e.initProducer(ctx, s.cl, s.proc); err != nil {
		s.over(true)
		return nil, err
	}
	return s, nil
}

func (g *copiers) topics() (out []string) {
	for _, t := range g.env.Topics {
		out = append(out, t.Name)
	}
	return out
}

// once polls, and copies what came. It is false where the session is of no more use.
func (s *copySession) once(ctx context.Context) bool {
	invoke := s.env.Log.Now()
	poll, cancel := context.WithTimeout(ctx, time.Second)
	fs := s.s.PollRecords(poll, 200)
	cancel()
	if fs.NumRecords() == 0 {
		return true
	}
	// What is begun comes to its end, whatever becomes of the run.
	own, cancel := context.WithTimeout(context.Background(), txnTime)
	defer cancel()
	if s.s.Begin() != nil {
		return false
	}
	number := s.env.Log.Txn()
	upTo := s.process(number, invoke, fs)
	acked := s.copy(own, number, fs)
	switch s.c.rng.IntN(20) {
	case 0:
		s.env.ended(s.proc, number, s.env.Log.Now(), history.Failed, "given up")
		s.commits(number, invoke, upTo, history.Failed, "given up")
		return false
	case 1, 2:
		acked = false
	}
	at, written := s.env.Log.Now(), s.ends.Load()
	committed, err := s.s.End(own, kgo.TransactionEndTry(acked))
	outcome, text := endOutcome(acked && (committed || err != nil), err, s.ends.Load()-written)
	s.env.ended(s.proc, number, at, outcome, text)
	s.commits(number, at, upTo, outcome, text)
	return err == nil
}

// process notes what is processed in a transaction, and is up to where for each partition.
func (s *copySession) process(number int32, invoke int64, fs kgo.Fetches) map[place]int64 {
	upTo := map[place]int64{}
	fs.EachPartition(func(f kgo.FetchTopicPartition) {
		at, ok := find(s.from, f.Topic, f.Partition)
		if !ok || len(f.Records) == 0 {
			return
		}
		offsets := make([]int64, len(f.Records))
		for i, r := range f.Records {
			offsets[i] = r.Offset
		}
		upTo[at] = offsets[len(offsets)-1] + 1
		s.env.Log.ProcessedIn(number, s.proc, at.part, invoke, s.env.Log.Now(), offsets...)
	})
	return upTo
}

// copy writes a record for each that was read, markers too, and is whether all were acknowledged.
func (s *copySession) copy(ctx context.Context, number int32, fs kgo.Fetches) bool {
	n := fs.NumRecords()
	results := make(chan error, n)
	fs.EachRecord(func(r *kgo.Record) {
		to := s.c.g.to[(r.Offset+int64(r.Partition))%int64(len(s.c.g.to))]
		s.sent++
		op := history.Op{Kind: history.Produce, Proc: s.proc, Part: to.part, Txn: number, Value: history.Value(s.proc, s.sent), Epoch: -1, Offset: -1, Invoke: s.env.Log.Now()}
		s.s.Produce(ctx, &kgo.Record{Topic: to.topic, Partition: to.index, Value: encode(op.Value)}, func(r *kgo.Record, err error) {
			results <- s.env.sentInTxn(op, r, err)
		})
	})
	acked := true
	for range n {
		select {
		case err := <-results:
			acked = acked && err == nil
		case <-ctx.Done():
			return false
		}
	}
	return acked
}

// commits notes the offsets that were committed in a transaction, if it was.
func (s *copySession) commits(number int32, invoke int64, upTo map[place]int64, outcome history.Outcome, text string) {
	for at, offset := range upTo {
		s.env.Log.Add(history.Op{
			Kind: history.Commit, Outcome: outcome, Proc: s.proc, Part: at.part, Txn: number, Epoch: -1, Offset: offset,
			Invoke: invoke, Complete: s.env.Log.Now(), Text: text,
		})
	}
}

// over ends the session, in order or without a word.
func (s *copySession) over(crash bool) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if crash {
		s.wire.cut()
		cancel()
	}
	_ = s.cl.LeaveGroupContext(ctx) // where nothing can be said, its session ends
	s.cl.Close()
}

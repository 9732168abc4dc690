package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
)

// transactor writes transactions to several partitions under one transactional ID. Most are
// committed, some aborted, some left open for the coordinator to end, and now and then it gets a
// second client while the first still writes.
type transactor struct {
	env    *Env
	number int
	id     string
	places []place
	rng    *rand.Rand
	raw    *kgo.Client // of zombies
	lead   *leaders
	cur    *txnClient
	made   int // clients
	left   int // transactions
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const (
	transactors     = 3
	mostRecords     = 12 // of a transaction
	leastPlaces     = 2
	coordinatorTime = 15 * time.Second // in which somebody is to be known
	abandonTimeout  = 3 * time.Second  // at most, that the coordinator gives what is left open
)

func transactorID(number int) string { return fmt.Sprintf("transactor-%d", number) }

// Transactors write to all topics that are written to; they are stopped with the writers.
func (e *Env) Transactors() (out []Traffic) {
	for n := range transactors {
		out = append(out, &transactor{env: e, number: n})
	}
	return out
}

func (t *transactor) Start() (err error) {
	if t.raw, err = t.env.raw(); err != nil {
		return err
	}
	t.id = transactorID(t.number)
	t.places = t.env.places(func(topic Topic) bool { return topic.Txns != Copies })
	t.lead = newLeaders(t.raw, t.env.Topics)
	t.rng = rand.New(rand.NewPCG(uint64(t.env.Seed), 0x74786e<<8|uint64(t.number)))
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.wg.Go(func() {
		records := 0
		for sleep.For(t.ctx, time.Duration(1+records)*time.Second/time.Duration(t.env.Rate)) {
			records = t.one()
		}
	})
	return nil
}

// one is one transaction. A transaction that was begun is brought to its end when the run ends.
func (t *transactor) one() (records int) {
	ctx, cancel := context.WithTimeout(context.Background(), txnTime)
	defer cancel()
	what := t.rng.IntN(24)
	if what == 0 {
		return t.abandon(ctx)
	}
	if t.cur == nil && !t.client(ctx) {
		return 0
	}
	x, err := t.cur.begin(ctx)
	if err != nil {
		t.discard()
		return 0
	}
	if what == 1 {
		return t.zombie(ctx, x)
	}
	records = t.write(ctx, x)
	if t.rng.IntN(3) == 0 && x.acked(ctx) {
		sleep.For(ctx, time.Duration(t.rng.IntN(300))*time.Millisecond)
		records += t.write(ctx, x)
	}
	commit := x.acked(ctx) && what > 5
	if x.end(ctx, commit) != nil {
		t.discard()
	}
	return records
}

// client makes the next client of the transactional ID.
func (t *transactor) client(ctx context.Context) bool {
	t.made++
	var err error
	t.cur, err = t.env.transactional(ctx, t.id, t.made, txnTimeout)
	if err != nil {
		t.cur = nil
	}
	return err == nil
}

func (t *transactor) discard() {
	t.cur.drop()
	t.cur = nil
}

// write sends some records to some partitions, without waiting for them.
func (t *transactor) write(ctx context.Context, x *txn) int {
	to := leastPlaces + t.rng.IntN(len(t.places)-leastPlaces)
	order := t.rng.Perm(len(t.places))[:to]
	n := to + t.rng.IntN(max(1, mostRecords-to))
	for i := range n {
		x.send(ctx, t.places[order[i%to]])
	}
	return n
}

// abandon leaves a transaction open, under a transactional ID that nobody uses again.
func (t *transactor) abandon(ctx context.Context) int {
	t.left++
	timeout := abandonTimeout/3 + time.Duration(t.rng.Int64N(int64(abandonTimeout)*2/3))
	c, err := t.env.transactional(ctx, fmt.Sprintf("%s-left-%d", t.id, t.left), 1, timeout)
	if err != nil {
		return 0
	}
	x, err := c.begin(ctx)
	if err != nil {
		c.drop()
		return 0
	}
	n := t.write(ctx, x)
	x.acked(ctx)
	x.leave()
	return n
}

// Stop ends it when its transaction has ended, for which one that was lost needs a successor.
func (t *transactor) Stop(ctx context.Context) {
	t.cancel()
	t.wg.Wait()
	if t.cur != nil || t.client(ctx) {
		t.discard()
	}
	t.raw.Close()
}

// Coordinator asks who coordinates the transactions of one of the transactors, of each in
// turn; -1 is nobody.
func (e *Env) Coordinator(ctx context.Context) (int32, error) {
	cl, err := e.client()
	if err != nil {
		return -1, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, coordinatorTime)
	defer cancel()
	id := transactorID(int(e.asked.Add(1)) % transactors)
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = 1, []string{id}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return -1, err
	}
	for _, c := range resp.Coordinators {
		if c.Key == id && c.ErrorCode == 0 {
			return c.NodeID, nil
		}
	}
	return -1, nil
}

package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
)

// TestSweepTxn is TestSweep with transactions: producers and their coordinator outlive
// the leaders, and drive each marker until it is written, and now and then once more. No
// reader of committed records may see one of a transaction that is not committed, or miss
// one that is; and what a leader says of transactions is what its log gives.
func TestSweepTxn(t *testing.T) {
	var total sweepStats
	sweep.Run(t, 300, func(seed int64) error {
		st, err := simulateWith(t, seed, breaks{}, substrate.Breaks{}, transactional)
		total.add(st)
		return err
	})
	t.Logf("%+v", total)
	if total.Ended == 0 || total.Filtered == 0 || total.Modelled == 0 {
		t.Fatalf("the sweep did nothing: %+v", total)
	}
}

// TestSweepTxnClean has the log cleaned meanwhile.
func TestSweepTxnClean(t *testing.T) {
	var total sweepStats
	sweep.Run(t, 300, func(seed int64) error {
		st, err := simulateWith(t, seed, breaks{}, substrate.Breaks{}, func(w *world) { cleaned(w); transactional(w) })
		total.add(st)
		return err
	})
	t.Logf("%+v", total)
	if total.Ended == 0 || total.Filtered == 0 || total.Compacted == 0 {
		t.Fatalf("the sweep did nothing: %+v", total)
	}
}

// TestSweepTxnCatches takes single rules away.
func TestSweepTxnCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for name, b := range map[string]breaks{
		"a marker counts before it is committed":    {stableAtOnce: true},
		"the manifest's transactions are forgotten": {noTxnSnapshot: true},
		"the manifest tells of no aborts":           {noAbortedSum: true},
		"the tail's producers are left out":         {noProducerScan: true},
	} {
		t.Run(name, func(t *testing.T) {
			sweep.Catches(t, 3000, func(seed int64) error {
				_, err := simulateWith(t, seed, b, substrate.Breaks{}, transactional)
				return err
			})
		})
	}
}

func transactional(w *world) {
	w.o.txnOf = map[string]*simTxn{}
	w.txns = &txnOracle{clients: []*txnClient{{id: 101, v2: true}, {id: 102}, {id: 103, v2: true}}}
}

// txnOracle guards its fields with the oracle's mu.
type txnOracle struct {
	clients []*txnClient
	stable  int64 // the largest last stable offset that was shown
}

// txnClient is a transactional producer with its coordinator.
type txnClient struct {
	id          int64
	v2          bool // transaction version 2: the epoch rises with each marker
	busy        bool // with one leader
	epoch       int16
	sequence    int32 // of the next transaction's first batch
	coordinator int32
	n           int
	cur         *simTxn
	last        *Marker // of the transaction before
}

type simTxn struct {
	batches         []clientBatch
	answered, size  int
	decided, commit bool // what is decided stays so, whatever becomes of the marker
}

// goes reports that compaction may take the transaction's records away.
func (x *simTxn) goes() bool { return x != nil && x.decided && !x.commit }

// lead has a client work with a leader who has begun, and somebody read what is committed.
func (k *txnOracle) lead(ctx context.Context, b *simBroker, s *substrate.Session, p *Partition, wg *sync.WaitGroup) {
	if b.rng.IntN(3) == 0 {
		k.compare(b.w, b.name, p)
	}
	b.w.o.mu.Lock()
	var c *txnClient
	for _, x := range k.clients {
		if !x.busy && c == nil {
			c = x
			c.busy = true
		}
	}
	b.w.o.mu.Unlock()
	if c != nil {
		rng := rand.New(rand.NewPCG(b.rng.Uint64(), 7))
		wg.Go(func() {
			for range 2 + rng.IntN(12) {
				sleep.For(ctx, time.Duration(rng.IntN(200))*time.Millisecond+time.Duration(c.id)*11*time.Nanosecond)
				if ctx.Err() != nil || p.Err() != nil || !k.step(ctx, b, s, p, c, rng) {
					break
				}
			}
			b.w.o.mu.Lock()
			defer b.w.o.mu.Unlock()
			c.busy = false
		})
	}
	rng := rand.New(rand.NewPCG(b.rng.Uint64(), 8))
	wg.Go(func() { k.consume(ctx, b, s, p, rng) })
}

// step does what the client's transaction needs next. It reports whether that went well.
func (k *txnOracle) step(ctx context.Context, b *simBroker, s *substrate.Session, p *Partition, c *txnClient, rng *rand.Rand) bool {
	if c.cur == nil {
		c.cur = &simTxn{size: 1 + rng.IntN(3)}
	}
	x := c.cur
	switch all := x.answered == x.size; {
	case !x.decided && !all && (len(x.batches) == 0 || rng.IntN(8) > 0):
		return k.send(ctx, b, s, p, c, rng)
	case !x.decided:
		b.w.o.mu.Lock()
		x.decided, x.commit = true, all && rng.IntN(2) == 0
		b.w.o.mu.Unlock()
	}
	if rng.IntN(3) == 0 {
		c.coordinator++
	}
	m := c.marker()
	if !b.mark(ctx, s, p, m) || rng.IntN(4) == 0 && !b.mark(ctx, s, p, m) {
		return false
	}
	c.done(m)
	b.w.o.mu.Lock()
	b.w.o.Ended++
	b.w.o.mu.Unlock()
	return true
}

func (c *txnClient) marker() Marker {
	m := Marker{ProducerID: c.id, ProducerEpoch: c.epoch, Commit: c.cur.commit, CoordinatorEpoch: c.coordinator}
	if c.v2 {
		m.ProducerEpoch, m.Version = m.ProducerEpoch+1, 2
	}
	return m
}

// done begins the time after a marker that is written.
func (c *txnClient) done(m Marker) {
	x := c.cur
	c.cur, c.last = nil, &m
	last := x.batches[len(x.batches)-1]
	switch {
	case c.v2 || x.answered < len(x.batches): // not knowing of a batch, it takes a new epoch
		c.epoch, c.sequence = c.epoch+1, 0
	default:
		c.sequence = last.sequence + int32(len(last.values))
	}
}

// send sends the first batch that is not answered.
func (k *txnOracle) send(ctx context.Context, b *simBroker, s *substrate.Session, p *Partition, c *txnClient, rng *rand.Rand) bool {
	x, o := c.cur, b.w.o
	if x.answered == len(x.batches) {
		y := clientBatch{sequence: c.sequence}
		if n := len(x.batches); n > 0 {
			y.sequence = x.batches[n-1].sequence + int32(len(x.batches[n-1].values))
		}
		c.n++
		o.mu.Lock()
		for r := range 1 + rng.IntN(3) {
			v := fmt.Sprintf("txn%d.%d.%d", c.id, c.n, r)
			y.values = append(y.values, v)
			o.txnOf[v] = x
		}
		o.mu.Unlock()
		x.batches = append(x.batches, y)
	}
	y := x.batches[x.answered]
	g, _ := p.StartVerification(c.id, c.epoch, y.sequence, c.v2)
	a, err := p.AppendTxn(ctx, b.w.txnBatch(c, y), g)
	if err != nil {
		b.refusedTxn(ctx, s, c.id, "batch", err)
		return false
	}
	if !b.await(ctx, a, rng) {
		return false
	}
	o.mu.Lock()
	o.ack(b.name, p.LeaderEpoch(), 0, a.BaseOffset, y.values)
	o.mu.Unlock()
	x.answered++
	if c.v2 && c.last != nil && rng.IntN(3) == 0 {
		// The marker of the transaction before, late: it may not end this one.
		if _, err := p.WriteMarker(ctx, *c.last); err == nil && s.Check(ctx) == nil {
			o.mu.Lock()
			o.violate("%s takes client %d's late marker %+v", b.name, c.id, *c.last)
			o.mu.Unlock()
		}
	}
	return true
}

func (b *simBroker) await(ctx context.Context, a *Appended, rng *rand.Rand) bool {
	wait, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(2000))*time.Millisecond)
	defer cancel()
	err := a.Wait(wait)
	b.count(err)
	return err == nil && ctx.Err() == nil
}

func (b *simBroker) mark(ctx context.Context, s *substrate.Session, p *Partition, m Marker) bool {
	a, err := p.WriteMarker(ctx, m)
	if err != nil {
		b.refusedTxn(ctx, s, m.ProducerID, "marker", err)
		return false
	}
	return b.await(ctx, a, rand.New(rand.NewPCG(uint64(a.BaseOffset), 9)))
}

// refusedTxn: who keeps to the rules is never told that he did not, by who leads.
func (b *simBroker) refusedTxn(ctx context.Context, s *substrate.Session, id int64, what string, err error) {
	b.count(err)
	if s.Check(ctx) != nil {
		return
	}
	for _, never := range []error{kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.TransactionCoordinatorFenced} {
		if errors.Is(err, never) {
			b.w.o.mu.Lock()
			defer b.w.o.mu.Unlock()
			b.w.o.violate("%s refuses client %d's %s: %w", b.name, id, what, err)
		}
	}
}

func (w *world) txnBatch(c *txnClient, y clientBatch) []byte {
	b := batch(w.idem(c.id, y.sequence, y.values))
	copy(b[43:57], txnBatch(c.id, c.epoch, y.sequence, y.values...)[43:57])
	b[22] |= attrTransactional
	return reseal(b)
}

// consume reads what is committed, through the leader.
func (k *txnOracle) consume(ctx context.Context, b *simBroker, s *substrate.Session, p *Partition, rng *rand.Rand) {
	o := b.w.o
	for range 1 + rng.IntN(6) {
		sleep.For(ctx, time.Duration(rng.IntN(400))*time.Millisecond+300*time.Nanosecond)
		_, hw, stable := p.Offsets()
		at := max(0, stable-int64(rng.IntN(40)-5))
		at = min(at, hw)
		o.mu.Lock()
		before := k.stable
		o.mu.Unlock()
		f, err := stableReadOrCut(ctx, p, rng, at, 100+rng.IntN(2000))
		if b.w.keys.tooOld(o, err, at, f) {
			continue
		}
		if err != nil {
			b.corruption(err)
			return
		}
		fresh := s.Check(ctx) == nil
		o.mu.Lock()
		if at < f.LastStableOffset && len(f.Records) == 0 || f.LastStableOffset > f.HighWatermark {
			o.violate("%s: nothing at %d, stable to %d of %d", b.name, at, f.LastStableOffset, f.HighWatermark)
		}
		k.filter(o, b.name, f)
		k.stable = max(k.stable, f.LastStableOffset)
		if fresh && f.LastStableOffset < before {
			o.violate("%s: stable to %d and fresh, but %d was shown before", b.name, f.LastStableOffset, before)
		}
		o.mu.Unlock()
	}
}

func stableReadOrCut(ctx context.Context, p *Partition, rng *rand.Rand, at int64, most int) (Fetched, error) {
	if rng.IntN(2) == 0 {
		return p.ReadCommitted(ctx, at, most, true)
	}
	got, err := p.CutCommitted(ctx, At(at), most, true)
	f := Fetched{HighWatermark: got.HighWatermark, LastStableOffset: got.LastStableOffset, LogStart: got.LogStart, Aborted: got.Aborted}
	if err == nil && got.Region != nil {
		defer got.Region.Release()
		f.Records, err = got.Region.Bytes(ctx)
	}
	return f, err
}

// hidden are the batches, by base offset, that a consumer leaves out of an answer.
func (k *txnOracle) hidden(f Fetched) map[int64]bool {
	list, aborted, out := f.Aborted, map[int64]bool{}, map[int64]bool{}
	for rest := batch(f.Records); len(rest) > 0; rest = rest[rest.size():] {
		b := rest[:rest.size()]
		for len(list) > 0 && list[0].First < b.next() {
			aborted[list[0].Producer], list = true, list[1:]
		}
		if m, ok := b.marker(); ok && !m.Commit {
			delete(aborted, m.ProducerID)
		}
		out[b.base()] = b.attrs()&attrTransactional != 0 && aborted[b.producer()]
	}
	return out
}

// filter does what a consumer does with an answer, and holds it against what was decided.
func (k *txnOracle) filter(o *oracle, who string, f Fetched) (visible []string) {
	hidden := k.hidden(f)
	for _, b := range batches(o, f.Records) {
		if b.next() > f.LastStableOffset {
			o.violate("%s: read to %d, stable to %d", who, b.next(), f.LastStableOffset)
		}
		for _, v := range batchTexts(o, b) {
			x := o.txnOf[v]
			switch hidden := hidden[b.base()]; {
			case hidden && !x.goes():
				o.violate("%s: %q is hidden, and was not aborted", who, v)
			case hidden:
				o.Filtered++
			case x != nil && !(x.decided && x.commit):
				o.violate("%s: %q is shown, and was not committed (decided %v): batch at %d, stable to %d, log from %d, aborted %v",
					who, v, x.decided, b.base(), f.LastStableOffset, f.LogStart, f.Aborted)
			default:
				visible = append(visible, v)
			}
		}
	}
	if !slices.IsSortedFunc(f.Aborted, func(a, b AbortedTxn) int { return int(a.First - b.First) }) {
		o.violate("%s: aborted transactions are not in order: %v", who, f.Aborted)
	}
	return visible
}

func batchTexts(o *oracle, b batch) (out []string) {
	if b.attrs()&attrControl != 0 {
		return nil
	}
	for _, r := range kvs(o, b) {
		out = append(out, string(r.value))
	}
	return out
}

// compare has what a leader says of transactions be what its log gives, while nobody
// appends.
func (k *txnOracle) compare(w *world, who string, p *Partition) {
	o, ctx := w.o, context.Background()
	start, hw, stable := p.Offsets()
	model := txnModel{open: map[int64]int64{}}
	for at := start; at < hw; {
		f, err := p.Read(ctx, at, 1<<20, true)
		if err != nil || len(f.Records) == 0 {
			return // the volume; others look after that
		}
		for _, b := range batches(o, f.Records) {
			model.add(b)
			at = b.next()
		}
	}
	o.mu.Lock()
	o.Modelled++
	if want := max(model.stable(hw), start); stable > want || stable != want && w.keys == nil {
		o.violate("%s: stable to %d, its log gives %d", who, stable, want)
	}
	o.mu.Unlock()
	for at := start; at < stable && w.keys == nil; {
		f, err := p.ReadCommitted(ctx, at, 200, true)
		if err != nil {
			return
		}
		bs := batches(o, f.Records)
		next := bs[len(bs)-1].next()
		o.mu.Lock()
		if want := model.between(at, next); !slices.Equal(f.Aborted, want) {
			o.violate("%s: aborted from %d to %d are %+v, its log gives %+v", who, at, next, f.Aborted, want)
		}
		o.mu.Unlock()
		at = next
	}
}

// txnModel is Kafka's rule, read off the log.
type txnModel struct {
	open    map[int64]int64
	aborted []AbortedTxn
}

func (m *txnModel) add(b batch) {
	first, open := m.open[b.producer()]
	switch x, ok := b.marker(); {
	case ok:
		delete(m.open, b.producer())
		if open && !x.Commit {
			m.aborted = append(m.aborted, AbortedTxn{b.producer(), first, b.base(), m.stable(b.next())})
		}
	case b.attrs()&attrTransactional != 0 && b.attrs()&attrControl == 0 && !open:
		m.open[b.producer()] = b.base()
	}
}

func (m *txnModel) stable(hw int64) int64 {
	for _, first := range m.open {
		hw = min(hw, first)
	}
	return hw
}

func (m *txnModel) between(from, to int64) []AbortedTxn {
	out := []AbortedTxn{}
	for _, t := range m.aborted {
		if t.Last >= from && t.First < to {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b AbortedTxn) int { return int(a.First - b.First) })
	return out
}

// final ends what is open, and reads all that is committed: what was decided so, once.
func (k *txnOracle) final(w *world, p *Partition) {
	o, ctx := w.o, context.Background()
	k.compare(w, "a fresh leader", p)
	for _, c := range k.clients {
		if x := c.cur; x != nil && len(x.batches) > 0 {
			o.mu.Lock()
			x.decided = true
			o.mu.Unlock()
			mark1(o, p, c.marker())
		}
	}
	k.compare(w, "a fresh leader, at the end", p)
	start, hw, stable := p.Offsets()
	if stable != hw {
		o.violate("a fresh leader is stable to %d of %d, and nothing is open", stable, hw)
	}
	seen := map[string]bool{}
	for at := start; at < stable && o.bad == nil; {
		f, err := p.ReadCommitted(ctx, at, 300, true)
		bs := batches(o, f.Records)
		if err != nil || len(bs) == 0 {
			o.violate("a fresh leader's read at %d: %w", at, err)
			return
		}
		for _, v := range k.filter(o, "a fresh leader", f) {
			seen[v] = true
		}
		at = bs[len(bs)-1].next()
	}
	for v, x := range o.txnOf {
		if x.decided && x.commit && !seen[v] && w.keys == nil {
			o.violate("%q was committed and is not there", v)
		}
	}
}

package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// clusterOracle is what clients were told of partitions; the world's lock guards it.
type clusterOracle struct {
	parts map[place]*partOracle
}

type partOracle struct {
	values map[int64]string // acknowledged, or read
	acked  map[int64]bool
	shown
	cut int64 // up to where records were asked to be deleted
}

// shown is what must not go back.
type shown struct {
	start, high int64
	epoch       int32
}

func newClusterOracle() *clusterOracle { return &clusterOracle{parts: map[place]*partOracle{}} }

func (o *clusterOracle) of(at place) *partOracle {
	p := o.parts[at]
	if p == nil {
		p = &partOracle{values: map[int64]string{}, acked: map[int64]bool{}}
		o.parts[at] = p
	}
	return p
}

// value takes a record that somebody relies on.
func (w *clusterSim) value(at place, off int64, value, how string) {
	p := w.o.of(at)
	if was, there := p.values[off]; there && was != value {
		w.violate("%s/%d: offset %d is %q, and %q was %s", at.topic, at.index, off, was, value, how)
	}
	p.values[off] = value
}

// served are the partitions that a broker serves, in one order.
func served(b *Broker) (out []place) {
	for _, t := range b.View().Topics() {
		for i := range t.Partitions {
			if _, err := b.Partition(t.ID, int32(i)); err == nil {
				out = append(out, place{topic: t.ID, index: int32(i)})
			}
		}
	}
	return out
}

// produce sends a record to each partition that the broker thinks it leads.
func (p *simProc) produce(ctx context.Context, b *Broker, rng *rand.Rand) {
	type sending struct {
		at      place
		a       *partition.Appended
		value   string
		deleted bool
	}
	var all []sending
	for _, at := range served(b) {
		s := sending{at: at, value: fmt.Sprintf("%s.%d", p.name, p.sent.Add(1))}
		p.w.note(func() { s.deleted = p.w.deleted[at.topic] })
		q, err := b.Partition(at.topic, at.index)
		if err != nil {
			continue
		}
		if s.a, err = q.Append(ctx, batch(s.value)); err == nil {
			all = append(all, s)
		}
	}
	for _, s := range all {
		if s.a.Wait(ctx) != nil {
			continue
		}
		p.w.note(func() {
			p.w.st.acked++
			if s.deleted {
				p.w.violate("%s/%d took %q after the topic's deletion was acknowledged", s.at.topic, s.at.index, s.value)
			}
			p.w.value(s.at, s.a.BaseOffset, s.value, "acknowledged by "+p.name)
			o := p.w.o.of(s.at)
			o.acked[s.a.BaseOffset] = true
			o.high = max(o.high, s.a.BaseOffset+1)
		})
	}
	sleep.For(ctx, time.Duration(50+rng.IntN(1000))*time.Millisecond)
}

// observe looks at what the broker serves, after a Check that begins after all that was
// shown before.
func (p *simProc) observe(ctx context.Context, b *Broker, rng *rand.Rand) {
	defer func() { sleep.For(ctx, time.Duration(rng.IntN(3000))*time.Millisecond) }()
	before := map[place]shown{}
	p.w.note(func() {
		for at, o := range p.w.o.parts {
			before[at] = o.shown
		}
	})
	if b.CheckFresh(ctx) != nil {
		return
	}
	all := served(b)
	for _, at := range all {
		if q, err := b.Partition(at.topic, at.index); err == nil {
			p.look(at, q, before[at])
		}
	}
	if len(all) == 0 {
		return
	}
	at := all[rng.IntN(len(all))]
	q, err := b.Partition(at.topic, at.index)
	if err != nil {
		return
	}
	start, high, _ := q.Offsets()
	if start < high {
		_, _ = p.w.readOn(ctx, at, q, start+rng.Int64N(high-start), p.name, nil)
	}
	if rng.IntN(20) == 0 && high > start+4 && !p.w.calm.Load() {
		p.w.note(func() { o := p.w.o.of(at); o.cut = max(o.cut, start+2) })
		if low, err := q.DeleteRecords(ctx, start+2); err == nil {
			p.w.note(func() { o := p.w.o.of(at); p.w.st.cut++; o.start = max(o.start, low) })
		}
	}
}

func (p *simProc) look(at place, q *partition.Partition, before shown) {
	start, high, _ := q.Offsets()
	now := shown{start, high, q.LeaderEpoch()}
	p.w.note(func() {
		p.w.st.shown++
		if now.start < before.start || now.high < before.high || now.epoch < before.epoch {
			p.w.violate("%s/%d went back: %s shows %+v after %+v", at.topic, at.index, p.name, now, before)
		}
		o := p.w.o.of(at)
		o.start, o.high, o.epoch = max(o.start, now.start), max(o.high, now.high), max(o.epoch, now.epoch)
	})
}

// readOn reads a part of a partition, and returns the offset after it.
func (w *clusterSim) readOn(ctx context.Context, at place, q *partition.Partition, from int64, who string, got map[int64]bool) (int64, error) {
	f, err := q.Read(ctx, from, 4096, true)
	if err != nil {
		return from, err
	}
	for b := f.Records; len(b) >= 61; {
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			break
		}
		var r kmsg.Record
		if err := r.ReadFrom(b[61:size]); err != nil {
			return from, err
		}
		from = int64(binary.BigEndian.Uint64(b))
		w.note(func() { w.st.read++; w.value(at, from, string(r.Value), "read through "+who) })
		if got != nil {
			got[from] = true
		}
		from++
		b = b[size:]
	}
	return from, nil
}

// leaveAll ends every process, somehow, and waits until they have ended.
func (w *clusterSim) leaveAll() error {
	for _, p := range w.alive(0) {
		if w.rng.IntN(3) == 0 {
			p.kill()
		} else {
			p.cancel()
		}
	}
	began := time.Now()
	err := w.sim.Run(func() bool {
		for _, p := range w.procs {
			if !p.over.Load() {
				return time.Since(began) > 10*time.Minute
			}
		}
		return true
	})
	for _, p := range w.procs {
		if err == nil && !p.over.Load() {
			err = fmt.Errorf("process %s of node %d does not end", p.name, p.id)
		}
	}
	return err
}

// settle has three fresh brokers take over, and compares.
func (w *clusterSim) settle() error {
	var fresh []*simProc
	for i, h := range hostNames {
		fresh = append(fresh, w.start(int32(i+1), h))
		if err := w.run(300, 10*time.Second); err != nil {
			return err
		}
	}
	began, state := time.Now(), ""
	err := w.sim.Run(func() bool {
		state = unsettled(fresh)
		return state == "" || time.Since(began) > 5*time.Minute
	})
	if err == nil && state != "" {
		err = fmt.Errorf("three fresh brokers do not settle: %s", state)
	}
	if err != nil {
		return err
	}
	for _, p := range fresh {
		if now := p.b.Load().dataSession(); now != p.first {
			return fmt.Errorf("the data session of %s was replaced, with nothing wrong: %s, %s before", p.name, now, p.first)
		}
	}
	var done bool
	go func() {
		err = w.compareCluster(fresh)
		w.note(func() { done = true })
	}()
	if rerr := w.sim.Run(func() (ok bool) { w.note(func() { ok = done }); return ok }); rerr != nil {
		return rerr
	}
	return err
}

// fenceOne pauses one host of a settled cluster: what its broker led goes to others, and
// not before its session is sealed.
func (w *clusterSim) fenceOne() error {
	if w.rng.IntN(4) > 0 {
		return nil
	}
	w.freeze("c")
	defer w.thaw("c")
	truth := &substrate.Volume{FS: w.sim.Server()}
	b, began := w.alive(1)[0].b.Load(), time.Now()
	var r projections.Broker
	err := w.sim.Run(func() bool {
		r, _ = b.View().Broker(3)
		return r.Fenced || time.Since(began) > time.Minute
	})
	if err != nil {
		return err
	}
	open, err := truth.Unsealed(r.Session)
	if !r.Fenced || open || err != nil {
		return fmt.Errorf("a paused broker is %+v; its session is open: %v, %v", r, open, err)
	}
	return nil
}

// unsettled is what three brokers still lack, empty if nothing.
func unsettled(ps []*simProc) string {
	n := map[int32]int{}
	low, high := 1<<30, 0
	for _, p := range ps {
		b, first := p.b.Load(), ps[0].b.Load()
		switch {
		case b == nil:
			return p.name + " has not started"
		case b.NotReady() != nil:
			return fmt.Sprintf("%s: %v", p.name, b.NotReady())
		case b.Shown() != first.Shown():
			return fmt.Sprintf("%s is at %v, %s at %v", p.name, b.Shown(), ps[0].name, first.Shown())
		case len(b.View().Removing()) > 0 || len(b.Moving()) > 0:
			return fmt.Sprintf("%s removes %v, moves %v", p.name, b.View().Removing(), b.Moving())
		}
		n = leaders(b)
		low, high = min(low, n[p.id]), max(high, n[p.id])
	}
	if high-low > 1 || len(n) > len(ps) {
		return fmt.Sprintf("leaders are %v", n)
	}
	return ""
}

// compareCluster reads everything back.
func (w *clusterSim) compareCluster(ps []*simProc) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	b := ps[0].b.Load()
	if err := w.compareView(b.View(), b.v); err != nil {
		return err
	}
	for _, t := range b.View().Topics() {
		if w.asked[t.ID] {
			continue
		}
		for i, now := range t.Partitions {
			if err := w.comparePartition(ctx, ps, place{topic: t.ID, index: int32(i)}, now); err != nil {
				return fmt.Errorf("%s/%d: %w", t.Name, i, err)
			}
		}
	}
	return nil
}

func (w *clusterSim) comparePartition(ctx context.Context, ps []*simProc, at place, now projections.Partition) error {
	var q *partition.Partition
	for _, p := range ps {
		if r, err := p.b.Load().Partition(at.topic, at.index); err == nil && q != nil {
			return fmt.Errorf("two brokers serve it")
		} else if err == nil {
			q = r
		}
	}
	if q == nil {
		return fmt.Errorf("nobody serves it, and %d leads it", now.Leader)
	}
	last, got := map[int64]bool{}, map[int64]bool{}
	var was shown
	var cut int64
	w.note(func() {
		o := w.o.of(at)
		was, cut = o.shown, o.cut
		for off := range o.acked {
			last[off] = true
		}
	})
	start, high, _ := q.Offsets()
	if start < was.start || high < was.high || q.LeaderEpoch() < was.epoch || start > cut {
		return fmt.Errorf("it is at %d to %d in epoch %d; it was %+v, and was cut to %d", start, high, q.LeaderEpoch(), was, cut)
	}
	for off := start; off < high; {
		next, err := w.readOn(ctx, at, q, off, "the last", got)
		if err != nil || next <= off {
			return fmt.Errorf("read at %d, from %d to %d: %w", off, start, high, err)
		}
		off = next
	}
	for off := range last {
		if off >= high || off >= start && !got[off] {
			return fmt.Errorf("offset %d was acknowledged and is not there; there are %d to %d", off, start, high)
		}
	}
	return nil
}

package partition

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// ProducerState is an idempotent producer as of a manifest's recovery point.
type ProducerState struct {
	ID     int64 `json:"id"`
	Epoch  int16 `json:"epoch"`
	Active int64 `json:"active_ms"` // its last append by the leader's clock, for expiry
	// Batches are the last ones that it appended in its epoch, at most five.
	Batches []ProducerBatch `json:"batches"`
	Txn     *ProducerTxn    `json:"txn,omitempty"` // nil if it never had a transaction
}

// ProducerTxn is what is known of a producer's transactions. Each is -1 if it is not there.
type ProducerTxn struct {
	CoordinatorEpoch int32 `json:"coordinator_epoch"` // of the last marker
	First            int64 `json:"first_offset"`      // of the transaction that is open
	Marker           int64 `json:"marker_offset"`     // where the last thing of it is a marker
}

// ProducerBatch is a batch that its producer may send again.
type ProducerBatch struct {
	Sequence   int32 `json:"sequence"` // of the first record
	LastDelta  int32 `json:"last_delta"`
	Offset     int64 `json:"offset"`
	AppendTime int64 `json:"append_time_ms"` // -1 where the topic keeps the producer's time
}

// EncodeMsgpack writes numbers as short as they are: there may be thousands of producers.
// One without transactions has four elements, as all had before there were any; others
// have seven.
func (s *ProducerState) EncodeMsgpack(e *msgpack.Encoder) error {
	n := 4
	if s.Txn != nil {
		n = 7
	}
	err := e.EncodeArrayLen(n)
	put := func(ns ...int64) {
		for _, n := range ns {
			if err == nil {
				err = e.EncodeInt(n)
			}
		}
	}
	put(s.ID, int64(s.Epoch), s.Active)
	if err == nil {
		err = e.EncodeArrayLen(len(s.Batches))
	}
	for _, b := range s.Batches {
		if err == nil {
			err = e.EncodeArrayLen(4)
		}
		put(int64(b.Sequence), int64(b.LastDelta), b.Offset, b.AppendTime)
	}
	if t := s.Txn; t != nil {
		put(int64(t.CoordinatorEpoch), t.First, t.Marker)
	}
	return err
}

// DecodeMsgpack reads both forms.
func (s *ProducerState) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeArrayLen()
	get := func() (v int64) {
		if err == nil {
			v, err = d.DecodeInt64()
		}
		return v
	}
	if err == nil && n != 4 && n != 7 {
		return fmt.Errorf("a producer of %d elements", n)
	}
	*s = ProducerState{ID: get(), Epoch: int16(get()), Active: get()}
	if err == nil {
		err = d.Decode(&s.Batches)
	}
	if n == 7 {
		s.Txn = &ProducerTxn{CoordinatorEpoch: int32(get()), First: get(), Marker: get()}
	}
	return err
}

// ProducersAdvanced brings the idempotent producers up to a recovery point: what became
// of those that changed, and who was dropped.
type ProducersAdvanced struct {
	Offset  int64           `msgpack:"offset" json:"offset"`
	Dropped []int64         `msgpack:"dropped" json:"dropped,omitempty"`
	Changed []ProducerState `msgpack:"changed" json:"changed,omitempty"`
}

func (*ProducersAdvanced) typ() string { return "ProducersAdvanced" }

func (e *ProducersAdvanced) apply(m *Manifest) error {
	if e.Offset > m.Recovery.Offset {
		return fmt.Errorf("producers as of offset %d, but the recovery point is at %d", e.Offset, m.Recovery.Offset)
	}
	gone := make(map[int64]bool, len(e.Dropped)+len(e.Changed))
	for _, id := range e.Dropped {
		gone[id] = true
	}
	for i := range e.Changed {
		gone[e.Changed[i].ID] = true
	}
	next := make([]ProducerState, 0, len(m.Producers)+len(e.Changed))
	for _, p := range m.Producers { // shared with older states, so never changed in place
		if !gone[p.ID] {
			next = append(next, p)
		}
	}
	m.Producers = append(next, e.Changed...)
	slices.SortFunc(m.Producers, func(a, b ProducerState) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// checkProducers refuses a state in which a producer has too many batches, or nothing.
func (m *Manifest) checkProducers() error {
	for i, p := range m.Producers {
		nothing := len(p.Batches) == 0 && (p.Txn == nil || p.Txn.Marker < 0)
		if i > 0 && m.Producers[i-1].ID >= p.ID || nothing || len(p.Batches) > producerWindow {
			return fmt.Errorf("producer %d with %d batches, number %d of the producers", p.ID, len(p.Batches), i)
		}
	}
	return nil
}

// advance is the news of producers for a manifest whose recovery point is at end, nil if
// there are none.
func (ps *producers) advance(end int64) *ProducersAdvanced {
	e := &ProducersAdvanced{Offset: end, Dropped: ps.dropped}
	ps.dropped = nil
	rest := ps.changed[:0]
	for _, p := range ps.changed {
		if len(p.seen) == 0 {
			continue // dropped
		}
		if seen := p.asOf(end); len(seen) > 0 && seen[len(seen)-1].next() > ps.told {
			e.Changed = append(e.Changed, p.state(seen))
			p.told = true
		}
		if p.changed = p.newest().next() > end; p.changed {
			rest = append(rest, p)
		}
	}
	clear(ps.changed[len(rest):])
	ps.changed, ps.told = rest, end
	if len(e.Changed) == 0 && len(e.Dropped) == 0 {
		return nil
	}
	return e
}

func (p *producer) state(seen []seenBatch) ProducerState {
	w, last := lastFive(seen), seen[len(seen)-1]
	s := ProducerState{ID: p.id, Epoch: last.epoch, Active: p.active, Batches: make([]ProducerBatch, len(w))}
	for i, b := range w {
		s.Batches[i] = ProducerBatch{Sequence: b.sequence, LastDelta: b.lastDelta, Offset: b.base, AppendTime: b.appendTime}
	}
	if last.coord != 0 || last.txn != 0 {
		s.Txn = &ProducerTxn{CoordinatorEpoch: last.coord - 1, First: last.txn - 1, Marker: -1}
		if last.marker {
			s.Txn.Marker = last.base
		}
	}
	return s
}

// restored is the producer as of a manifest, without what lies beyond end.
func (s *ProducerState) restored(end int64) *producer {
	p := &producer{id: s.ID, active: s.Active, told: true, seen: make([]seenBatch, 0, producerWindow+1)}
	for _, b := range s.Batches {
		x := seenBatch{base: b.Offset, appendTime: b.AppendTime, sequence: b.Sequence, lastDelta: b.LastDelta, epoch: s.Epoch}
		if x.next() <= end {
			p.seen = append(p.seen, x)
		}
	}
	t := s.Txn
	if t == nil {
		return p
	}
	if t.Marker >= 0 && t.Marker < end {
		p.seen = append(p.seen, seenBatch{base: t.Marker, appendTime: -1, sequence: -1, epoch: s.Epoch, marker: true})
	}
	if len(p.seen) > 0 {
		p.newest().coord, p.newest().txn = t.CoordinatorEpoch+1, t.First+1
	}
	return p
}

// restore takes the producers of a manifest. What lies beyond end, its recovery point, is
// cut off: the log may have lost it.
func (ps *producers) restore(m *Manifest, end int64) {
	ps.told = m.Recovery.Offset
	ps.byID = make(map[int64]*producer, len(m.Producers))
	for i := range m.Producers {
		p := m.Producers[i].restored(end)
		if len(p.seen) == 0 {
			ps.forget(p)
			continue
		}
		ps.byID[p.id] = p
		if first := p.newest().txn; first != 0 {
			ps.txns.begin(p.id, first-1)
		}
	}
	ps.txns.restored()
}

// producerFacts tells what the other facts of a manifest make known of producers.
func (p *Partition) producerFacts(fs []fact) []fact {
	end := int64(-1)
	for _, f := range fs {
		switch f := f.(type) {
		case *SegmentEnded:
			end = f.End
		case *RecoveryPointAdvanced:
			end = f.Offset
		}
	}
	if end < 0 {
		return fs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg().breaks.snapshotAhead {
		e := p.mu.producers.advance(p.mu.next)
		if e == nil {
			return fs
		}
		e.Offset = 0
		return append(fs, e)
	}
	if e := p.mu.producers.advance(end); e != nil {
		fs = append(fs, e)
	}
	return fs
}

// replay notes a batch of the old leader's tail.
func (p *Partition) replay(b batch) {
	if b.producer() < 0 || p.cfg().breaks.noProducerScan {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.producers.note(b, p.cfg().Now().UnixMilli(), math.MaxInt64)
}

// restoreProducers begins a takeover with what the manifest says, without who is idle.
func (p *Partition) restoreProducers(m *Manifest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg().breaks.noProducerSnapshot {
		return
	}
	end := m.Recovery.Offset
	if p.cfg().breaks.snapshotAhead {
		end = math.MaxInt64
	}
	p.mu.producers.restore(m, end)
	if p.cfg().breaks.noTxnSnapshot {
		p.mu.producers.txns = transactions{}
	}
	p.mu.producers.drop(p.cfg().Now().UnixMilli(), p.cfg().ProducerExpiry, math.MaxInt64)
}

package partition

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// producerWindow is how many of its last batches an idempotent producer may send again
// (KIP-98): a client has at most five unanswered.
const producerWindow = 5

// producers is what the log says of its idempotent producers, up to the newest batch
// that has an offset, committed or not. Partition.mu guards it.
//
// The manifest has the same as of its recovery point. To be able to tell that, a
// producer's uncommitted batches are kept whatever their number, and the window of the
// committed ones before them.
type producers struct {
	byID    map[int64]*producer
	changed []*producer // since the manifest's newest word of them
	dropped []int64     // of whom the manifest has word, and nobody else any more
	told    int64       // the offset as of which the manifest tells
	timer   *time.Timer // drops the idle; nil while it does not run

	txns      transactions
	verifying map[int64]verification // nil until there is one; likewise
}

type producer struct {
	id      int64
	active  int64 // when it last appended, ms by the broker's clock
	changed bool
	told    bool        // the manifest has word of it
	seen    []seenBatch // ascending; none once it is dropped
}

// seenBatch is a batch as a producer may send it again, or a marker of its transactions,
// and what is known of the producer as of it.
type seenBatch struct {
	base       int64
	appendTime int64 // as it was answered: -1 where the topic keeps the producer's time
	txn        int64 // 1 + the first offset of the transaction that is open; 0 if none is
	sequence   int32
	lastDelta  int32
	coord      int32 // 1 + the coordinator's epoch of the last marker; 0 if there was none
	epoch      int16
	marker     bool
}

func (s seenBatch) next() int64 { return s.base + int64(s.lastDelta) + 1 }

func seenOf(b batch) seenBatch {
	s := seenBatch{base: b.base(), appendTime: -1, sequence: b.sequence(), lastDelta: b.lastDelta(), epoch: b.prodEpoch()}
	if b.attrs()&attrLogAppendTime != 0 {
		s.appendTime = b.maxTime()
	}
	return s
}

// follows is the sequence after the batch's last; after 2^31-1 comes 0.
func (s seenBatch) follows() int32 {
	return int32((int64(s.sequence) + int64(s.lastDelta) + 1) & math.MaxInt32)
}

func (p *producer) newest() *seenBatch { return &p.seen[len(p.seen)-1] }

// lastFive is what counts of the batches: the last five, of the newest epoch, without markers.
func lastFive(seen []seenBatch) []seenBatch {
	from, n := len(seen), 0
	for from > 0 && n < producerWindow && seen[from-1].epoch == seen[len(seen)-1].epoch {
		if from--; !seen[from].marker {
			n++
		}
	}
	seen = seen[from:]
	if n == len(seen) {
		return seen
	}
	return slices.DeleteFunc(slices.Clone(seen), func(s seenBatch) bool { return s.marker })
}

// lastBatch is the newest batch of the newest epoch, nil where a marker has raised the
// epoch since.
func (p *producer) lastBatch() *seenBatch {
	for i := len(p.seen) - 1; i >= 0 && p.seen[i].epoch == p.newest().epoch; i-- {
		if !p.seen[i].marker {
			return &p.seen[i]
		}
	}
	return nil
}

// due is the sequence that comes next in the newest epoch.
func (p *producer) due() int32 {
	if b := p.lastBatch(); b != nil {
		return b.follows()
	}
	return 0
}

// lastSequence is that of the newest record, or -1.
func (p *producer) lastSequence() int32 {
	if b := p.lastBatch(); b != nil {
		return (b.follows() - 1) & math.MaxInt32
	}
	return -1
}

// again is the batch of the window that b repeats, or nil.
func (p *producer) again(b batch) *seenBatch {
	for i, n := len(p.seen)-1, 0; i >= 0 && n < producerWindow && p.seen[i].epoch == b.prodEpoch(); i-- {
		s := &p.seen[i]
		if s.marker {
			continue
		}
		if n++; s.sequence == b.sequence() && s.lastDelta == b.lastDelta() {
			return s
		}
	}
	return nil
}

// asOf is what was seen as of an offset that is not below the high watermark.
func (p *producer) asOf(offset int64) []seenBatch {
	n := len(p.seen)
	for n > 0 && p.seen[n-1].next() > offset {
		n--
	}
	return p.seen[:n]
}

// idle reports whether the producer may be forgotten: nothing of it is uncommitted or
// open, and it has appended nothing for so long.
func (p *producer) idle(now int64, expiry time.Duration, hw int64) bool {
	return now-p.active >= expiry.Milliseconds() && p.newest().next() <= hw && p.newest().txn == 0
}

// judge says what a producer's batch is: new (nil, nil), one of the last that it sent
// before, or an error that wraps INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
// INVALID_TXN_STATE. A batch older than the window is out of order, as in Kafka.
func (ps *producers) judge(b batch) (*seenBatch, error) {
	p := ps.byID[b.producer()]
	if p == nil {
		return nil, nil // whatever its sequence: its earlier batches may be long gone (KAFKA-7190)
	}
	last := p.newest()
	switch {
	case b.prodEpoch() < last.epoch:
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the batch %d", kerr.InvalidProducerEpoch, p.id, last.epoch, b.prodEpoch())
	case b.prodEpoch() > last.epoch && b.sequence() == 0:
		return nil, nil
	case b.prodEpoch() > last.epoch:
		return nil, fmt.Errorf("%w: producer %d begins epoch %d with sequence %d, not 0", kerr.OutOfOrderSequenceNumber, p.id, b.prodEpoch(), b.sequence())
	}
	if s := p.again(b); s != nil {
		return s, nil
	}
	if due := p.due(); b.sequence() != due {
		return nil, fmt.Errorf("%w: producer %d sends sequence %d where %d is due", kerr.OutOfOrderSequenceNumber, p.id, b.sequence(), due)
	}
	return nil, nil
}

// note takes a batch that has its place in the log, at a time in milliseconds and with
// a high watermark.
func (ps *producers) note(b batch, now, hw int64) {
	m, marker := Marker{}, b.attrs()&attrControl != 0
	if marker {
		var ok bool
		if m, ok = b.marker(); !ok {
			return
		}
	}
	p := ps.byID[b.producer()]
	if p == nil {
		p = &producer{id: b.producer()}
		if ps.byID == nil {
			ps.byID = map[int64]*producer{}
		}
		ps.byID[p.id] = p
	}
	p.active = now
	s := seenOf(b)
	if len(p.seen) > 0 {
		s.txn, s.coord = p.newest().txn, p.newest().coord
	}
	switch {
	case marker:
		if s.txn != 0 {
			ps.txns.finish(m, s.txn-1, s.base)
		}
		s.marker, s.txn, s.coord = true, 0, m.CoordinatorEpoch+1
	case b.attrs()&attrTransactional != 0 && s.txn == 0:
		s.txn = s.base + 1
		ps.txns.begin(p.id, s.base)
	}
	if len(ps.verifying) > 0 && b.attrs()&attrTransactional != 0 && !marker {
		delete(ps.verifying, p.id)
	}
	p.push(s, hw)
	if !p.changed {
		p.changed = true
		ps.changed = append(ps.changed, p)
	}
}

// trim forgets what no window at or above the high watermark has: of what is committed
// the last five batches of the newest epoch count, and whatever is the last.
func (p *producer) trim(hw int64) {
	n := 0
	for n < len(p.seen) && p.seen[n].next() <= hw {
		n++
	}
	if n <= producerWindow {
		return
	}
	last, w, left := &p.seen[n-1], n-1, producerWindow
	if !last.marker {
		left--
	}
	for i := n - 2; i >= 0 && left > 0 && p.seen[i].epoch == last.epoch; i-- {
		if p.seen[i].marker {
			continue
		}
		if w, left = w-1, left-1; w != i {
			p.seen[w] = p.seen[i]
		}
	}
	p.seen = p.seen[:copy(p.seen, p.seen[w:])]
}

// push trims, and adds s.
func (p *producer) push(s seenBatch, hw int64) {
	p.trim(hw)
	const usual = producerWindow + 1 // room for a producer that waits for each answer
	switch {
	case len(p.seen) > 0 && cap(p.seen) < usual, cap(p.seen) > 4*usual && len(p.seen) < usual:
		p.seen = append(make([]seenBatch, 0, usual), p.seen...)
	}
	p.seen = append(p.seen, s)
}

// drop forgets the producers that are idle.
func (ps *producers) drop(now int64, expiry time.Duration, hw int64) {
	for _, p := range ps.byID {
		if p.idle(now, expiry, hw) {
			ps.forget(p)
		}
	}
}

func (ps *producers) forget(p *producer) {
	delete(ps.byID, p.id)
	p.seen = nil
	if p.told {
		ps.dropped = append(ps.dropped, p.id)
	}
}

// admit orders an idempotent producer's batch. It answers a with the batch that this one
// repeats and reports true, or refuses, or lets it pass. The caller holds mu.
func (p *Partition) admit(a *Appended, b batch, g Guard) (again bool, err error) {
	ps, now := &p.mu.producers, p.cfg().Now().UnixMilli()
	if x := ps.byID[b.producer()]; x != nil && x.idle(now, p.cfg().ProducerExpiry, p.mu.hw.offset) {
		ps.forget(x)
	}
	if err := p.fenced(b); err != nil {
		return false, err
	}
	s, err := ps.judge(b)
	if s == nil {
		return false, ps.judgeTxn(b, g, err)
	}
	a.BaseOffset, a.LogAppendTime, a.LogStartOffset = s.base, s.appendTime, p.mu.logStart
	a.committed = p.commitOf(s.next())
	return true, nil
}

// judgeTxn adds what transactions ask to what judge has said of a batch that is new.
// Whether a transaction may begin comes before the sequence, as in Kafka.
func (ps *producers) judgeTxn(b batch, g Guard, judged error) error {
	if b.attrs()&attrTransactional != 0 {
		if errors.Is(judged, kerr.InvalidProducerEpoch) {
			return judged
		}
		return cmp.Or(ps.verified(b, g), judged)
	}
	if p := ps.byID[b.producer()]; judged == nil && p != nil && p.newest().txn != 0 {
		return fmt.Errorf("%w: producer %d has a transaction open, and the batch is not of it", kerr.InvalidTxnState, p.id)
	}
	return judged
}

// noteAppend takes a batch that was given its offset. The caller holds mu.
func (p *Partition) noteAppend(b batch) {
	p.mu.producers.note(b, p.cfg().Now().UnixMilli(), p.mu.hw.offset)
	p.armExpiry()
}

// flight is a group of appends that is not committed.
type flight struct {
	end       int64
	committed chan struct{}
}

var committedAlready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// commitOf is closed when what lies below an offset is committed. The caller holds mu.
func (p *Partition) commitOf(end int64) chan struct{} {
	for _, f := range p.mu.flights {
		if end > p.mu.hw.offset && end <= f.end {
			return f.committed
		}
	}
	return committedAlready
}

// landed forgets the groups that the high watermark covers. The caller holds mu.
func (p *Partition) landed() {
	n := 0
	for n < len(p.mu.flights) && p.mu.flights[n].end <= p.mu.hw.offset {
		n++
	}
	rest := copy(p.mu.flights, p.mu.flights[n:])
	clear(p.mu.flights[rest:])
	p.mu.flights = p.mu.flights[:rest]
}

// armExpiry has idle producers dropped now and then, also where nobody appends. What is
// asked of one that is due is answered as if it were dropped. The caller holds mu.
func (p *Partition) armExpiry() {
	ps := &p.mu.producers
	if ps.timer == nil && len(ps.byID)+len(ps.verifying) > 0 && p.mu.err == nil {
		ps.timer = time.AfterFunc(min(max(p.cfg().ProducerExpiry, time.Second), 10*time.Minute), p.expire)
	}
}

func (p *Partition) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	ps, now := &p.mu.producers, p.cfg().Now().UnixMilli()
	ps.timer = nil
	ps.drop(now, p.cfg().ProducerExpiry, p.mu.hw.offset)
	ps.dropGuards(now, p.cfg().ProducerExpiry)
	p.armExpiry()
}

package partition

import (
	"slices"
	"sync"
)

// RecoveryBudget bounds how many bytes the partitions of a broker together have past
// their recovery points, and so what takeovers after a crash scan and copy. Partitions
// that hold most of it publish theirs before it is spent; where that is not enough,
// writers wait.
type RecoveryBudget struct {
	mu struct {
		sync.Mutex
		used, asked int64 // asked: of those that were asked to publish
		sharers     map[*Partition]struct{}
		freed       chan struct{} // closed when there is less used; nil while nobody waits
	}
	total int64
}

// budgetShare is what one partition has of a budget.
type budgetShare struct {
	bytes int64
	asked bool
	waits bool // its writer waits for others
	over  bool // the partition has ended and takes nothing more
}

// NewRecoveryBudget makes a budget of so many bytes (log.recovery.bytes.total).
func NewRecoveryBudget(total int64) *RecoveryBudget {
	b := &RecoveryBudget{total: max(total, 1)}
	b.mu.sharers = map[*Partition]struct{}{}
	return b
}

// Used is how many bytes are past recovery points.
func (b *RecoveryBudget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// take waits until p may write n bytes more, or has ended.
func (b *RecoveryBudget) take(p *Partition, n int64) error {
	if b == nil {
		return nil
	}
	for {
		wait, ask := b.tryTake(p, n)
		for _, q := range ask {
			q.publishRecoveryPoint()
		}
		if wait == nil {
			return p.ctx.Err()
		}
		select {
		case <-wait:
		case <-p.ctx.Done():
		}
		p.progressed() // before it counts as not waiting any more
	}
}

// tryTake takes, or returns what to wait for; and who is to publish. A write that is
// larger than the whole budget is let through alone.
func (b *RecoveryBudget) tryTake(p *Partition, n int64) (wait chan struct{}, ask []*Partition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.share.waits = false
	if p.share.over {
		return nil, nil
	}
	if b.mu.used == 0 || b.mu.used+n <= b.total {
		b.mu.used += n
		b.mu.sharers[p] = struct{}{}
		if p.share.bytes += n; p.share.asked {
			b.mu.asked += n
		}
		if b.mu.used-b.mu.asked <= b.total-b.total/4 {
			return nil, nil
		}
		return nil, b.choose()
	}
	if b.mu.freed == nil {
		b.mu.freed = make(chan struct{})
	}
	p.share.waits = true
	return b.mu.freed, b.choose()
}

// choose picks those that hold most until half of the budget is on its way back. The
// caller holds mu.
func (b *RecoveryBudget) choose() (ask []*Partition) {
	var idle []*Partition
	for q := range b.mu.sharers {
		if !q.share.asked {
			idle = append(idle, q)
		}
	}
	slices.SortFunc(idle, func(x, y *Partition) int { return int(min(1, max(-1, y.share.bytes-x.share.bytes))) })
	for _, q := range idle {
		if b.mu.used-b.mu.asked <= b.total/2 {
			break
		}
		q.share.asked = true
		b.mu.asked += q.share.bytes
		ask = append(ask, q)
	}
	return ask
}

// wants reports whether p was asked to publish its recovery point.
func (b *RecoveryBudget) wants(p *Partition) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.share.asked
}

// waits reports whether p's writer waits for others to publish theirs.
func (b *RecoveryBudget) waits(p *Partition) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.share.waits
}

// freed gives back n bytes of p that a committed recovery point covers.
func (b *RecoveryBudget) freed(p *Partition, n int64) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(p, min(n, p.share.bytes))
}

// leave gives back all that a partition has that ends: its bytes are its successor's.
func (b *RecoveryBudget) leave(p *Partition) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.share.over = true
	b.give(p, p.share.bytes)
}

// give is freed and leave; the caller holds mu.
func (b *RecoveryBudget) give(p *Partition, n int64) {
	if p.share.asked {
		b.mu.asked -= p.share.bytes
		p.share.asked = false
	}
	p.share.bytes -= n
	if b.mu.used -= n; p.share.bytes == 0 {
		delete(b.mu.sharers, p)
	}
	if b.mu.freed != nil {
		close(b.mu.freed)
		b.mu.freed = nil
	}
}

// recover notes that a committed recovery point or end covers the segment as the window
// found it, and returns how many bytes that are more than before.
func (s segState) recover() int64 {
	n := s.size - s.behind
	s.segment.behind = s.size
	return n
}

// publishRecoveryPoint has the committer publish one, unless it does already.
func (p *Partition) publishRecoveryPoint() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.recover = true
	p.startCommitter()
}

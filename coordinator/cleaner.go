package coordinator

import (
	"kaas.dev/kaas/partition"
)

// served are the partitions that this broker serves now.
func (b *Broker) served() (ps []*partition.Partition) {
	b.slots.Load().each(func(s *slot) {
		if p, ok := s.served().(*partition.Partition); ok {
			ps = append(ps, p)
		}
	})
	return ps
}

// newCleaner makes the cleaner of all partitions, nil where none is asked for.
func (b *Broker) newCleaner() *partition.Cleaner {
	if b.opt.Cleaner == nil {
		return nil
	}
	opt := *b.opt.Cleaner
	if opt.Now == nil {
		opt.Now = b.opt.Now
	}
	if opt.Log == nil {
		opt.Log = b.log
	}
	return partition.NewCleaner(b.served, opt)
}

// clean runs retention and compaction until the broker leaves.
func (b *Broker) clean() {
	if b.cleaner != nil {
		b.cleaner.Run(b.run)
	}
}

// CleanerStats are the cleaner's figures, zero where there is none.
func (b *Broker) CleanerStats() partition.CleanerStats {
	if b.cleaner == nil {
		return partition.CleanerStats{}
	}
	return b.cleaner.Stats()
}

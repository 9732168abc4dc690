package partition

import "fmt"

// syncAhead is where the sync before a recovery point stands. Where acknowledgements
// do not wait for the disk, a commit that is to move the recovery point would have
// them wait for all that was written since the last one. So most of it is synced
// beside the commits first, and the commit has the little left that came meanwhile.
type syncAhead uint8

const (
	aheadNone syncAhead = iota
	aheadRuns
	aheadDone
)

// syncedAhead reports whether the segment was synced lately, and begins to if not. The
// committer calls it.
func (p *Partition) syncedAhead(s *segment) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.ahead == aheadDone:
		p.mu.ahead = aheadNone
		return true
	case p.mu.ahead == aheadNone && p.mu.err == nil:
		p.mu.ahead = aheadRuns
		p.wg.Go(func() { p.syncBeside(s) })
	}
	return false
}

// syncBeside syncs a segment that may be appended to, and rolled, at the same time.
func (p *Partition) syncBeside(s *segment) {
	h, err := p.acquire(s)
	if err == nil {
		err = h.Datasync()
		p.release(h)
	}
	if err != nil {
		p.fail(fmt.Errorf("sync %s: %w", p.file(s.id), err))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.ahead = aheadDone
	p.mu.recover = true
	p.startCommitter()
}

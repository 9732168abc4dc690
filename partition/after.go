package partition

// afterOwn tells how much of a segment's tail counts when this very process was the
// leader that wrote it and has failed: what that leader committed and nothing more, for
// it has told its producers that the rest failed, and will never tell them otherwise.
// durable reports that the file's bytes up to there were synced by this host, so that
// they may be adopted where they lie.
//
// Anybody who led in between would have ended the segment.
func (p *Partition) afterOwn(id SegmentID, from RecoveryPoint, size int64) (end int64, durable bool) {
	a := p.cfg().After
	if a == nil || a.dir != p.dir || a.epoch != id.Epoch {
		return size, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	hw := a.mu.hw
	switch {
	case a.mu.err == nil: // it goes on, elsewhere than here
		return size, false
	case hw.offset <= from.Offset:
		return from.Pos, true
	case hw.seg == nil || hw.seg.id != id:
		return size, false
	}
	return hw.pos, a.cfg().FlushMessages == 1
}

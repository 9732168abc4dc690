package partition

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// doomed is a file that is to be unlinked: a committed manifest does without it.
type doomed struct {
	id SegmentID
	at time.Time
}

// dropLocked takes segments out of what is cached and has their files unlinked after
// the delay. The caller holds mu, has taken them out of segs, and closes what is
// returned. Who reads one keeps its file open until he is done.
func (p *Partition) dropLocked(segs []*segment) (idle []*handle) {
	for _, s := range segs {
		s.dropped, s.index = true, nil
		s.aborts.unload()
		if i := slices.Index(p.mu.recent, s); i >= 0 {
			p.mu.recent = slices.Delete(p.mu.recent, i, i+1)
		}
		if h := s.file; h != nil {
			s.file = nil
			if h.gone = true; h.refs == 0 {
				idle = append(idle, h)
			}
		}
		p.doomLocked(s.id, p.cfg().Cleanup.DeleteDelay)
	}
	return idle
}

// doomLocked has a file unlinked after a while. A later leader does it where this one
// does not live that long. The caller holds mu.
func (p *Partition) doomLocked(id SegmentID, after time.Duration) {
	if p.mu.err != nil {
		return
	}
	p.mu.doomed = append(p.mu.doomed, doomed{id, p.cfg().Now().Add(after)})
	if !p.mu.reaping {
		p.mu.reaping = true
		p.wg.Go(p.reap)
	}
}

// reap unlinks doomed files until there are none.
func (p *Partition) reap() {
	for try := 0; ; {
		d, wait, more := p.nextDoomed()
		if !more {
			return
		}
		if wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-p.ctx.Done():
				t.Stop()
			}
			continue
		}
		// The manifest without it was committed long ago, perhaps. A volume that has come back
		// from a snapshot since may need the file: then this session is sealed, or gone.
		err := p.s.Check(p.ctx)
		if errors.Is(err, substrate.ErrFenced) {
			p.endReaping()
			return
		}
		// Rule 2: whatever the answer, the end-state is what counts. On NFS a file that is
		// open elsewhere may be refused for a while.
		if err == nil {
			err = p.unlink(d.id)
		}
		if err != nil {
			if try++; try == 10 {
				p.cfg().Log.Warn("a segment that is no part of the log cannot be removed yet", "file", p.file(d.id), "err", err)
			}
			p.postpone(d, min(time.Millisecond<<min(try, 14), 10*time.Second))
			continue
		}
		try = 0
	}
}

// endReaping leaves what is doomed to a later leader.
func (p *Partition) endReaping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.doomed, p.mu.reaping = nil, false
}

// nextDoomed takes the first file that is due, or tells how long until one is. There
// is no more work when it says so, and then no reaper.
func (p *Partition) nextDoomed() (d doomed, wait time.Duration, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil || len(p.mu.doomed) == 0 {
		p.mu.reaping = false
		return d, 0, false
	}
	first := 0
	for i, o := range p.mu.doomed {
		if o.at.Before(p.mu.doomed[first].at) {
			first = i
		}
	}
	d = p.mu.doomed[first]
	if wait = d.at.Sub(p.cfg().Now()); wait > 0 {
		return d, wait, true
	}
	p.mu.doomed = slices.Delete(p.mu.doomed, first, first+1)
	return d, 0, true
}

func (p *Partition) postpone(d doomed, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.at = p.cfg().Now().Add(after)
	p.mu.doomed = append(p.mu.doomed, d)
}

func (p *Partition) unlink(id SegmentID) error {
	gone := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return errors.Join(gone(p.v.Remove(path.Join(p.dir, id.IndexName()))), gone(p.v.Remove(path.Join(p.dir, id.TxnIndexName()))), gone(p.v.Remove(p.file(id))))
}

// sweepOrphans has files removed that earlier leaders left behind: segments they had
// dropped or never had named. No manifest will name one that ours does not, for all
// that come descend from ours, and add only files of their own epochs.
func (p *Partition) sweepOrphans() error {
	if p.upkeep.sweptOrphans {
		return nil
	}
	es, err := p.v.ListFresh(p.dir)
	if err != nil {
		return err
	}
	m := p.w.Committed().State
	p.mu.Lock()
	defer p.mu.Unlock()
	var last SegmentID
	for _, e := range es { // a segment's indexes and log lie beside one another
		if id, ok := fileOf(e); ok && id.Epoch < p.epoch && id != last && !m.has(id) {
			p.doomLocked(id, 0)
			last = id
		}
	}
	p.upkeep.sweptOrphans = true
	return nil
}

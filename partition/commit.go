package partition

import (
	"errors"
	"fmt"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// window is one commit: everything written when it began.
type window struct {
	mark    mark
	groups  []chan struct{}
	segs    []segState // not yet ended in a committed manifest, ascending
	recover bool       // a recovery point is due
	closes  bool       // the last window: the newest segment ends too
}

// segState is a segment as it was when the window began.
type segState struct {
	*segment
	index          *index
	aborted        AbortedSum
	end, size      int64
	ends, admitted bool
}

// startCommitter has a committer look for work. The caller holds mu.
func (p *Partition) startCommitter() {
	if !p.mu.committing && p.mu.err == nil {
		p.mu.committing = true
		p.startWatch()
		p.wg.Go(p.runCommitter)
	}
}

func (p *Partition) runCommitter() {
	for {
		w := p.nextWindow()
		if w == nil {
			return
		}
		err := p.commit(w)
		if err == nil && w.closes {
			err = p.closeManifest()
		}
		if err != nil {
			p.fail(err)
		}
	}
}

// nextWindow captures what is written, or ends the committer.
func (p *Partition) nextWindow() *window {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := len(p.mu.pending) == 0
	closes := p.mu.closing && idle && !p.mu.writing && len(p.mu.queue) == 0
	if p.mu.err != nil || idle && !closes && !p.mu.recover {
		p.mu.committing = false
		p.armTimer()
		return nil
	}
	w := &window{mark: p.mu.written, groups: p.mu.pending, recover: p.mu.recover, closes: closes}
	p.mu.pending, p.mu.recover = nil, false
	first := len(p.mu.segs)
	for first > 0 && !p.mu.segs[first-1].ended {
		first--
	}
	w.segs = make([]segState, 0, len(p.mu.segs)-first)
	for _, s := range p.mu.segs[first:] {
		w.segs = append(w.segs, segState{s, s.index, s.aborts.sum, s.end, s.size, s.frozen || closes, s.admitted})
	}
	return w
}

// commit is the commit rule: what was written is durable and named by a manifest
// before the Check that covers it begins.
func (p *Partition) commit(w *window) error {
	if n := len(w.segs); n > 0 {
		last := w.segs[n-1]
		since := last.size
		if last.admitted {
			since -= p.recPos
		}
		due := since >= p.cfg().RecoveryPointBytes
		if due && since < 2*p.cfg().RecoveryPointBytes && p.cfg().FlushMessages > 1 {
			due = p.syncedAhead(last.segment)
		}
		w.recover = w.recover || due || p.cfg().Recovery.wants(p)
	}
	for _, s := range w.segs {
		if err := p.sync(s, w.recover); err != nil {
			return err
		}
	}
	if p.cfg().breaks.appendOn {
		p.mu.Lock()
		w.mark = p.mu.written
		w.groups = append(w.groups, p.mu.pending...)
		p.mu.pending = nil
		p.mu.Unlock()
	}
	facts := p.facts(w)
	if p.cfg().breaks.ackBeforeName && len(facts) > 0 {
		if err := p.check(); err != nil {
			return err
		}
		p.acknowledge(w)
	}
	if err := p.publishOrCheck(facts, len(w.groups) > 0); err != nil {
		return err
	}
	closeAll(p.settle(w))
	p.acknowledge(w)
	for _, s := range w.segs {
		if s.ends && s.size > 0 {
			p.writeIndex(s.id, s.index)
			p.saveAborted(s.segment)
		}
	}
	return nil
}

// sync makes durable what the segment held when the window began. A segment that ends
// is synced whatever the flush interval says.
func (p *Partition) sync(s segState, always bool) error {
	if !always && !s.ends && p.cfg().FlushMessages > 1 || s.synced == s.size {
		return nil
	}
	if !p.cfg().breaks.noSync {
		if err := s.file.Datasync(); err != nil {
			return fmt.Errorf("sync %s: %w", p.file(s.id), err)
		}
	}
	s.synced = s.size
	return nil
}

// facts are the manifest's news, none in most windows.
func (p *Partition) facts(w *window) (fs []fact) {
	for _, s := range w.segs {
		if !s.admitted {
			fs = append(fs, &SegmentAdded{s.id})
		}
		if s.ends {
			fs = append(fs, &SegmentEnded{End: s.end, Size: s.size, MaxTime: s.index.maxTime, Ended: p.cfg().Now().UnixMilli(), Aborted: p.noteSum(s.aborted)})
		} else if s.synced == s.size && s.size > 0 && (w.recover || !s.admitted) {
			fs = append(fs, &RecoveryPointAdvanced{Offset: s.end, Pos: s.size, Aborted: p.noteSum(s.aborted)})
		}
	}
	return p.producerFacts(fs)
}

// noteSum is a sum of aborted transactions as the manifest tells it.
func (p *Partition) noteSum(s AbortedSum) *AbortedSum {
	if p.cfg().breaks.noAbortedSum {
		return nil
	}
	return s.noted()
}

func (p *Partition) publishOrCheck(fs []fact, waiting bool) error {
	switch {
	case len(fs) == 0 && waiting:
		return p.check()
	case len(fs) == 0:
		return nil
	}
	evs, err := encodeFacts(fs...)
	if err != nil {
		return err
	}
	_, err = p.w.Publish(p.ctx, fs[len(fs)-1].typ(), func(*Manifest) ([]metalog.Event, error) { return evs, nil })
	return err
}

// check has a Check begin now. One without a definite answer is asked again, for as
// long as the partition lives (rule 2).
func (p *Partition) check() error {
	if p.cfg().breaks.noCheck {
		return nil
	}
	for try := 0; ; try++ {
		err := p.s.Check(p.ctx)
		if err == nil || errors.Is(err, substrate.ErrFenced) || p.ctx.Err() != nil {
			return err
		}
		sleep.Before(p.ctx, try, mostPause)
	}
}

// settle notes what the committed manifest says. The files it returns are to be closed.
func (p *Partition) settle(w *window) []*handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.commits++
	freed := int64(0)
	for _, s := range w.segs {
		isNew := !s.admitted
		s.segment.admitted, s.segment.ended = true, s.ends
		if s.ends {
			s.segment.endedAt = p.cfg().Now().UnixMilli()
		}
		switch {
		case s.ends:
			p.mu.recovered, p.recPos = s.end, 0
			freed += s.recover()
		case s.synced == s.size && (w.recover || isNew):
			p.mu.recovered, p.recPos = s.end, s.size
			freed += s.recover()
		case isNew:
			p.recPos = 0
		}
	}
	p.cfg().Recovery.freed(p, freed)
	return p.evict()
}

// acknowledge moves the high watermark to the end that was captured before the sync
// began, unless the partition has ended meanwhile.
func (p *Partition) acknowledge(w *window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return
	}
	if w.mark.offset > p.mu.hw.offset {
		p.mu.hw = w.mark
		p.landed()
		p.settleTxns()
		p.wake()
	}
	for _, g := range w.groups {
		close(g)
	}
	p.mu.open -= len(w.groups)
	w.groups = nil
}

// armTimer has an idle partition publish a recovery point, so that a takeover need not
// scan. The caller holds mu.
func (p *Partition) armTimer() {
	if p.mu.timer != nil || p.mu.err != nil || p.mu.closing || p.mu.recovered >= p.mu.written.offset {
		return
	}
	p.mu.timedAt = p.mu.written.offset
	p.mu.timer = time.AfterFunc(p.cfg().RecoveryPointIdle, p.idle)
}

func (p *Partition) idle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.timer = nil
	if p.mu.err != nil || p.mu.committing {
		return // a committer arms it anew when it ends
	}
	if p.mu.timedAt != p.mu.written.offset {
		p.armTimer()
		return
	}
	p.mu.recover = true
	p.startCommitter()
}

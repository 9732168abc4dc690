package partition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// Open takes the partition over under an epoch that the controller assigned: claim the
// manifest, which fences the old leader, read it, adopt what that leader appended after
// its last recovery point, and publish the first manifest of the epoch. Nothing is shown
// or acknowledged before the Check of that manifest.
//
// Errors wrap substrate.ErrEpochTaken, ErrStillLeading or ErrFenced, a
// *substrate.DamageError, or what the volume said. After any of them, the epoch is not
// used again.
//
// When ctx ends, Open returns its error while a call on the volume may stay behind; until
// that has returned, the session cannot lead the partition again.
func Open(ctx context.Context, s *substrate.Session, id [16]byte, topic string, index int32, epoch int32, cfg Config) (*Partition, error) {
	return besideSession(ctx, s, func() (*Partition, error) { return openNow(ctx, s, id, topic, index, epoch, cfg) })
}

func openNow(ctx context.Context, s *substrate.Session, id [16]byte, topic string, index int32, epoch int32, cfg Config) (*Partition, error) {
	cfg = cfg.withDefaults()
	w, err := metalog.Claim(ctx, s, ManifestStream(id, index), substrate.Epoch(epoch), ManifestSchema(), metalog.Options{
		Node: cfg.Node, RetentionAge: cfg.HistoryAge, RetentionEntries: cfg.HistoryEntries, Now: cfg.Now})
	name := fmt.Sprintf("%s-%d", topic, index)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	p := &Partition{s: s, v: s.Volume(), w: w, dir: Dir(id, index), name: name, epoch: substrate.Epoch(epoch),
		done: make(chan struct{}), gone: make(chan struct{}), reads: substrate.NewLane(readPlaces)}
	p.conf.Store(&cfg)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	m := w.Committed().State
	if m.TopicID != id || m.Topic != topic || m.Partition != index {
		err = fmt.Errorf("%s is the manifest of %s-%d, topic %x", ManifestStream(id, index), m.Topic, m.Partition, m.TopicID)
	} else if err = p.refuseOlder(w.Committed().Pos.Epoch); err == nil {
		err = p.takeOver(ctx, m)
	}
	if err != nil {
		p.fail(err)
		<-p.gone
		return nil, fmt.Errorf("open %s epoch %d: %w", name, epoch, err)
	}
	p.cfg().After = nil // its memory may go
	return p, nil
}

func (p *Partition) takeOver(ctx context.Context, m *Manifest) error {
	for _, s := range m.Segments {
		if !s.open() {
			p.mu.segs = append(p.mu.segs, &segment{id: s.SegmentID, end: s.End, size: s.Size, frozen: true, admitted: true, ended: true,
				maxTime: s.MaxTime, timed: s.MaxTime != 0, endedAt: s.Ended, aborts: summed(s.Aborted)})
		}
	}
	p.restoreProducers(m)
	var facts []fact
	if s := m.newest(); s != nil && s.open() {
		var err error
		if facts, err = p.adopt(s.SegmentID, m.Recovery); err != nil {
			return fmt.Errorf("adopt %s: %w", p.file(s.SegmentID), err)
		}
	}
	end := mark{offset: m.Recovery.Offset}
	if n := len(p.mu.segs); n > 0 {
		end = mark{p.mu.segs[n-1].end, p.mu.segs[n-1], p.mu.segs[n-1].size}
	}
	if e := p.mu.producers.advance(end.offset); e != nil {
		facts = append(facts, e)
	}
	facts = append(facts, &LeaderEpochStarted{Epoch: p.epoch, Start: end.offset})
	if f := describe(m, p.cfg()); f != nil {
		facts = append(facts, f)
	}
	evs, err := encodeFacts(facts...)
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("node %d leads", p.cfg().Node)
	if _, err := p.w.Publish(ctx, reason, func(*Manifest) ([]metalog.Event, error) { return evs, nil }); err != nil {
		return err
	}
	p.begin(end, p.w.Committed().State)
	p.removeDropped(m)
	return nil
}

// begin shows what the takeover has committed.
func (p *Partition) begin(end mark, m *Manifest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.next, p.mu.written, p.mu.hw, p.mu.recovered = end.offset, end, end, end.offset
	p.armExpiry()
	p.mu.logStart, p.mu.cleaned, p.mu.epochs = m.LogStart, m.Cleaned, m.Epochs
	p.settleTxns()
	if end.seg == nil || end.seg.ended {
		return // the first append makes a segment
	}
	end.seg.admitted = true
	p.active, p.recPos, end.seg.behind = end.seg, end.pos, end.pos
}

// adopt ends the old leader's newest segment at its recovery point and copies what
// whole batches follow into a segment of our own: on NFS no fsync of this host commits
// what another host wrote (F12). What is copied are the very bytes that were checked, for
// the old leader may still be writing.
func (p *Partition) adopt(id SegmentID, from RecoveryPoint) ([]fact, error) {
	// A listing makes the open that follows a fresh one.
	if _, err := p.v.ListFresh(p.dir); err != nil {
		return nil, err
	}
	f, err := p.openFile(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size < from.Pos {
		return nil, &substrate.DamageError{File: p.file(id), Offset: size, Cause: fmt.Sprintf("ends before the recovery point at byte %d", from.Pos)}
	}
	size, durable := p.afterOwn(id, from, size)
	t := &tailScanner{file: f, size: size, pos: from.Pos, next: from.Offset}
	if p.cfg().breaks.noTailCopy || durable {
		facts, err := p.adoptInPlace(id, t, from.Aborted.value())
		if err == nil && durable && t.pos < size {
			err = &substrate.DamageError{File: p.file(id), Offset: t.pos, Cause: fmt.Sprintf("what this process committed up to byte %d is gone: %s", size, t.reason)}
		}
		return facts, err
	}
	now := p.cfg().Now().UnixMilli()
	if from.Pos > 0 {
		p.mu.segs = append(p.mu.segs, &segment{id: id, end: from.Offset, size: from.Pos, frozen: true, admitted: true, ended: true, endedAt: now,
			aborts: summed(from.Aborted)})
	}
	facts := []fact{&SegmentEnded{End: from.Offset, Size: from.Pos, Ended: now, Aborted: from.Aborted}}
	own, err := p.copyTail(t)
	if own != nil {
		p.mu.segs = append(p.mu.segs, own) // also after an error: its file is to be closed
		p.touch(own)
		facts = append(facts, &SegmentAdded{own.id}, &RecoveryPointAdvanced{Offset: own.end, Pos: own.size, Aborted: p.noteSum(own.aborts.sum)})
	}
	if err == nil && t.pos < t.size {
		err = p.tailDamage(id, t)
	}
	if err == nil {
		p.cfg().Log.Info("partition tail adopted", "partition", p.name, "epoch", p.epoch, "file", p.file(id),
			"from", from.Pos, "to", t.pos, "size", size, "next_offset", t.next, "stopped_by", t.reason)
	}
	return facts, err
}

// tailDamage says so where whole batches lie behind the end of the tail. They cannot be
// taken up, for what is before them is gone; but this is no torn end, and the file is
// kept for who wants to look.
func (p *Partition) tailDamage(id SegmentID, t *tailScanner) error {
	at, err := t.beyond()
	if err != nil || at < 0 {
		return err
	}
	p.damagedTail = true
	p.cfg().Log.Error("the tail is damaged: whole batches behind the damage are not part of the log any more", "partition", p.name,
		"file", p.file(id), "byte", t.pos, "offset", t.next, "cause", t.reason, "next_whole_batch_at_byte", at, "size", t.size)
	return nil
}

// damagedExt is added to the name of a segment that the log does without because of
// damage. Nothing of ours has such a name, so nothing removes it.
const damagedExt = ".damaged"

// copyTail copies the tail's batches, durably; nil if there are none. A segment that
// comes with an error is to be closed.
func (p *Partition) copyTail(t *tailScanner) (*segment, error) {
	base := t.next
	buf := make([]byte, 0, min(scanChunk, t.size-t.pos))
	var run [][]byte // batches in buf
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		if p.active == nil {
			var err error
			if p.active, err = p.makeSegment(base); err != nil {
				return err
			}
			p.active.rollFrom = batch(run[0]).maxTime()
		}
		if _, err := p.active.file.WriteAt(buf, p.active.size); err != nil {
			return fmt.Errorf("write %s at byte %d: %w", p.file(p.active.id), p.active.size, err)
		}
		p.wrote(run)
		buf, run = buf[:0], run[:0]
		return nil
	}
	for {
		b, err := t.batch()
		if err == nil && (b == nil || len(buf)+len(b) > cap(buf)) {
			err = flush()
		}
		if err != nil {
			return p.active, err
		}
		if b == nil {
			break
		}
		p.replay(b)
		from := len(buf)
		buf = append(buf, b...)
		run = append(run, buf[from:])
	}
	if p.active == nil {
		return nil, nil
	}
	if err := p.active.file.Datasync(); err != nil {
		return p.active, fmt.Errorf("sync %s: %w", p.file(p.active.id), err)
	}
	p.active.synced = p.active.size
	return p.active, nil
}

// adoptInPlace ends the segment after its tail. It is for a tail that this host has synced.
// aborted is of what lies before it.
func (p *Partition) adoptInPlace(id SegmentID, t *tailScanner, aborted AbortedSum) ([]fact, error) {
	for {
		b, err := t.batch()
		if err != nil {
			return nil, err
		}
		if b == nil {
			break
		}
		p.replay(b)
	}
	for _, x := range p.mu.producers.txns.aborting { // nobody else has begun yet
		aborted.add(x)
	}
	p.mu.producers.txns.aborting = nil
	now := p.cfg().Now().UnixMilli()
	if t.pos > 0 {
		p.mu.segs = append(p.mu.segs, &segment{id: id, end: t.next, size: t.pos, frozen: true, admitted: true, ended: true, endedAt: now,
			aborts: summed(aborted.noted())})
	}
	return []fact{&SegmentEnded{End: t.next, Size: t.pos, Ended: now, Aborted: p.noteSum(aborted)}}, nil
}

// removeDropped unlinks a segment that the manifest just committed no longer names
// because nothing of it was behind a recovery point. A leftover harms nobody.
func (p *Partition) removeDropped(before *Manifest) {
	s := before.newest()
	if s == nil || !s.open() {
		return
	}
	for _, o := range p.w.Committed().State.Segments {
		if o.SegmentID == s.SegmentID {
			return
		}
	}
	if p.s.Check(p.ctx) != nil { // see reap
		return
	}
	if p.damagedTail {
		// Rule 3: the committed manifest is ours and does without the file. This is evidence
		// for people, and no state: where the rename does not happen, nothing depends on it.
		if err := p.v.Rename(p.file(s.SegmentID), p.file(s.SegmentID)+damagedExt); err != nil {
			p.cfg().Log.Warn("a damaged segment could not be put aside", "file", p.file(s.SegmentID), "err", err)
		}
		return
	}
	if err := p.v.Remove(p.file(s.SegmentID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.cfg().Log.Info("superseded segment is left behind", "file", p.file(s.SegmentID), "err", err)
	}
}

package restore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// Role is that of the session under which streams are restored. A broker's sessions of other
// roles have nothing to do with it.
const Role = "restore"

// node stands for a writer that is no broker.
const node int32 = -1

// Run restores what is asked, and returns what has become of each stream, as far as it came.
// What a stream was when it was claimed is what counts, and may be later than what a plan
// was made of.
func Run(ctx context.Context, v *substrate.Volume, r Request) (*Plan, error) {
	w, err := begin(ctx, v, r)
	if err != nil {
		return nil, err
	}
	d := &driver{work: w}
	defer d.close()
	p := &Plan{Volume: v.ID, Prune: r.Prune}
	for i := range w.Saved {
		s, err := d.drive(ctx, &w.Saved[i])
		if err != nil {
			return p, fmt.Errorf("restore %s: %w", w.Saved[i].Stream, err)
		}
		p.Streams = append(p.Streams, s)
	}
	return p, nil
}

// driver restores stream after stream under one session, or another where it was fenced.
type driver struct {
	*work
	session *substrate.Session
}

const (
	// mostTries is how often a stream is tried; each leaves an epoch behind for good.
	mostTries = 10
	firstWait = 10 * time.Millisecond
	settle    = 5 * time.Second
)

// drive restores one stream (rule 2): what has failed may have happened, so it is looked at
// again, and done again where it is not so.
func (d *driver) drive(ctx context.Context, s *Saved) (StreamPlan, error) {
	k, err := kindOf(s.Stream)
	if err != nil {
		return StreamPlan{}, err
	}
	for try := range mostTries {
		var p StreamPlan
		if p, err = d.try(ctx, k, s); err == nil {
			return p, nil
		}
		if ctx.Err() != nil || IsDamage(err) {
			break
		}
		select {
		case <-time.After(firstWait << try):
		case <-ctx.Done():
		}
	}
	return StreamPlan{}, err
}

func (d *driver) try(ctx context.Context, k kind, s *Saved) (StreamPlan, error) {
	p, err := k.plan(ctx, d.work, s)
	if err == nil && !p.Changes && !p.undecided && p.Now != noEntry {
		// That nothing is to be done is not to rest on what this host has seen before.
		if err = refresh(d.v, k.path(d.v), p.Now); err == nil {
			p, err = k.plan(ctx, d.work, s)
		}
	}
	if err != nil || !p.Changes && !p.undecided {
		return p, err
	}
	if err := d.open(); err != nil {
		return p, err
	}
	p, err = k.publish(ctx, d.work, s, d.session)
	if err != nil {
		d.close() // another was fenced, or knows not what it has left behind
	}
	return p, err
}

// refresh makes the listings of a stream that follow fresh ones, and of its epochs from that
// of a position on: a change of this host's own does that. Above the newest entry there may
// be epochs that were only claimed, by a try before this one for example.
func refresh(v *substrate.Volume, stream, now string) error {
	touch := func(dir string) error {
		tmp := v.TempName(dir, Role)
		if err := v.Mkdir(tmp); err != nil {
			return err
		}
		return v.Remove(tmp)
	}
	from, err := substrate.ParsePosition(now)
	if err != nil {
		return err
	}
	if err := touch(stream); err != nil {
		return err
	}
	es, err := v.ListEpochs(stream)
	for _, e := range es {
		if err == nil && e >= from.Epoch {
			err = touch(path.Join(stream, substrate.EpochName(e)))
		}
	}
	return err
}

// open has a session ready, on the volume that it was.
func (d *driver) open() error {
	now, err := substrate.ReadVolume(d.v.FS)
	if err != nil {
		return err
	}
	if now.ID != d.v.ID {
		return &substrate.NameError{Path: "volume/id", Cause: fmt.Sprintf("the volume is %s now, not %s any more", now.ID, d.v.ID)}
	}
	if d.session != nil {
		return nil
	}
	d.session, err = d.v.OpenSession(substrate.Identity{Role: Role, NodeID: node, Host: d.Host, PID: d.PID, Started: d.Now()})
	return err
}

func (d *driver) close() {
	if d.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	_ = d.session.Close(ctx)
	d.session = nil
}

// publish claims the stream above whatever is there, and restores it in the claim's first
// entry.
func (k *stream[S]) publish(ctx context.Context, w *work, s *Saved, session *substrate.Session) (StreamPlan, error) {
	p := StreamPlan{Stream: s.Stream, Then: s.Pos.String(), ThenTime: s.Time()}
	v, stream := w.v, k.path(w.v)
	if err := v.EnsureDir(path.Dir(stream)); err != nil {
		return p, err
	}
	if err := metalog.Ensure(v, stream, k.schema, "begun to be restored", w.Now()); err != nil {
		return p, err
	}
	wr, err := k.claim(ctx, w, session)
	if err != nil {
		return p, err
	}
	before := wr.Committed()
	p.Now = before.Pos.String()
	var told Told // decide may still run after ctx has ended; only who has its answer looks
	changes := false
	pos, err := wr.Publish(ctx, "restored from "+s.Pos.String(), func(now S) (evs []metalog.Event, err error) {
		told, evs, err = k.next(w, s, now)
		changes = len(evs) > 0
		if w.breaks.pieces && changes {
			evs = evs[:1]
		}
		return evs, err
	})
	if w.breaks.pieces && err == nil {
		_, err = wr.Publish(ctx, "the rest", func(now S) (evs []metalog.Event, err error) {
			_, evs, err = k.next(w, s, now)
			return evs, err
		})
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle)
	defer cancel()
	if err != nil {
		return p, errors.Join(err, wr.Abandon(end))
	}
	p.Told, p.Changes, p.Position = told, changes, pos.String()
	_ = wr.Close(end) // without a closed entry the next owner seals this session, and that is all
	return p, nil
}

func (k *stream[S]) claim(ctx context.Context, w *work, session *substrate.Session) (*metalog.Writer[S], error) {
	for e := substrate.Epoch(0); ; {
		next, err := metalog.NextEpoch(w.v, k.path(w.v))
		if err != nil {
			return nil, err
		}
		e = max(e+1, next)
		wr, err := metalog.Claim(ctx, session, k.path(w.v), e, k.schema, metalog.Options{Node: node, Followed: k.followed, Now: w.Now})
		if err == nil || !errors.Is(err, substrate.ErrEpochTaken) || ctx.Err() != nil {
			return wr, err
		}
	}
}

// IsDamage reports an error that trying again does not mend.
func IsDamage(err error) bool {
	var damage *substrate.DamageError
	var name *substrate.NameError
	return errors.As(err, &damage) || errors.As(err, &name)
}

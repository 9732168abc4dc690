package metalog

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
)

// mostPause is the most between two tries of what the volume has failed.
const mostPause = 200 * time.Millisecond

// Options of a stream's owner.
type Options struct {
	Node int32 // written into entries, for people
	// Followed streams get a HEAD for their readers.
	Followed bool
	// RetentionAge and RetentionEntries bound the history that is kept; zero
	// keeps all (metadata.history.retention.ms and .entries).
	RetentionAge     time.Duration
	RetentionEntries int
	// BaseFiles is the most files between two bases; zero means 1,024.
	BaseFiles int
	Now       func() time.Time
}

// ErrClosed means that this process has ended its ownership of the stream.
var ErrClosed = errors.New("stream is closed by this process")

// Decide looks at the newest state and returns the events to publish, none if
// there is nothing to do, or an error that refuses. It runs at the one point that
// orders the stream, so what it saw still holds when its events are applied.
type Decide[S any] func(S) ([]Event, error)

// Writer is the ownership of one epoch of a stream by this process. Publishers
// queue up; one goroutine, alive only while there is work, writes an entry for all
// who wait. Nothing is locked during I/O. What replaces or removes a file that others
// may have open, HEAD and history, goes on beside it, in goroutines that the session's
// Close waits for: it may hang, and nothing is to wait for it.
type Writer[S any] struct {
	s      *substrate.Session
	v      *substrate.Volume
	stream string
	epoch  substrate.Epoch
	sc     *Schema[S]
	opt    Options

	ctx    context.Context // ends when the ownership does
	cancel context.CancelFunc
	done   chan struct{} // closed with err set

	mu struct {
		sync.Mutex
		queue     []*request[S]
		running   bool
		closing   bool // no further Publish
		err       error
		committed Snapshot[S]
		head      substrate.Position // that HEAD is to name
		heading   chan struct{}      // closed when nobody drives HEAD any more; nil while nobody does
		pruning   bool
	}
	wg sync.WaitGroup // of the goroutine that publishes

	// tip is the newest entry written, committed or not. Owned by the goroutine.
	tip *loaded[S]
	// ambiguous: a rename of an entry has not returned a definite answer. Owned likewise.
	ambiguous bool
	// covered is the newest base that a Check has covered. Owned likewise.
	covered    substrate.Position
	sincePrune int
}

type request[S any] struct {
	reason string
	decide Decide[S]
	closes bool
	done   chan struct{}
	pos    substrate.Position
	err    error
}

// Claim makes the session the owner of epoch e of the stream and folds what it
// continues from. Nothing is published yet; the first Publish writes the epoch's
// base.
func Claim[S any](ctx context.Context, s *substrate.Session, stream string, e substrate.Epoch, sc *Schema[S], opt Options) (*Writer[S], error) {
	base, err := s.Claim(ctx, stream, e)
	if err != nil {
		return nil, err
	}
	l, err := load(ctx, s.Volume(), stream, base, sc)
	if err == nil && l.unknown != "" {
		err = fmt.Errorf("stream holds events of type %q, which this build does not know: it may be read but not owned", l.unknown)
	}
	if err != nil {
		s.EndLead(stream, true)
		return nil, fmt.Errorf("claim %s epoch %d: %w", stream, e, err)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.BaseFiles == 0 {
		opt.BaseFiles = 1024
	}
	w := &Writer[S]{s: s, v: s.Volume(), stream: stream, epoch: e, sc: sc, opt: opt, tip: l, done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.mu.committed = l.Snapshot
	w.sincePrune = 1 << 30 // look once, soon
	return w, nil
}

// Epoch is the epoch that this writer owns.
func (w *Writer[S]) Epoch() substrate.Epoch { return w.epoch }

// Committed is the newest acknowledged state, or what the epoch continues from.
func (w *Writer[S]) Committed() Snapshot[S] {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.committed
}

// Done is closed when the ownership has ended; Err then tells why.
func (w *Writer[S]) Done() <-chan struct{} { return w.done }

// Err is ErrClosed after Close, substrate.ErrFenced after a seal, nil while alive.
func (w *Writer[S]) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.err
}

// Publish has decide's events written and acknowledged, and returns the position
// of their entry. An error wrapping substrate.ErrUnknown, substrate.ErrFenced or
// the context's means that they may be there or come to be; any other that they
// are not.
func (w *Writer[S]) Publish(ctx context.Context, reason string, decide Decide[S]) (substrate.Position, error) {
	return w.submit(ctx, &request[S]{reason: reason, decide: decide, done: make(chan struct{})})
}

// Close publishes a closed entry when everything before it is acknowledged, so
// that the successor need not seal this process's session, and ends the ownership.
func (w *Writer[S]) Close(ctx context.Context) error {
	_, err := w.submit(ctx, &request[S]{reason: "closed", closes: true, done: make(chan struct{})})
	if err != nil && !errors.Is(err, ErrClosed) {
		return errors.Join(err, w.Abandon(ctx))
	}
	return w.Abandon(ctx)
}

// Abandon ends the ownership without a closed entry: the successor seals. It waits
// for the call in flight, or for ctx.
func (w *Writer[S]) Abandon(ctx context.Context) error {
	w.end(ErrClosed)
	w.cancel()
	done := make(chan struct{})
	go func() { w.wg.Wait(); close(done) }()
	select {
	case <-done:
		w.s.EndLead(w.stream, !w.ambiguous)
		return nil
	case <-ctx.Done():
		w.s.EndLead(w.stream, false)
		return ctx.Err()
	}
}

func (w *Writer[S]) submit(ctx context.Context, r *request[S]) (substrate.Position, error) {
	w.mu.Lock()
	if w.mu.err != nil || w.mu.closing {
		err := w.mu.err
		if err == nil {
			err = ErrClosed
		}
		w.mu.Unlock()
		return substrate.Position{}, fmt.Errorf("publish to %s: %w", w.stream, err)
	}
	w.mu.closing = r.closes
	w.mu.queue = append(w.mu.queue, r)
	if !w.mu.running {
		w.mu.running = true
		w.wg.Go(w.run)
	}
	w.mu.Unlock()
	select {
	case <-r.done:
		return r.pos, r.err
	case <-ctx.Done():
		return substrate.Position{}, fmt.Errorf("publish to %s: %w: %w", w.stream, substrate.ErrUnknown, ctx.Err())
	}
}

// run serves the queue until it is empty.
func (w *Writer[S]) run() {
	for {
		w.mu.Lock()
		batch := w.mu.queue
		w.mu.queue = nil
		if len(batch) == 0 || w.mu.err != nil {
			w.mu.running = false
			err := w.mu.err
			w.mu.Unlock()
			finish(batch, err)
			return
		}
		w.mu.Unlock()
		w.serve(batch)
	}
}

func finish[S any](batch []*request[S], err error) {
	for _, r := range batch {
		if r.err == nil {
			r.err = err
		}
		close(r.done)
	}
}

// serve publishes one entry for a batch. Answers go out when it is committed, also
// those that refuse: they may rest on what another of the batch has changed.
func (w *Writer[S]) serve(batch []*request[S]) {
	e, st, err := w.decide(batch)
	if err == nil && e != nil {
		err = w.publish(e, st)
	}
	if err != nil {
		finish(batch, err)
		return
	}
	for _, r := range batch {
		r.pos = w.tip.Pos
	}
	closed := w.tip.closed
	if closed {
		// Whoever closes is about to go: its followers learn of it before.
		if w.opt.Followed && e != nil {
			w.awaitHead(w.tip.Pos)
		}
		w.end(ErrClosed)
		finish(batch, nil)
		return
	}
	finish(batch, nil)
	if e == nil {
		return
	}
	if w.opt.Followed {
		w.tellHead(w.tip.Pos)
	}
	w.pruneSoon()
}

// decide builds the batch's entry. It is nil if there is nothing to write. Every
// epoch starts with an entry, events or not.
func (w *Writer[S]) decide(batch []*request[S]) (*Entry, S, error) {
	st := w.tip.State
	var events []Event
	var reason string
	var closes bool
	for _, r := range batch {
		if r.closes {
			closes = true
			reason = join(reason, r.reason)
			continue
		}
		evs, err := r.decide(st)
		if err == nil && len(evs) > 0 {
			var next S
			if next, err = w.sc.Apply(st, evs); err == nil {
				st = next
			}
		}
		if err != nil {
			r.err = err
			continue
		}
		if len(evs) > 0 || w.tip.Pos.Epoch != w.epoch {
			reason = join(reason, r.reason)
		}
		events = append(events, evs...)
	}
	if len(events) == 0 && !closes && w.tip.Pos.Epoch == w.epoch {
		return nil, st, nil
	}
	e, err := w.entry(events, reason, closes && len(events) == 0, st)
	if err != nil || !closes || len(events) == 0 {
		return e, st, err
	}
	// 'closed' only with nothing unacknowledged: the events go first.
	if err := w.publish(e, st); err != nil {
		return nil, st, err
	}
	e, err = w.entry(nil, "closed", true, st)
	return e, st, err
}

func join(a, b string) string {
	const most = 1000
	if a == "" || a == b {
		return b
	}
	if len(a) > most {
		return a
	}
	return a + "; " + b
}

func (w *Writer[S]) entry(events []Event, reason string, closed bool, st S) (*Entry, error) {
	e := &Entry{Prev: w.tip.Pos, PrevSum: w.tip.sum, Session: w.s.ID(), Node: w.opt.Node, Time: w.opt.Now(),
		Reason: reason, Events: events, Closed: closed, Pos: substrate.Position{Epoch: w.epoch, Seq: 1}}
	if w.tip.Pos.Epoch == w.epoch {
		e.Pos.Seq = w.tip.Pos.Seq + 1
	}
	const floor = 4096 // tiny states are not worth a base at every other entry
	e.Base = e.Pos.Seq == 1 || w.tip.files+1 >= w.opt.BaseFiles || w.tip.eventBytes+eventBytes(events) > max(w.tip.stateBytes, floor)
	if !e.Base {
		return e, nil
	}
	raw, err := w.sc.Encode(st)
	if err != nil {
		return nil, fmt.Errorf("publish to %s: %w", w.stream, err)
	}
	e.State = raw
	return e, nil
}

// publish writes e, makes it the tip, has a Check cover it, and shows its state.
func (w *Writer[S]) publish(e *Entry, st S) error {
	if w.v.Breaks.CheckBeforeVisible {
		if err := w.check(); err != nil {
			return w.end(err)
		}
	}
	if err := w.write(e); err != nil {
		return err
	}
	// The entry is visible and durable: from here on it is in the tip whatever happens.
	l := *w.tip
	l.Pos, l.State, l.sum, l.closed = e.Pos, st, e.Sum, e.Closed
	l.files++
	l.eventBytes += eventBytes(e.Events)
	if e.Base {
		l.base, l.stateBytes, l.eventBytes, l.files = e.Pos, len(e.State), 0, 0
	}
	w.tip = &l
	if !w.v.Breaks.CheckBeforeVisible {
		if err := w.check(); err != nil {
			return w.end(err)
		}
	}
	w.covered = l.base
	w.mu.Lock()
	w.mu.committed = l.Snapshot
	w.mu.Unlock()
	return nil
}

// write puts e at its position: rule 1. A rename with no definite answer is
// driven on with the same bytes (rule 2), for a position never gets two values.
func (w *Writer[S]) write(e *Entry) error {
	data, err := e.encode(w.stream)
	if err != nil {
		return err
	}
	dir := path.Join(w.stream, substrate.EpochName(w.epoch))
	name := substrate.EntryName(e.Pos)
	for try := 0; ; try++ {
		tmp, err := w.v.WriteTemp(dir, w.s.ID(), data)
		if err == nil {
			w.ambiguous = true
			err = w.v.Install(tmp, dir, name, data)
			w.ambiguous = errors.Is(err, substrate.ErrUnknown)
		}
		switch {
		case err == nil:
			return nil
		case w.v.Breaks.ReusePosition:
			w.ambiguous = false
			return fmt.Errorf("publish to %s: %w", w.stream, err)
		case errors.Is(err, substrate.ErrNotDurable):
			// A directory's fsync is not tried again and believed. The name is there, so
			// the epoch is given up and the next owner decides.
			return w.end(fmt.Errorf("publish to %s: %w", w.stream, err))
		case !w.ambiguous:
			return fmt.Errorf("publish to %s: %w", w.stream, err)
		case w.ctx.Err() != nil:
			return w.end(fmt.Errorf("publish to %s: %w", w.stream, err))
		}
		if cerr := w.s.Check(w.ctx); errors.Is(cerr, substrate.ErrFenced) {
			return w.end(fmt.Errorf("publish to %s: %w", w.stream, cerr))
		}
		sleep.Before(w.ctx, try, mostPause)
	}
}

// check is the commit rule: a Check that begins now, when all written is visible.
func (w *Writer[S]) check() error {
	for try := 0; ; try++ {
		err := w.s.Check(w.ctx)
		if err == nil || errors.Is(err, substrate.ErrFenced) || w.ctx.Err() != nil {
			return err
		}
		sleep.Before(w.ctx, try, mostPause)
	}
}

// end makes err the writer's end, unless it has one, and returns it.
func (w *Writer[S]) end(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err == nil {
		w.mu.err = err
		close(w.done)
	}
	return err
}

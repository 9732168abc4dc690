package txnshard

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/txns"
)

type writer = metalog.Writer[*txns.Shard]

// Shard is a shard that this process owns, from Open until Done.
type Shard struct {
	name  string // as people know it
	epoch int32
	opt   Options
	w     *writer

	ctx    context.Context // ends when nothing new is begun
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu is held for moments, never while waiting for anything or during I/O.
	mu struct {
		sync.Mutex
		ended bool
		// begun is when this owner saw each open transaction for the first time.
		begun    map[string]begun
		expiring map[string]bool // that are being aborted for it
		// ending are the transactions that are being driven to their end, each with what is
		// closed when it is complete.
		ending map[string]chan struct{}
		// queues are the markers that wait for the request under way to a broker.
		queues map[int32][]*delivery
		moved  chan struct{} // closed when the view changes
	}
}

// Open makes the session the owner of a stream's epoch and serves what is there. The stream
// is made if it is new. The error is metalog's.
func Open(ctx context.Context, s *substrate.Session, stream string, epoch int32, opt Options) (*Shard, error) {
	opt = opt.withDefaults()
	v := s.Volume()
	if err := v.EnsureDir(path.Dir(stream)); err != nil {
		return nil, fmt.Errorf("open %s: %w", stream, err)
	}
	if err := metalog.Ensure(v, stream, txns.Schema(), "shard begun", opt.Now()); err != nil {
		return nil, fmt.Errorf("open %s: %w", stream, err)
	}
	w, err := metalog.Claim(ctx, s, stream, substrate.Epoch(epoch), txns.Schema(), metalog.Options{
		Node: opt.Node, RetentionAge: opt.HistoryAge, RetentionEntries: opt.HistoryEntries, Now: opt.Now})
	if err != nil {
		return nil, err
	}
	// What is continued from counts for producers only when a Check has covered the epoch's
	// base (takeover rule).
	_, err = w.Publish(ctx, "taken over", func(*txns.Shard) ([]metalog.Event, error) { return nil, nil })
	if err != nil {
		return nil, errors.Join(err, w.Abandon(ctx))
	}
	sh := &Shard{name: path.Base(path.Dir(stream)) + "-" + path.Base(stream), epoch: epoch, opt: opt, w: w}
	sh.ctx, sh.cancel = context.WithCancel(context.Background())
	sh.mu.begun = map[string]begun{}
	sh.mu.expiring = map[string]bool{}
	sh.mu.ending = map[string]chan struct{}{}
	sh.mu.queues = map[int32][]*delivery{}
	sh.mu.moved = make(chan struct{})
	sh.sweep(time.Now())
	sh.wg.Go(sh.run)
	return sh, nil
}

// Done is closed when the shard is this process's no more; Err then tells why.
func (s *Shard) Done() <-chan struct{} { return s.w.Done() }

// Err is nil while the shard is served, and wraps substrate.ErrFenced after a seal.
func (s *Shard) Err() error { return s.w.Err() }

// Relinquish ends the ownership with a closed entry, so that the next owner need not seal.
func (s *Shard) Relinquish(ctx context.Context) error {
	if err := s.leave(ctx); err != nil {
		return err
	}
	return s.w.Close(ctx)
}

// Abandon ends the ownership without a closed entry and waits for its calls.
func (s *Shard) Abandon(ctx context.Context) error {
	return errors.Join(s.leave(ctx), s.w.Abandon(ctx))
}

// leave begins nothing more and waits for what is under way.
func (s *Shard) leave(ctx context.Context) error {
	s.mu.Lock()
	s.mu.ended = true
	s.mu.Unlock()
	s.cancel()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ViewChanged wakes who waits for a leader to appear in the view.
func (s *Shard) ViewChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.mu.moved)
	s.mu.moved = make(chan struct{})
}

// spawnLocked runs f as the shard's own goroutine, unless it has ended.
func (s *Shard) spawnLocked(f func()) bool {
	if s.mu.ended {
		return false
	}
	s.wg.Go(f)
	return true
}

func (s *Shard) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spawnLocked(f)
}

// errNotOwner sends a client to look for the owner.
var errNotOwner = fmt.Errorf("%w: the shard has another owner", kerr.NotCoordinator)

// clientError gives an error a code that clients of a coordinator try again on, unless it has
// one. Whoever is fenced is not the coordinator; whatever else the volume does is waited for.
func clientError(err error) error {
	var k *kerr.Error
	switch {
	case err == nil, errors.As(err, &k):
		return err
	case errors.Is(err, substrate.ErrFenced), errors.Is(err, metalog.ErrClosed):
		return fmt.Errorf("%w: %w", kerr.NotCoordinator, err)
	}
	return fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, err)
}

// txn is the newest committed state of a transactional ID, nil if there is none.
func (s *Shard) txn(id string) *txns.Txn { return s.w.Committed().State.Txn(id) }

func (s *Shard) nowMs() int64 { return s.opt.Now().UnixMilli() }

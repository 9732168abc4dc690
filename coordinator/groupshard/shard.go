package groupshard

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/coordinator/groupshard/deadline"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

type writer = metalog.Writer[*groups.Shard]

// Shard is a shard that this process owns, from Open until Done.
type Shard struct {
	name string // as people know it
	opt  Options
	w    *writer
	// memory spares work that heartbeats have in common.
	memory consumer.Memory

	ctx    context.Context // ends when nothing new is begun
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards what members wait for. It is held for moments, never while waiting for
	// anything or during I/O.
	mu struct {
		sync.Mutex
		live   map[string]*live // groups under the classic protocol
		shares shares           // of what they take, and weights
		// weights are of the groups that have members under the other one.
		weights map[string]weighed
		staged  map[int64]map[string]bool // groups in which a producer has staged offsets
		guards  map[int64]map[*TxnGuard]bool
		timers  deadline.Set[timerKey]
		ended   bool
		wake    chan struct{} // to the loop: an earlier deadline
		gone    []projections.TopicID
		// deleted is told when there is something in gone.
		deleted chan struct{}
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
	if err := metalog.Ensure(v, stream, groups.Schema(), "shard begun", opt.Now()); err != nil {
		return nil, fmt.Errorf("open %s: %w", stream, err)
	}
	w, err := metalog.Claim(ctx, s, stream, substrate.Epoch(epoch), groups.Schema(), metalog.Options{
		Node: opt.Node, RetentionAge: opt.HistoryAge, RetentionEntries: opt.HistoryEntries, Now: opt.Now})
	if err != nil {
		return nil, err
	}
	// What is continued from counts for members only when a Check has covered the epoch's
	// base (takeover rule).
	_, err = w.Publish(ctx, "taken over", func(*groups.Shard) ([]metalog.Event, error) { return nil, nil })
	if err != nil {
		return nil, errors.Join(err, w.Abandon(ctx))
	}
	sh := &Shard{name: path.Base(path.Dir(stream)) + "-" + path.Base(stream), opt: opt, w: w}
	sh.ctx, sh.cancel = context.WithCancel(context.Background())
	sh.mu.shares = newShares()
	sh.mu.live, sh.mu.weights = map[string]*live{}, map[string]weighed{}
	sh.mu.staged = map[int64]map[string]bool{}
	sh.mu.guards = map[int64]map[*TxnGuard]bool{}
	sh.mu.wake, sh.mu.deleted = make(chan struct{}, 1), make(chan struct{}, 1)
	sh.load(time.Now())
	sh.wg.Go(sh.run)
	sh.wg.Go(sh.tidy)
	return sh, nil
}

// load begins the sessions of all members that are committed.
func (s *Shard) load(now time.Time) {
	view := s.opt.View()
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.w.Committed().State.Groups() {
		if g.Classic != nil && len(g.Classic.Members) > 0 {
			s.settleLocked(s.makeLiveLocked(g.ID, g.Classic, now))
		}
		s.watchMembersLocked(view, g, now)
		s.countConsumerLocked(g.ID, g.Consumer)
		for producer := range g.Pending {
			s.stagedLocked(producer, g.ID)
		}
	}
}

// Done is closed when the shard is this process's no more; Err then tells why.
func (s *Shard) Done() <-chan struct{} { return s.w.Done() }

// Err is nil while the shard is served, and wraps substrate.ErrFenced after a seal.
func (s *Shard) Err() error { return s.w.Err() }

// Relinquish answers who waits and ends the ownership with a closed entry, so that the next
// owner need not seal.
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

// fresh is nil if this process owned the shard at an instant after the call. A Check alone
// does not say so: nobody seals who hands over, and what is left has its end here before.
func (s *Shard) fresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.CommitTimeout)
	defer cancel()
	if err := s.opt.Check(ctx); err != nil {
		return clientError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return errNotOwner
	}
	return clientError(s.w.Err())
}

// leave begins nothing more, answers all who wait, and waits for what is under way.
func (s *Shard) leave(ctx context.Context) error {
	s.mu.Lock()
	if !s.mu.ended {
		s.mu.ended = true
		s.cancel()
		for _, l := range s.mu.live {
			l.dismissLocked(kerr.NotCoordinator)
		}
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// spawnLocked runs f as the shard's own goroutine, unless it has ended.
func (s *Shard) spawnLocked(f func()) bool {
	if s.mu.ended {
		return false
	}
	s.wg.Go(f)
	return true
}

// errNotOwner sends a client to look for the owner.
var errNotOwner = fmt.Errorf("%w: the shard has another owner", kerr.NotCoordinator)

// publish commits what decide makes of the newest state, and waits no longer than the
// volume may take. The error is one that a client of a coordinator knows what to do with.
func (s *Shard) publish(ctx context.Context, reason string, decide func(*groups.Shard) ([]groups.Fact, error)) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.CommitTimeout)
	defer cancel()
	_, err := s.w.Publish(ctx, reason, func(st *groups.Shard) ([]metalog.Event, error) {
		fs, err := decide(st)
		if err != nil {
			return nil, err
		}
		return groups.NewEvents(fs...)
	})
	return clientError(err)
}

// clientError gives an error a code that group clients try again on, unless it has one.
// Whoever is fenced is not the coordinator; whatever else the volume does is waited for.
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

// group is the newest committed state of a group, nil if there is none.
func (s *Shard) group(id string) *groups.Group { return s.w.Committed().State.Group(id) }

func (s *Shard) config(group string) Config { return s.opt.Config(s.opt.View(), group) }

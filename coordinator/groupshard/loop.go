package groupshard

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/deadline"
)

// run keeps the deadlines until the shard is left.
func (s *Shard) run() {
	for {
		s.expire(time.Now())
		wait, stop := s.untilNext()
		select {
		case <-s.ctx.Done():
			stop()
			return
		case <-s.w.Done():
			s.endAll()
			stop()
			return
		case <-s.mu.wake:
		case <-wait:
		}
		stop()
	}
}

// tidy drops what has expired, and what was of deleted topics, until the shard is left. That
// may be much, and holds no deadline up.
func (s *Shard) tidy() {
	clean := time.NewTicker(s.opt.CleanEvery)
	defer clean.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.w.Done():
			return
		case <-clean.C:
			s.clean(s.ctx)
		case <-s.mu.deleted:
			s.forgetTopics(s.ctx)
		}
	}
}

// untilNext is told when the earliest deadline is due, never if there is none.
func (s *Shard) untilNext() (<-chan time.Time, func()) {
	s.mu.Lock()
	_, at, ok := s.mu.timers.First()
	s.mu.Unlock()
	if !ok {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(at))
	return t.C, func() { t.Stop() }
}

func (s *Shard) wakeLoop() {
	select {
	case s.mu.wake <- struct{}{}:
	default:
	}
}

// armLocked makes at the key's deadline.
func (s *Shard) armLocked(k timerKey, at time.Time) {
	if s.mu.timers.Put(k, at) {
		s.wakeLoop()
	}
}

// expire runs what is due.
func (s *Shard) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.mu.timers.Due(now) {
		switch k.kind {
		case classicTimer:
			if l := s.mu.live[k.group]; l != nil {
				l.g.Expire(now)
				s.settleLocked(l)
			}
		default:
			s.spawnLocked(func() { s.fenceMember(s.ctx, k) })
		}
	}
}

// endAll answers all who wait: the stream has another owner.
func (s *Shard) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, l := range s.mu.live {
		l.dismissLocked(kerr.NotCoordinator)
		delete(s.mu.live, id)
	}
	s.mu.timers = deadline.Set[timerKey]{}
}

// retry waits a little before a thing is tried again, or reports that the shard is left.
func (s *Shard) retry(ctx context.Context) bool {
	t := time.NewTimer(retryPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.w.Done():
		return false
	}
}

const retryPause = 200 * time.Millisecond

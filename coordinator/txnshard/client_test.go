package txnshard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/projections/txns"
)

// client is one instance of an application with a transactional ID. There may be two with the
// same.
type client struct {
	w       *world
	id      string
	version int8
	rng     *rand.Rand
	is      Producer // nobody until there is one
}

// retriable errors are those after which a client tries the same again, somewhere.
func retriable(err error) bool {
	for _, e := range []error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ask calls f with a shard until there is an answer. Now and then it is a former owner's.
func (c *client) ask(ctx context.Context, tries int, f func(context.Context, *Shard) error) error {
	err := error(kerr.CoordinatorNotAvailable)
	for range tries {
		sh := c.w.current.Load()
		if c.rng.IntN(6) == 0 {
			c.w.mu.Lock()
			if n := len(c.w.shards); n > 0 {
				sh = c.w.shards[c.rng.IntN(n)]
			}
			c.w.mu.Unlock()
		}
		if sh != nil {
			rctx, cancel := context.WithTimeout(ctx, time.Duration(200+c.rng.IntN(5000))*time.Millisecond)
			err = f(rctx, sh)
			cancel()
		}
		if err == nil || !retriable(err) || !sleep.For(ctx, 50*time.Millisecond) {
			break
		}
	}
	return err
}

// live makes transactions until ctx ends.
func (c *client) live(ctx context.Context) {
	c.is = nobody
	for ctx.Err() == nil {
		if c.is == nobody && !c.begin(ctx, nobody) {
			sleep.For(ctx, 100*time.Millisecond)
			continue
		}
		if !c.transaction(ctx) && ctx.Err() == nil {
			// What a client does after an error: it goes on with a higher epoch, or as a new one.
			if was := c.is; c.rng.IntN(3) > 0 || !c.begin(ctx, was) {
				c.is = nobody
			}
		}
		sleep.For(ctx, time.Duration(c.rng.IntN(50))*time.Millisecond)
	}
}

func (c *client) begin(ctx context.Context, who Producer) bool {
	err := c.ask(ctx, 20, func(ctx context.Context, sh *Shard) error {
		p, err := sh.InitProducerID(ctx, c.id, 2000, who)
		if err == nil {
			c.is = p
		}
		return err
	})
	if err != nil {
		return false
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if who == nobody {
		if c.w.handed[c.is]++; c.w.handed[c.is] > 1 {
			c.w.violate("%+v was given to two", c.is)
		}
		if f, _ := c.w.view.Load().FencedEpoch(c.is.ID); f < c.is.Epoch {
			c.w.violate("%+v was given out, and what was before is not fenced: %d", c.is, f)
		}
	}
	return true
}

// transaction makes one, and reports whether the producer may go on.
func (c *client) transaction(ctx context.Context) bool {
	tag := int(c.w.tags.Add(1))
	by, ok := c.is, true
	for range 1 + c.rng.IntN(4) {
		at := partPlace(1+c.rng.IntN(2), c.rng.Int32N(3))
		if c.rng.IntN(4) == 0 {
			at = groupPlace(c.rng.Int32N(2))
		}
		if ok = c.write(ctx, at, by, tag); !ok {
			break
		}
	}
	switch c.rng.IntN(12) {
	case 0: // it dies, and comes back as another
		return false
	case 1: // it takes too long
		sleep.For(ctx, 4*time.Second)
	}
	return c.end(ctx, by, tag, ok && c.rng.IntN(4) > 0)
}

func (c *client) write(ctx context.Context, at place, by Producer, tag int) bool {
	a := Add{ID: c.id, Producer: by}
	if at.groups {
		a.Groups = []int32{at.shard}
	} else {
		a.Partitions = []txns.Partition{at.part}
	}
	for try := range 4 {
		guard := c.w.guard(at, by.ID)
		err := c.ask(ctx, 10, func(ctx context.Context, sh *Shard) error { return sh.Add(ctx, a) })
		if err == nil && c.version < epochRaising {
			guard = c.w.guard(at, by.ID)
			err = c.ask(ctx, 10, func(ctx context.Context, sh *Shard) error {
				errs, err := sh.Verify(ctx, a)
				return errors.Join(append(errs, err)...)
			})
		}
		if err != nil {
			return false
		}
		if c.w.append(at, by, tag, guard) == nil {
			return true
		}
		if try > 0 {
			return false
		}
	}
	return false
}

func (c *client) end(ctx context.Context, by Producer, tag int, commit bool) bool {
	c.w.mu.Lock()
	c.w.outcomes[tag] = outcomeOf{asked: true, commit: commit}
	c.w.mu.Unlock()
	err := c.ask(ctx, 15, func(ctx context.Context, sh *Shard) error {
		p, err := sh.End(ctx, c.id, by, commit, c.version)
		if err == nil {
			c.is = p
		}
		return err
	})
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	switch {
	case err != nil:
		c.w.stats.unknown++
	case commit:
		c.w.stats.committed++
	default:
		c.w.stats.aborted++
	}
	if err == nil {
		c.w.outcomes[tag] = outcomeOf{asked: true, acked: true, commit: commit}
	}
	return err == nil
}

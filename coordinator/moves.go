package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/balance"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// move is a handover under way: of one place, between two brokers that live.
type move struct {
	place
	from, to int32
	epoch    int32
	at       substrate.Position // of its entry
}

const (
	// mostMoves is how many handovers are under way at once: each takes its partition away
	// for as long as all of them share the volume.
	mostMoves = 16
	// stuckTime is how long a partition whose move was given up stays where it is.
	stuckTime = time.Minute
)

func (c *controller) movesLocked() []move { return slices.Collect(maps.Values(c.mu.moves)) }

// settleMoves forgets the moves that are done or were overtaken, and returns how many
// more may be begun.
func (c *controller) settleMoves(view *projections.Cluster) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, m := range c.mu.moves {
		now, ok := led{place: at}.in(view)
		if !ok || now.Epoch != m.epoch || c.servedLocked(view, at, now, m.at) {
			delete(c.mu.moves, at)
		}
	}
	return mostMoves - len(c.mu.moves)
}

// move begins handovers: first from brokers that stop, then to make things even, which waits
// until every broker has been heard. Who has not is given nothing.
func (c *controller) move(view *projections.Cluster) error {
	room := c.settleMoves(view)
	stopping, silent := c.stopping(), c.silent(view)
	c.mu.Lock()
	uneven := c.mu.uneven
	level := uneven != c.mu.even && !slices.ContainsFunc(silent, view.Alive)
	c.mu.Unlock()
	if room <= 0 || !level && len(stopping) == 0 || !c.assembled(view) {
		return nil
	}
	live := living(view, slices.Concat(stopping, silent)...)
	if len(live) == 0 {
		return nil
	}
	var wanted []led
	var to []int32
	done := level
	for _, p := range pools(view, stopping...) {
		ms := balance.Assign(p.places, live)
		if len(ms) == 0 && level {
			ms = balance.Even(p.places, live, len(p.places))
		}
		for _, m := range ms {
			l := p.all[m.Place]
			if slices.Contains(silent, l.now.Leader) && !slices.Contains(stopping, l.now.Leader) {
				continue
			}
			if c.wasAsked(l) && !slices.Contains(stopping, l.now.Leader) {
				continue
			}
			done = false
			if b, ok := view.Broker(l.now.Leader); !ok || b.Fenced || c.busy(b, l) {
				continue
			}
			wanted, to = append(wanted, l), append(to, m.To)
		}
	}
	if done {
		c.mu.Lock()
		if time.Since(c.mu.passed) > passedTime { // or what came of it may not be in view yet
			c.mu.even = uneven
		}
		c.mu.Unlock()
	}
	if len(wanted) == 0 {
		return nil // what is busy is looked at again
	}
	n := min(room, len(wanted))
	_, err := c.hand(c.ctx, "leaders are moved", wanted[:n], to[:n])
	return err
}

// passedTime is how long a change that passes a broker over takes to be seen, at most. If it
// takes longer, who leads what is less even until the next that happens, and no more.
const passedTime = 5 * time.Second

// unsettle has who leads what made even again.
func (c *controller) unsettle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.uneven++
	clear(c.mu.asked)
}

// busy reports a place that is on its way, or was, in vain, a moment ago, or that its
// leader does not serve and so could not hand over.
func (c *controller) busy(b projections.Broker, l led) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, moving := c.mu.moves[l.place]
	if at, stuck := c.mu.stuck[l.place]; moving || stuck && time.Since(at) < stuckTime {
		return true
	}
	p := c.peerOf(b)
	if p == nil || !p.spoken {
		return true
	}
	_, unserved := p.unserved[l.place]
	return unserved
}

// wasAsked reports a partition whose leader is where somebody has asked for.
func (c *controller) wasAsked(l led) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.asked[l.place]
}

// hand publishes handovers of what is still led as it was, to whom lives, and returns which
// of them.
func (c *controller) hand(ctx context.Context, reason string, what []led, to []int32) (done map[place]bool, err error) {
	var begun []move
	pos, err := c.b.publish(ctx, fmt.Sprintf("%s: %d", reason, len(what)), func(v *projections.Cluster) ([]metalog.Event, error) {
		begun = begun[:0]
		var fs []projections.Fact
		for i, l := range what {
			now, ok := l.in(v)
			if !ok || now != l.now || !v.Alive(to[i]) {
				continue
			}
			fs = append(fs, l.give(to[i], true))
			begun = append(begun, move{place: l.place, from: l.now.Leader, to: to[i], epoch: l.now.Epoch + 1})
		}
		return projections.NewEvents(fs...)
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	done = map[place]bool{}
	for _, m := range begun {
		m.at = pos
		c.mu.moves[m.place], done[m.place] = m, true
	}
	return done, nil
}

// in is what another view says of it.
func (l led) in(v *projections.Cluster) (projections.Partition, bool) {
	var ps []projections.Partition
	if l.kind != "" {
		ps = v.Shards(l.kind)
	} else if t := v.TopicByID(l.topic); t != nil {
		ps = t.Partitions
	}
	if l.index < 0 || int(l.index) >= len(ps) {
		return projections.Partition{}, false
	}
	return ps[l.index], true
}

// redrive gives a higher epoch to what its leader could not open or hold (rule 2). A
// handover that got no closing goes back to who led before.
func (c *controller) redrive(view *projections.Cluster) error {
	failed := map[place]unserved{}
	c.mu.Lock()
	for _, b := range view.Brokers() {
		p := c.peerOf(b)
		if p == nil || b.Fenced {
			continue
		}
		for at, u := range p.unserved {
			l := led{place: at}
			if now, ok := l.in(view); ok && u.next > 0 && now.Leader == b.ID && now.Epoch == u.epoch {
				failed[at] = u
			}
		}
	}
	c.mu.Unlock()
	if len(failed) == 0 {
		return nil
	}
	again := slices.SortedFunc(maps.Keys(failed), place.compare)
	reason := fmt.Sprintf("opened anew: %d", len(failed))
	_, err := c.b.publish(c.ctx, reason, func(v *projections.Cluster) ([]metalog.Event, error) {
		var fs []projections.Fact
		for _, at := range again {
			u, l := failed[at], led{place: at}
			now, ok := l.in(v)
			if !ok || now.Epoch != u.epoch {
				continue
			}
			l.now = now
			leader, handover := now.Leader, false
			if now.Handover {
				leader, handover = c.giveBack(v, l)
			}
			fs = append(fs, l.giveAt(leader, nextEpoch(now.Epoch, u.next), handover))
		}
		return projections.NewEvents(fs...)
	})
	return err
}

// maxEpochLeap bounds how far one failed claim takes an epoch, whatever a broker says that it
// has found: who claims an epoch makes every one that is missing below it, and above 31 bits
// there is none.
const maxEpochLeap = 64

// nextEpoch follows an epoch, and is what its leader has found free if that is not far off.
// What is farther is reached in several steps.
func nextEpoch(now, free int32) int32 {
	return now + min(max(1, free-now), maxEpochLeap)
}

// giveBack is who gets a partition whose handover has failed: who led it, if that one
// lives and stays, and it is tried again later; otherwise the same once more.
func (c *controller) giveBack(v *projections.Cluster, l led) (leader int32, handover bool) {
	stays := living(v, c.stopping()...)
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.mu.moves[l.place]
	if !ok || !slices.Contains(stays, m.from) {
		return l.now.Leader, true
	}
	delete(c.mu.moves, l.place)
	c.mu.stuck[l.place] = time.Now()
	return m.from, true
}

// LeaderMove is a partition that is to have another leader, or that is on its way.
type LeaderMove struct {
	TopicID   projections.TopicID
	Partition int32
	From, To  int32 // From is told, never asked for
}

// MoveLeaders has partitions handed over and returns when that is published, with an
// error for each move, in order, nil where it is published or nothing is to be done.
// Errors wrap kerr.UnknownTopicOrPartition, InvalidReplicaAssignment where the broker is
// not alive, NotController, KafkaStorageError and, with ctx, RequestTimedOut.
func (b *Broker) MoveLeaders(ctx context.Context, moves []LeaderMove) []error {
	errs := make([]error, len(moves))
	left := make([]int, len(moves)) // those that are not published yet
	for i := range left {
		left[i] = i
	}
	for p := (pace{}); ; {
		if left = b.moveSome(ctx, moves, left, errs); len(left) == 0 {
			return errs
		}
		if !p.wait(ctx) {
			for _, i := range left {
				errs[i] = clientError(ctx.Err())
			}
			return errs
		}
	}
}

// moveSome publishes moves by their indexes and returns those that the view has overtaken,
// which are to be looked at once more.
func (b *Broker) moveSome(ctx context.Context, moves []LeaderMove, which []int, errs []error) (again []int) {
	c, view := b.ctl.Load(), b.View()
	var what []led
	var to []int32
	var asked []int
	for _, i := range which {
		m := moves[i]
		l := led{place: place{topic: m.TopicID, index: m.Partition}}
		now, ok := l.in(view)
		l.now = now
		switch {
		case c == nil:
			errs[i] = errNotController
		case !ok:
			errs[i] = fmt.Errorf("%w: %s/%d", kerr.UnknownTopicOrPartition, m.TopicID, m.Partition)
		case !view.Alive(m.To):
			errs[i] = fmt.Errorf("%w: broker %d is not alive", kerr.InvalidReplicaAssignment, m.To)
		default:
			c.mu.Lock()
			c.mu.asked[l.place] = true
			c.mu.Unlock()
			if now.Leader != m.To {
				what, to, asked = append(what, l), append(to, m.To), append(asked, i)
			}
		}
	}
	if len(what) == 0 {
		return nil
	}
	var done map[place]bool
	err := b.await(ctx, "move leaders", func() (err error) {
		done, err = c.hand(b.run, "leaders are moved as asked", what, to)
		return err
	})
	for k, i := range asked {
		switch {
		case err != nil:
			errs[i] = err
		case !done[what[k].place]:
			again = append(again, i)
		}
	}
	return again
}

// Moving are the handovers under way; nobody but the controller knows of any.
func (b *Broker) Moving() (out []LeaderMove) {
	c := b.ctl.Load()
	if c == nil {
		return nil
	}
	c.settleMoves(b.View())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.movesLocked() {
		if m.kind != "" {
			continue // no client knows of shards
		}
		out = append(out, LeaderMove{TopicID: m.topic, Partition: m.index, From: m.from, To: m.to})
	}
	return out
}

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// campaign stands for controller until the broker leaves. To win only means to try and
// claim the cluster stream; what is safe rests on that claim alone.
func (b *Broker) campaign() {
	err := b.opt.elect(b.run, election.Config{
		Lock: b.opt.Lock, LeaseDuration: b.opt.LeaseDuration, RenewDeadline: b.opt.RenewDeadline, RetryPeriod: b.opt.LeaseRetry,
		Healthy: b.volumeAnswers, Gone: b.controllerGone, Lead: b.serveTerm, Log: b.log,
	})
	if err != nil && b.run.Err() == nil {
		b.end(fmt.Errorf("election: %w", err))
	}
}

// serveTerm is one term as controller: it ends with ctx, when the stream is another's, or
// when this process is replaced.
func (b *Broker) serveTerm(ctx context.Context) {
	l, before, err := b.beginInTime(ctx)
	if err == nil {
		c := newController(ctx, b, before)
		b.ctl.Store(c)
		b.setLead(l)
		b.show(l.w.Committed())
		err = c.run(l)
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errReplaced):
		b.end(b.fencedBy(err))
	case errors.Is(err, substrate.ErrFenced), errors.Is(err, errDeposed):
		b.log.Info("another controller has taken over", "err", err)
	default:
		b.log.Warn("term as controller has ended", "err", err)
		b.failStart(err)
	}
}

// beginInTime is beginTerm, which may take BeginWait, and twice as long each time that it
// was not enough. One call of this host that hangs, while those of the election pass, is
// not to keep the cluster without a controller: whoever is elected next may do better. What
// comes late is given up.
func (b *Broker) beginInTime(ctx context.Context) (*lead, *projections.Cluster, error) {
	type begun struct {
		l      *lead
		before *projections.Cluster
	}
	begin, cancel := context.WithTimeout(ctx, b.beginWait)
	defer cancel()
	t, err := substrate.Beside(begin, func(f func()) { b.spawn(f) }, func() (t begun, err error) {
		t.l, t.before, err = b.beginTerm(begin)
		return t, err
	}, func(t begun, err error) {
		if err == nil {
			end, cancel := context.WithTimeout(b.hard, settle)
			defer cancel()
			_ = t.l.w.Abandon(end)
		}
	})
	switch {
	case err == nil:
		b.beginWait = b.opt.BeginWait
	case begin.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("it could not begin within %v: %w", b.beginWait, err)
		b.beginWait *= 2
	}
	return t.l, t.before, err
}

// beginTerm claims the stream and registers this broker in it, if it is not. It returns
// the state before that, too.
func (b *Broker) beginTerm(ctx context.Context) (*lead, *projections.Cluster, error) {
	var s *substrate.Session
	var w *clusterWriter
	steps := []func() (err error){
		func() (err error) { s, err = b.openSession(substrate.RoleController); return err },
		func() (err error) { w, err = b.claimNext(ctx, s); return err },
	}
	for _, step := range steps {
		if err := b.withRoom(func() error { return attempts(ctx, step) }); err != nil {
			return nil, nil, err
		}
	}
	before := w.Committed().State
	err := b.withRoom(func() error {
		return attempts(ctx, func() error {
			_, err := w.Publish(ctx, fmt.Sprintf("broker %d is controller", b.opt.NodeID), b.takeOver)
			return err
		})
	})
	if err != nil {
		end, cancel := context.WithTimeout(b.hard, settle)
		defer cancel()
		return nil, nil, errors.Join(err, w.Abandon(end))
	}
	return newLead(s, w), before, nil
}

// takeOver makes this broker the controller, and registers it. Where it is the only one
// there is, it is given everything at once.
func (b *Broker) takeOver(c *projections.Cluster) ([]metalog.Event, error) {
	if err := b.replacedIn(c); err != nil {
		return nil, err
	}
	fs := []projections.Fact{&projections.ControllerChanged{Node: b.opt.NodeID, Incarnation: b.opt.Incarnation}}
	me, there := c.Broker(b.opt.NodeID)
	session := b.dataSession()
	if !there || me.Incarnation != b.opt.Incarnation || me.Session != session {
		me = b.registration(c.NextBrokerEpoch(), session)
		fs = append(fs, registered(me))
	}
	if me.Fenced && alone(c, me.ID) {
		fs = append(fs, &projections.BrokerUnfenced{ID: me.ID, Epoch: me.Epoch})
		fs = append(fs, b.shardFacts(c, []int32{me.ID})...)
		fs = append(fs, orphans(c, []int32{me.ID}, me.ID)...)
	}
	return projections.NewEvents(fs...)
}

// alone reports that no other broker has ever registered.
func alone(c *projections.Cluster, id int32) bool {
	for _, b := range c.Brokers() {
		if b.ID != id {
			return false
		}
	}
	return true
}

func (b *Broker) registration(epoch int64, session string) projections.Broker {
	return projections.Broker{ID: b.opt.NodeID, Epoch: epoch, Incarnation: b.opt.Incarnation, Session: session,
		Host: b.opt.Host, Listeners: b.opt.Listeners, Rack: b.opt.Rack, Fenced: true}
}

func registered(r projections.Broker) *projections.BrokerRegistered {
	return &projections.BrokerRegistered{ID: r.ID, Epoch: r.Epoch, Incarnation: r.Incarnation, Session: r.Session,
		Host: r.Host, Listeners: r.Listeners, Rack: r.Rack, Fenced: r.Fenced}
}

// shardFacts make the shards of the coordinators, once, and give them to live.
func (b *Broker) shardFacts(c *projections.Cluster, live []int32) (fs []projections.Fact) {
	for _, k := range []struct {
		kind projections.ShardKind
		n    int32
	}{{projections.ShardGroups, b.opt.GroupShards}, {projections.ShardTxns, b.opt.TxnShards}} {
		if n := len(c.Shards(k.kind)); n > 0 {
			if n != int(k.n) {
				b.log.Warn("the number of shards was fixed when they were made, and is not what is configured", "kind", k.kind, "made", n, "configured", k.n)
			}
			continue
		}
		fs = append(fs, &projections.ShardsMade{Kind: k.kind, Count: k.n})
		for i := range k.n {
			fs = append(fs, &projections.ShardOwnerChanged{Kind: k.kind, Shard: i, Owner: live[int(i)%len(live)], Epoch: 1})
		}
	}
	return fs
}

// run keeps the stream this process's while the term lasts, and does a controller's work.
func (c *controller) run(l *lead) error {
	defer c.end()
	c.spawn(c.work)
	c.spawn(c.b.sweepLeftovers)
	t := time.NewTicker(c.b.opt.CheckInterval)
	defer t.Stop()
	for {
		var err error
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-l.s.Fenced():
			return substrate.ErrFenced
		case <-l.w.Done():
			if err = l.w.Err(); errors.Is(err, substrate.ErrFenced) {
				return err
			}
			var next *lead
			if next, err = c.reclaim(l); err != nil {
				return err
			}
			l = next
			c.b.setLead(l)
			c.b.show(l.w.Committed())
		case <-t.C:
			if err = l.s.Check(c.ctx); errors.Is(err, substrate.ErrFenced) {
				return err
			}
		}
	}
}

// end gives the stream up: closed, where the broker leaves of its own will, so that the
// next controller need not seal; otherwise whoever comes seals.
func (c *controller) end() {
	b := c.b
	c.mu.Lock()
	c.mu.ended = true
	c.mu.Unlock()
	c.cancel()
	l := b.leading()
	b.setLead(nil)
	b.ctl.CompareAndSwap(c, nil)
	leaves := b.run.Err() != nil && b.Err() == nil && l.w.Err() == nil
	if !leaves { // before all that may take time: nothing is acknowledged from here on
		ctx, cancel := context.WithTimeout(b.hard, settle)
		_ = l.w.Abandon(ctx)
		cancel()
	}
	c.wg.Wait()
	ctx, cancel := context.WithTimeout(b.hard, settle)
	defer cancel()
	if leaves {
		if err := l.w.Close(ctx); err != nil && !errors.Is(err, metalog.ErrClosed) {
			b.log.Warn("cluster stream was left without a closed entry", "err", err)
		}
	}
	_ = l.s.Close(ctx)
}

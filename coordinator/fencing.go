package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// seal ends all that a broker led, on the volume. Nothing of that broker counts any more
// only after it has returned nil. Nothing but this Check keeps a controller from it that
// stood still, has a successor by now, and takes its own silence for that of all others.
func (c *controller) seal(b projections.Broker) error {
	l := c.b.leading()
	switch {
	case b.Session == "" || c.b.opt.breaks.noFenceSeal:
		return nil
	case l == nil:
		return errNotController
	}
	ctx, cancel := context.WithTimeout(c.ctx, settle)
	defer cancel()
	err := l.s.Check(ctx)
	if err == nil {
		_, err = substrate.Beside(ctx, func(f func()) { go f() }, func() (struct{}, error) { return struct{}{}, c.b.v.Seal(ctx, b.Session) }, nil)
	}
	if err != nil {
		return fmt.Errorf("session %s of broker %d is not sealed: %w", b.Session, b.ID, err)
	}
	return nil
}

// HeartbeatLost is told when the connection that carried a broker's last heartbeat has
// ended. It makes the broker a suspect: it is looked for at once, and has a second.
func (b *Broker) HeartbeatLost(id int32, epoch int64) {
	c := b.ctl.Load()
	if c == nil {
		return
	}
	c.mu.Lock()
	p := c.mu.peers[id]
	suspect := p != nil && p.epoch == epoch && p.lost.IsZero()
	if suspect {
		p.lost = time.Now()
	}
	c.mu.Unlock()
	if suspect {
		c.probe(id, epoch)
	}
}

// probeAll looks for the brokers that the view has alive, at the begin of a term: who
// died with the controller before is not to be waited for.
func (c *controller) probeAll() {
	for _, b := range c.b.View().Brokers() {
		if b.ID == c.b.opt.NodeID || b.Fenced {
			continue
		}
		c.mu.Lock()
		if c.peerOf(b) == nil {
			c.mu.peers[b.ID] = &peer{epoch: b.Epoch, heard: time.Now()}
		}
		c.mu.Unlock()
		c.probe(b.ID, b.Epoch)
	}
}

// probe asks a broker for anything. That nobody listens where it was is proof enough of
// its end; an answer, or none, proves nothing. An error that says less is no reason to
// stop asking: it may come from a connection that was kept from before.
func (c *controller) probe(id int32, epoch int64) {
	b, ok := c.b.View().Broker(id)
	if !ok || b.Epoch != epoch {
		return
	}
	to, ok := b.Listener(c.b.opt.InterBroker)
	if !ok {
		return
	}
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, suspectTime)
		defer cancel()
		for {
			_, err := c.b.peers.Ask(ctx, to, kmsg.NewPtrApiVersionsRequest())
			if nobodyThere(err) {
				break
			}
			if err == nil || !sleep.For(ctx, probePause) {
				return
			}
		}
		c.mu.Lock()
		if p := c.peerOf(b); p != nil {
			p.gone = true
		}
		c.mu.Unlock()
		c.kick()
	})
}

const (
	// suspectTime is how long a broker has to be heard again after its connection ended.
	suspectTime = time.Second
	probePause  = 20 * time.Millisecond
)

// death is why a living broker is to be fenced, empty if it is not.
func (c *controller) death(view *projections.Cluster, b projections.Broker) string {
	c.mu.Lock()
	p := c.peerOf(b)
	if p == nil { // registered by an earlier controller, and never heard
		p = &peer{epoch: b.Epoch, heard: c.began}
		c.mu.peers[b.ID] = p
	}
	now, q := time.Now(), *p
	c.mu.Unlock()
	switch {
	case b.ID == c.b.opt.NodeID:
		return ""
	case q.asking:
		return ""
	case !q.wants.IsZero() && time.Duration(c.b.probed.Load()) > q.wants.Sub(c.b.began):
		// Where the volume stalls for this broker too, nobody could do better.
		return "it asks for it: the volume stalls for it, and not here"
	case q.stopping && !q.lost.IsZero() && (q.gone || now.Sub(q.lost) >= suspectTime):
		return "it has stopped"
	case q.gone && c.assembled(view):
		return "nothing listens where it was"
	case !q.lost.IsZero() && now.Sub(q.lost) >= suspectTime:
		return "its connection ended, and it was not heard again"
	case b.ID == c.before && !q.spoken && now.Sub(c.began) >= 2*suspectTime:
		return "it was controller, has lost its lease, and is not heard"
	case now.Sub(q.heard) >= c.b.opt.SessionTimeout:
		return "it was not heard for broker.session.timeout.ms"
	}
	return ""
}

// fenceTheDead has every broker fenced that is to be taken for dead. Each is its own work:
// what hangs is not to keep the others waiting.
func (c *controller) fenceTheDead(view *projections.Cluster) {
	for _, b := range view.Brokers() {
		if b.Fenced {
			continue
		}
		why := c.death(view, b)
		if why == "" {
			continue
		}
		c.mu.Lock()
		p := c.peerOf(b)
		p.asking = true
		c.mu.Unlock()
		c.spawn(func() {
			c.b.log.Warn("broker is fenced", "broker", b.ID, "epoch", b.Epoch, "why", why)
			err := c.fence(b, why)
			if err != nil && c.ctx.Err() == nil {
				c.b.log.Warn("broker is not fenced yet", "broker", b.ID, "err", err)
				sleep.For(c.ctx, lookEvery)
			}
			c.mu.Lock()
			p.asking = false
			c.mu.Unlock()
			if err == nil {
				c.kick()
			}
		})
	}
}

// fence seals a broker's session, so that nothing of it can be acknowledged any more, and
// gives what it led to others.
func (c *controller) fence(b projections.Broker, why string) error {
	if err := c.seal(b); err != nil {
		return err
	}
	c.mu.Lock()
	if p := c.peerOf(b); p != nil {
		p.sealed = b.Session != ""
	}
	c.mu.Unlock()
	_, err := c.b.publish(c.ctx, fmt.Sprintf("broker %d fenced: %s", b.ID, why), func(v *projections.Cluster) ([]metalog.Event, error) {
		now, ok := v.Broker(b.ID)
		if !ok || now.Epoch != b.Epoch || now.Fenced {
			return nil, nil
		}
		fs := []projections.Fact{&projections.BrokerFenced{ID: b.ID, Epoch: b.Epoch}}
		return projections.NewEvents(append(fs, orphans(v, c.eligible(v, b.ID), b.ID)...)...)
	})
	c.unsettle()
	return err
}

// eligible are the brokers that may be given something: those that live, do not stop and are
// not thought to have ended, or, if there are none, those that live.
func (c *controller) eligible(v *projections.Cluster, not ...int32) []int32 {
	stopping := c.stopping(not...)
	all := living(v, stopping...)
	if sure := living(v, slices.Concat(stopping, c.suspects(v))...); len(sure) > 0 {
		if len(sure) < len(all) {
			c.passedOver()
		}
		return sure
	}
	if len(all) > 0 {
		return all
	}
	return living(v, not...)
}

// passedOver notes that a living broker is not given its share of what is published next.
func (c *controller) passedOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.uneven++
	c.mu.passed = time.Now()
}

// suspects are the brokers that may have ended. Who was controller before has, often: its
// successor may begin a while before it is taken for dead.
func (c *controller) suspects(v *projections.Cluster) (ids []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range v.Brokers() {
		p := c.peerOf(b)
		if p != nil && (p.gone || !p.lost.IsZero()) || b.ID == c.before && b.ID != c.b.opt.NodeID && (p == nil || !p.spoken) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// silent are the brokers that live and were not heard in this term, and those that may have
// ended.
func (c *controller) silent(v *projections.Cluster) []int32 {
	ids := c.suspects(v)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range v.Brokers() {
		if p := c.peerOf(b); !b.Fenced && (p == nil || !p.spoken) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// unfence lets brokers serve that are registered and were heard since, and gives them, and
// everything that nobody leads, its share. Who was fenced in this term has a sealed session,
// under which it could serve nothing: it registers anew once it has found out.
func (c *controller) unfence(view *projections.Cluster) error {
	var ids []int32
	c.mu.Lock()
	for _, b := range view.Brokers() {
		if p := c.peerOf(b); b.Fenced && p != nil && p.spoken && !p.sealed && !p.gone && p.wants.IsZero() && !p.stopping && time.Since(p.heard) < c.b.opt.SessionTimeout && p.lost.IsZero() {
			ids = append(ids, b.ID)
		}
	}
	c.mu.Unlock()
	if len(ids) == 0 || !c.assembled(view) {
		return nil
	}
	_, err := c.b.publish(c.ctx, fmt.Sprintf("brokers %v serve", ids), func(v *projections.Cluster) ([]metalog.Event, error) {
		var fs []projections.Fact
		live := c.eligible(v)
		var back []int32
		for _, id := range ids {
			b, ok := v.Broker(id)
			if old, was := view.Broker(id); !ok || !was || b.Epoch != old.Epoch || !b.Fenced {
				continue
			}
			fs = append(fs, &projections.BrokerUnfenced{ID: id, Epoch: b.Epoch})
			back = append(back, id)
		}
		if len(back) == 0 {
			return nil, nil
		}
		live = append(live, back...)
		slices.Sort(live)
		live = slices.Compact(live)
		fs = append(fs, c.b.shardFacts(v, live)...)
		return projections.NewEvents(append(fs, orphans(v, live, back...)...)...)
	})
	c.unsettle()
	return err
}

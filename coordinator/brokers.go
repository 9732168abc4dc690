package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// RegisterBroker answers a BrokerRegistration. A newcomer with the ID of a broker that
// lives replaces it: that one's data session is sealed, and it ends when it reads so.
func (b *Broker) RegisterBroker(ctx context.Context, req *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.BrokerEpoch = -1
	c := b.ctl.Load()
	if c == nil {
		resp.ErrorCode = kerr.NotController.Code
		return resp
	}
	if req.ClusterID != b.v.ID {
		resp.ErrorCode = kerr.InconsistentClusterID.Code
		return resp
	}
	r := projections.Broker{ID: req.BrokerID, Incarnation: uuid.UUID(req.IncarnationID).String(), Fenced: true}
	if req.Rack != nil {
		r.Rack = *req.Rack
	}
	for _, l := range req.Listeners {
		r.Listeners = append(r.Listeners, projections.Listener{Name: l.Name, Host: l.Host, Port: int32(l.Port)})
		r.Host = l.Host
	}
	session, _ := tag(&req.UnknownTags, sessionTag)
	r.Session = string(session)
	epoch, err := c.register(ctx, r, req.PreviousBrokerEpoch)
	if err != nil {
		b.log.Warn("broker is not registered", "broker", r.ID, "err", err)
		resp.ErrorCode = codeOf(err)
		return resp
	}
	resp.BrokerEpoch = epoch
	return resp
}

// register registers a broker under the next epoch of its ID, or finds it registered. A
// process that was registered before, as previous, may have been replaced since: it has a
// new session because its old one was sealed for that.
func (c *controller) register(ctx context.Context, r projections.Broker, previous int64) (epoch int64, err error) {
	same := func(old projections.Broker) bool {
		return old.Incarnation == r.Incarnation && (r.Session == "" || old.Session == r.Session)
	}
	replaced := func(old projections.Broker) bool {
		return old.Incarnation != r.Incarnation && previous > 0 && old.Epoch > previous
	}
	if old, ok := c.b.View().Broker(r.ID); ok && !old.Fenced && !same(old) && !replaced(old) {
		if err := c.seal(old); err != nil {
			return 0, err
		}
	}
	reason := fmt.Sprintf("broker %d registered", r.ID)
	_, err = c.b.publish(ctx, reason, func(v *projections.Cluster) ([]metalog.Event, error) {
		old, ok := v.Broker(r.ID)
		if ok && same(old) {
			epoch = old.Epoch
			return nil, nil
		}
		if ok && replaced(old) {
			return nil, fmt.Errorf("%w: %w", kerr.DuplicateBrokerRegistration, errReplaced)
		}
		var fs []projections.Fact
		if ok && !old.Fenced {
			fs = append(fs, &projections.BrokerFenced{ID: old.ID, Epoch: old.Epoch})
			fs = append(fs, orphans(v, living(v, old.ID), old.ID)...)
		}
		epoch = v.NextBrokerEpoch()
		r.Epoch = epoch
		return projections.NewEvents(append(fs, registered(r))...)
	})
	return epoch, err
}

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

// BrokerHeartbeat answers a broker's heartbeat and takes up what it tells.
func (b *Broker) BrokerHeartbeat(_ context.Context, req *kmsg.BrokerHeartbeatRequest) *kmsg.BrokerHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	c := b.ctl.Load()
	if c == nil {
		resp.ErrorCode = kerr.NotController.Code
		return resp
	}
	view, at := b.viewAt()
	r, ok := view.Broker(req.BrokerID)
	switch {
	case !ok:
		resp.ErrorCode = kerr.BrokerIDNotRegistered.Code
		return resp
	case r.Epoch != req.BrokerEpoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp
	}
	raw, _ := tag(&req.UnknownTags, unservedTag)
	us, err := parseUnserved(raw)
	if err != nil {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	followed, _ := TaggedPosition(&req.UnknownTags)
	c.hear(req, followed, us)
	resp.IsCaughtUp, resp.IsFenced = true, r.Fenced
	resp.ShouldShutdown = req.WantShutdown && c.mayStop(view, r)
	resp.UnknownTags.Set(PositionTag, AppendPosition(nil, at))
	return resp
}

// hear takes up a heartbeat.
func (c *controller) hear(req *kmsg.BrokerHeartbeatRequest, followed substrate.Position, us []unserved) {
	c.mu.Lock()
	p := c.mu.peers[req.BrokerID]
	if p == nil || p.epoch != req.BrokerEpoch {
		p = &peer{epoch: req.BrokerEpoch}
		c.mu.peers[req.BrokerID] = p
	}
	p.heard, p.spoken, p.lost, p.gone = time.Now(), true, time.Time{}, false
	p.followed, p.stopping = followed, p.stopping || req.WantShutdown
	switch {
	case !req.WantFence:
		p.wants = time.Time{}
	case p.wants.IsZero():
		p.wants = time.Now()
	}
	p.unserved, p.holds = make(map[place]unserved, len(us)), map[place]bool{}
	for _, u := range us {
		if u.next == stillHeld {
			p.holds[u.place] = true
		} else {
			p.unserved[u.place] = u
		}
	}
	c.tellLocked()
	c.mu.Unlock()
	c.kick()
}

// mayStop reports that a broker that stops serves nothing any more, or that nobody could
// take what it leads. What it leads and cannot serve, others are given when it is fenced.
func (c *controller) mayStop(view *projections.Cluster, r projections.Broker) bool {
	if r.Fenced || !c.others(view, r.ID) {
		return r.Fenced || c.assembled(view)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peerOf(r)
	for _, pool := range pools(view) {
		for i, l := range pool.places {
			if _, unserved := p.unserved[pool.all[i].place]; l.Leader == r.ID && (pool.all[i].kind != "" || !unserved) {
				return false
			}
		}
	}
	moving := slices.ContainsFunc(c.movesLocked(), func(m move) bool { return m.from == r.ID })
	return !moving
}

// others reports whether there are brokers, besides one and those that stop, that serve or
// are about to.
func (c *controller) others(view *projections.Cluster, than int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range view.Brokers() {
		if p := c.peerOf(b); b.ID != than && p != nil && p.spoken && !p.stopping && !p.gone && p.lost.IsZero() {
			return true
		}
	}
	return false
}

// stopping are the brokers that stop, and also.
func (c *controller) stopping(also ...int32) []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.mu.peers {
		if p.stopping {
			also = append(also, id)
		}
	}
	return also
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
			if err == nil || !sleep(ctx, probePause) {
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
	case !q.wants.IsZero() && c.b.probed.Load() > q.wants.UnixNano():
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
				sleep(c.ctx, lookEvery)
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

// eligible are the brokers that may be given something: those that live and do not stop,
// or, if there are none, those that live.
func (c *controller) eligible(v *projections.Cluster, not ...int32) []int32 {
	if ids := living(v, c.stopping(not...)...); len(ids) > 0 {
		return ids
	}
	return living(v, not...)
}

// unfence lets brokers serve that are registered and were heard since, and gives them, and
// everything that nobody leads, its share.
func (c *controller) unfence(view *projections.Cluster) error {
	var ids []int32
	c.mu.Lock()
	for _, b := range view.Brokers() {
		if p := c.peerOf(b); b.Fenced && p != nil && p.spoken && !p.gone && p.wants.IsZero() && !p.stopping && time.Since(p.heard) < c.b.opt.SessionTimeout && p.lost.IsZero() {
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

// UnregisterBroker forgets a broker that is fenced. Errors wrap kerr.BrokerIDNotRegistered,
// kerr.InvalidRequest where it serves, NotController and KafkaStorageError.
func (b *Broker) UnregisterBroker(ctx context.Context, id int32) error {
	return b.await(ctx, fmt.Sprintf("unregister broker %d", id), func() error {
		mine := false
		_, err := b.publish(b.run, fmt.Sprintf("broker %d unregistered", id), func(v *projections.Cluster) ([]metalog.Event, error) {
			r, ok := v.Broker(id)
			switch {
			case !ok && mine: // an earlier epoch of the stream had it published
				return nil, nil
			case !ok:
				return nil, fmt.Errorf("%w: %d", kerr.BrokerIDNotRegistered, id)
			case !r.Fenced:
				return nil, fmt.Errorf("%w: broker %d serves; stop it first", kerr.InvalidRequest, id)
			}
			mine = true
			return projections.NewEvents(&projections.BrokerUnregistered{ID: id, Epoch: r.Epoch})
		})
		return err
	})
}

// codeOf is the code of the Kafka error that err names.
func codeOf(err error) int16 {
	var k *kerr.Error
	if errors.As(clientError(err), &k) {
		return k.Code
	}
	return kerr.UnknownServerError.Code
}

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	if r.ID < 0 || !sealable(r.Session) {
		b.log.Warn("broker is not registered", "broker", r.ID, "err", fmt.Sprintf("its ID or its session %.80q cannot be one", r.Session))
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	epoch, err := c.register(ctx, r, req.PreviousBrokerEpoch)
	if err != nil {
		b.log.Warn("broker is not registered", "broker", r.ID, "err", err)
		resp.ErrorCode = codeOf(err)
		return resp
	}
	resp.BrokerEpoch = epoch
	return resp
}

// sealable reports whether a session's ID can name a directory of its own in sessions/. A
// registration whose session nobody can seal could never be fenced, and would keep what it
// is given for ever.
func sealable(session string) bool {
	return session != "" && session[0] != '.' && len(session) <= 64 && !strings.ContainsFunc(session, func(r rune) bool {
		return r == '/' || r <= ' ' || r > '~'
	})
}

// register registers a broker under the next epoch of its ID, or finds it registered. A
// process that was registered before, as previous, may have been replaced since: it has a
// new session because its old one was sealed for that.
func (c *controller) register(ctx context.Context, r projections.Broker, previous int64) (int64, error) {
	var epoch int64
	same := func(old projections.Broker) bool {
		return old.Incarnation == r.Incarnation && (r.Session == "" || old.Session == r.Session)
	}
	replaced := func(old projections.Broker) bool {
		return old.Incarnation != r.Incarnation && previous > 0 && old.Epoch > previous
	}
	sealed := ""
	if old, ok := c.b.View().Broker(r.ID); ok && !old.Fenced && !same(old) && !replaced(old) {
		if err := c.seal(old); err != nil {
			return 0, err
		}
		sealed = old.Session
	}
	decide := func(v *projections.Cluster) (projections.Broker, []projections.Fact, error) {
		old, ok := v.Broker(r.ID)
		var fs []projections.Fact
		switch {
		case ok && same(old):
			return old, nil, nil
		case ok && replaced(old):
			return old, nil, fmt.Errorf("%w: %w", kerr.DuplicateBrokerRegistration, errReplaced)
		case ok && !old.Fenced && old.Session != sealed:
			return old, nil, fmt.Errorf("%w: broker %d has registered anew meanwhile", kerr.DuplicateBrokerRegistration, r.ID)
		case ok && !old.Fenced:
			fs = append(fs, &projections.BrokerFenced{ID: old.ID, Epoch: old.Epoch})
			fs = append(fs, orphans(v, c.eligible(v, old.ID), old.ID)...)
		}
		now := r
		now.Epoch = v.NextBrokerEpoch()
		return now, append(fs, registered(now)), nil
	}
	// It may be decided still after ctx has ended; only who has its answer looks at epoch.
	err := c.b.await(ctx, fmt.Sprintf("register broker %d", r.ID), func() error {
		_, err := c.b.publish(c.ctx, fmt.Sprintf("broker %d registered", r.ID), func(v *projections.Cluster) ([]metalog.Event, error) {
			now, fs, err := decide(v)
			epoch = now.Epoch
			if err != nil {
				return nil, err
			}
			return projections.NewEvents(fs...)
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	return epoch, nil
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
	raw, _ = tag(&req.UnknownTags, fencesTag)
	fences, err := parseFences(raw)
	if err != nil {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	followed, _ := TaggedPosition(&req.UnknownTags)
	c.hear(req, followed, us, fences)
	resp.IsCaughtUp, resp.IsFenced = true, r.Fenced
	resp.ShouldShutdown = req.WantShutdown && c.mayStop(view, r)
	resp.UnknownTags.Set(PositionTag, AppendPosition(nil, at))
	return resp
}

// hear takes up a heartbeat.
func (c *controller) hear(req *kmsg.BrokerHeartbeatRequest, followed substrate.Position, us []unserved, fences map[int64]int16) {
	c.mu.Lock()
	p := c.mu.peers[req.BrokerID]
	if p == nil || p.epoch != req.BrokerEpoch {
		p = &peer{epoch: req.BrokerEpoch}
		c.mu.peers[req.BrokerID] = p
	}
	p.heard, p.spoken, p.lost, p.gone = time.Now(), true, time.Time{}, false
	p.fences = fences
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
			if _, unserved := p.unserved[pool.all[i].place]; l.Leader == r.ID && !unserved {
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

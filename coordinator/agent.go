package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// errReplaced means that another process has registered under this node ID.
var errReplaced = errors.New("another process serves under this node.id")

// report has the controller told soon what this broker serves and how far it follows.
func (b *Broker) report() {
	select {
	case b.reports <- struct{}{}:
	default:
	}
}

// agent speaks for this broker to whoever is controller, until the broker leaves.
func (b *Broker) agent() {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-b.run.Done():
			return
		case <-b.reports:
		case <-t.C:
		}
		t.Reset(b.speak(b.run))
	}
}

// between is the least time between two heartbeats, so that what comes together is told
// together.
const between = 5 * time.Millisecond

// speak registers or sends a heartbeat, and returns when to speak next at the latest.
func (b *Broker) speak(ctx context.Context) time.Duration {
	err := b.speakNow(ctx)
	switch {
	case err == nil:
		b.agentPace.reset()
		b.agentTold = false
		sleep.For(ctx, between)
		return b.opt.HeartbeatInterval
	case errors.Is(err, kerr.StaleBrokerEpoch), errors.Is(err, kerr.BrokerIDNotRegistered):
		b.hint() // the view is behind, or this broker has to register
	case ctx.Err() == nil:
		b.missedBy(err)
		b.hint()
	}
	b.agentPace.wait(ctx)
	return firstPause
}

func (b *Broker) speakNow(ctx context.Context) error {
	session := b.dataSession()
	if session == "" {
		return nil // one replaces another; setTenure reports
	}
	view, _ := b.viewAt()
	if b.replacedIn(view) != nil {
		return nil // show ends the broker
	}
	me, ok := view.Broker(b.opt.NodeID)
	if !ok || me.Incarnation != b.opt.Incarnation || me.Session != session {
		return b.register(ctx, session)
	}
	resp, err := b.beat(ctx, me.Epoch)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	if resp.ShouldShutdown {
		b.mayStop()
	}
	if at, ok := TaggedPosition(&resp.UnknownTags); ok {
		b.expect(at)
	}
	return nil
}

func (b *Broker) beat(ctx context.Context, epoch int64) (*kmsg.BrokerHeartbeatResponse, error) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch = b.opt.NodeID, epoch
	req.WantShutdown, req.WantFence = b.leaving.Load(), b.stalled.Load()
	req.UnknownTags.Set(PositionTag, AppendPosition(nil, b.Shown()))
	req.UnknownTags.Set(unservedTag, appendUnserved(nil, b.unservedNow()))
	if fences := b.fencesWanted(); len(fences) > 0 {
		req.UnknownTags.Set(fencesTag, fences)
	}
	if b.IsController() {
		return b.BrokerHeartbeat(ctx, req), nil
	}
	return ask[*kmsg.BrokerHeartbeatResponse](ctx, b, req)
}

func (b *Broker) register(ctx context.Context, session string) error {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.IncarnationID = b.opt.NodeID, b.v.ID, uuid.MustParse(b.opt.Incarnation)
	req.PreviousBrokerEpoch = -1
	if e := b.registered.Load(); e > 0 {
		req.PreviousBrokerEpoch = e
	}
	if b.opt.Rack != "" {
		req.Rack = &b.opt.Rack
	}
	for _, l := range b.opt.Listeners {
		req.Listeners = append(req.Listeners, kmsg.BrokerRegistrationRequestListener{Name: l.Name, Host: l.Host, Port: uint16(l.Port)})
	}
	req.UnknownTags.Set(sessionTag, []byte(session))
	var resp *kmsg.BrokerRegistrationResponse
	if b.IsController() {
		resp = b.RegisterBroker(ctx, req)
	} else {
		var err error
		if resp, err = ask[*kmsg.BrokerRegistrationResponse](ctx, b, req); err != nil {
			return err
		}
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	b.hint()
	return b.awaitEpoch(ctx, resp.BrokerEpoch)
}

// awaitEpoch waits a moment for the registration to be seen, so that it is not asked for
// twice.
func (b *Broker) awaitEpoch(ctx context.Context, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return b.awaitView(ctx, func() bool {
		me, ok := b.View().Broker(b.opt.NodeID)
		return ok && me.Epoch >= epoch
	})
}

// ask asks the controller that the view names, once.
func ask[R kmsg.Response](ctx context.Context, b *Broker, req kmsg.Request) (resp R, err error) {
	ctl, to, err := b.controllerAddress()
	if err != nil {
		return resp, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.opt.HeartbeatInterval)
	defer cancel()
	stop := b.whenAnother(ctl, cancel)
	defer stop()
	r, err := b.peers.Ask(ctx, to, req)
	b.noteController(ctl, err)
	if err != nil {
		return resp, err
	}
	resp, ok := r.(R)
	if !ok {
		return resp, fmt.Errorf("the controller answered %T to %T", r, req)
	}
	return resp, nil
}

// whenAnother calls do when the view names another controller than ctl, or a later life of
// its: who waits for an answer of the old one, whose address may lead nowhere by now, is not
// to wait on. It watches until stop is called, which waits for it.
func (b *Broker) whenAnother(ctl projections.Broker, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(b.run)
	var wg sync.WaitGroup
	wg.Go(func() {
		if b.awaitView(ctx, func() bool {
			now, ok := b.View().Broker(b.View().Controller())
			return ok && (now.ID != ctl.ID || now.Epoch != ctl.Epoch)
		}) == nil {
			do()
		}
	})
	return func() { cancel(); wg.Wait() }
}

func (b *Broker) controllerAddress() (projections.Broker, projections.Listener, error) {
	view := b.View()
	ctl, ok := view.Broker(view.Controller())
	switch {
	case !ok:
		return ctl, projections.Listener{}, fmt.Errorf("%w: none is known", errNotController)
	case ctl.ID == b.opt.NodeID && !b.IsController():
		return ctl, projections.Listener{}, fmt.Errorf("%w: this broker was it last", errNotController)
	}
	to, ok := ctl.Listener(b.opt.InterBroker)
	if !ok {
		return ctl, projections.Listener{}, fmt.Errorf("%w: controller %d has no listener %s", errNotController, ctl.ID, b.opt.InterBroker)
	}
	return ctl, to, nil
}

// ToController has the controller answer a request, and waits for one if there is none. As
// with Kafka's brokers, one whose connection ends under it is asked, or its successor, once
// more: what was done already is then told as such.
// Errors wrap kerr.NotController or, with ctx, kerr.RequestTimedOut.
func (b *Broker) ToController(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	var p pace
	for {
		if b.run.Err() != nil {
			return nil, clientError(b.whyEnded())
		}
		_, to, err := b.controllerAddress()
		if err == nil {
			var resp kmsg.Response
			if resp, err = b.peers.Ask(ctx, to, req); err == nil {
				return resp, nil
			}
		}
		b.hint()
		if !p.wait(ctx) {
			return nil, fmt.Errorf("%w: %w", kerr.RequestTimedOut, err)
		}
	}
}

// viewAt is the view and its position.
func (b *Broker) viewAt() (*projections.Cluster, substrate.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view.Load(), b.mu.shown
}

// dataSession is the ID of the current data session, empty while one replaces another.
func (b *Broker) dataSession() string {
	if t := b.data.Load(); t != nil {
		return t.s.ID()
	}
	return ""
}

// serves reports whether the view has this process serve: registered with the data session
// it has, and not fenced.
func (b *Broker) serves(c *projections.Cluster) bool {
	me, ok := c.Broker(b.opt.NodeID)
	return ok && !me.Fenced && me.Incarnation == b.opt.Incarnation && me.Session == b.dataSession()
}

// replacedIn is errReplaced if a view shows that another process has registered under
// this node ID since this one has.
func (b *Broker) replacedIn(c *projections.Cluster) error {
	me, ok := c.Broker(b.opt.NodeID)
	if !ok || me.Incarnation == b.opt.Incarnation {
		return nil
	}
	if since := b.registered.Load(); since == 0 || me.Epoch < since {
		return nil
	}
	return fmt.Errorf("%w, registered as epoch %d", errReplaced, me.Epoch)
}

func (b *Broker) fencedBy(err error) error {
	return fmt.Errorf("broker %d on %s: %w: %w", b.opt.NodeID, dirOf(b.v), substrate.ErrFenced, err)
}

// Retire asks for this broker's leave and returns when it leads nothing any more, or
// nobody could take it; or with ctx. It serves until then. [Broker.Stop] comes after.
func (b *Broker) Retire(ctx context.Context) error {
	if b.leaving.Swap(true) {
		return nil
	}
	b.report()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-b.freed:
			return nil
		case <-tick.C: // the next answer may let it go
			b.report()
		case <-b.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *Broker) mayStop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.freed:
	default:
		close(b.freed)
	}
}

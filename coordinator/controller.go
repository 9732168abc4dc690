package coordinator

import (
	"context"
	"sync"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// controller is one term of this process as the cluster's controller. What it knows of
// the brokers beyond the stream is theirs to tell, and is gone with the term.
type controller struct {
	b          *Broker
	ctx        context.Context // ends with the term
	cancel     context.CancelFunc
	began      time.Time
	before     int32         // the controller before this one
	fencesSeen time.Time     // when old fences were looked for
	wake       chan struct{} // something is to be looked at
	wg         sync.WaitGroup

	// mu is held for moments only, never while waiting or during I/O.
	mu struct {
		sync.Mutex
		peers    map[int32]*peer
		moves    map[place]move
		stuck    map[place]time.Time // when a move was given up
		asked    map[place]bool      // whose leader somebody has asked for, until brokers come or go
		uneven   int                 // counts what may have made who leads what uneven
		even     int                 // uneven when it was even last
		passed   time.Time           // when a living broker was not given its share last
		removing map[projections.TopicID]bool
		told     chan struct{} // closed when a broker has told something
		ended    bool
	}
}

// peer is what a registered broker has told in this term.
type peer struct {
	epoch    int64              // of its registration
	heard    time.Time          // when it was heard last, or was first looked for
	spoken   bool               // it was heard
	followed substrate.Position // up to where it follows
	unserved map[place]unserved // what it is to serve and does not
	holds    map[place]bool     // what it has not let go of
	fences   map[int64]int16    // producers that it wants fenced
	// lost is when the connection of its heartbeats ended, zero while it has one.
	lost     time.Time
	gone     bool      // nothing listens where it was
	asking   bool      // a probe or a fencing is under way
	wants    time.Time // since when it has asked to be fenced, zero if it does not
	stopping bool
	sealed   bool // its session is; what lives under it is to register anew
}

func newController(ctx context.Context, b *Broker, before *projections.Cluster) *controller {
	c := &controller{b: b, began: time.Now(), before: before.Controller(), wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.mu.peers = map[int32]*peer{}
	c.mu.moves = map[place]move{}
	c.mu.stuck = map[place]time.Time{}
	c.mu.asked = map[place]bool{}
	c.mu.removing = map[projections.TopicID]bool{}
	c.mu.told = make(chan struct{})
	c.mu.uneven = 1
	return c
}

// spawn runs f as the term's own goroutine, unless the term has ended.
func (c *controller) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spawnLocked(f)
}

func (c *controller) spawnLocked(f func()) {
	if !c.mu.ended {
		c.wg.Go(f)
	}
}

// kick has the controller look, if this process is it.
func (b *Broker) kick() {
	if c := b.ctl.Load(); c != nil {
		c.kick()
	}
}

func (c *controller) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// lookEvery is how often deadlines are looked at.
const lookEvery = 100 * time.Millisecond

// work drives the cluster to where it should be (rule 2): every look starts from the
// committed view and what the brokers have told, so nothing is lost with a look that
// failed.
func (c *controller) work() {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	var p pace
	c.probeAll()
	for {
		if err := c.look(); err != nil && c.ctx.Err() == nil {
			c.b.log.Warn("the cluster cannot be changed yet", "err", err)
			p.wait(c.ctx)
		} else {
			p.reset()
		}
		// A term that is over and does not know yet may find the same to do again and again.
		sleep.For(c.ctx, time.Millisecond)
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
		case <-t.C:
		}
	}
}

func (c *controller) look() error {
	view := c.b.View()
	c.fenceTheDead(view)
	c.removeDeleted(view)
	for _, step := range []func(*projections.Cluster) error{c.unfence, c.fenceProducers, c.expireFences, c.redrive, c.move} {
		if err := step(c.b.View()); err != nil {
			return err
		}
	}
	return nil
}

// assembled reports that leadership may be given away: a cluster that is started as a
// whole waits a little for its brokers, so that not the first of them claims everything
// only to hand it over again.
func (c *controller) assembled(view *projections.Cluster) bool {
	if time.Since(c.b.began) >= c.b.opt.StartGrace {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range view.Brokers() {
		if p := c.peerOf(b); p == nil || !p.spoken {
			return false
		}
	}
	return true
}

// tell wakes who waits for what brokers tell.
func (c *controller) tellLocked() {
	close(c.mu.told)
	c.mu.told = make(chan struct{})
}

// await waits until ok, which is asked after each word of a broker and each change of the
// view; it runs without the lock.
func (c *controller) await(ctx context.Context, ok func() bool) error {
	for {
		c.mu.Lock()
		told := c.mu.told
		c.mu.Unlock()
		c.b.mu.Lock()
		moved := c.b.mu.moved
		c.b.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-told:
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return errNotController
		}
	}
}

// peerOf is what broker b of the view has told under its registration, nil if nothing.
func (c *controller) peerOf(b projections.Broker) *peer {
	if p := c.mu.peers[b.ID]; p != nil && p.epoch == b.Epoch {
		return p
	}
	return nil
}

// awaitServed waits until what the view has of a topic, from an index on, is served by
// its leaders, or the topic is gone.
func (c *controller) awaitServed(ctx context.Context, id projections.TopicID, from int32, at substrate.Position) error {
	return c.await(ctx, func() bool {
		view := c.b.View()
		t := view.TopicByID(id)
		if t == nil {
			return true
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := int(from); i < len(t.Partitions); i++ {
			if !c.servedLocked(view, place{topic: id, index: int32(i)}, t.Partitions[i], at) {
				return false
			}
		}
		return true
	})
}

// servedLocked reports that the leader has seen the position and does not count the
// partition among what it does not serve.
func (c *controller) servedLocked(view *projections.Cluster, at place, now projections.Partition, pos substrate.Position) bool {
	b, ok := view.Broker(now.Leader)
	if !ok {
		return false
	}
	p := c.peerOf(b)
	if p == nil || p.followed.Less(pos) {
		return false
	}
	_, not := p.unserved[at]
	return !not
}

// awaitClosed waits until every living broker knows that a topic was deleted at a position,
// and has let go of its files. A broker that is fenced has nothing to say: its session was
// sealed before.
func (c *controller) awaitClosed(ctx context.Context, id projections.TopicID, at substrate.Position) error {
	return c.await(ctx, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, b := range c.b.View().Brokers() {
			if b.Fenced {
				continue
			}
			p := c.peerOf(b)
			if p == nil || p.followed.Less(at) {
				return false
			}
			for held := range p.holds {
				if held.topic == id {
					return false
				}
			}
		}
		return true
	})
}

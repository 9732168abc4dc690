package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/projections"
)

// leaseServer holds one record, as an API server holds a Lease.
type leaseServer struct {
	mu      sync.Mutex
	version int // 0: there is none
	record  rl.LeaderElectionRecord
}

// leaseClient is one broker's way to it, which a test may block.
type leaseClient struct {
	s       *leaseServer
	id      string
	seen    int
	blocked atomic.Bool
}

func (s *leaseServer) client(id string) *leaseClient { return &leaseClient{s: s, id: id} }

func (c *leaseClient) of(o *Options) { o.Lock = c }

func (c *leaseClient) call(ctx context.Context) error {
	if c.blocked.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c *leaseClient) Get(ctx context.Context) (*rl.LeaderElectionRecord, []byte, error) {
	if err := c.call(ctx); err != nil {
		return nil, nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.version == 0 {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "kaas")
	}
	c.seen = c.s.version
	r := c.s.record
	return &r, []byte{byte(c.seen), byte(c.seen >> 8), byte(c.seen >> 16)}, nil
}

func (c *leaseClient) put(ctx context.Context, r rl.LeaderElectionRecord, over int) error {
	if err := c.call(ctx); err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.version != over {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "kaas", errors.New("it has changed"))
	}
	c.s.version, c.s.record = c.s.version+1, r
	c.seen = c.s.version
	return nil
}

func (c *leaseClient) Create(ctx context.Context, r rl.LeaderElectionRecord) error {
	return c.put(ctx, r, 0)
}
func (c *leaseClient) Update(ctx context.Context, r rl.LeaderElectionRecord) error {
	return c.put(ctx, r, c.seen)
}
func (c *leaseClient) RecordEvent(string) {}
func (c *leaseClient) Identity() string   { return c.id }
func (c *leaseClient) Describe() string   { return "a test's lease" }

// lateChange has the controller a begin a change whose entry hangs on its way to the volume.
func lateChange(t *testing.T, a *member) (answer chan error, heal func()) {
	t.Helper()
	hung := make(chan struct{})
	first := sync.OnceFunc(func() { close(hung) })
	heal = a.hang(t, func(op, name string) bool {
		if op != "rename" || !strings.HasPrefix(name, a.stream+"/") {
			return false
		}
		first()
		return true
	})
	answer = make(chan error, 1)
	go func() {
		_, err := a.CreateTopic(ctx0(time.Minute), TopicSpec{Name: "late", Partitions: 3}, false)
		answer <- err
	}()
	<-hung
	return answer, heal
}

// K-02: the API server cannot be reached by the controller alone, and a change of it hangs
// for longer than the lease. Another is elected and changes things; the late entry is not
// acknowledged, and nobody ever sees it.
func TestLateEntryOfADeposedController(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		s := &leaseServer{}
		first := s.client("1")
		a := c.join(1, first.of)
		b := c.join(2, s.client("2").of)
		create(t, a.Broker, "a", 4)
		c.settled(a, b)
		answer, heal := lateChange(t, a)
		first.blocked.Store(true)
		eventually(t, "the other is controller", b.IsController)
		create(t, b.Broker, "next", 2)
		newest := b.Shown()
		select {
		case err := <-answer:
			if err == nil {
				t.Fatal("a change is done whose entry hangs")
			}
			answer <- err
		default:
		}
		heal()
		wantCode(t, "the late change", <-answer, kerr.NotController)
		first.blocked.Store(false)
		c.settled(a, b)
		if !b.IsController() || b.Shown().Less(newest) {
			t.Errorf("controller %v, shown %v, was %v", b.IsController(), b.Shown(), newest)
		}
		for _, m := range []*member{a, b} {
			if m.View().Topic("late") != nil || m.View().Topic("next") == nil {
				t.Errorf("broker %d shows the late entry, or not the one that counts", m.opt.NodeID)
			}
		}
	})
}

// K-02: nobody reaches the API server, and nobody takes the controller's place. From its
// renew deadline on nothing that it began is acknowledged all the same. When the server is
// back the same broker is controller again, and nothing has moved.
func TestLateEntryWithoutASuccessor(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		s := &leaseServer{}
		ways := []*leaseClient{s.client("1"), s.client("2")}
		a := c.join(1, ways[0].of)
		b := c.join(2, ways[1].of)
		topic := create(t, a.Broker, "a", 4)
		c.settled(a, b)
		before := places(a.View().TopicByID(topic.ID))
		answer, heal := lateChange(t, a)
		for _, w := range ways {
			w.blocked.Store(true)
		}
		eventually(t, "nobody is controller", func() bool { return !a.IsController() })
		heal()
		wantCode(t, "the late change", <-answer, kerr.NotController)
		for i := range int32(4) { // K-01: without a controller leaders lead
			if _, err := put(ctx(t, time.Minute), topic.ID, i, "x", a, b); err != nil {
				t.Errorf("partition %d: %v", i, err)
			}
		}
		if _, err := b.CreateTopic(ctx(t, 300*time.Millisecond), TopicSpec{Name: "none", Partitions: 1}, false); err == nil {
			t.Error("there is no controller, and a topic is made")
		}
		for _, w := range ways {
			w.blocked.Store(false)
		}
		eventually(t, "the same is controller again", a.IsController)
		c.settled(a, b)
		if b.IsController() || places(a.View().TopicByID(topic.ID)) != before {
			t.Errorf("the outage has moved something: %v, was %v", places(a.View().TopicByID(topic.ID)), before)
		}
	})
}

// A controller leaves, having handed over all that it led, and its address leads nowhere. The
// next one, before it takes it for dead, gives it nothing to make things even, and its own
// agent does not go on waiting for the old address.
func TestControllerThatLeftIsGivenNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		s := &leaseServer{}
		usual := func(o *Options) { o.HeartbeatInterval, o.SessionTimeout = 2*time.Second, 9*time.Second }
		a := c.join(1, s.client("1").of, usual)
		b, d := c.join(2, s.client("2").of, usual), c.join(3, s.client("3").of, usual)
		topic := create(t, a.Broker, "a", 12)
		c.settled(a, b, d)
		if !a.IsController() {
			t.Fatal("the first is not controller")
		}
		if err := a.Retire(ctx(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		stop(t, a.Broker)
		c.net.vanish(a.port)
		began := time.Now()
		given := false
		eventually(t, "it is fenced", func() bool {
			v := b.View()
			given = given || leaders(b.Broker)[1] > 0
			return !v.Alive(1)
		})
		if given {
			t.Error("who has left was given something")
		}
		c.settled(b, d)
		t.Logf("fenced and even after %v", time.Since(began))
		for i := range int32(12) {
			if _, err := put(ctx(t, time.Minute), topic.ID, i, "x", b, d); err != nil {
				t.Errorf("partition %d: %v", i, err)
			}
		}
	})
}

// places are the leaders of a topic of four partitions, with their epochs.
func places(t *projections.Topic) (out [4]projections.Partition) {
	copy(out[:], t.Partitions)
	return out
}

// K-01: the API server is away when a broker starts. With others that serve it is no more
// than late: it is let in when there is a controller again. What they lead is served.
func TestStartWithoutTheElection(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		s := &leaseServer{}
		ways := []*leaseClient{s.client("1"), s.client("2")}
		a := c.join(1, ways[0].of)
		topic := create(t, a.Broker, "a", 4)
		c.settled(a)
		for _, w := range ways {
			w.blocked.Store(true)
		}
		eventually(t, "nobody is controller", func() bool { return !a.IsController() })
		for i := range int32(4) {
			if _, err := put(ctx(t, time.Minute), topic.ID, i, "x", a); err != nil {
				t.Errorf("partition %d: %v", i, err)
			}
		}
		back := time.AfterFunc(time.Second, func() {
			for _, w := range ways {
				w.blocked.Store(false)
			}
		})
		defer back.Stop()
		c.settled(a, c.join(2, ways[1].of))
		if !a.IsController() {
			t.Error("the newcomer has become controller")
		}
	})
}

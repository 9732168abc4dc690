package coordinator

import (
	"context"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// member is one broker of a test's cluster.
type member struct {
	*Broker
	f    *faulty
	port int32
}

type cluster struct {
	t         *testing.T
	dir       string
	net       *network
	unwatched bool // its hosts see nothing happen on the volume
}

func newCluster(t *testing.T) *cluster { return &cluster{t: t, dir: t.TempDir(), net: &network{}} }

// inFakeTime runs f with a cluster on a real directory, in fake time: none goes by while
// anybody works or a call on the directory is under way, so that what is said of times holds on
// every machine, however busy. Nobody watches the directory, for a watch never ends.
func inFakeTime(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.unwatched = true
		f(t, c)
	})
}

// join starts a broker. Its port is its node ID and how often that ID was started.
func (c *cluster) join(id int32, change ...func(*Options)) *member {
	c.t.Helper()
	v, f := mount(c.t, c.dir)
	if c.unwatched {
		v.FS = distant{v.FS}
	}
	c.net.mu.Lock()
	c.net.ports++
	port := c.net.ports
	c.net.mu.Unlock()
	opt := options(c.t)
	opt.NodeID, opt.Peers, opt.StartGrace = id, c.net, 300*time.Millisecond
	opt.LeaseDuration, opt.RenewDeadline, opt.HeartbeatInterval = time.Second, 400*time.Millisecond, 200*time.Millisecond
	opt.Listeners = []projections.Listener{{Name: "PLAINTEXT", Host: "h", Port: port}}
	for _, f := range change {
		f(&opt)
	}
	c.net.listen(port)
	b := start(c.t, v, opt)
	c.net.add(port, b)
	return &member{b, f, port}
}

// kill ends a member as SIGKILL does.
func (c *cluster) kill(m *member) {
	kill(c.t, m.Broker, m.f)
	c.net.drop(m.port, m.opt.NodeID)
}

// leave stops a member as SIGTERM does.
func (c *cluster) leave(m *member) {
	c.t.Helper()
	if err := m.Retire(ctx(c.t, 20*time.Second)); err != nil {
		c.t.Fatalf("retire: %v", err)
	}
	stop(c.t, m.Broker)
	c.net.drop(m.port, m.opt.NodeID)
}

// leaders counts what each broker leads, as b's view has it.
func leaders(b *Broker) map[int32]int {
	n := map[int32]int{}
	for _, t := range b.View().Topics() {
		for _, p := range t.Partitions {
			n[p.Leader]++
		}
	}
	return n
}

func (c *cluster) settled(ms ...*member) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			for _, m := range ms {
				c.t.Logf("broker %d at %v: %v, %v", m.opt.NodeID, m.Shown(), m.NotReady(), leaders(m.Broker))
			}
		}
	}()
	eventually(c.t, "all is served, and even", func() bool {
		n := leaders(ms[0].Broker)
		low, high := 1<<30, 0
		for _, m := range ms {
			if m.NotReady() != nil || m.Shown() != ms[0].Shown() {
				return false
			}
			low, high = min(low, n[m.opt.NodeID]), max(high, n[m.opt.NodeID])
		}
		return high-low <= 1 && len(n) <= len(ms)
	})
}

// levelled waits until the controller has made even all that may have become uneven: until then
// it moves leaders by itself.
func (c *cluster) levelled(m *member) {
	c.t.Helper()
	eventually(c.t, "nothing is left to make even", func() bool {
		ctl := m.ctl.Load()
		if ctl == nil {
			return false
		}
		ctl.mu.Lock()
		defer ctl.mu.Unlock()
		return ctl.mu.even == ctl.mu.uneven
	})
}

// put writes a record to a partition, whoever leads it, until that is acknowledged.
func put(ctx context.Context, topic projections.TopicID, index int32, value string, ms ...*member) (int64, error) {
	for {
		for _, m := range ms {
			p, err := m.Partition(topic, index)
			if err != nil {
				continue
			}
			a, err := p.Append(ctx, batch(value))
			if err == nil {
				err = a.Wait(ctx)
			}
			if err == nil {
				return a.BaseOffset, nil
			}
		}
		if !sleep.For(ctx, time.Millisecond) {
			return -1, ctx.Err()
		}
	}
}

func TestLeadersAreSpreadAndFollowed(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b, d := c.join(1), c.join(2), c.join(3)
		topic := create(t, a.Broker, "a", 9)
		c.settled(a, b, d)
		for i := range int32(9) {
			serving := 0
			for _, m := range []*member{a, b, d} {
				if _, err := m.Partition(topic.ID, i); err == nil {
					serving++
				}
			}
			if serving != 1 { // Z-04
				t.Errorf("partition %d is served by %d brokers", i, serving)
			}
		}
		for _, m := range []*member{b, d} {
			if m.IsController() || m.View().Controller() != 1 {
				t.Errorf("broker %d: the controller is %d", m.opt.NodeID, m.View().Controller())
			}
			_, err := m.CreateTopic(ctx(t, time.Minute), TopicSpec{Name: "b", Partitions: 1}, false)
			wantCode(t, "create elsewhere", err, kerr.NotController)
			if _, _, err := m.AllocateProducerIDs(ctx(t, time.Minute)); err != nil {
				t.Errorf("producer IDs through %d: %v", m.opt.NodeID, err)
			}
		}
		for kind, n := range map[projections.ShardKind]int{projections.ShardGroups: 16, projections.ShardTxns: 16} {
			if len(a.View().Shards(kind)) != n {
				t.Errorf("%d shards of %s", len(a.View().Shards(kind)), kind)
			}
		}
	})
}

// A broker that joins is given its share by handover: nobody's session is sealed.
func TestJoiningBrokerGetsItsShare(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a := c.join(1)
		topic := create(t, a.Broker, "a", 30)
		session := a.dataSession()
		b := c.join(2)
		c.settled(a, b)
		d := c.join(3)
		c.settled(a, b, d)
		if a.dataSession() != session || a.data.Load().s.IsFenced() {
			t.Error("the session of the first was sealed")
		}
		for i := range int32(30) {
			if off, err := put(ctx(t, time.Minute), topic.ID, i, "x", a, b, d); err != nil || off != 0 {
				t.Errorf("partition %d: offset %d, %v", i, off, err)
			}
		}
		for _, kind := range []projections.ShardKind{projections.ShardGroups, projections.ShardTxns} {
			eventually(t, fmt.Sprintf("shards of %s are even", kind), func() bool {
				n := map[int32]int{}
				for _, s := range a.View().Shards(kind) {
					n[s.Leader]++
				}
				return len(n) == 3 && n[1] <= 6 && n[2] <= 6 && n[3] <= 6
			})
		}
	})
}

// Writers go on while brokers are killed, stopped and started again; each offset is
// acknowledged once, and nothing that was acknowledged is lost.
func TestNothingIsLostWhileBrokersComeAndGo(t *testing.T) {
	c := newCluster(t)
	const partitions = 6
	live := map[int32]*member{1: c.join(1), 2: c.join(2), 3: c.join(3)}
	var mu sync.Mutex
	members := func() (ms []*member) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range live {
			ms = append(ms, m)
		}
		return ms
	}
	topic := create(t, live[1].Broker, "a", partitions)
	quit, cancel := context.WithCancel(context.Background())
	defer cancel()
	var acked [partitions]map[int64]string
	var count atomic.Int64
	var wg sync.WaitGroup
	for i := range int32(partitions) {
		acked[i] = map[int64]string{}
		wg.Go(func() {
			for n := 0; quit.Err() == nil; n++ {
				value := fmt.Sprintf("%d-%d", i, n)
				off, err := put(quit, topic.ID, i, value, members()...)
				if err != nil {
					return
				}
				if was := acked[i][off]; was != "" {
					t.Errorf("offset %d of %d was acknowledged twice", off, i)
				}
				acked[i][off] = value
				count.Add(1)
			}
		})
	}
	step := func(what string) {
		n := count.Load()
		eventually(t, "writers go on after "+what, func() bool { return count.Load() > n+200 })
	}
	step("the start")
	swap := func(id int32, end func(*member)) {
		mu.Lock()
		m := live[id]
		delete(live, id)
		mu.Unlock()
		end(m)
		step("the end of " + strconv.Itoa(int(id)))
		m = c.join(id)
		mu.Lock()
		live[id] = m
		mu.Unlock()
		step("the return of " + strconv.Itoa(int(id)))
	}
	swap(2, c.kill)
	swap(1, c.kill) // the controller
	swap(3, c.leave)
	for _, m := range members() {
		if m.IsController() {
			swap(m.opt.NodeID, c.leave)
			break
		}
	}
	c.settled(members()...)
	cancel()
	wg.Wait()
	for i := range int32(partitions) {
		for _, m := range members() {
			p, err := m.Partition(topic.ID, i)
			if err != nil {
				continue
			}
			for off, value := range acked[i] {
				f, err := p.Read(ctx(t, time.Minute), off, 1, true)
				if err != nil || !contains(f.Records, value) {
					t.Fatalf("partition %d: %q, acknowledged at %d, is not there: %v", i, value, off, err)
				}
			}
		}
	}
	t.Logf("%d acknowledged", count.Load())
}

// A topic is deleted everywhere before that is answered, also where its leader has died.
func TestDeletionInACluster(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2)
		topic := create(t, a.Broker, "a", 8)
		if err := a.DeleteTopic(ctx(t, time.Minute), topic.ID); err != nil {
			t.Fatal(err)
		}
		for i := range int32(8) {
			for _, m := range []*member{a, b} {
				_, err := m.Partition(topic.ID, i)
				wantCode(t, "deleted partition", err, kerr.UnknownTopicID)
			}
		}
		eventually(t, "its files are gone", func() bool { return len(topicDirs(t, c.dir)) == 0 })
		topic = create(t, a.Broker, "a", 8)
		c.kill(b)
		if err := a.DeleteTopic(ctx(t, time.Minute), topic.ID); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its files are gone", func() bool { return len(topicDirs(t, c.dir)) == 0 })
	})
}

// A broker that is silent while it lives is fenced after the session timeout, and comes
// back by itself.
func TestSilentBrokerIsFencedAndComesBack(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		quick := func(o *Options) { o.SessionTimeout = time.Second }
		a, b := c.join(1, quick), c.join(2, quick)
		create(t, a.Broker, "a", 6)
		c.settled(a, b)
		session := b.dataSession()
		c.net.mu.Lock()
		c.net.silent = map[int32]bool{2: true}
		c.net.mu.Unlock()
		eventually(t, "it is fenced", func() bool { r, _ := a.View().Broker(2); return r.Fenced && leaders(a.Broker)[1] == 6 })
		c.net.mu.Lock()
		c.net.silent = nil
		c.net.mu.Unlock()
		c.settled(a, b)
		if b.dataSession() == session {
			t.Error("it goes on in a session that was sealed")
		}
		if b.Err() != nil {
			t.Error(b.Err())
		}
	})
}

// A process that another has replaced under its node ID, and that has not read so yet, asks
// to be registered with the session it has opened since: it may not replace the other back.
func TestReplacedProcessStaysReplaced(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a := c.join(1)
		register := func(incarnation uuid.UUID, previous int64, session string) *kmsg.BrokerRegistrationResponse {
			req := kmsg.NewPtrBrokerRegistrationRequest()
			req.BrokerID, req.ClusterID, req.IncarnationID, req.PreviousBrokerEpoch = 2, a.v.ID, incarnation, previous
			req.UnknownTags.Set(sessionTag, []byte(session))
			return a.RegisterBroker(ctx(t, time.Minute), req)
		}
		first, second := uuid.New(), uuid.New()
		one := register(first, -1, uuid.NewString())
		if again := register(first, one.BrokerEpoch, uuid.NewString()); again.ErrorCode != 0 || again.BrokerEpoch <= one.BrokerEpoch {
			t.Fatalf("another session of the same process: %+v", again)
		}
		two := register(second, -1, uuid.NewString())
		if late := register(first, one.BrokerEpoch, uuid.NewString()); late.ErrorCode != kerr.DuplicateBrokerRegistration.Code {
			t.Errorf("the process that was replaced: %+v", late)
		}
		if now, _ := a.View().Broker(2); now.Incarnation != second.String() || now.Epoch != two.BrokerEpoch {
			t.Errorf("registered is %+v, want incarnation %s in epoch %d", now, second, two.BrokerEpoch)
		}
	})
}

// What a stranger registers has to be something that can be fenced: a session that nobody
// can seal would keep what it is given for ever.
func TestRegistrationsThatCannotBeFenced(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a := c.join(1)
		for _, session := range []string{"", ".", "..", "../topics/x", "a/b", "x\x00y", strings.Repeat("s", 300)} {
			req := kmsg.NewPtrBrokerRegistrationRequest()
			req.BrokerID, req.ClusterID, req.IncarnationID, req.PreviousBrokerEpoch = 2, a.v.ID, uuid.New(), -1
			req.UnknownTags.Set(sessionTag, []byte(session))
			if resp := a.RegisterBroker(ctx(t, time.Minute), req); resp.ErrorCode != kerr.InvalidRequest.Code {
				t.Errorf("session %.20q: %+v", session, resp)
			}
		}
		for _, id := range []int32{-1, math.MinInt32} {
			req := kmsg.NewPtrBrokerRegistrationRequest()
			req.BrokerID, req.ClusterID, req.IncarnationID, req.PreviousBrokerEpoch = id, a.v.ID, uuid.New(), -1
			req.UnknownTags.Set(sessionTag, []byte(uuid.NewString()))
			if resp := a.RegisterBroker(ctx(t, time.Minute), req); resp.ErrorCode != kerr.InvalidRequest.Code {
				t.Errorf("broker %d: %+v", id, resp)
			}
		}
		if n := len(a.View().Brokers()); n != 1 {
			t.Errorf("%d brokers are registered", n)
		}
	})
}

// The epochs of a partition are not used up by a broker that claims to have found the last.
func TestEpochsAreNotUsedUp(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a := c.join(1)
		topic := create(t, a.Broker, "a", 1)
		c.settled(a)
		at := place{topic: topic.ID}
		r, _ := a.View().Broker(1)
		for _, next := range []int32{math.MaxInt32, math.MaxInt32 - 1, math.MinInt32} {
			now, _ := led{place: at}.in(a.View())
			req := kmsg.NewPtrBrokerHeartbeatRequest()
			req.BrokerID, req.BrokerEpoch = 1, r.Epoch
			req.UnknownTags.Set(unservedTag, appendUnserved(nil, []unserved{{place: at, epoch: now.Epoch, next: next}}))
			a.BrokerHeartbeat(ctx(t, time.Minute), req)
			if err := a.ctl.Load().redrive(a.View()); err != nil {
				t.Fatal(err)
			}
			if then, _ := (led{place: at}).in(a.View()); then.Epoch < now.Epoch || then.Epoch > now.Epoch+2*maxEpochLeap {
				t.Fatalf("next %d: epoch %d follows %d", next, then.Epoch, now.Epoch)
			}
			c.settled(a)
		}
	})
}

// Who died with the controller is found dead by the next one at once, also where the first
// word to it only shows that a connection from before has ended.
func TestDeadControllerIsNotWaitedFor(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		long := func(o *Options) { o.SessionTimeout = time.Hour }
		a, b, d := c.join(1, long), c.join(2, long), c.join(3, long)
		create(t, a.Broker, "a", 9)
		c.settled(a, b, d)
		c.kill(a)
		c.settled(b, d)
	})
}

// The replacing of HEAD hangs, as it does where the server has promised a host to tell it
// before, and that host stands still: changes go on, every broker learns of them from the
// controller, and what a dead broker led is led by others.
func TestHangingHeadHoldsNoFailoverUp(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b, d := c.join(1), c.join(2), c.join(3)
		create(t, a.Broker, "a", 9)
		c.settled(a, b, d)
		hang := make(chan struct{})
		heads := func(op, name string) error {
			if op == "rename" && path.Base(name) == substrate.HeadName {
				<-hang
			}
			return nil
		}
		for _, m := range []*member{a, b, d} {
			m.f.set(heads)
		}
		defer close(hang)
		create(t, a.Broker, "b", 9)
		c.kill(d)
		c.settled(a, b)
		create(t, a.Broker, "c", 9)
		c.settled(a, b)
	})
}

// Who is elected finds that a call on the stream hangs, while those of the election pass:
// another is let try.
func TestHangingBeginIsGivenUp(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		soon := func(o *Options) { o.BeginWait = time.Second }
		a, b, d := c.join(1, soon), c.join(2, soon), c.join(3, soon)
		create(t, a.Broker, "a", 9)
		c.settled(a, b, d)
		hang, hung := make(chan struct{}), make(chan struct{})
		first := sync.OnceFunc(func() { close(hung) })
		b.f.set(func(op, name string) error {
			if op == "rename" && strings.HasPrefix(name, b.stream+"/") {
				first()
				<-hang
			}
			return nil
		})
		d.f.set(func(op, name string) error { // so that b is elected first
			select {
			case <-hung:
				return nil
			default:
			}
			if op == "create" && strings.HasPrefix(name, "election/") {
				return syscall.EIO
			}
			return nil
		})
		c.kill(a)
		eventually(t, "another begins", func() bool { return d.IsController() })
		close(hang)
		c.settled(b, d)
	})
}

func TestUnregister(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2)
		c.settled(a, b)
		wantCode(t, "unregister a living broker", a.UnregisterBroker(ctx(t, time.Minute), 2), kerr.InvalidRequest)
		wantCode(t, "unregister a stranger", a.UnregisterBroker(ctx(t, time.Minute), 9), kerr.BrokerIDNotRegistered)
		c.leave(b)
		eventually(t, "it is fenced", func() bool { return !a.View().Alive(2) })
		if err := a.UnregisterBroker(ctx(t, time.Minute), 2); err != nil {
			t.Fatal(err)
		}
		if _, there := a.View().Broker(2); there {
			t.Error("it is still registered")
		}
		c.settled(a, c.join(2))
	})
}

// Leaders go where they are asked to, and stay there.
func TestMoveLeaders(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2)
		topic := create(t, a.Broker, "a", 4)
		c.settled(a, b)
		var moves []LeaderMove
		for i := range int32(4) {
			moves = append(moves, LeaderMove{TopicID: topic.ID, Partition: i, To: 2})
		}
		moves = append(moves, LeaderMove{TopicID: topic.ID, Partition: 0, To: 7}, LeaderMove{TopicID: topic.ID, Partition: 4, To: 2})
		errs := a.MoveLeaders(ctx(t, time.Minute), moves)
		for i, err := range errs[:4] {
			if err != nil {
				t.Errorf("move %d: %v", i, err)
			}
		}
		wantCode(t, "to nobody", errs[4], kerr.InvalidReplicaAssignment)
		wantCode(t, "of nothing", errs[5], kerr.UnknownTopicOrPartition)
		eventually(t, "they are there", func() bool { return leaders(b.Broker)[2] == 4 && b.NotReady() == nil && len(a.Moving()) == 0 })
	})
}

// Who sees that the controller's process has ended does not wait for its lease.
func TestControllersEndIsSeen(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		long := func(o *Options) {
			o.LeaseDuration, o.RenewDeadline, o.SessionTimeout = time.Minute, 30*time.Second, time.Minute
		}
		a, b, d := c.join(1, long), c.join(2, long), c.join(3, long)
		create(t, a.Broker, "a", 6)
		c.settled(a, b, d)
		began := time.Now()
		c.kill(a)
		eventually(t, "another is controller", func() bool { return b.IsController() || d.IsController() })
		c.settled(b, d)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A controller that stood still while another took over seals nobody when it wakes up
// and thinks that it has not heard of anybody for long (K-02).
func TestDeposedControllerSealsNobody(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2)
		create(t, a.Broker, "a", 2)
		c.settled(a, b)
		if !a.IsController() {
			a, b = b, a
		}
		ctl, l, session := a.ctl.Load(), a.leading(), b.data.Load().s
		if err := a.v.Seal(ctx(t, time.Minute), l.s.ID()); err != nil {
			t.Fatal(err)
		}
		other, _ := a.View().Broker(b.opt.NodeID)
		if err := ctl.fence(other, "a test says so"); err == nil {
			t.Error("a controller that was sealed has fenced a broker")
		}
		if err := session.Check(ctx(t, time.Minute)); err != nil {
			t.Errorf("the broker's session: %v", err)
		}
	})
}

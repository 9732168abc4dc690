package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// hang has the calls of a member that match wait until it returns what ends that.
func (m *member) hang(t *testing.T, match func(op, name string) bool) (heal func()) {
	done, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	m.f.set(func(op, name string) error {
		if match(op, name) {
			<-done.Done()
		}
		return nil
	})
	return func() { m.f.heal(); cancel() }
}

func writes(op, _ string) bool { return op == "write" || op == "datasync" || op == "create" }

// sealed reports whether a session has ended for good, as the volume has it.
func sealed(t *testing.T, m *member, session string) bool {
	t.Helper()
	open, err := m.v.Unsealed(session)
	if err != nil {
		t.Fatal(err)
	}
	return !open
}

// A leader that does not come to close what it hands over keeps it, and its session: the
// move is given up after handover.wait.ms.
func TestHandoverIsGivenUp(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		quick := func(o *Options) { o.HandoverWait = 300 * time.Millisecond }
		a, b := c.join(1, quick), c.join(2, quick)
		topic := create(t, a.Broker, "a", 2)
		c.settled(a, b)
		c.levelled(a)
		from, to, at, other := a, b, int32(0), int32(1)
		if a.View().Topic("a").Partitions[0].Leader == 2 {
			from, to = b, a
		}
		session, epoch := from.dataSession(), a.View().Topic("a").Partitions[at].Epoch
		stream := partition.ManifestStream(topic.ID, at)
		heal := from.hang(t, func(op, name string) bool {
			return strings.HasPrefix(name, stream) && (writes(op, name) || op == "rename")
		})
		moves := []LeaderMove{{TopicID: topic.ID, Partition: at, To: to.opt.NodeID}}
		if err := a.MoveLeaders(ctx(t, time.Minute), moves)[0]; err != nil {
			t.Fatal(err)
		}
		eventually(t, "it goes back", func() bool {
			now := a.View().Topic("a").Partitions[at]
			return now.Leader == from.opt.NodeID && now.Epoch >= epoch+2
		})
		if sealed(t, to, session) || from.data.Load().s.IsFenced() {
			t.Error("the session of a leader that lives was sealed")
		}
		if off, err := put(ctx(t, time.Minute), topic.ID, other, "x", a, b); err != nil || off != 0 {
			t.Errorf("the partition beside it: offset %d, %v", off, err)
		}
		heal()
		c.settled(a, b)
		if off, err := put(ctx(t, time.Minute), topic.ID, at, "x", from); err != nil || off != 0 {
			t.Errorf("who led before: offset %d, %v", off, err)
		}
		if from.dataSession() != session {
			t.Error("the session was replaced")
		}
	})
}

// A leader that cannot claim its epoch is given one above all that the stream shows, at
// once.
func TestFailedClaimIsDrivenInOneStep(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2)
		topic := create(t, a.Broker, "a", 1)
		c.settled(a, b)
		was := a.View().Topic("a").Partitions[0]
		stream := partition.ManifestStream(topic.ID, 0)
		s, err := a.v.OpenSession(substrate.Identity{Role: substrate.RoleData})
		if err != nil {
			t.Fatal(err)
		}
		top := substrate.Epoch(was.Epoch) + 7
		if _, err := s.Claim(ctx(t, time.Minute), stream, top); err != nil { // it seals the leader
			t.Fatal(err)
		}
		s.EndLead(stream, true)
		var seen []int32
		eventually(t, "it is served", func() bool {
			now := a.View().Topic("a").Partitions[0]
			if len(seen) == 0 || seen[len(seen)-1] != now.Epoch {
				seen = append(seen, now.Epoch)
			}
			return now.Epoch > int32(top) && a.NotReady() == nil && b.NotReady() == nil
		})
		if last := seen[len(seen)-1]; last != int32(top)+1 || len(seen) > 3 {
			t.Errorf("epochs %v; %d is the highest that the stream showed", seen, top)
		}
	})
}

// A cluster that starts as a whole waits for its brokers, so that nothing is given to the
// first and handed over again.
func TestStartGrace(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		patient := func(o *Options) { o.StartGrace = 20 * time.Second }
		live := []*member{c.join(1), c.join(2), c.join(3)}
		topic := create(t, live[0].Broker, "a", 9)
		c.settled(live...)
		before := live[0].View().TopicByID(topic.ID).Partitions
		for _, m := range live {
			c.kill(m)
		}
		a := c.join(1, patient)
		eventually(t, "it is controller", a.IsController)
		time.Sleep(5 * lookEvery)
		if got := a.View().TopicByID(topic.ID).Partitions; leaders(a.Broker)[1] != 3 {
			t.Fatalf("the first was given the others': %v", got)
		}
		b, d := c.join(2, patient), c.join(3, patient)
		c.settled(a, b, d)
		for i, now := range a.View().TopicByID(topic.ID).Partitions {
			if now.Handover || now.Epoch > before[i].Epoch+2 {
				t.Errorf("partition %d is %+v, after %+v", i, now, before[i])
			}
		}
	})
}

// Without the others a controller waits no longer than the grace.
func TestStartGraceEnds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2)
		topic := create(t, a.Broker, "a", 4)
		c.settled(a, b)
		c.kill(a)
		c.kill(b)
		a = c.join(1, func(o *Options) { o.StartGrace = time.Second })
		eventually(t, "it leads everything", func() bool { return leaders(a.Broker)[1] == 4 && a.NotReady() == nil })
		if d := time.Since(a.began); d < time.Second {
			t.Errorf("after %v", d)
		}
		if _, err := put(ctx(t, time.Minute), topic.ID, 3, "x", a); err != nil {
			t.Error(err)
		}
	})
}

// elections are won by who is told to.
type elections map[int32]chan struct{}

func (e elections) of(id int32) func(*Options) {
	won := make(chan struct{}, 1)
	e[id] = won
	return func(o *Options) {
		o.elect = func(ctx context.Context, cfg election.Config) error {
			for {
				select {
				case <-won:
					cfg.Lead(ctx)
				case <-ctx.Done():
					return nil
				}
			}
		}
	}
}

// A controller that another replaces in the middle of a change answers NOT_CONTROLLER,
// and the change is there as a whole or not at all.
func TestControllerIsFencedAmidAChange(t *testing.T) {
	for name, match := range map[string]func(stream string) func(op, name string) bool{
		"before the entry is in place": func(stream string) func(op, name string) bool {
			return func(op, name string) bool { return op == "rename" && strings.HasPrefix(name, stream) }
		},
		"before its Check": func(string) func(op, name string) bool {
			return func(op, name string) bool {
				return op == "rename" && strings.HasPrefix(name, substrate.SessionsDir)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *cluster) {
				e := elections{}
				first := e.of(1)
				e[1] <- struct{}{}
				a := c.join(1, first, func(o *Options) { o.CheckInterval = time.Minute })
				b := c.join(2, e.of(2))
				c.settled(a, b)
				heal := a.hang(t, match(a.stream))
				answer := make(chan error, 1)
				go func() {
					_, err := a.CreateTopic(ctx0(time.Minute), TopicSpec{Name: "half", Partitions: 5}, false)
					answer <- err
				}()
				eventually(t, "its directory is built", func() bool { return len(topicDirs(t, c.dir)) > 0 })
				time.Sleep(50 * time.Millisecond) // on to the call that hangs
				e[2] <- struct{}{}
				eventually(t, "the other is controller", b.IsController)
				heal()
				select {
				case err := <-answer:
					wantCode(t, "create", err, kerr.NotController)
				case <-time.After(10 * time.Second):
					t.Fatal("no answer")
				}
				c.settled(a, b)
				if got := b.View().Topic("half"); got != nil && len(got.Partitions) != 5 {
					t.Errorf("half a change: %+v", got)
				}
				topic := create(t, b.Broker, "next", 3)
				c.settled(a, b)
				if b.View().TopicByID(topic.ID) == nil || a.View().TopicByID(topic.ID) == nil {
					t.Error("a change after it is not there")
				}
				for _, there := range []*projections.Topic{b.View().Topic("half"), b.View().Topic("next")} {
					if there != nil {
						for i := range there.Partitions {
							if _, err := put(ctx(t, time.Minute), there.ID, int32(i), "x", a, b); err != nil {
								t.Errorf("%s-%d: %v", there.Name, i, err)
							}
						}
					}
				}
			})
		})
	}
}

// K-04, N-07: a volume that stalls for one host alone costs that one its leaders, and it
// comes back by itself.
func TestVolumeStallsForOne(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		quick := func(o *Options) { o.StallAfter = 500 * time.Millisecond }
		a, b := c.join(1, quick), c.join(2, quick)
		topic := create(t, a.Broker, "a", 6)
		c.settled(a, b)
		heal := b.hang(t, writes)
		eventually(t, "it is fenced", func() bool { return !a.View().Alive(2) && leaders(a.Broker)[1] == 6 })
		if err := b.NotReady(); err == nil {
			t.Error("it is ready while the volume stalls")
		}
		for i := range int32(6) {
			if _, err := put(ctx(t, time.Minute), topic.ID, i, "x", a); err != nil {
				t.Errorf("partition %d: %v", i, err)
			}
		}
		time.Sleep(5 * lookEvery)
		if a.View().Alive(2) {
			t.Error("it serves again while the volume stalls for it")
		}
		heal()
		c.settled(a, b)
		if err := errors.Join(a.Err(), b.Err()); err != nil {
			t.Error(err)
		}
		for i := range int32(6) {
			if off, err := put(ctx(t, time.Minute), topic.ID, i, "y", a, b); err != nil || off < 1 {
				t.Errorf("partition %d: offset %d, %v", i, off, err)
			}
		}
	})
}

// K-04: a volume that stalls for all costs nobody anything but the time: nobody is removed by
// its own probe, or by its own word.
func TestVolumeStallsForAll(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		quick := func(o *Options) { o.StallAfter = 500 * time.Millisecond }
		e := elections{} // as by a lock that is not on the volume
		first := e.of(1)
		e[1] <- struct{}{}
		a, b := c.join(1, quick, first), c.join(2, quick, e.of(2))
		create(t, a.Broker, "a", 6)
		c.settled(a, b)
		sessions := []string{a.dataSession(), b.dataSession()}
		var heals []func()
		for _, m := range []*member{a, b} {
			heals = append(heals, m.hang(t, writes))
		}
		eventually(t, "both notice", func() bool { return a.stalled.Load() && b.stalled.Load() })
		time.Sleep(time.Second)
		for i, session := range sessions {
			if r, _ := a.View().Broker(int32(i + 1)); r.Fenced || sealed(t, a, session) {
				t.Errorf("broker %d is fenced, or on its way there", i+1)
			}
		}
		for _, heal := range heals {
			heal()
		}
		c.settled(a, b)
		if got := []string{a.dataSession(), b.dataSession()}; got[0] != sessions[0] || got[1] != sessions[1] {
			t.Errorf("sessions %v, were %v", got, sessions)
		}
	})
}

// A broker that was fenced while it lives goes on telling until it finds out. It is not let
// serve under the session that was sealed: what it was given then would move twice.
func TestFencedIsNotLetBackUnderItsSession(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2, func(o *Options) { o.CheckInterval = 2 * time.Second })
		create(t, a.Broker, "a", 4)
		c.settled(a, b)
		was, _ := a.View().Broker(2)
		if err := a.ctl.Load().fence(was, "a test"); err != nil {
			t.Fatal(err)
		}
		back := false
		eventually(t, "it serves again", func() bool {
			now, ok := a.View().Broker(2)
			back = back || ok && now.Epoch == was.Epoch && !now.Fenced
			return ok && now.Epoch != was.Epoch && !now.Fenced
		})
		if back {
			t.Error("it was let serve under the sealed session")
		}
		c.settled(a, b)
	})
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/tools/kaas-check/checker"
	"kaas.dev/kaas/tools/kaas-check/history"
)

// TestOneCoordinator asks all brokers who coordinates each of many groups, and has each of
// them take in a member: one does, and it is the one that all name (CASES G-09). Then brokers
// are killed and stopped while all of them are asked, without pause, to commit and to tell
// what is committed: what any of them acknowledges, none forgets.
func TestOneCoordinator(t *testing.T) {
	need(t)
	c := startCluster(t, quickLoss...)
	c.create(topic, 1, nil)
	c.oneCoordinator("at first")
	d := startDouble(c)
	for _, loss := range []struct {
		name          string
		begin, finish func(*broker)
	}{
		{"kill -9", (*broker).kill, (*broker).start},
		{"SIGSTOP", (*broker).pause, (*broker).resume},
	} {
		for id := int32(1); id <= 3; id++ {
			before := d.acknowledged()
			loss.begin(c.broker(id))
			as := c.other(id)
			c.await("another coordinator of every group", func() bool {
				ids, _ := c.coordinators(as, d.groups...)
				for _, now := range ids {
					if now == id || now <= 0 {
						return false
					}
				}
				return len(ids) > 0
			})
			c.await("commits of every group meanwhile", func() bool { return d.eachBeyond(before) })
			loss.finish(c.broker(id))
			c.settled()
			t.Logf("%s of broker %d", loss.name, id)
		}
	}
	d.ended()
	c.oneCoordinator("in the end")
}

// oneCoordinator wants all brokers to name the same coordinators, at the addresses that
// metadata has, and nobody else to take in a member. It looks again where coordinators have
// changed meanwhile.
func (c *cluster) oneCoordinator(when string) {
	t := c.t
	t.Helper()
	var groups []string
	for i := range 200 {
		groups = append(groups, fmt.Sprintf("g-%d", i))
	}
	for range 5 {
		ids := c.sameCoordinators(when, groups)
		wrong := c.takers(groups, ids)
		if fmt.Sprint(c.sameCoordinators(when, groups)) != fmt.Sprint(ids) {
			continue
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", when, w)
		}
		has := map[int32]int{}
		for _, id := range ids {
			has[id]++
		}
		t.Logf("%s: coordinators by broker %v", when, has)
		if foreign == "" && len(has) != 3 { // others do not move back at once what they had to move
			t.Errorf("%s: not every broker coordinates a group: %v", when, has)
		}
		return
	}
	t.Errorf("%s: coordinators change all the time", when)
}

// sameCoordinators are those of groups, once all brokers name the same.
func (c *cluster) sameCoordinators(when string, groups []string) (ids []int32) {
	t := c.t
	t.Helper()
	c.await("every broker names the same coordinators", func() bool {
		var addrs []string
		ids, addrs = c.coordinators(1, groups...)
		for id := int32(2); id <= 3; id++ {
			if theirs, at := c.coordinators(id, groups...); ids == nil || fmt.Sprint(theirs, at) != fmt.Sprint(ids, addrs) {
				return false
			}
		}
		for i, id := range ids {
			if id < 1 || id > 3 || addrs[i] != c.broker(id).addr {
				t.Fatalf("%s: the coordinator of %s is %d at %s", when, groups[i], id, addrs[i])
			}
		}
		return true
	})
	return ids
}

// takers has every broker take in a member of every group, and tells where one does that is
// not the coordinator, or the coordinator does not.
func (c *cluster) takers(groups []string, ids []int32) (wrong []string) {
	c.t.Helper()
	for i, group := range groups {
		for id := int32(1); id <= 3; id++ {
			var code int16
			c.await(fmt.Sprintf("an answer to JoinGroup of %s at %d", group, id), func() bool {
				var err error
				code, err = c.joinCode(id, group)
				return err == nil && code != kerr.CoordinatorLoadInProgress.Code && code != kerr.CoordinatorNotAvailable.Code
			})
			want := kerr.NotCoordinator.Code
			if id == ids[i] {
				want = kerr.MemberIDRequired.Code
			}
			if code != want {
				wrong = append(wrong, fmt.Sprintf("broker %d answers JoinGroup of %s with %d, want %d; the coordinator is %d", id, group, code, want, ids[i]))
			}
		}
	}
	return wrong
}

// double has brokers commit for groups, whether they are to or not, and notes what they say.
type double struct {
	c      *cluster
	groups []string
	log    *history.Recorder
	part   int32
	stop   context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	acked  []int64 // the highest that was, by group
}

const doubleGroups = 24

func startDouble(c *cluster) *double {
	d := &double{c: c, log: history.NewRecorder(0, nil), acked: make([]int64, doubleGroups)}
	d.part = d.log.Part(history.Part{Topic: topic})
	var ctx context.Context
	ctx, d.stop = context.WithCancel(c.t.Context())
	for i := range doubleGroups {
		name := fmt.Sprintf("double-%d", i)
		d.groups = append(d.groups, name)
		id := d.log.Group(history.Group{Name: name})
		d.wg.Go(func() { d.commit(ctx, i, id) })
		for broker := int32(1); broker <= 3; broker++ {
			proc := d.log.ProcOf(id, fmt.Sprintf("broker %d", broker), history.Observer)
			d.wg.Go(func() {
				for wait(ctx, 100*time.Millisecond) {
					d.ask(i, broker, proc)
				}
			})
		}
	}
	return d
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// commit has one broker after the other commit ever higher offsets, each once.
func (d *double) commit(ctx context.Context, i int, group int32) {
	proc := d.log.ProcOf(group, "committer of "+d.groups[i], history.Member)
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	for n := int64(1); wait(ctx, 20*time.Millisecond); n++ {
		op := history.Op{Kind: history.Commit, Outcome: history.OK, Proc: proc, Part: d.part, Epoch: -1, Offset: n, Invoke: d.log.Now()}
		id := 1 + rng.Int32N(3)
		err := d.c.commitOffset(id, d.groups[i], topic, n, "")
		op.Complete = d.log.Now()
		if err != nil {
			op.Outcome, op.Text = history.Unknown, fmt.Sprintf("broker %d: %v", id, err)
			var dial *net.OpError
			if errors.Is(err, kerr.NotCoordinator) || errors.As(err, &dial) && dial.Op == "dial" {
				op.Outcome = history.Failed
			}
		}
		d.log.Add(op)
		if err == nil {
			d.mu.Lock()
			d.acked[i] = n
			d.mu.Unlock()
		}
	}
}

// ask has a broker tell what is committed. One that is not the coordinator refuses.
func (d *double) ask(i int, broker, proc int32) {
	invoke := d.log.Now()
	if got, _, err := d.c.fetchOffset(broker, d.groups[i], topic); err == nil {
		d.log.Observe(proc, d.part, history.Committed, got, -1, invoke)
	}
}

func (d *double) acknowledged() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]int64{}, d.acked...)
}

func (d *double) eachBeyond(before []int64) bool {
	for i, now := range d.acknowledged() {
		if now <= before[i] {
			return false
		}
	}
	return true
}

// ended stops asking and fails the test if anything was forgotten.
func (d *double) ended() {
	d.stop()
	d.wg.Wait()
	for i, group := range d.groups { // now that all is quiet
		proc := d.log.ProcOf(int32(i+1), "the coordinator in the end", history.Observer)
		d.ask(i, d.c.coordinator(1, group), proc)
	}
	h := d.log.History()
	count := map[string]int{}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Commit {
			count[op.Outcome.String()]++
		} else {
			count["told"] += int(op.Count)
		}
	}
	t := d.c.t
	t.Logf("commits and answers about them: %v", count)
	if count["ok"] < 200 || count["told"] < 200 {
		t.Error("too little has happened")
	}
	if rep := checker.Check(h); rep.Total() > 0 {
		var out strings.Builder
		rep.Print(&out, h)
		t.Error(out.String())
	}
}

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSessionsOutliveTheirCoordinator has groups of both protocols lose the broker that
// coordinates them, by its death, its end and its standing still. Their members go on with
// their sessions: the generation stays, nothing is taken from them or given to them, and
// they commit. A client that has asked a broker that stands still asks it again until the
// metadata has it no more, so it looks for that often, and has sessions that are long.
func TestSessionsOutliveTheirCoordinator(t *testing.T) {
	need(t)
	c := startCluster(t, append(quickLoss, "group.consumer.max.session.timeout.ms=120000", "group.consumer.session.timeout.ms=120000")...)
	c.create(topic, 6, nil)
	groups := []*pair{c.pair("classic"), c.pair("consumer", kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))}
	for _, g := range groups {
		c.await(g.name+": two members have all", g.settled)
	}
	for _, loss := range []struct {
		name          string
		begin, finish func(*broker)
	}{
		{"kill -9", (*broker).kill, (*broker).start},
		{"SIGTERM", (*broker).end, (*broker).start},
		{"SIGSTOP", (*broker).pause, (*broker).resume},
	} {
		for _, g := range groups {
			gone := c.coordinator(1, g.name)
			before := g.state()
			g.commits(c, 0) // so that the loss is of one that serves
			loss.begin(c.broker(gone))
			began := time.Now()
			as := c.other(gone)
			c.await(g.name+": another coordinator", func() bool {
				ids, _ := c.coordinators(as, g.name)
				return len(ids) == 1 && ids[0] > 0 && ids[0] != gone
			})
			g.commits(c, as)
			took := time.Since(began)
			g.beats(c)
			loss.finish(c.broker(gone))
			c.settled()
			g.commits(c, 1)
			if after := g.state(); after != before {
				t.Errorf("%s of the coordinator of %s:\nbefore %s\nafter  %s", loss.name, g.name, before, after)
			}
			t.Logf("%s of the coordinator of %s: a commit after %v", loss.name, g.name, took.Round(time.Millisecond))
		}
	}
}

// pair is the two members of a group, and what they were told.
type pair struct {
	t       *testing.T
	name    string
	members []*kgo.Client
	mu      sync.Mutex
	told    int             // how often anything was given or taken
	has     []map[int32]int // by member
	beaten  []int           // heartbeats that were answered, by member
	next    int64
}

func (c *cluster) pair(name string, opts ...kgo.Opt) *pair {
	g := &pair{t: c.t, name: name}
	for i := range 2 {
		g.has, g.beaten = append(g.has, map[int32]int{}), append(g.beaten, 0)
		change := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
			return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
				g.mu.Lock()
				defer g.mu.Unlock()
				if len(parts[topic]) > 0 {
					g.told++
				}
				for _, p := range parts[topic] {
					g.has[i][p] += by
				}
			}
		}
		cl := c.newClient(append([]kgo.Opt{
			kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(300 * time.Millisecond), kgo.RequestTimeoutOverhead(time.Second), kgo.MetadataMaxAge(time.Second), kgo.SessionTimeout(2 * time.Minute),
			kgo.OnPartitionsAssigned(change(1)), kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1)),
			kgo.WithLogger(&beats{g, i}),
		}, opts...)...)
		g.members = append(g.members, cl)
	}
	return g
}

// beats counts a member's heartbeats that are answered well: only the log tells of them.
type beats struct {
	g *pair
	i int
}

func (b *beats) Level() kgo.LogLevel { return kgo.LogLevelDebug }

func (b *beats) Log(_ kgo.LogLevel, msg string, about ...any) {
	if msg == "heartbeat complete" && about[len(about)-1] == nil {
		b.g.mu.Lock()
		defer b.g.mu.Unlock()
		b.g.beaten[b.i]++
	}
}

// settled is whether the members have three partitions each.
func (g *pair) settled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, has := range g.has {
		n := 0
		for _, times := range has {
			n += times
		}
		if n != 3 {
			return false
		}
	}
	return true
}

// state is all that a loss must not change.
func (g *pair) state() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := fmt.Sprintf("%d changes, the members have %v", g.told, g.has)
	for _, m := range g.members {
		id, generation := m.GroupMetadata()
		s += fmt.Sprintf(", %s in generation %d", id, generation)
	}
	return s
}

// beats waits until the heartbeats of every member have been answered again.
func (g *pair) beats(c *cluster) {
	g.mu.Lock()
	before := slices.Clone(g.beaten)
	g.mu.Unlock()
	c.awaitFor(90*time.Second, g.name+": heartbeats are answered", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.beaten[0] > before[0]+1 && g.beaten[1] > before[1]+1
	})
}

// commits has every member commit, and looks at a broker's word for that, unless that is 0.
func (g *pair) commits(c *cluster, as int32) {
	for _, m := range g.members {
		g.next++
		at := g.next
		c.awaitFor(90*time.Second, fmt.Sprintf("%s: the commit of %d", g.name, at), func() bool {
			var failed error
			m.CommitOffsetsSync(timeout(g.t, 30*time.Second), map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: at}}},
				func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
					failed = err
					if err == nil && resp.Topics[0].Partitions[0].ErrorCode != 0 {
						failed = fmt.Errorf("code %d", resp.Topics[0].Partitions[0].ErrorCode)
					}
				})
			return failed == nil
		})
		if as == 0 {
			continue
		}
		if got, _ := c.committed(as, g.name); got != at {
			g.t.Errorf("%s: committed is %d, want %d", g.name, got, at)
		}
	}
}

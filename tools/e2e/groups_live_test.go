package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/kaas-check/checker"
	"kaas.dev/kaas/tools/kaas-check/history"
	"kaas.dev/kaas/tools/kaas-check/traffic"
)

const (
	crowdMembers    = 8
	crowdPartitions = 64
	killEvery       = 10 * time.Second
	mostSettle      = 5 * time.Second // after the last change
	settlePatience  = 3 * time.Minute // on a machine that has other work
	mostTold        = 1 << 10         // of what a member said that does not settle
)

// What leaves a classic group while that rebalances is a member again when the broker comes
// back, until its session has ended; so sessions are shorter than a broker's life. Those of
// the other protocol are long: there nobody ends without a word, and this machine is busy.
const (
	classicSession  = 6 * time.Second
	consumerSession = 30 * time.Second
)

// TestGroupsOfAllMakes has groups of three makes of clients and of both protocols read
// one topic, side by side. Members join and leave by chance, and the broker is killed every
// ten seconds. Every record is processed by each group, no member begins behind what is
// committed, and a group settles soon after its last change.
func TestGroupsOfAllMakes(t *testing.T) {
	need(t, "gcc")
	cp := needJava(t)
	seed := time.Now().UnixNano() % 1e9
	if s := os.Getenv("KAAS_E2E_SEED"); s != "" {
		seed = number(s)
	}
	t.Logf("seed %d (KAAS_E2E_SEED)", seed)
	b := startBroker(t, append(traffic.SessionSets(consumerSession), "group.initial.rebalance.delay.ms=500")...)
	l := newLive(t, b, seed)
	for _, kind := range []crowdKind{
		franzMembers("franz-go-classic", false, kgo.CooperativeStickyBalancer()),
		franzMembers("franz-go-eager", false, kgo.RangeBalancer()),
		franzMembers("franz-go-consumer", true, kgo.StickyBalancer()),
		rdkafkaMembers(t, "librdkafka-classic", "classic"),
		rdkafkaMembers(t, "librdkafka-consumer", "consumer"),
		javaMembers(cp, "java-classic", "classic"),
		javaMembers(cp, "java-consumer", "consumer"),
	} {
		if only := os.Getenv("KAAS_E2E_KINDS"); only == "" || strings.Contains(only, kind.name) {
			l.add(kind)
		}
	}
	l.run()
}

// live is a broker, the groups that use it, and what is noted of them.
type live struct {
	t      *testing.T
	b      *broker
	env    *traffic.Env
	adm    *kadm.Client
	seed   int64
	crowds []*crowd
}

// crowd is one group.
type crowd struct {
	crowdKind
	l       *live
	env     *traffic.Env
	id      int32 // of the group, in the history
	parts   []int32
	rng     *rand.Rand
	members []groupMember
	joined  int
}

func newLive(t *testing.T, b *broker, seed int64) *live {
	topics := []traffic.Topic{{Name: "records", Partitions: crowdPartitions}}
	l := &live{t: t, b: b, seed: seed, env: &traffic.Env{
		Seeds: []string{b.addr}, Log: history.NewRecorder(seed, nil), Topics: topics, Rate: 500, Seed: seed, Session: classicSession,
	}}
	cl := newClient(t, b.addr)
	t.Cleanup(cl.Close)
	l.adm = kadm.NewClient(cl)
	if err := l.env.MakeTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *live) add(kind crowdKind) {
	session := time.Duration(0)
	if kind.owners {
		session = consumerSession
	}
	c := &crowd{crowdKind: kind, l: l, env: l.env, id: l.env.Group(kind.name, session)}
	for p := range int32(crowdPartitions) {
		c.parts = append(c.parts, l.env.Log.Part(history.Part{Topic: "records", Index: p}))
	}
	c.rng = rand.New(rand.NewPCG(uint64(l.seed), uint64(c.id)))
	l.crowds = append(l.crowds, c)
	l.t.Cleanup(c.leave)
}

func (l *live) run() {
	t := l.t
	watched, endWatch := context.WithCancel(t.Context())
	defer endWatch()
	var watchers sync.WaitGroup
	producer := l.env.Producer("producer")
	if err := producer.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, c := range l.crowds {
		watchers.Go(func() { c.watch(watched) })
	}
	l.each((*crowd).change, l.killing())
	l.t.Logf("changes took %v", time.Since(began).Round(time.Second))
	l.each((*crowd).fill, nil)
	for _, c := range l.crowds { // one after the other: a virtual machine that starts is in the way
		c.settle()
	}
	ctx, cancel := context.WithTimeout(t.Context(), settlePatience)
	defer cancel()
	producer.Stop(ctx)
	l.each(func(c *crowd) {
		if err := l.env.AwaitCommitted(ctx, c.id, c.name); err != nil {
			c.fail("%v", err)
		}
	}, nil)
	l.each((*crowd).leave, nil)
	endWatch()
	watchers.Wait()
	last, cancel := context.WithTimeout(t.Context(), settlePatience)
	defer cancel()
	if err := l.env.ReadFinally(last); err != nil {
		t.Error(err)
	}
	l.judge()
}

// each does something for every crowd at once, and has beside run until all is done.
func (l *live) each(do func(*crowd), beside func(done <-chan struct{})) {
	var crowds, others sync.WaitGroup
	done := make(chan struct{})
	if beside != nil {
		others.Go(func() { beside(done) })
	}
	for _, c := range l.crowds {
		crowds.Go(func() { do(c) })
	}
	crowds.Wait()
	close(done)
	others.Wait()
}

// killing kills the broker and starts it, again and again.
func (l *live) killing() func(done <-chan struct{}) {
	return func(done <-chan struct{}) {
		for n := 1; ; n++ {
			select {
			case <-done:
				l.t.Logf("the broker was killed %d times", n-1)
				if n == 1 {
					l.t.Error("nothing was interrupted")
				}
				return
			case <-time.After(killEvery):
				at := l.env.Log.Now()
				l.b.kill()
				l.b.start()
				l.env.Log.Add(history.Op{
					Kind: history.Fault, Outcome: history.OK, Part: -1, Epoch: -1, Offset: -1, Invoke: at, Complete: l.env.Log.Now(), Text: "kill -9 and start of the broker",
				})
			}
		}
	}
}

// change has members join and leave, by chance. It does not wait for one to have left until
// the end: that takes as long as the group cannot be heard.
func (c *crowd) change() {
	var leaving sync.WaitGroup
	defer leaving.Wait()
	for range crowdMembers {
		c.join()
	}
	for range c.changes {
		n := len(c.members)
		if n == 1 || n < crowdMembers && c.rng.IntN(2) == 0 {
			c.join()
		} else {
			i := c.rng.IntN(n)
			leaving.Go(c.members[i].Leave)
			c.members = append(c.members[:i], c.members[i+1:]...)
		}
		select {
		case <-time.After(time.Duration(c.rng.Int64N(int64(2 * c.every)))):
		case <-c.l.t.Context().Done():
			return
		}
	}
}

func (c *crowd) join() {
	c.joined++
	m, err := c.crowdKind.join(c, c.joined)
	if err != nil {
		c.fail("%v", err)
		return
	}
	c.members = append(c.members, m)
}

func (c *crowd) leave() {
	var wg sync.WaitGroup
	for _, m := range c.members {
		wg.Go(m.Leave)
	}
	wg.Wait()
	c.members = nil
}

func (c *crowd) fail(format string, a ...any) { c.l.t.Errorf("group "+c.name+": "+format, a...) }

// fill makes the group whole.
func (c *crowd) fill() {
	for len(c.members) < crowdMembers {
		c.join()
	}
	if _, wrong := c.whole(settlePatience); wrong != "" {
		c.fail("not settled after %v: %s\n%s", settlePatience, wrong, c.standing())
	}
}

// settle has one member leave and another join, and measures how long the group takes after
// each.
func (c *crowd) settle() {
	if _, wrong := c.whole(time.Second); wrong != "" {
		return // that was told
	}
	c.settles("a member left", func() {
		c.members[0].Leave()
		c.members = c.members[1:]
	})
	if !c.slow { // how long a virtual machine takes to start is not looked at
		c.settles("a member joined", c.join)
	}
}

// settles wants a group to settle soon after a change. A machine that does much else may
// spoil that once or twice.
func (c *crowd) settles(what string, change func()) {
	var took []time.Duration
	for range 3 {
		change()
		for len(c.members) > crowdMembers {
			c.members[0].Leave()
			c.members = c.members[1:]
		}
		last, wrong := c.whole(settlePatience)
		if wrong != "" {
			c.fail("not settled %v after %s: %s\n%s", settlePatience, what, wrong, c.standing())
			return
		}
		if took = append(took, last.Round(time.Millisecond)); last <= mostSettle || c.deaf {
			c.l.t.Logf("group %s: settled %v after %s", c.name, took, what)
			return
		}
	}
	c.fail("settled %v after %s, want %v", took, what, mostSettle)
}

// whole waits until the group has its members, and each partition one of them. It tells how
// long that took, or what is wrong in the end.
func (c *crowd) whole(most time.Duration) (took time.Duration, wrong string) {
	ctx, cancel := context.WithTimeout(c.l.t.Context(), most)
	defer cancel()
	began := time.Now()
	for {
		now := c.unsettled(ctx)
		if now == "" {
			return time.Since(began), ""
		}
		if wrong == "" || ctx.Err() == nil { // an answer that comes too late tells nothing
			wrong = now
		}
		select {
		case <-ctx.Done():
			return 0, wrong
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// unsettled is what the group lacks, as its coordinator tells it.
func (c *crowd) unsettled(ctx context.Context) string {
	state, members, owners, err := c.describe(ctx)
	switch {
	case err != nil:
		return err.Error()
	case state != "Stable":
		return "its state is " + state
	case members != len(c.members):
		return fmt.Sprintf("%d members, and there are %d", members, len(c.members))
	}
	for p := range int32(crowdPartitions) {
		if owners[p] != 1 {
			return fmt.Sprintf("partition %d has %d owners", p, owners[p])
		}
	}
	return ""
}

// standing is where each member stands, as the coordinator tells it and as it says itself.
func (c *crowd) standing() string {
	var out strings.Builder
	if c.next {
		ctx, cancel := context.WithTimeout(c.l.t.Context(), startTime)
		defer cancel()
		all, err := c.l.adm.DescribeConsumerGroups(ctx, c.name)
		g := all[c.name]
		fmt.Fprintf(&out, "%s in epoch %d, with a target for %d: %v, %v\n", g.State, g.Epoch, g.AssignmentEpoch, err, g.Err)
		for _, m := range g.Members {
			fmt.Fprintf(&out, "%s of %s is in epoch %d, has %v and is to have %v\n", m.MemberID, m.ClientHost, m.MemberEpoch, m.Assignment, m.TargetAssignment)
		}
	}
	for _, m := range c.members {
		if p, ok := m.(*memberProcess); ok {
			p.mu.Lock()
			fmt.Fprintf(&out, "%s has %v, and said:\n%s\n", p.name, slices.Sorted(maps.Keys(p.since)), tail(p.said.Bytes(), mostTold))
			p.mu.Unlock()
		}
	}
	return out.String()
}

// describe asks for the group's state, its members, and how many of them have a partition.
func (c *crowd) describe(ctx context.Context) (state string, members int, owners map[int32]int, err error) {
	owners = map[int32]int{}
	count := func(parts []int32) {
		for _, p := range parts {
			owners[p]++
		}
	}
	if c.next {
		all, err := c.l.adm.DescribeConsumerGroups(ctx, c.name)
		if err != nil {
			return "", 0, nil, err
		}
		g := all[c.name]
		for _, m := range g.Members {
			count(slices.Collect(maps.Keys(m.Assignment["records"])))
		}
		return g.State, len(g.Members), owners, g.Err
	}
	all, err := c.l.adm.DescribeGroups(ctx, c.name)
	if err != nil {
		return "", 0, nil, err
	}
	g := all[c.name]
	for _, m := range g.Members {
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range a.Topics {
				count(topic.Partitions)
			}
		}
	}
	return g.State, len(g.Members), owners, g.Err
}

// judge has the history checked, and fails the test with the stories of what was wrong.
func (l *live) judge() {
	h := l.env.Log.History()
	rep := checker.Check(h)
	did := map[int32]int64{}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Process {
			did[h.Procs[op.Proc].Group] += int64(op.Count)
		}
	}
	for _, c := range l.crowds {
		l.t.Logf("group %s: %d members in all, %d records processed", c.name, c.joined, did[c.id])
		if did[c.id] == 0 {
			c.fail("has processed nothing")
		}
	}
	if rep.Total() == 0 {
		return
	}
	var out strings.Builder
	rep.Print(&out, h)
	for _, v := range rep.Violations[1:min(len(rep.Violations), 12)] {
		fmt.Fprintln(&out)
		checker.Story(&out, h, v)
	}
	l.t.Errorf("%s", out.String())
}

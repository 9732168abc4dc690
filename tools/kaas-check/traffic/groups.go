package traffic

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

const (
	usualSession = 10 * time.Second
	heartbeat    = 500 * time.Millisecond
)

// session is after how long without a heartbeat a member may be taken for dead.
func (e *Env) session() time.Duration { return cmp.Or(e.Session, usualSession) }

// SessionSets are the settings of brokers that groups want: of a next-generation group the
// broker says how long its sessions are. 0 is as usual.
func SessionSets(session time.Duration) []string {
	session = cmp.Or(session, usualSession)
	return []string{
		fmt.Sprintf("group.consumer.min.session.timeout.ms=%d", session.Milliseconds()),
		fmt.Sprintf("group.consumer.session.timeout.ms=%d", session.Milliseconds()),
		fmt.Sprintf("group.consumer.min.heartbeat.interval.ms=%d", heartbeat.Milliseconds()),
		fmt.Sprintf("group.consumer.heartbeat.interval.ms=%d", heartbeat.Milliseconds()),
	}
}

// Group begins a consumer group of all topics in the history. Of one with a session, a
// partition has one owner at a time: the coordinator assigns it (KIP-848).
func (e *Env) Group(name string, session time.Duration) int32 {
	g := history.Group{Name: name, Session: int64(session)}
	for _, t := range e.Topics {
		g.Topics = append(g.Topics, t.Name)
	}
	return e.Log.Group(g)
}

const (
	mostMembers = 4
	changeEvery = 3 * time.Second // a member joins, leaves, or ends without a word
)

// group is a consumer group that reads all topics. Its members come and go, and an
// observer asks for what it has committed.
type group struct {
	env      *Env
	name     string
	balancer kgo.GroupBalancer
	next     bool // the next-generation protocol (KIP-848)
	id       int32
	rng      *rand.Rand
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	all      []*Member // that run; the changing goroutine's, then Stop's
	joined   int
}

func (g *group) Start() error {
	session := time.Duration(0)
	if g.next {
		session = g.env.session()
	}
	g.id = g.env.Group(g.name, session)
	g.rng = rand.New(rand.NewPCG(uint64(g.env.Seed), uint64(g.id)<<32))
	for range 2 {
		if err := g.join(); err != nil {
			return err
		}
	}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(context.Background())
	g.wg.Go(func() { _ = g.env.Watch(ctx, g.id, g.name) }) // a client was made before
	g.wg.Go(func() { g.change(ctx) })
	return nil
}

// change has a member join or end, every now and then.
func (g *group) change(ctx context.Context) {
	for sleep.For(ctx, changeEvery/2+time.Duration(g.rng.Int64N(int64(changeEvery)))) {
		n := len(g.all)
		switch what := g.rng.IntN(5); {
		case n < 2 || what < 2 && n < mostMembers:
			_ = g.join() // what can be wrong was wrong with the first
		default:
			i := g.rng.IntN(n)
			m := g.all[i]
			g.all = append(g.all[:i], g.all[i+1:]...)
			if what == 4 {
				m.Crash()
			} else {
				m.Leave()
			}
		}
	}
}

func (g *group) join() error {
	g.joined++
	m, err := g.env.Join(g.id, g.name, g.next, g.balancer, g.joined)
	if err == nil {
		g.all = append(g.all, m)
	}
	return err
}

// committed asks for all that a group has committed, notes it for a process, and reports
// whether the answer was whole.
func (e *Env) committed(ctx context.Context, cl *kgo.Client, group string, proc int32) (have map[int32]int64, whole bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true // else an acknowledged transaction's may still be to come
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	for _, t := range e.Topics {
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic = t.Name
		for p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, p)
		}
		rg.Topics = append(rg.Topics, rt)
	}
	req.Groups = append(req.Groups, rg)
	places, invoke := e.places(nil), e.Log.Now()
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 {
		return nil, false
	}
	have = map[int32]int64{}
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			if at, ok := find(places, t.Topic, p.Partition); ok && p.ErrorCode == 0 {
				e.Log.Observe(proc, at.part, history.Committed, p.Offset, -1, invoke)
				have[at.part] = p.Offset
			}
		}
	}
	return have, len(have) == len(places)
}

// AwaitCommitted waits until a group has committed the ends of all partitions, as they are
// now, or ctx ends.
func (e *Env) AwaitCommitted(ctx context.Context, id int32, group string) error {
	cl, err := e.raw()
	if err != nil {
		return err
	}
	defer cl.Close()
	proc := e.Log.ProcOf(id, "last observer of group "+group, history.Observer)
	_, ends, ok := e.bounds(ctx, cl, proc, e.places(nil), history.End)
	for ok {
		have, whole := e.committed(ctx, cl, group, proc)
		for part, end := range ends {
			whole = whole && (have[part] >= end || end == 0)
		}
		if whole {
			return nil
		}
		ok = sleep.For(ctx, 2*loosely)
	}
	return fmt.Errorf("group %s does not come to the end: %w", group, context.Cause(ctx))
}

// Stop lets the members come to the end and commit it, then has them leave.
func (g *group) Stop(ctx context.Context) {
	g.cancel()
	g.wg.Wait()
	_ = g.env.AwaitCommitted(ctx, g.id, g.name) // the checker finds it
	for _, m := range g.all {
		m.Leave()
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = g.env.AwaitCommitted(last, g.id, g.name) // nothing is lost with the last member
}

// Watch asks for what a group has committed until ctx ends.
func (e *Env) Watch(ctx context.Context, id int32, group string) error {
	cl, err := e.raw()
	if err != nil {
		return err
	}
	defer cl.Close()
	proc := e.Log.ProcOf(id, "observer of group "+group, history.Observer)
	for sleep.For(ctx, loosely) {
		e.committed(ctx, cl, group, proc)
	}
	return nil
}

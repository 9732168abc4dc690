package server

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// another is a backend that differs from the one below it in what a test sets.
type another struct {
	Backend
	view       func() *projections.Cluster
	partition  error // of every partition
	controller func() bool
	ask        func(context.Context, kmsg.Request) (kmsg.Response, error)
	lost       func(int32, int64)
	moving     []coordinator.LeaderMove
	awaited    func(substrate.Position)
	move       func([]coordinator.LeaderMove) []error
	alter      func(broker string) error
	shard      func(group string) (groupShard, error)
	shards     func() ([]groupShard, bool)
}

func (a *another) GroupShard(group string) (groupShard, error) {
	if a.shard == nil {
		return a.Backend.GroupShard(group)
	}
	return a.shard(group)
}

func (a *another) GroupShards() ([]groupShard, bool) {
	if a.shards == nil {
		return a.Backend.GroupShards()
	}
	return a.shards()
}

func (a *another) AlterBrokerConfigs(ctx context.Context, name string, edit coordinator.ConfigEdit, validateOnly bool) error {
	if a.alter == nil {
		return a.Backend.AlterBrokerConfigs(ctx, name, edit, validateOnly)
	}
	return a.alter(name)
}

func (a *another) View() *projections.Cluster {
	if a.view == nil {
		return a.Backend.View()
	}
	return a.view()
}

func (a *another) Partition(id projections.TopicID, index int32) (*partition.Partition, error) {
	if a.partition != nil {
		return nil, a.partition
	}
	return a.Backend.Partition(id, index)
}

func (a *another) IsController() bool { return a.controller == nil || a.controller() }

func (a *another) ToController(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return a.ask(ctx, req)
}

func (a *another) HeartbeatLost(id int32, epoch int64) { a.lost(id, epoch) }

func (a *another) Moving() []coordinator.LeaderMove { return a.moving }

func (a *another) AwaitShown(_ context.Context, pos substrate.Position) error {
	if a.awaited != nil {
		a.awaited(pos)
	}
	return nil
}

func (a *another) MoveLeaders(ctx context.Context, moves []coordinator.LeaderMove) []error {
	if a.move == nil {
		return a.Backend.MoveLeaders(ctx, moves)
	}
	return a.move(moves)
}

// serveAlso runs a second server on the backend, and returns its addresses.
func serveAlso(t testing.TB, b Backend, clusterID string, sets ...string) []string {
	t.Helper()
	_, addrs := serveWhole(t, b, clusterID, sets...)
	return addrs
}

func serveWhole(t testing.TB, b Backend, clusterID string, sets ...string) (s *Server, addrs []string) {
	t.Helper()
	cfg := testConfig(t, "unused", sets...)
	if cfg.Authorizer {
		cfg.identify = identified
	}
	var lns []net.Listener
	for range cfg.Listeners {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		lns, addrs = append(lns, ln), append(addrs, ln.Addr().String())
	}
	s = Start(cfg, clusterID, b, lns, newMetrics(), testLog(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Shutdown(ctx)
	})
	return s, addrs
}

// withFacts is the view after these.
func withFacts(t testing.TB, view *projections.Cluster, facts ...projections.Fact) *projections.Cluster {
	t.Helper()
	evs, err := projections.NewEvents(facts...)
	if err != nil {
		t.Fatal(err)
	}
	if view, err = projections.Apply(view, evs); err != nil {
		t.Fatal(err)
	}
	return view
}

// listening says that broker 0 is reached there.
func listening(addr string) projections.Fact {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	return &projections.BrokerRegistered{ID: 0, Epoch: 1 << 40, Listeners: []projections.Listener{{Name: "PLAINTEXT", Host: host, Port: int32(n)}}}
}

// follower is a server that is not the controller, before one that is. Its view lags: it
// moves only when it is waited for. Clients find nobody else in it.
type follower struct {
	another
	addr string
	mu   sync.Mutex
	seen *projections.Cluster
	pos  []substrate.Position // waited for
}

func startFollower(t testing.TB, n *Node, sets ...string) *follower {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	f := &follower{seen: n.broker.View()}
	f.another = another{Backend: broker{n.broker}, view: func() *projections.Cluster {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.seen
	}, controller: func() bool { return false }, ask: cl.Broker(0).Request, awaited: func(pos substrate.Position) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.seen, f.pos = withFacts(t, n.broker.View(), listening(f.addr)), append(f.pos, pos)
	}}
	f.addr = serveAlso(t, f, n.server.clusterID, sets...)[0]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = withFacts(t, f.seen, listening(f.addr))
	return f
}

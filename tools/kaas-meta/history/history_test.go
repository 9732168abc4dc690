package history_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	start  = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	orders = projections.TopicID{1, 2, 3}
)

// cluster is a cluster's stream on a volume of its own, with a clock that goes on by a minute
// an entry.
type cluster struct {
	dir string
	v   *substrate.Volume
	now time.Time
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir(), now: start}
	fs, err := substrate.OpenDir(c.dir)
	check(t, err)
	c.v, err = substrate.OpenVolume(fs, "test-cluster")
	check(t, err)
	check(t, c.v.EnsureDir("meta"))
	check(t, c.v.EnsureDir(c.v.MetaDir()))
	check(t, metalog.Ensure(c.v, c.path(), projections.ClusterSchema(), "cluster created", start))
	return c
}

func (c *cluster) path() string { return c.v.MetaDir() + "/cluster" }

// term is an ownership of the stream.
type term struct {
	t testing.TB
	c *cluster
	s *substrate.Session
	w *metalog.Writer[*projections.Cluster]
}

func (c *cluster) claim(t testing.TB, node int32, e substrate.Epoch) *term {
	t.Helper()
	s, err := c.v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: node})
	check(t, err)
	w, err := metalog.Claim(context.Background(), s, c.path(), e, projections.ClusterSchema(),
		metalog.Options{Node: node, Now: func() time.Time { c.now = c.now.Add(time.Minute); return c.now }})
	check(t, err)
	return &term{t, c, s, w}
}

func (x *term) publish(fs ...projections.Fact) {
	x.t.Helper()
	_, err := x.w.Publish(context.Background(), "test", func(*projections.Cluster) ([]metalog.Event, error) { return projections.NewEvents(fs...) })
	check(x.t, err)
}

func (x *term) abandon() {
	x.t.Helper()
	check(x.t, x.w.Abandon(context.Background()))
	check(x.t, x.s.Close(context.Background()))
}

// life is a cluster with a topic made in 1-2 and moved in 1-3 and 2-1, at minutes 1, 2, ….
func life(t testing.TB) *cluster {
	c := newCluster(t)
	one := c.claim(t, 1, 1)
	one.publish(&projections.BrokerRegistered{ID: 1, Epoch: 1})
	one.publish(&projections.TopicCreated{ID: orders, Name: "orders", Partitions: 2})
	one.publish(&projections.PartitionLeaderChanged{TopicID: orders, Partition: 1, Leader: 1, Epoch: 1})
	one.abandon()
	two := c.claim(t, 2, 2)
	two.publish(&projections.PartitionLeaderChanged{TopicID: orders, Partition: 1, Leader: 2, Epoch: 2})
	two.publish(&projections.ProducerFenced{ProducerID: 9, Epoch: 3, Time: 5})
	two.abandon()
	return c
}

func positions(t testing.TB, c *cluster, f history.Filter) (out []string) {
	t.Helper()
	for r, err := range history.Cluster(c.v).Records(context.Background(), f) {
		check(t, err)
		out = append(out, r.Position.String()+mark(r))
	}
	return out
}

func mark(r history.Record) string {
	switch {
	case r.Err != nil:
		return " unreadable"
	case r.Plug:
		return " plug"
	case r.Status != metalog.StatusCommitted:
		return " " + string(r.Status)
	}
	return ""
}

func TestRecords(t *testing.T) {
	c := life(t)
	one, two, nine := int32(1), int32(2), int64(9)
	for _, x := range []struct {
		name string
		f    history.Filter
		want []string
	}{
		{"all", history.Filter{}, []string{"0-1", "1-1", "1-2", "1-3", "1-4 plug", "2-1", "2-2"}},
		{"since", history.Filter{Since: start.Add(3 * time.Minute)}, []string{"1-3", "1-4 plug", "2-1", "2-2"}},
		{"until", history.Filter{Until: start.Add(2 * time.Minute)}, []string{"0-1", "1-1", "1-2"}},
		{"between", history.Filter{Since: start.Add(time.Minute + time.Second), Until: start.Add(4*time.Minute + time.Second)}, []string{"1-2", "1-3", "1-4 plug", "2-1"}},
		{"positions", history.Filter{From: substrate.Position{Epoch: 1, Seq: 2}, To: substrate.Position{Epoch: 1, Seq: 3}}, []string{"1-2", "1-3"}},
		{"type", history.Filter{Types: []string{"TopicCreated", "ProducerFenced"}}, []string{"1-2", "2-2"}},
		{"topic", history.Filter{Topic: "orders"}, []string{"1-2", "1-3", "2-1"}},
		{"topic by ID", history.Filter{Topic: orders.String()}, []string{"1-2", "1-3", "2-1"}},
		{"another topic", history.Filter{Topic: "none"}, nil},
		{"about or by broker 1", history.Filter{Broker: &one}, []string{"1-1", "1-2", "1-3"}},
		{"about or by broker 2", history.Filter{Broker: &two}, []string{"2-1", "2-2"}},
		{"topic and broker", history.Filter{Topic: "orders", Broker: &one}, []string{"1-3"}},
		{"producer", history.Filter{Producer: &nine}, []string{"2-2"}},
	} {
		if got := positions(t, c, x.f); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

// TestTopicThatIsGone: a topic's name is followed through its deletion, though the newest
// state does not know it any more.
func TestTopicThatIsGone(t *testing.T) {
	c := life(t)
	x := c.claim(t, 3, 3)
	x.publish(&projections.TopicDeleted{ID: orders, Name: "orders"})
	x.publish(&projections.TopicRemoved{ID: orders, Name: "orders"})
	x.abandon()
	if got, want := positions(t, c, history.Filter{Topic: "orders"}), []string{"1-2", "1-3", "2-1", "3-1", "3-2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	since := history.Filter{Topic: "orders", Since: start.Add(3 * time.Minute)}
	if got, want := positions(t, c, since), []string{"1-3", "2-1", "3-1", "3-2"}; !slices.Equal(got, want) {
		t.Errorf("since its creation: %v, want %v", got, want)
	}
}

// TestStatuses: what a successor disowned, what nobody has decided, and a claim that was
// not followed by anything.
func TestStatuses(t *testing.T) {
	ctx := context.Background()
	c := life(t)
	old := c.claim(t, 1, 3)
	old.publish(&projections.BrokerRegistered{ID: 5, Epoch: 5})
	check(t, c.v.Seal(ctx, old.s.ID()))
	if got, want := positions(t, c, history.Filter{From: substrate.Position{Epoch: 2, Seq: 2}}), []string{"2-2", "2-3 plug", "3-1 undecided"}; !slices.Equal(got, want) {
		t.Errorf("sealed: %v, want %v", got, want)
	}
	p, err := history.Resolve(ctx, c.v, "cluster", history.Latest)
	check(t, err)
	if p.String() != "2-2" {
		t.Errorf("the newest committed is %s", p)
	}
	// The successor has claimed, and the sealed owner's rename comes late.
	next := c.claim(t, 2, 4)
	late := substrate.EntryPath(c.path(), substrate.Position{Epoch: 3, Seq: 2})
	from := substrate.EntryPath(c.path(), substrate.Position{Epoch: 1, Seq: 2})
	b, err := os.ReadFile(filepath.Join(c.dir, from))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(c.dir, late), b, 0o644))
	if got, want := positions(t, c, history.Filter{From: substrate.Position{Epoch: 3, Seq: 1}}), []string{"3-1", "3-2 unreadable", "4-0 taken over"}; !slices.Equal(got, want) {
		t.Errorf("claimed: %v, want %v", got, want)
	}
	for r, err := range history.Cluster(c.v).Records(ctx, history.Filter{From: substrate.Position{Epoch: 3, Seq: 3}}) {
		check(t, err)
		if r.Node != 2 || r.Session != next.s.ID() {
			t.Errorf("the claim is of node %d", r.Node)
		}
	}
	next.publish(&projections.BrokerRegistered{ID: 2, Epoch: 7})
	x, err := history.Cluster(c.v).Index(ctx)
	check(t, err)
	for p, want := range map[substrate.Position]metalog.Status{{Epoch: 3, Seq: 1}: metalog.StatusCommitted, {Epoch: 3, Seq: 2}: metalog.StatusDisowned, {Epoch: 4, Seq: 1}: metalog.StatusCommitted} {
		if got := x.Status(p); got != want {
			t.Errorf("%s is %s, want %s", p, got, want)
		}
	}
	next.abandon()
	old.abandon()
}

func TestResolve(t *testing.T) {
	c := life(t)
	ctx := context.Background()
	s := history.Cluster(c.v)
	x, err := s.Index(ctx)
	check(t, err)
	for text, want := range map[string]string{
		"latest": "2-2", "1-2": "1-2", "2026-11-29T12:02:00Z": "1-2", "2026-11-29T12:03:59.999Z": "1-3", "2026-11-29T12:00:00Z": "0-1",
		"2026-11-29T14:04:00+02:00": "2-1", "1h": "2-2", "1h58m": "1-2",
	} {
		p, err := s.ResolveIn(ctx, x, text, start.Add(2*time.Hour))
		if err != nil || p.String() != want {
			t.Errorf("%s is %s (%v), want %s", text, p, err, want)
		}
	}
	for _, text := range []string{"", "9-9", "3h", "2026-11-29T11:59:00Z", "yesterday", "-2h"} {
		if p, err := s.ResolveIn(ctx, x, text, start.Add(2*time.Hour)); err == nil {
			t.Errorf("%q is %s", text, p)
		}
	}
}

func TestDiff(t *testing.T) {
	c := life(t)
	ctx := context.Background()
	s := history.Cluster(c.v)
	at := func(e substrate.Epoch, n uint64) history.State {
		st, err := s.At(ctx, substrate.Position{Epoch: e, Seq: n})
		check(t, err)
		return st
	}
	moved := history.Diff(at(1, 3), at(2, 1))
	if len(moved) != 1 || moved[0].Kind != "partition" || moved[0].Name != "orders/1" || moved[0].Action != history.Changed ||
		!slices.Equal(moved[0].Fields, []history.FieldChange{{Name: "leader", Old: int32(1), New: int32(2)}, {Name: "leader_epoch", Old: int32(1), New: int32(2)}}) {
		t.Errorf("moved: %+v", moved)
	}
	var kinds []string
	for _, ch := range history.Diff(at(2, 1), at(1, 1)) {
		kinds = append(kinds, string(ch.Action)+" "+ch.Kind+" "+ch.Name)
	}
	if want := []string{"removed topic orders", "removed partition orders/0", "removed partition orders/1"}; !slices.Equal(kinds, want) {
		t.Errorf("backwards: %v", kinds)
	}
	if d := history.Diff(at(2, 2), at(2, 2)); d != nil {
		t.Errorf("of itself: %+v", d)
	}
}

func TestQuotasAreTold(t *testing.T) {
	c := newCluster(t)
	x := c.claim(t, 1, 1)
	alice := projections.QuotaEntity{User: projections.QuotaName{Name: "alice"}}
	x.publish(&projections.QuotasChanged{Entity: alice, Set: projections.QuotaValues{"producer_byte_rate": 1 << 20}})
	x.publish(&projections.QuotasChanged{Entity: alice, Set: projections.QuotaValues{"producer_byte_rate": 2}})
	x.abandon()
	at := func(n uint64) history.State {
		st, err := history.Cluster(c.v).At(context.Background(), substrate.Position{Epoch: 1, Seq: n})
		check(t, err)
		return st
	}
	d := history.Diff(at(1), at(2))
	if len(d) != 1 || d[0].Kind != history.KindQuota || d[0].Name != `user "alice"` ||
		!slices.Equal(d[0].Fields, []history.FieldChange{{Name: "producer_byte_rate", Old: "1048576", New: "2"}}) {
		t.Errorf("changed: %+v", d)
	}
}

// TestSteps: every step's states are those at its positions, whatever was pruned or damaged.
func TestSteps(t *testing.T) {
	c := life(t)
	ctx := context.Background()
	s := history.Cluster(c.v)
	look := func(f history.Filter) (changes []int) {
		t.Helper()
		for st, err := range s.Steps(ctx, f) {
			check(t, err)
			n := len(history.Diff(st.Before, st.After))
			if st.Err == nil && !st.Plug {
				want, err := s.At(ctx, st.Position)
				check(t, err)
				if d := history.Diff(st.After, want); len(d) > 0 {
					t.Errorf("after %s: %+v", st.Position, d)
				}
			}
			changes = append(changes, n)
		}
		return changes
	}
	if got, want := look(history.Filter{}), []int{0, 1, 3, 1, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("changes are %v, want %v", got, want)
	}
	if got, want := look(history.Filter{Since: start.Add(3 * time.Minute)}), []int{1, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("since: changes are %v, want %v", got, want)
	}
	if got, want := look(history.Filter{Topic: "orders"}), []int{3, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("topic: changes are %v, want %v", got, want)
	}
	check(t, os.Remove(filepath.Join(c.dir, substrate.EntryPath(c.path(), substrate.Position{Epoch: 0, Seq: 1}))))
	check(t, os.Remove(filepath.Join(c.dir, substrate.EntryPath(c.path(), substrate.Position{Epoch: 1, Seq: 1}))))
	steps := 0
	for st, err := range s.Steps(ctx, history.Filter{}) {
		check(t, err)
		steps++
		if st.Position.Epoch == 2 && st.After.Position != st.Position {
			t.Errorf("at %s the state is of %s", st.Position, st.After.Position)
		}
	}
	if steps != 5 {
		t.Errorf("%d steps are left", steps)
	}
}

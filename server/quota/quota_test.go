package quota

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/projections"
)

// clock is moved by the test alone.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

func kafkas(now func() time.Time) Config {
	return Config{Samples: 11, Sample: time.Second, MutationSamples: 11, MutationSample: time.Second, Now: now}
}

func newTest() (*Manager, *clock) {
	c := &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return New(kafkas(c.now)), c
}

// set is one quota: of "user", "user/client", "/client" or "=address", where * is the default.
func set(t testing.TB, quotas map[string]projections.QuotaValues) *projections.Quotas {
	t.Helper()
	name := func(s string) projections.QuotaName {
		if s == "*" {
			return projections.QuotaName{Default: true}
		}
		return projections.QuotaName{Name: s}
	}
	c := projections.NewCluster()
	for who, values := range quotas {
		var e projections.QuotaEntity
		if ip, ok := strings.CutPrefix(who, "="); ok {
			e.IP = name(ip)
		} else {
			user, id, _ := strings.Cut(who, "/")
			e.User, e.ClientID = name(user), name(id)
		}
		evs, err := projections.NewEvents(&projections.QuotasChanged{Entity: e, Set: values})
		if err == nil {
			c, err = projections.Apply(c, evs)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c.Quotas()
}

func bytesOf(v float64) projections.QuotaValues {
	return projections.QuotaValues{projections.QuotaProducerBytes: v, projections.QuotaConsumerBytes: v}
}

func TestPrecedence(t *testing.T) {
	a := Client{"alice", "app"}
	steps := []struct {
		who    string
		shared Client
	}{
		{"alice/app", a}, {"alice/*", a}, {"alice", Client{User: "alice"}}, {"*/app", a}, {"*/*", a},
		{"*", Client{User: "alice"}}, {"/app", Client{ID: "app"}}, {"/*", Client{ID: "app"}},
	}
	all := map[string]projections.QuotaValues{
		"bob": bytesOf(1000), "alice/other": bytesOf(1000), "/other": bytesOf(1000), "*/other": bytesOf(1000),
		"bob/*": bytesOf(1000), "bob/app": bytesOf(1000),
	}
	for i, s := range steps {
		all[s.who] = bytesOf(float64(i + 1))
	}
	for i, s := range steps {
		l := newLimits(set(t, all))
		bound, shared, ok := l.clients[produce].find(a)
		if !ok || bound != float64(i+1) || shared != s.shared {
			t.Errorf("with %s: quota %v shared as %+v, %v", s.who, bound, shared, ok)
		}
		if _, _, ok := l.clients[request].find(a); ok {
			t.Error("a quota of bytes is one of time")
		}
		delete(all, s.who)
	}
	if _, _, ok := newLimits(set(t, all)).clients[produce].find(a); ok {
		t.Error("a quota of others is alice's")
	}
}

func TestNobodyIsSlowedDownWithoutQuotas(t *testing.T) {
	m, _ := newTest()
	q := set(t, map[string]projections.QuotaValues{"bob": bytesOf(1), "=10.0.0.1": {projections.QuotaConnections: 1}})
	for range 100 {
		for _, q := range []*projections.Quotas{nil, q} {
			c := Client{"alice", "app"}
			_, ok := m.Mutate(q, c, 1e6, true)
			if m.Produce(q, c, 1e9)+m.Fetch(q, c, 1e9)+m.Request(q, c, time.Hour)+m.Connect(q, netip.MustParseAddr("::1")) != 0 ||
				!ok || m.Most(q, c) != math.MaxInt || m.Measured(q, c) {
				t.Fatalf("%v slows down whom it is not for", q)
			}
		}
	}
	if len(m.clients[produce].mu.by)+len(m.ips.mu.by) != 0 {
		t.Error("what nobody bounds is measured")
	}
}

// Two clients of one user who send as fast as they may come to the user's quota together, at
// any time of the first two minutes.
func TestTwoClientsShareAQuota(t *testing.T) {
	const bound, fast = 10e6, 200e6
	for _, size := range []int{16 << 10, 1 << 20} {
		for _, fetches := range []bool{false, true} {
			t.Run(fmt.Sprint(size, fetches), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, q := New(kafkas(nil)), set(t, map[string]projections.QuotaValues{"alice": bytesOf(bound)})
					var perSecond [2][120]float64
					done, began := make(chan struct{}), time.Now()
					for i := range perSecond {
						go func() {
							defer func() { done <- struct{}{} }()
							c := Client{"alice", fmt.Sprint("app-", i)}
							for at := time.Duration(0); at < 120*time.Second; at = time.Since(began) {
								wait := time.Duration(0)
								if fetches {
									wait = m.Fetch(q, c, size)
								} else {
									wait = m.Produce(q, c, size)
								}
								if wait == 0 || !fetches {
									perSecond[i][at/time.Second] += float64(size)
								}
								time.Sleep(wait + time.Duration(float64(size)/fast*float64(time.Second)))
							}
						}()
					}
					<-done
					<-done
					for from := 0; from+30 <= 120; from++ {
						sum := 0.0
						for s := from; s < from+30; s++ {
							sum += perSecond[0][s] + perSecond[1][s]
						}
						if of := sum / 30 / bound; of < 0.9 || of > 1.1 {
							t.Errorf("from second %d on they have %.3f of their quota", from, of)
						}
					}
					if a, b := sum(perSecond[0]), sum(perSecond[1]); a < b/2 || b < a/2 {
						t.Errorf("one has %.0f, the other %.0f", a, b)
					}
				})
			})
		}
	}
}

func sum(s [120]float64) (n float64) {
	for _, v := range s {
		n += v
	}
	return n
}

func TestProducerWaits(t *testing.T) {
	m, c := newTest()
	q, alice := set(t, map[string]projections.QuotaValues{"alice": bytesOf(1000)}), Client{User: "alice"}
	if got := m.Produce(q, alice, 1000); got != 0 {
		t.Errorf("the first second's worth waits %v", got)
	}
	if got := m.Produce(q, alice, 500); got != 500*time.Millisecond {
		t.Errorf("half a second's worth more waits %v", got)
	}
	if got := m.Produce(q, Client{"bob", "x"}, 1e9); got != 0 {
		t.Errorf("somebody else waits %v", got)
	}
	// By Kafka's window of ten seconds this is 2.5 s too much, by the bucket it is 11.5 s.
	if got := m.Produce(q, alice, 11000); got != 11500*time.Millisecond {
		t.Errorf("much more waits %v", got)
	}
	c.pass(11500 * time.Millisecond)
	if got := m.Produce(q, alice, 1); got > 2*time.Second {
		t.Errorf("a byte after the wait waits %v", got)
	}
	c.pass(time.Minute)
	if got := m.Produce(q, alice, 1000); got != 0 {
		t.Errorf("a second's worth after a minute waits %v", got)
	}
	other := set(t, map[string]projections.QuotaValues{"alice": bytesOf(100)})
	if got := m.Produce(other, alice, 1); got == 0 {
		t.Error("a lower quota is not heeded")
	}
}

func TestConsumerWaitsAndIsSentNothing(t *testing.T) {
	m, c := newTest()
	q, alice := set(t, map[string]projections.QuotaValues{"*/*": bytesOf(1000)}), Client{"alice", "app"}
	if got := m.Most(q, alice); got != 1000 {
		t.Errorf("may be sent %d at once", got)
	}
	// A batch that is larger than all that the window holds goes out, or it never would.
	if got := m.Fetch(q, alice, 30_000); got != 0 {
		t.Errorf("a large batch waits %v", got)
	}
	if got := m.Fetch(q, alice, 1); got != 29*time.Second {
		t.Errorf("what comes after it waits %v", got)
	}
	c.pass(29 * time.Second)
	if got := m.Fetch(q, alice, 500); got != 0 {
		t.Errorf("after the wait it waits %v", got)
	}
	c.pass(time.Minute)
	m.Fetch(q, alice, 1000)
	refused := m.Fetch(q, alice, 20_000)
	if again := m.Fetch(q, alice, 20_000); refused == 0 || again != refused {
		t.Errorf("refused for %v, then for %v: what was refused is noted", refused, again)
	}
}

func TestRequestTime(t *testing.T) {
	m, c := newTest()
	q, app := set(t, map[string]projections.QuotaValues{"/app": {projections.QuotaRequestPercentage: 50}}), Client{"alice", "app"}
	if !m.Measured(q, app) || m.Measured(q, Client{"alice", "x"}) {
		t.Error("whose time is measured?")
	}
	// Half a thread for ten seconds is five seconds.
	if got := m.Request(q, app, 5*time.Second); got != 0 {
		t.Errorf("within the quota waits %v", got)
	}
	if got := m.Request(q, Client{"bob", "app"}, 100*time.Millisecond); got != 200*time.Millisecond {
		t.Errorf("a tenth of a second beyond it waits %v", got)
	}
	c.pass(200 * time.Millisecond)
	if got := m.Request(q, app, time.Minute); got != time.Second {
		t.Errorf("far beyond it waits %v, at most a second", got)
	}
}

func TestMutations(t *testing.T) {
	m, c := newTest()
	q, alice := set(t, map[string]projections.QuotaValues{"alice": {projections.QuotaMutations: 2}}), Client{"alice", "app"}
	want := func(n int, strict bool, wait time.Duration, ok bool) {
		t.Helper()
		if w, o := m.Mutate(q, alice, n, strict); w != wait || o != ok {
			t.Errorf("%d more: wait %v, %v, want %v, %v", n, w, o, wait, ok)
		}
	}
	want(20, true, 0, true) // of 22
	want(10, true, 0, true) // overdrawn by 8
	want(1, true, 4*time.Second, false)
	want(1, false, 4500*time.Millisecond, true)
	c.pass(4500 * time.Millisecond)
	want(1, true, 0, true)
	want(1, true, 500*time.Millisecond, false)
}

func TestNewConnections(t *testing.T) {
	m, c := newTest()
	for i := range 100 { // ten a second, for ten seconds
		if got := m.Accept("OUT", 10, Unlimited, false); got != 0 {
			t.Fatalf("connection %d waits %v", i, got)
		}
	}
	if got := m.Accept("OUT", 10, Unlimited, false); got != 100*time.Millisecond {
		t.Errorf("one more waits %v", got)
	}
	if got := m.Accept("IN", 10, Unlimited, false); got != 0 {
		t.Errorf("another listener waits %v", got)
	}
	for range 100 {
		m.Accept("OUT", Unlimited, 10, false)
	}
	if got := m.Accept("IN", Unlimited, 10, true); got != 0 {
		t.Errorf("a listener for itself waits %v", got)
	}
	if got := m.Accept("OUT", Unlimited, 1, false); got != time.Second {
		t.Errorf("far too many wait %v, at most a second", got)
	}

	q := set(t, map[string]projections.QuotaValues{"=*": {projections.QuotaConnections: 10}, "=10.0.0.1": {projections.QuotaConnections: 1}})
	one, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::1")
	for range 10 {
		if got := m.Connect(q, one); got != 0 {
			t.Errorf("waits %v", got)
		}
	}
	for range 3 { // refused ones do not count
		if got := m.Connect(q, one); got != time.Second {
			t.Errorf("the eleventh waits %v", got)
		}
	}
	c.pass(2 * time.Second)
	if got := m.Connect(q, one); got == 0 {
		t.Error("two seconds later it is let in")
	}
	c.pass(10 * time.Second)
	if got := m.Connect(q, one) + m.Connect(q, other); got != 0 {
		t.Errorf("twelve seconds later, and another: %v", got)
	}
}

// Client IDs cost nothing, and so may be as many and as long as a hostile client likes.
func TestClientsDoNotPileUp(t *testing.T) {
	m, c := newTest()
	q := set(t, map[string]projections.QuotaValues{"/*": bytesOf(1000)})
	long := strings.Repeat("x", 30_000)
	for i := range maxMeasures + 100 {
		m.Produce(q, Client{"alice", fmt.Sprint(long, i)}, 900)
	}
	all := m.clients[produce]
	if n := len(all.mu.by); n != maxMeasures {
		t.Errorf("%d are told apart, want %d", n, maxMeasures)
	}
	for k := range all.mu.by {
		if len(k.ID) > longName {
			t.Fatalf("a name of %d bytes is kept", len(k.ID))
		}
	}
	if got := m.Produce(q, Client{"alice", "new"}, 900); got == 0 {
		t.Error("those that are too many have a quota each")
	}
	c.pass(12 * time.Second)
	m.Produce(q, Client{"alice", "newer"}, 900_000)
	if n := len(all.mu.by); n != 1 {
		t.Errorf("%d are kept after a window of silence", n)
	}
	c.pass(12 * time.Second) // it is in debt for a quarter of an hour
	for i := range firstSweep + 1 {
		m.Produce(q, Client{"bob", fmt.Sprint(i)}, 1)
	}
	if all.mu.by[Client{ID: "newer"}] == nil {
		t.Error("who is in debt is forgotten")
	}
}

func TestNothingIsAllocated(t *testing.T) {
	m, _ := newTest()
	q := set(t, map[string]projections.QuotaValues{"alice/app": bytesOf(1e9), "/*": {projections.QuotaRequestPercentage: 1e9}})
	for _, c := range []Client{{"alice", "app"}, {"bob", "app"}} {
		for _, q := range []*projections.Quotas{nil, q} {
			n := testing.AllocsPerRun(100, func() {
				m.Produce(q, c, 1)
				m.Fetch(q, c, 1)
				m.Most(q, c)
				if m.Measured(q, c) {
					m.Request(q, c, time.Microsecond)
				}
			})
			if n != 0 {
				t.Errorf("%v of %+v: %v allocations", q != nil, c, n)
			}
		}
	}
}

func BenchmarkProduce(b *testing.B) {
	m := New(kafkas(nil))
	for name, q := range map[string]*projections.Quotas{"none": nil, "of user": set(b, map[string]projections.QuotaValues{"alice": bytesOf(1e15)}),
		"at every level": set(b, map[string]projections.QuotaValues{"a/b": bytesOf(1), "a/*": bytesOf(1), "a": bytesOf(1), "*/b": bytesOf(1), "/b": bytesOf(1), "/*": bytesOf(1e15)})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Produce(q, Client{"alice", "app"}, 1000)
			}
		})
	}
}

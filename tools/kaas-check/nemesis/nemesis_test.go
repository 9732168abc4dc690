package nemesis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/tools/kaas-check/cluster"
)

func TestPlanFollowsFromItsSeed(t *testing.T) {
	nodes := []int32{1, 2, 3}
	a := Plan(7, 10*time.Minute, 8*time.Second, LocalKinds, nodes)
	if b := Plan(7, 10*time.Minute, 8*time.Second, LocalKinds, nodes); !reflect.DeepEqual(a, b) {
		t.Error("one seed, two plans")
	}
	if b := Plan(8, 10*time.Minute, 8*time.Second, LocalKinds, nodes); reflect.DeepEqual(a, b) {
		t.Error("two seeds, one plan")
	}
	count := map[Kind]int{}
	for i, s := range a {
		count[s.Kind]++
		if l := lasts[s.Kind]; s.For < l[0] || s.For > l[1] || s.At >= 10*time.Minute-15*time.Second || i > 0 && s.At <= a[i-1].At {
			t.Errorf("step %d: %v", i, s)
		}
		if needsNode(s.Kind) != slices.Contains(nodes, s.Node) {
			t.Errorf("%v: node %d", s.Kind, s.Node)
		}
	}
	if len(a) < 60 || len(a) > 90 {
		t.Errorf("%d steps in 10 minutes, one in 8 s is wanted", len(a))
	}
	for _, k := range LocalKinds {
		if count[k] < 5 {
			t.Errorf("%s: %d times", k, count[k])
		}
	}
}

func TestFreeze(t *testing.T) {
	a := Plan(7, 10*time.Minute, 8*time.Second, slices.Concat(LabKinds, APIKinds), []int32{1})
	b := slices.Clone(a)
	Freeze(b, 0)
	if !reflect.DeepEqual(a, b) {
		t.Error("0 changes something")
	}
	Freeze(b, 20*time.Second)
	for i := range b {
		want := a[i].For
		if k := b[i].Kind; slices.Contains([]Kind{Pause, HostPause, APIPause, APISlow, APICut, APICutOne}, k) {
			want = 20 * time.Second
		}
		if b[i].For != want {
			t.Errorf("%v became %v", a[i], b[i])
		}
	}
}

func TestParse(t *testing.T) {
	if ks, err := Parse("kill, pause"); err != nil || !slices.Equal(ks, []Kind{Kill, Pause}) {
		t.Error(ks, err)
	}
	if ks, err := Parse("local"); err != nil || !slices.Equal(ks, LocalKinds) {
		t.Error(ks, err)
	}
	if ks, err := Parse("none"); err != nil || len(ks) != 0 {
		t.Error(ks, err)
	}
	if _, err := Parse("kill,flood"); err == nil {
		t.Error("flood is taken")
	}
}

// fake is a cluster that writes down what is done to it, and objects to what cannot be done.
type fake struct {
	mu    sync.Mutex
	nodes []int32
	did   []string
	down  map[int32]bool
	still map[int32]bool
	full  bool
	wrong error
}

// fakeByLease has an API server, too.
type fakeByLease struct{ *fake }

func (f fakeByLease) PauseAPI() error                   { return f.do("pause API", 0, nil) }
func (f fakeByLease) ResumeAPI() error                  { return f.do("resume API", 0, nil) }
func (f fakeByLease) KillAPI(context.Context) error     { return f.do("kill API", 0, nil) }
func (f fakeByLease) SlowAPI(by time.Duration) error    { return f.do("slow "+by.String(), 0, nil) }
func (f fakeByLease) CutAPI(nodes ...int32) error       { return f.do(fmt.Sprint("cut ", nodes), 0, nil) }
func (f fakeByLease) HealAPI() error                    { return f.do("heal", 0, nil) }
func (f fakeByLease) DeleteLease(context.Context) error { return f.do("delete", 0, nil) }
func (f fakeByLease) RestoreAPI(context.Context) error  { return f.do("restore", 0, nil) }

var _ cluster.API = fakeByLease{}

// So does each of an API server, where there is one.
func TestStepsOfTheAPI(t *testing.T) {
	for kind, want := range map[Kind]string{
		APIPause: "pause API 0, resume API 0", APIKill: "kill API 0", APISlow: "slow 2s 0, slow 0s 0", APICut: "cut [1 2 3] 0, heal 0",
		APICutOne: "cut [2] 0, heal 0", APIRestore: "restore 0", LeaseDelete: "delete 0", Holders: "pause 2, resume 2",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r, _ := newRunner(f)
			r.Cluster = fakeByLease{f}
			r.Run(t.Context(), []Step{{At: time.Second, Kind: kind, For: 3 * time.Second}})
			if got := strings.Join(f.did, ", "); got != want {
				t.Errorf("%s: %s, want %s", kind, got, want)
			}
		})
	}
	f := newFake()
	r, told := newRunner(f)
	r.Run(t.Context(), []Step{{Kind: LeaseDelete}})
	if len(f.did) > 0 || !strings.Contains((*told)[0], errNoAPI.Error()) {
		t.Errorf("%q, %q", f.did, *told)
	}
}

func (f *fake) do(what string, n int32, change func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, strings.TrimSpace(fmt.Sprint(what, " ", n)))
	if f.full && what == "run" {
		f.wrong = errors.New("a broker is started on a full volume")
	}
	if change != nil {
		change()
	}
	return nil
}

func (f *fake) Nodes() []int32  { return f.nodes }
func (f *fake) Addrs() []string { return nil }
func (f *fake) Dial() func(context.Context, string, string) (net.Conn, error) {
	return nil
}
func (f *fake) Start(context.Context) error { return nil }
func (f *fake) Stop() error                 { return nil }
func (f *fake) Close()                      {}
func (f *fake) Kill(n int32) error          { return f.do("kill", n, func() { f.down[n] = true }) }
func (f *fake) Terminate(n int32) error     { return f.do("terminate", n, func() { f.down[n] = true }) }
func (f *fake) Pause(n int32) error         { return f.do("pause", n, func() { f.still[n] = true }) }
func (f *fake) Resume(n int32) error        { return f.do("resume", n, func() { f.still[n] = false }) }
func (f *fake) Fill() error                 { return f.do("fill", 0, func() { f.full = true }) }
func (f *fake) Free() error                 { return f.do("free", 0, func() { f.full = false }) }
func (f *fake) Run(_ context.Context, n int32) error {
	return f.do("run", n, func() { f.down[n] = false })
}
func (f *fake) TakeOver(_ context.Context, n int32) error { return f.do("take over", n, nil) }
func (f *fake) AwaitFenced(n int32, _ time.Duration) error {
	return f.do("await fenced", n, nil)
}

var _ cluster.Cluster = (*fake)(nil)

func newRunner(f *fake) (*Runner, *[]string) {
	var mu sync.Mutex
	told := &[]string{}
	return &Runner{
		Cluster: f, Controller: func(context.Context) (int32, error) { return 2, nil },
		Coordinator: func(context.Context) (int32, error) { return 3, nil },
		Began:       func(string) int64 { return 1 },
		Ended: func(_ int64, what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				what += ": " + err.Error()
			}
			*told = append(*told, what)
		},
	}, told
}

func newFake() *fake {
	return &fake{nodes: []int32{1, 2, 3}, down: map[int32]bool{}, still: map[int32]bool{}}
}

// Each kind does what it says, and leaves the cluster as it was.
func TestSteps(t *testing.T) {
	for kind, want := range map[Kind]string{
		Kill: "kill 1, run 1", Graceful: "terminate 1, run 1", Pause: "pause 1, resume 1", TakeOver: "take over 1, await fenced 1",
		PauseTaken: "pause 1, take over 1, resume 1, await fenced 1", Controller: "kill 2, run 2", Coordinator: "kill 3, run 3",
		Rolling: "terminate 1, run 1, terminate 2, run 2, terminate 3, run 3", Full: "fill 0, free 0", Power: "",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r, told := newRunner(f)
			began := time.Now()
			r.Run(t.Context(), []Step{{At: time.Second, Kind: kind, Node: 1, For: 3 * time.Second}})
			if got := strings.Join(f.did, ", "); got != want {
				t.Errorf("%s: %s, want %s", kind, got, want)
			}
			if time.Since(began) < time.Second || len(*told) == 0 {
				t.Errorf("%s: begun before its time, or not told: %q", kind, *told)
			}
			if kind == Power && !strings.Contains((*told)[0], errNoHosts.Error()) {
				t.Errorf("%q", *told)
			}
		})
	}
}

// fakeWithClocks has clocks, too.
type fakeWithClocks struct{ *fake }

func (f fakeWithClocks) SetClock(n int32, ahead time.Duration) error {
	return f.do("clock "+ahead.String(), n, nil)
}

var _ cluster.Clocks = fakeWithClocks{}

// A clock that steps comes back to what it is all the time, which may be wrong.
func TestStepsOfClocks(t *testing.T) {
	for _, c := range []struct {
		step Step
		did  string
		told string
	}{
		{Step{Node: 1, By: ClockOff}, "clock 1h0m0s 1, clock 0s 1", "the clock of host 1 is 1h0m0s ahead for 3s"},
		{Step{Node: 1, By: -ClockOff}, "clock -1h0m0s 1, clock 0s 1", "the clock of host 1 is 1h0m0s behind for 3s"},
		{Step{By: ClockOff}, "clock 1h0m0s 2, clock 0s 2", "the clock of host 2, the controller's, is 1h0m0s ahead for 3s"},
		{Step{Node: 3, By: ClockOff}, "clock -1h0m0s 3, clock 1h0m0s 3", "the clock of host 3 is 1h0m0s behind for 3s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r, told := newRunner(f)
			r.Cluster, r.Off = fakeWithClocks{f}, map[int32]time.Duration{3: ClockOff}
			c.step.Kind, c.step.For = Clock, 3*time.Second
			r.Run(t.Context(), []Step{c.step})
			if got := strings.Join(f.did, ", "); got != c.did || len(*told) != 1 || (*told)[0] != c.told {
				t.Errorf("%v: %s and %q, want %s and %q", c.step, got, *told, c.did, c.told)
			}
		})
	}
	f := newFake()
	r, told := newRunner(f)
	r.Run(t.Context(), []Step{{Kind: Clock, Node: 1, By: ClockOff}})
	if len(f.did) > 0 || !strings.Contains((*told)[0], errNoClocks.Error()) {
		t.Errorf("%q, %q", f.did, *told)
	}
}

// Clocks step to both sides, each host's and the controller's.
func TestPlanOfClocks(t *testing.T) {
	count := map[string]int{}
	for _, s := range Plan(7, 10*time.Minute, 8*time.Second, []Kind{Clock}, []int32{1, 2, 3}) {
		count[fmt.Sprintf("%d %s", s.Node, tellClock(s.By))]++
	}
	for n := range 4 {
		for _, by := range []time.Duration{ClockOff, -ClockOff} {
			if what := fmt.Sprintf("%d %s", n, tellClock(by)); count[what] == 0 {
				t.Errorf("%s: never, of %v", what, count)
			}
		}
	}
}

// A whole plan leaves everything running, whenever it is cut short.
func TestPlansEndWell(t *testing.T) {
	for seed := range int64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r, _ := newRunner(f)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seed)*10*time.Second)
			defer cancel()
			r.Run(ctx, Plan(seed, 5*time.Minute, 2*time.Second, LocalKinds, f.nodes))
			for _, n := range f.nodes {
				if f.down[n] || f.still[n] {
					t.Errorf("seed %d: broker %d is left down %v, stopped %v", seed, n, f.down[n], f.still[n])
				}
			}
			if f.full || f.wrong != nil {
				t.Errorf("seed %d: full %v, %v", seed, f.full, f.wrong)
			}
		})
	}
}

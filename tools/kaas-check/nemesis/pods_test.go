package nemesis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/tools/kaas-check/cluster"
)

// fakePods are pods of a chart, whose controller an API server elects.
type fakePods struct{ fakeByLease }

func (f fakePods) Upgrade(context.Context) error        { return f.do("upgrade", 0, nil) }
func (f fakePods) Scale(_ context.Context, n int) error { return f.do("scale", int32(n), nil) }
func (f fakePods) Evict(context.Context) error          { return f.do("evict", 0, nil) }
func (f fakePods) KillAll(_ context.Context, apart time.Duration) error {
	return f.do("kill all, "+apart.String(), 0, nil)
}

var _ cluster.Pods = fakePods{}

// What pods can have is carried out, with those of the API server among it.
func TestStepsOfPods(t *testing.T) {
	for kind, want := range map[Kind]string{
		Graceful: "terminate 1", Kill: "kill 1", PodUpgrade: "upgrade 0", PodEvict: "evict 0", PodScale: "scale 5, scale 3",
		PodStorm: "kill all, 0s 0, even 0, run 1, run 2, run 3, kill all, 5s 0, even 0, run 1, run 2, run 3, kill all, 10s 0, even 0, run 1, run 2, run 3",
		APISlow:  "slow 2s 0, slow 0s 0", APICut: "cut [1 2 3] 0, heal 0", LeaseDelete: "delete 0",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r, told := newRunner(f)
			r.Cluster = fakePods{fakeByLease{f}}
			r.Even = func(ctx context.Context) error {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("it is waited for without end")
				}
				return f.do("even", 0, nil)
			}
			r.Run(t.Context(), []Step{{At: time.Second, Kind: kind, Node: 1, For: 3 * time.Second}})
			if got := strings.Join(f.did, ", "); got != want {
				t.Errorf("%s: %s, want %s", kind, got, want)
			}
			if len(*told) == 0 || strings.Contains(fmt.Sprint(*told), "not for pods") {
				t.Errorf("%s: told %q", kind, *told)
			}
		})
	}
	for _, k := range OfPods {
		if _, err := Parse(string(k)); err != nil {
			t.Error(err)
		}
	}
}

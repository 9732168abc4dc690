package groupshard

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// full reports that the shard has no room; who has hung up is told the same code.
func full(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, context.Canceled)
}

// A tenant that takes all that it gets leaves room for others, also when there are some like it.
func TestHostileTenants(t *testing.T) {
	sh := newBench(t).owner(1)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for n := range 3 {
		tenant := fmt.Sprint("User:greedy", n)
		for size := 1 << 20; size > 16; size /= 2 {
			err := error(nil)
			for i := 0; i < 200 && !full(err); i++ { // a group of its own for each
				r := hostileJoin("c", size)
				r.Tenant = tenant
				err = sh.Join(gone, fmt.Sprintf("greedy%d-%d-%d", n, size, i), r).Err
			}
		}
		for _, more := range []int{0, 64 << 10} {
			r := hostileJoin("normal", 100+more)
			r.Tenant = fmt.Sprint("User:normal", n, more)
			if a := sh.Join(gone, fmt.Sprint("w", n, more), r); full(a.Err) {
				t.Errorf("another tenant beside %d greedy ones, with %d KiB: %v", n+1, more>>10, a.Err)
			}
			beat := hostileBeat(fmt.Sprint("v", n, more), "m", more>>15)
			beat.Tenant = r.Tenant
			if _, err := sh.ConsumerHeartbeat(t.Context(), beat); err != nil {
				t.Errorf("its next-generation group: %v", err)
			}
		}
	}
}

// Whatever groups do, what they take adds up, and nothing is kept of who has nothing.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, want := newShares(), map[string]int64{}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			group, tenant := fmt.Sprint("g", rapid.IntRange(0, 3).Draw(t, "group")), fmt.Sprint("t", rapid.IntRange(0, 2).Draw(t, "tenant"))
			n := rapid.Int64Range(-want[group], mostLive/2).Draw(t, "growth")
			if rapid.Bool().Draw(t, "all") {
				n = -want[group]
			}
			if n > 0 && !s.admit(group, tenant, n) {
				continue
			}
			s.add(group, n)
			want[group] += n
		}
		total := int64(0)
		for group, n := range want {
			if total += n; s.groups[group] != n {
				t.Fatalf("%s has %d, not %d", group, s.groups[group], n)
			}
		}
		byTenant := int64(0)
		for _, n := range s.of {
			byTenant += n
		}
		if s.total != total || byTenant != total || total > mostLive || total == 0 && len(s.of)+len(s.owners)+len(s.groups) > 0 {
			t.Fatalf("%+v", s)
		}
	})
}

package coordinator

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// A cluster stream that has lost its newest epoch is not gone on from, whatever is left of
// it: the start says so at once, and changes nothing.
func TestLostEpochIsNotGoneOnFrom(t *testing.T) {
	remove := func(name string) error { return os.RemoveAll(name) }
	for name, tc := range map[string]struct {
		starts int // epochs of the cluster stream
		damage func(epoch string) error
		want   string
	}{
		"the only one is gone":   {1, remove, "has leader epoch 1"},
		"the second one is gone": {2, remove, "has leader epoch 2"},
		"it is empty": {2, func(epoch string) error {
			return errors.Join(os.RemoveAll(epoch), os.Mkdir(epoch, 0o755))
		}, "claim"},
		"its claim is gone": {2, func(epoch string) error { return os.Remove(filepath.Join(epoch, substrate.ClaimName)) }, "claim"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range tc.starts {
				v, _ := mount(t, dir)
				b := start(t, v, options(t))
				if i == 0 {
					create(t, b, "a", 1)
				}
				mustPartition(t, b, b.View().Topic("a").ID, 0)
				stop(t, b)
			}
			epochs, err := filepath.Glob(filepath.Join(dir, "meta/*/cluster/0*"))
			if err != nil || len(epochs) != tc.starts+1 {
				t.Fatalf("%v, %v", epochs, err)
			}
			if err := tc.damage(epochs[tc.starts]); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			v, _ := mount(t, dir)
			began := time.Now()
			b, err := Start(ctx(t, time.Minute), v, options(t))
			if err == nil {
				stop(t, b)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || time.Since(began) > 30*time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			if after := tree(t, dir); !maps.Equal(before, after) {
				t.Error("the start has changed something")
			}
		})
	}
}

// An epoch that lost its claim, or all that it had, under a broker that runs: who is elected
// next says which file is missing, and adds no epoch after epoch.
func TestClaimNamesALostClaim(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	stop(t, b)
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx0(time.Minute))
	lost := substrate.ClaimPath(clusterStream(v), 1)
	if err := v.Remove(lost); err != nil {
		t.Fatal(err)
	}
	_, err = s.Claim(ctx(t, time.Minute), clusterStream(v), 2)
	var damage *substrate.DamageError
	if !errors.As(err, &damage) || damage.File != lost || !lasting(err) {
		t.Errorf("claim above an epoch without a claim: %v", err)
	}
}

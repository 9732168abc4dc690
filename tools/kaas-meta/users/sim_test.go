package users

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/restore"
	"kaas.dev/kaas/tools/kaas-meta/simlab"
)

var (
	simNow = func() time.Time { return time.UnixMilli(1_700_000_000_000) }
	simWho = Who{Host: "h", PID: 1, Now: simNow}
	both   = []projections.ScramMechanism{projections.ScramSHA256, projections.ScramSHA512}
)

// credential is one for a mechanism; salt tells which.
func credential(user string, m projections.ScramMechanism, salt byte) projections.Fact {
	n := 32
	if m == projections.ScramSHA512 {
		n = 64
	}
	return &projections.ScramCredentialSet{User: user, Mechanism: m, Iterations: 4096, Salt: []byte{salt}, StoredKey: make([]byte, n), ServerKey: make([]byte, n), SetAt: 1}
}

// add gives alice both credentials, remove takes them away.
func add(ctx context.Context, v *substrate.Volume, salt byte) error {
	_, err := Apply(ctx, v, simWho, "add", Add(credential("alice", both[0], salt), credential("alice", both[1], salt)))
	return err
}

func remove(ctx context.Context, v *substrate.Volume) error {
	_, err := Apply(ctx, v, simWho, "remove", Remove("alice", both))
	return err
}

// saltOf is that of alice's credentials, which come and go together: 0 if there are none.
func saltOf(c *projections.Cluster) (byte, error) {
	var salts []byte
	for _, m := range both {
		if s := c.ScramCredential("alice", m); s != nil {
			salts = append(salts, s.Salt...)
		}
	}
	switch {
	case len(salts) == 0:
		return 0, nil
	case len(salts) == 2 && salts[0] == salts[1]:
		return salts[0], nil
	}
	return 0, fmt.Errorf("alice's credentials are %v", salts)
}

// owned takes the cluster stream over as a broker does, and returns whose salt is there.
func owned(ctx context.Context, v *substrate.Volume) (byte, error) {
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: 2})
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close(ctx) }()
	at, sc := path.Join(v.MetaDir(), "cluster"), projections.ClusterSchema()
	if err := errors.Join(v.EnsureDir("meta"), v.EnsureDir(v.MetaDir())); err != nil {
		return 0, err
	}
	if err := metalog.Ensure(v, at, sc, "begun", simNow()); err != nil {
		return 0, err
	}
	c, err := simlab.TakeOver(ctx, s, "cluster", sc, simNow)
	if err != nil {
		return 0, err
	}
	return saltOf(c)
}

// retry goes on where the volume only fails now and then.
func retry(ctx context.Context, f func() error) error {
	return simlab.Retry(ctx, func(err error) bool { return restore.IsDamage(err) || errors.Is(err, ErrNoCredential) }, f)
}

// scene is what is changed, and from what.
type scene int

const (
	first   scene = iota // a user is added on a new volume
	another              // one gets another password
	gone                 // one is removed
)

// on makes the volume, and tells alice's salt before and after.
func (s scene) on(files substrate.FS) (before, after byte, err error) {
	v := &substrate.Volume{FS: files, NewID: sweep.IDs("setup")}
	if err = v.Init(simlab.Volume); err != nil || s == first {
		return 0, 2, err
	}
	if err = add(context.Background(), v, 1); s == another {
		return 1, 2, err
	}
	return 1, 0, err
}

func (s scene) run(ctx context.Context, v *substrate.Volume) error {
	if s == gone {
		return remove(ctx, v)
	}
	return add(ctx, v, 2)
}

// TestCrashAtAnyCall kills a change at each of its calls, with nobody else there. Whoever owns
// the cluster stream next finds it made or not made, no entry has changed, and to ask for the
// same again makes it.
func TestCrashAtAnyCall(t *testing.T) {
	for s := first; s <= gone; s++ {
		for killAt := 0; ; killAt++ {
			done, err := crash(t, s, 1, killAt, nfssim.Config{Seed: 1, Pause: -1})
			if err != nil {
				t.Fatalf("scene %d, killed at call %d: %v", s, killAt, err)
			}
			if done {
				t.Logf("scene %d: %d calls", s, killAt)
				if killAt < 50 {
					t.Errorf("it took %d calls: that cannot have been all", killAt)
				}
				break
			}
		}
	}
}

// TestSweepCrash does the same at any call on volumes that lose replies, list what was, fail and
// have operations of the dead come late.
func TestSweepCrash(t *testing.T) {
	ended := 0
	sweep.Run(t, 300, func(seed int64) error {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		cfg := sweep.Config(seed, rng)
		cfg.Fault = sweep.Faults(seed, []float64{0, 0.005, 0.02}[rng.IntN(3)])
		done, err := crash(t, scene(rng.IntN(3)), seed, rng.IntN(200), cfg)
		if done {
			ended++
		}
		return err
	})
	t.Logf("%d came to their end", ended)
}

// crash runs a change that is killed at a call, unless it ends before, and judges.
func crash(t *testing.T, s scene, seed int64, killAt int, cfg nfssim.Config) (bool, error) {
	var before, after byte
	return simlab.Crash(t, cfg, killAt, simlab.Case{
		Prepare: func(files substrate.FS) (err error) { before, after, err = s.on(files); return err },
		Work:    s.run,
		Judge: func(sim *nfssim.Sim, done bool, err error) error {
			if errors.Is(err, ErrNoCredential) {
				return errors.New("alice is said to have no credential")
			}
			return judge(sim, s, before, after, done)
		},
	})
}

// judge has a new owner take the stream, and the change be made again.
func judge(sim *nfssim.Sim, s scene, before, after byte, done bool) error {
	return simlab.On(sim, func(ctx context.Context) error {
		v := &substrate.Volume{FS: sim.Host("b").FS(), NewID: sweep.IDs("judge"), ID: simlab.Volume}
		for round := range 2 {
			if round == 1 {
				if err := retry(ctx, func() error { return s.run(ctx, v) }); err != nil && !errors.Is(err, ErrNoCredential) {
					return fmt.Errorf("again: %w", err)
				}
			}
			var got byte
			if err := retry(ctx, func() (err error) { got, err = owned(ctx, v); return err }); err != nil {
				return fmt.Errorf("the next owner: %w", err)
			}
			switch {
			case got != after && (done || round == 1):
				return fmt.Errorf("in round %d alice has salt %d, want %d", round, got, after)
			case got != before && got != after:
				return fmt.Errorf("alice has salt %d, which is neither %d nor %d", got, before, after)
			}
		}
		return nil
	})
}

// TestSweepElsewhere has somebody be added by one host and removed by another, which has looked
// before and may see what was then. That one is removed, and is not said to be nobody; who has
// been removed is.
func TestSweepElsewhere(t *testing.T) {
	sweep.Run(t, 200, func(seed int64) (err error) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			cfg := sweep.Config(seed, rng)
			cfg.StaleList = 0.5
			sim := nfssim.New(cfg)
			defer sim.Stop()
			if _, _, err = another.on(sim.Server()); err != nil {
				return
			}
			err = simlab.On(sim, func(ctx context.Context) error {
				a := &substrate.Volume{FS: sim.Host("a").FS(), NewID: sweep.IDs("a"), ID: simlab.Volume}
				b := &substrate.Volume{FS: sim.Host("b").FS(), NewID: sweep.IDs("b"), ID: simlab.Volume}
				for round := range 3 {
					tries := 0
					err := retry(ctx, func() error { tries++; return remove(ctx, a) })
					if err != nil && (tries == 1 || !errors.Is(err, ErrNoCredential)) { // what has failed may have happened
						return fmt.Errorf("round %d: %w", round, err)
					}
					if err := retry(ctx, func() error { return remove(ctx, b) }); !errors.Is(err, ErrNoCredential) {
						return fmt.Errorf("round %d: removed twice: %v", round, err)
					}
					if err := retry(ctx, func() error { return add(ctx, b, 1) }); err != nil {
						return fmt.Errorf("round %d: %w", round, err)
					}
				}
				return nil
			})
			time.Sleep(time.Minute)
		})
		return err
	})
}

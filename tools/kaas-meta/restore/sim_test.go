package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/tools/kaas-meta/simlab"
)

// TestCrashAtAnyCall kills a restoring of three streams at each of its calls, with nobody
// else there. Whoever owns a stream next finds it as it was or restored, no entry of its history
// has changed, and to run the same again restores it all.
func TestCrashAtAnyCall(t *testing.T) {
	for killAt := 0; ; killAt++ {
		done, err := crash(t, 1, killAt, nfssim.Config{Seed: 1, Pause: -1}, breaks{})
		if err != nil {
			t.Fatalf("killed at call %d: %v", killAt, err)
		}
		if done {
			t.Logf("%d calls", killAt)
			if killAt < 100 {
				t.Errorf("it took %d calls: that cannot have been all", killAt)
			}
			return
		}
	}
}

// TestSweepCrash does the same at any call on volumes that lose replies, list what was, fail and have
// operations of the dead come late.
func TestSweepCrash(t *testing.T) {
	ended := 0
	sweep.Run(t, 300, func(seed int64) error {
		done, err := crashed(t, seed, breaks{})
		if done {
			ended++
		}
		return err
	})
	t.Logf("%d came to their end", ended)
}

// TestSweepCatchesCrash has a stream restored in more than one entry: the sweep must fail.
func TestSweepCatchesCrash(t *testing.T) {
	sweep.Catches(t, 300, func(seed int64) error { _, err := crashed(t, seed, breaks{pieces: true}); return err })
}

func crashed(t *testing.T, seed int64, b breaks) (bool, error) {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	cfg := sweep.Config(seed, rng)
	cfg.Fault = sweep.Faults(seed, []float64{0, 0.005, 0.02}[rng.IntN(3)])
	return crash(t, seed, rng.IntN(500), cfg, b)
}

var (
	tRestored = projections.TopicID{0: 1, 15: 1}
	tSince    = projections.TopicID{0: 1, 15: 2}
	simNow    = func() time.Time { return time.UnixMilli(1_700_000_000_000) }
)

// simVolumeOn makes a volume with three streams that have a past, and returns what restoring
// is asked for.
func simVolumeOn(fs substrate.FS, rng *rand.Rand) (req Request, err error) {
	v := &substrate.Volume{FS: fs, NewID: sweep.IDs("setup")}
	if err = v.Init(simlab.Volume); err != nil {
		return req, err
	}
	for _, dir := range []string{"meta", v.MetaDir(), "topics"} {
		err = errors.Join(err, v.EnsureDir(dir))
	}
	s, serr := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: 1})
	if err = errors.Join(err, serr); err != nil {
		return req, err
	}
	err = errors.Join(
		partition.BuildTopic(v, s.ID(), tRestored, "restored", 2, simNow()),
		past(v, s, &req, "cluster", projections.ClusterSchema(), rng, []projections.Fact{
			&projections.BrokerRegistered{ID: 1, Epoch: 1, Session: s.ID()},
			&projections.TopicCreated{ID: tRestored, Name: "restored", Partitions: 2, Configs: map[string]string{"retention.ms": "1"}},
			&projections.ShardsMade{Kind: projections.ShardGroups, Count: 1}, &projections.ShardsMade{Kind: projections.ShardTxns, Count: 1},
		}, []projections.Fact{
			&projections.ConfigChanged{Resource: projections.ResourceTopic, TopicID: tRestored, Set: map[string]string{"retention.ms": "2"}},
			&projections.TopicCreated{ID: tSince, Name: "since", Partitions: 1},
			&projections.PartitionLeaderChanged{TopicID: tRestored, Leader: 1, Epoch: 7}, &projections.ProducerIDsAllocated{First: 0, Count: 1000},
		}, projections.NewEvents),
		past(v, s, &req, "groups/00", groups.Schema(), rng,
			[]groups.Fact{offsetsOf("a", 10), offsetsOf("b", 20)},
			[]groups.Fact{offsetsOf("a", 99), &groups.OffsetsRemoved{Group: "b", Topics: []groups.TopicPartitions{{Topic: tRestored, Partitions: []int32{0}}}}}, groups.NewEvents),
		past(v, s, &req, "txns/00", txns.Schema(), rng,
			[]txns.Fact{&txns.TxnChanged{Txn: txns.Txn{ID: "t", ProducerID: 1, Epoch: 9, State: txns.Empty, Timeout: 1}}},
			[]txns.Fact{&txns.TxnChanged{Txn: txns.Txn{ID: "t", ProducerID: 1, Epoch: 3, State: txns.Ongoing, Timeout: 1, Partitions: txns.Partitions{{Topic: tRestored}}}}}, txns.NewEvents),
		s.Close(context.Background()),
	)
	return req, err
}

func offsetsOf(group string, offset int64) groups.Fact {
	return &groups.OffsetsCommitted{Group: group, Time: 1, Topics: []groups.TopicOffsets{{Topic: tRestored, Partitions: []groups.PartitionOffset{{Partition: 0, Offset: offset, LeaderEpoch: -1, Expires: -1}}}}}
}

// past has a stream be as then, which the request restores, and be changed since. Its owner
// has closed it, or is only gone.
func past[S any, F any](v *substrate.Volume, s *substrate.Session, req *Request, stream string, sc *metalog.Schema[S], rng *rand.Rand, then, since []F, encode func(...F) ([]metalog.Event, error)) error {
	ctx, at := context.Background(), path.Join(v.MetaDir(), stream)
	if err := errors.Join(v.EnsureDir(path.Dir(at)), metalog.Ensure(v, at, sc, "begun", simNow())); err != nil {
		return err
	}
	w, err := metalog.Claim(ctx, s, at, 1, sc, metalog.Options{Node: 1, Now: simNow})
	if err != nil {
		return err
	}
	for i, fs := range [][]F{then, since} {
		evs, err := encode(fs...)
		if err != nil {
			return err
		}
		pos, err := w.Publish(ctx, "past", func(S) ([]metalog.Event, error) { return evs, nil })
		if err != nil {
			return err
		}
		if i == 0 {
			saved, err := Take(ctx, v, stream, pos)
			if err != nil {
				return err
			}
			req.Saved = append(req.Saved, saved)
		}
	}
	if rng.IntN(2) == 0 {
		return w.Close(ctx)
	}
	return w.Abandon(ctx)
}

// crash runs a restoring that is killed at a call, unless it ends before, and judges.
func crash(t *testing.T, seed int64, killAt int, cfg nfssim.Config, b breaks) (bool, error) {
	var req Request
	var before, after map[string]string
	return simlab.Crash(t, cfg, killAt, simlab.Case{
		Prepare: func(files substrate.FS) (err error) {
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			if req, err = simVolumeOn(files, rng); err != nil {
				return err
			}
			req.Now, req.Prune = simNow, rng.IntN(2) == 0
			before, after, err = outcomes(files, req)
			return err
		},
		Work: func(ctx context.Context, v *substrate.Volume) error {
			broken := req
			broken.breaks = b
			_, err := Run(ctx, v, broken)
			return err
		},
		Judge: func(sim *nfssim.Sim, done bool, _ error) error { return judge(sim, req, before, after, done) },
	})
}

// outcomes are the encoded states of the streams as they are, and as they are to be.
func outcomes(files substrate.FS, req Request) (before, after map[string]string, err error) {
	before, after = map[string]string{}, map[string]string{}
	v := &substrate.Volume{FS: files, ID: simlab.Volume}
	w, err := begin(context.Background(), v, req)
	if err != nil {
		return nil, nil, err
	}
	for i := range w.Saved {
		s := &w.Saved[i]
		var b, a string
		switch s.Stream {
		case "cluster":
			b, a, err = outcome(w, s, projections.ClusterSchema(), clusterStream())
		case "groups/00":
			b, a, err = outcome(w, s, groups.Schema(), groupsStream(s.Stream, 0))
		default:
			b, a, err = outcome(w, s, txns.Schema(), txnsStream(s.Stream))
		}
		if err == nil && a == b {
			err = fmt.Errorf("%s is to be restored, and nothing would change", s.Stream)
		}
		if err != nil {
			return nil, nil, err
		}
		before[s.Stream], after[s.Stream] = b, a
	}
	return before, after, nil
}

func outcome[S any](w *work, s *Saved, sc *metalog.Schema[S], k kind) (before, after string, err error) {
	snap, _, err := metalog.ReadState(context.Background(), w.v, k.path(w.v), sc)
	if err != nil {
		return "", "", err
	}
	_, evs, err := k.(*stream[S]).next(w, s, snap.State)
	if err != nil {
		return "", "", err
	}
	next, err := sc.Apply(snap.State, evs)
	if err != nil {
		return "", "", err
	}
	b, err := sc.Encode(snap.State)
	a, err2 := sc.Encode(next)
	return string(b), string(a), errors.Join(err, err2)
}

// judge has a new owner take each stream, and the restoring be run again.
func judge(sim *nfssim.Sim, req Request, before, after map[string]string, done bool) error {
	return simlab.On(sim, func(ctx context.Context) error {
		var v *substrate.Volume
		if err := retry(ctx, func() (err error) {
			v = &substrate.Volume{FS: sim.Host("b").FS(), NewID: sweep.IDs("judge"), ID: simlab.Volume}
			_, err = substrate.ReadVolume(v.FS)
			return err
		}); err != nil {
			return err
		}
		for round := range 2 {
			if round == 1 {
				if err := retry(ctx, func() error { _, err := Run(ctx, v, req); return err }); err != nil {
					return err
				}
			}
			for _, s := range slices.Sorted(maps.Keys(before)) {
				var got string
				if err := retry(ctx, func() (err error) { got, err = owned(ctx, v, s); return err }); err != nil {
					return fmt.Errorf("the next owner of %s: %w", s, err)
				}
				switch {
				case got != after[s] && (done || round == 1):
					return fmt.Errorf("%s is not restored, in round %d", s, round)
				case got != before[s] && got != after[s]:
					return fmt.Errorf("%s is neither as it was nor restored", s)
				}
			}
		}
		return nil
	})
}

func retry(ctx context.Context, f func() error) error { return simlab.Retry(ctx, IsDamage, f) }

// owned takes a stream over as a broker does, and returns its state encoded.
func owned(ctx context.Context, v *substrate.Volume, label string) (string, error) {
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 2})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close(ctx) }()
	switch label {
	case "cluster":
		return takeOver(ctx, s, label, projections.ClusterSchema())
	case "groups/00":
		return takeOver(ctx, s, label, groups.Schema())
	}
	return takeOver(ctx, s, label, txns.Schema())
}

func takeOver[S any](ctx context.Context, s *substrate.Session, label string, sc *metalog.Schema[S]) (string, error) {
	state, err := simlab.TakeOver(ctx, s, label, sc, simNow)
	if err != nil {
		return "", err
	}
	raw, err := sc.Encode(state)
	return string(raw), err
}

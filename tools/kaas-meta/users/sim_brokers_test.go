package users

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/simlab"
)

// TestSweepRunning has two brokers make changes while users are changed by a process that is
// killed at any of its calls, or is not, and is run again then. Both brokers show the users as
// they are to be, and nothing that a client was told is done is undone.
func TestSweepRunning(t *testing.T) {
	var total runningStats
	sweep.Run(t, 40, func(seed int64) error {
		st, err := runningSweep(t, seed, false)
		total.killed += st.killed
		total.made += st.made
		total.moved += st.moved
		return err
	})
	t.Logf("%+v", total)
	if total.killed == 0 || total.made == 0 || total.moved == 0 {
		t.Errorf("the sweep did nothing: %+v", total)
	}
}

// TestSweepCatchesRunning leaves the owners unsealed: the sweep must fail.
func TestSweepCatchesRunning(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	sweep.Catches(t, 200, func(seed int64) error { _, err := runningSweep(t, seed, true); return err })
}

// runningStats are how many processes were killed, how many changes brokers acknowledged, and
// how many controllers were followed by others.
type runningStats struct{ killed, made, moved int }

// running is clients of a cluster.
type running struct {
	*simlab.Lab
	mu struct {
		sync.Mutex
		made int // the highest number that a client was told is set
	}
}

func runningSweep(t *testing.T, seed int64, noSeal bool) (st runningStats, err error) {
	r := &running{}
	err = simlab.Run(t, seed, func(l *simlab.Lab) error {
		r.Lab = l
		return r.life(noSeal, &st)
	})
	st.made, st.moved = r.mu.made, r.Terms()-1
	return st, err
}

func (r *running) life(noSeal bool, st *runningStats) error {
	var topic *projections.Topic
	if err := r.Do(func(ctx context.Context, b *coordinator.Broker) (err error) {
		if topic = b.View().Topic("t"); topic == nil {
			topic, err = b.CreateTopic(ctx, coordinator.TopicSpec{Name: "t", Partitions: 1}, false)
		}
		return err
	}); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := r.While(func() error { return r.changes(noSeal, st) }, func(ctx context.Context) { r.alter(ctx, topic.ID) }); err != nil {
		return err
	}
	return r.Do(func(_ context.Context, b *coordinator.Broker) error { return r.settled(topic.ID) })
}

// changes has alice be added, get another password, be removed, and be added for good, each by
// a process that may be killed and is followed by one that is not.
func (r *running) changes(noSeal bool, st *runningStats) error {
	for step, change := range []func(context.Context, *substrate.Volume) error{
		func(ctx context.Context, v *substrate.Volume) error { return add(ctx, v, 1) },
		func(ctx context.Context, v *substrate.Volume) error { return add(ctx, v, 2) },
		remove,
		func(ctx context.Context, v *substrate.Volume) error { return add(ctx, v, 3) },
	} {
		killed, err := r.Twice(fmt.Sprintf("users%d.", step), 300, noSeal, func(ctx context.Context, v *substrate.Volume) error {
			return retry(ctx, func() error { return change(ctx, v) })
		})
		if killed {
			st.killed++
		}
		if err != nil && !errors.Is(err, ErrNoCredential) {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if err := r.Pass(300); err != nil {
			return err
		}
	}
	return nil
}

// alter sets ever higher numbers, through whoever is controller.
func (r *running) alter(ctx context.Context, topic projections.TopicID) {
	for n := 1; sleep.For(ctx, 100*time.Millisecond); n++ {
		for _, b := range r.Brokers() {
			if !b.IsController() {
				continue
			}
			one, cancel := context.WithTimeout(r.Ctx, 20*time.Second)
			set := map[string]string{"retention.ms": strconv.Itoa(n)}
			err := b.AlterTopicConfigs(one, topic, func(*projections.Cluster, map[string]string) (map[string]string, error) { return set, nil }, false)
			cancel()
			if err == nil {
				r.mu.Lock()
				r.mu.made = n
				r.mu.Unlock()
			}
		}
	}
}

// settled is nil when both brokers show alice as she was added last, and what clients were told
// is set.
func (r *running) settled(topic projections.TopicID) error {
	r.mu.Lock()
	made := r.mu.made
	r.mu.Unlock()
	for _, b := range r.Brokers() {
		if salt, err := saltOf(b.View()); err != nil || salt != 3 {
			return fmt.Errorf("a broker shows alice with salt %d, %w", salt, err)
		}
		t := b.View().TopicByID(topic)
		if t == nil {
			return errors.New("a broker does not show the topic")
		}
		if n, _ := strconv.Atoi(t.Configs["retention.ms"]); n < made {
			return fmt.Errorf("a broker shows %d, and %d was acknowledged", n, made)
		}
		if !b.Ready() {
			return errors.New("a broker does not serve all that it leads")
		}
	}
	return nil
}

package restore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/tools/kaas-meta/simlab"
)

// TestSweepRunning has two brokers serve records and offsets while the cluster and a group are
// put back to before, by a process that is killed at any of its calls, or is not, and is run
// again then. All that was acknowledged is there, but for what was put back; both brokers show
// what was restored, and serve everything.
func TestSweepRunning(t *testing.T) {
	var total runningStats
	sweep.Run(t, 40, func(seed int64) error {
		st, err := runningSweep(t, seed, false)
		total.killed += st.killed
		total.acked += st.acked
		total.committed += st.committed
		return err
	})
	t.Logf("%+v", total)
	if total.killed == 0 || total.acked == 0 || total.committed == 0 {
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

type runningStats struct{ killed, acked, committed int }

// running is clients of a cluster.
type running struct {
	*simlab.Lab
	mu struct {
		sync.Mutex
		acked     map[string]bool
		committed int64 // the highest that group "others" was told it has committed
	}
}

func runningSweep(t *testing.T, seed int64, noSeal bool) (st runningStats, err error) {
	r := &running{}
	r.mu.acked = map[string]bool{}
	err = simlab.Run(t, seed, func(l *simlab.Lab) error {
		r.Lab = l
		return r.life(noSeal, &st)
	})
	st.acked, st.committed = len(r.mu.acked), int(r.mu.committed)
	return st, err
}

const (
	undone = "undone" // the group that is put back
	others = "others" // one of the same shard
)

func (r *running) life(noSeal bool, st *runningStats) error {
	var topic *projections.Topic
	if err := r.Do(func(ctx context.Context, b *coordinator.Broker) (err error) {
		if topic, err = b.CreateTopic(ctx, coordinator.TopicSpec{Name: "t", Partitions: 2, Configs: map[string]string{"retention.ms": "1000000"}}, false); err != nil {
			if b.View().Topic("t") == nil {
				return err
			}
			topic = b.View().Topic("t")
		}
		return r.commit(ctx, undone, topic.ID, 10)
	}); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	var req Request
	if err := simlab.On(r.Sim, func(ctx context.Context) error {
		v := &substrate.Volume{FS: r.Sim.Host(simlab.Offline).FS(), ID: simlab.Volume}
		return retry(ctx, func() error {
			labels, err := Expand(v, []string{"cluster", "groups"})
			req.Saved = nil
			for _, l := range labels {
				s, terr := Take(ctx, v, l, substrate.Position{})
				req.Saved, err = append(req.Saved, s), errors.Join(err, terr)
			}
			return err
		})
	}); err != nil {
		return fmt.Errorf("what is to be restored: %w", err)
	}
	if err := r.Do(func(ctx context.Context, b *coordinator.Broker) error {
		set := map[string]string{"retention.ms": "2000000"}
		return errors.Join(b.AlterTopicConfigs(ctx, topic.ID, func(*projections.Cluster, map[string]string) (map[string]string, error) { return set, nil }, false),
			r.commit(ctx, undone, topic.ID, 99))
	}); err != nil {
		return fmt.Errorf("what is undone: %w", err)
	}
	if err := r.While(func() error {
		killed, err := r.Twice("restore", 400, noSeal, func(ctx context.Context, v *substrate.Volume) error {
			var err error
			// The group "others" is the clients', and goes on.
			for _, one := range []Request{{Saved: req.Saved[:1]}, {Saved: req.Saved[1:], Groups: []string{undone}}} {
				err = errors.Join(err, retry(ctx, func() error { _, err := Run(ctx, v, one); return err }))
			}
			return err
		})
		if killed {
			st.killed++
		}
		if err != nil {
			return fmt.Errorf("restoring failed: %w", err)
		}
		return r.Pass(1000)
	}, func(ctx context.Context) { r.produce(ctx, topic.ID) }, func(ctx context.Context) { r.commits(ctx, topic.ID) }); err != nil {
		return err
	}
	return r.Do(func(ctx context.Context, b *coordinator.Broker) error { return r.settled(ctx, topic) })
}

// shard is the only shard of groups, at its owner.
func (r *running) shard() (*groupshard.Shard, error) {
	var errs []error
	for _, b := range r.Brokers() {
		s, err := b.GroupShard(undone)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(append(errs, errors.New("nobody owns the shard"))...)
}

func (r *running) commit(ctx context.Context, group string, topic projections.TopicID, offset int64) error {
	s, err := r.shard()
	if err != nil {
		return err
	}
	return s.Commit(ctx, groupshard.Commit{Group: group, Generation: -1, Topics: []groups.TopicOffsets{{Topic: topic, Partitions: []groups.PartitionOffset{{Offset: offset, LeaderEpoch: -1, Expires: -1}}}}})
}

// commits has group "others" commit ever higher offsets.
func (r *running) commits(ctx context.Context, topic projections.TopicID) {
	for n := int64(1); sleep.For(ctx, 50*time.Millisecond); n++ {
		one, cancel := context.WithTimeout(r.Ctx, 20*time.Second)
		if err := r.commit(one, others, topic, n); err == nil {
			r.mu.Lock()
			r.mu.committed = n
			r.mu.Unlock()
		}
		cancel()
	}
}

func (r *running) produce(ctx context.Context, topic projections.TopicID) {
	for n := 0; sleep.For(ctx, 30*time.Millisecond); n++ {
		value := fmt.Sprintf("v%06d", n)
		for _, b := range r.Brokers() {
			p, err := b.Partition(topic, int32(n%2))
			if err != nil {
				continue
			}
			one, cancel := context.WithTimeout(r.Ctx, 20*time.Second)
			a, err := p.Append(one, batchOf(value))
			if err == nil {
				err = a.Wait(one)
			}
			cancel()
			if err == nil {
				r.mu.Lock()
				r.mu.acked[value] = true
				r.mu.Unlock()
			}
		}
	}
}

// settled is nil when both brokers show what was restored, and everything is served and there.
func (r *running) settled(ctx context.Context, topic *projections.Topic) error {
	for _, b := range r.Brokers() {
		t := b.View().TopicByID(topic.ID)
		if t == nil || t.Configs["retention.ms"] != "1000000" {
			return fmt.Errorf("a broker shows topic t as %+v", t)
		}
		if !b.Ready() {
			return errors.New("a broker does not serve all that it leads")
		}
	}
	s, err := r.shard()
	if err != nil {
		return err
	}
	for group, least := range map[string]int64{undone: 10, others: r.mu.committed} {
		g, err := s.Fetch(ctx, group, nil, -1)
		if err != nil {
			return err
		}
		if g == nil && least == 0 {
			continue
		}
		if g == nil {
			return fmt.Errorf("group %s is gone", group)
		}
		at, _ := g.At(topic.ID, 0)
		if at.Offset < least || group == undone && at.Offset != least {
			return fmt.Errorf("group %s is at %d, want %d", group, at.Offset, least)
		}
	}
	have := map[string]int{}
	for i := range int32(2) {
		if err := r.readAll(ctx, topic.ID, i, have); err != nil {
			return err
		}
	}
	for v := range r.mu.acked {
		if have[v] == 0 {
			return fmt.Errorf("record %s, acknowledged, is gone", v)
		}
	}
	return nil
}

func (r *running) readAll(ctx context.Context, topic projections.TopicID, index int32, have map[string]int) error {
	for _, b := range r.Brokers() {
		p, err := b.Partition(topic, index)
		if err != nil {
			continue
		}
		_, end, _ := p.Offsets()
		for at := int64(0); at < end; {
			f, err := p.Read(ctx, at, 1<<20, true)
			if err != nil {
				return err
			}
			for rest := f.Records; len(rest) > 0; {
				n := 12 + int(binary.BigEndian.Uint32(rest[8:]))
				at = int64(binary.BigEndian.Uint64(rest)) + int64(binary.BigEndian.Uint32(rest[23:])) + 1
				have[string(rest[n-8:n-1])]++
				rest = rest[n:]
			}
		}
		return nil
	}
	return fmt.Errorf("partition %d is not served", index)
}

// batchOf is a batch of one record with a value of seven bytes.
func batchOf(value string) []byte {
	b := make([]byte, 61)
	b[16] = 2
	for _, at := range []int{43, 47, 49, 53} { // no producer
		binary.BigEndian.PutUint32(b[at:], 0xffffffff)
	}
	binary.BigEndian.PutUint32(b[57:], 1)
	record := append([]byte{0, 0, 0, 1, byte(2 * len(value))}, value...)
	record = append(record, 0)
	b = append(append(b, byte(2*len(record))), record...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], substrate.CRC32C(b[21:]))
	return b
}

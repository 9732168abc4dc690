package groupshard

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const stream = "groups/00"

// bench is a volume, and the view of a cluster.
type bench struct {
	tb   testing.TB
	v    *substrate.Volume
	view *projections.Cluster
	conf Config
	opt  Options
}

func newBench(tb testing.TB) *bench {
	fs, err := substrate.OpenDir(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	v, err := substrate.OpenVolume(fs, "")
	if err != nil {
		tb.Fatal(err)
	}
	return &bench{tb: tb, v: v, view: projections.NewCluster(), conf: DefaultConfig()}
}

// topic puts a topic into the view.
func (b *bench) topic(name string, partitions int32) projections.TopicID {
	id := projections.TopicID{15: byte(len(b.view.Topics()) + 1)}
	ev, err := projections.NewEvent(&projections.TopicCreated{ID: id, Name: name, Partitions: partitions})
	if err == nil {
		b.view, err = projections.Apply(b.view, []metalog.Event{ev})
	}
	if err != nil {
		b.tb.Fatal(err)
	}
	return id
}

// owner opens the shard under an epoch and a session of its own.
func (b *bench) owner(epoch int32) *Shard {
	b.tb.Helper()
	ctx := context.Background()
	s, err := b.v.OpenSession(substrate.Identity{NodeID: epoch, Role: substrate.RoleData})
	if err != nil {
		b.tb.Fatal(err)
	}
	opt := b.opt
	if opt.CommitTimeout == 0 {
		opt.CommitTimeout = time.Minute // a busy machine is slower than a client would like
	}
	opt.Check, opt.Log = s.Check, slog.New(slog.DiscardHandler)
	opt.View = b.viewOf
	opt.Config = func(*projections.Cluster, string) Config { return b.conf }
	sh, err := Open(ctx, s, stream, epoch, opt)
	if err != nil {
		b.tb.Fatalf("open in epoch %d: %v", epoch, err)
	}
	b.tb.Cleanup(func() { _ = sh.Abandon(ctx); _ = s.Close(ctx) })
	return sh
}

func offsets(t projections.TopicID, offset int64, partitions ...int32) []groups.TopicOffsets {
	o := groups.TopicOffsets{Topic: t}
	for _, p := range partitions {
		o.Partitions = append(o.Partitions, groups.PartitionOffset{Partition: p, Offset: offset, LeaderEpoch: -1, Expires: -1})
	}
	return []groups.TopicOffsets{o}
}

func (b *bench) commit(sh *Shard, group string, t projections.TopicID, offset int64, partitions ...int32) {
	b.tb.Helper()
	if err := sh.Commit(context.Background(), Commit{Group: group, Generation: -1, Topics: offsets(t, offset, partitions...)}); err != nil {
		b.tb.Fatalf("commit of %s: %v", group, err)
	}
}

// committed is a group's offset, -1 if it has none.
func (b *bench) committed(sh *Shard, group string, t projections.TopicID, partition int32) int64 {
	b.tb.Helper()
	g, err := sh.Fetch(context.Background(), group, nil, -1)
	if err != nil {
		b.tb.Fatalf("offsets of %s: %v", group, err)
	}
	if g == nil {
		return -1
	}
	if o, ok := g.Offsets[t][partition]; ok {
		return o.Offset
	}
	return -1
}

func (b *bench) expect(sh *Shard, group string, t projections.TopicID, partition int32, want int64) {
	b.tb.Helper()
	if got := b.committed(sh, group, t, partition); got != want {
		b.tb.Errorf("%s has %d for partition %d, want %d", group, got, partition, want)
	}
}

func (b *bench) viewOf() *projections.Cluster { return b.view }

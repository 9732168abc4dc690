package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// RolledBack makes a volume usable that came back from a storage snapshot, of one moment, and
// so has forgotten what brokers did since.
func RolledBack(ctx context.Context, v *substrate.Volume, opt Options) (*Report, error) {
	r := newRun(v, opt.withDefaults(16))
	err := r.attempt(ctx, r.claimPartitions)
	if err == nil {
		err = r.attempt(ctx, r.rollBack)
	}
	return &r.out, err
}

// shard is a coordinator's shard with its state.
type shard[S any] struct {
	n     int32
	epoch substrate.Epoch
	state S
}

func (r *run) rollBack(ctx context.Context) error {
	cluster, epoch, err := fold(ctx, r, r.v.MetaDir()+"/cluster", projections.ClusterSchema())
	if err != nil {
		return fmt.Errorf("%w; where it cannot be read, kaas-meta rebuild makes it anew", err)
	}
	gs, err := foldShards(ctx, r, groups.StreamsDir, groups.Schema())
	if err != nil {
		return err
	}
	ts, err := foldShards(ctx, r, txns.StreamsDir, txns.Schema())
	if err != nil {
		return err
	}
	first := r.floor(cluster.NextProducerID())
	fenced, next, err := r.fenceTransactions(cluster, ts, first)
	if err != nil {
		return err
	}
	cluster, err = apply(cluster, slices.Concat(r.raised(cluster, next), shardEpochs(cluster, gs, ts), fenced))
	if err != nil {
		return err
	}
	r.tell(cluster, gs, ts)
	if r.opt.DryRun {
		return nil
	}
	return r.publish(ctx, cluster, epoch, gs, ts)
}

// foldShards folds the shards of a kind that have a stream.
func foldShards[S any](ctx context.Context, r *run, kind string, sc *metalog.Schema[S]) (out []shard[S], err error) {
	dir := path.Join(r.v.MetaDir(), kind)
	es, err := r.v.ListFresh(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nobody has owned one yet
	}
	if err != nil {
		return nil, err
	}
	for _, e := range es {
		n, err := projections.ParseShardName(e.Name)
		if err != nil || !e.Dir {
			continue
		}
		st, epoch, err := fold(ctx, r, path.Join(dir, e.Name), sc)
		if err != nil {
			return nil, err
		}
		out = append(out, shard[S]{n, epoch, st})
	}
	return out, nil
}

// led is where a partition's epochs are.
type led map[txns.Partition]substrate.Epoch

// claimPartitions claims every manifest above all that it shows, by the margin, and leaves a
// closed base there. Whatever a broker that led before still removes of the history, which
// the snapshot may need, is older than that.
func (r *run) claimPartitions(ctx context.Context) error {
	dirs, err := r.partitionDirs()
	if err != nil {
		return err
	}
	dirs = slices.DeleteFunc(dirs, func(p txns.Partition) bool { return r.led[p] > 0 })
	return r.each(ctx, "partitions", len(dirs), func(ctx context.Context, i int) error {
		p := dirs[i]
		epoch, err := r.claimPartition(ctx, p)
		r.mu.Lock()
		defer r.mu.Unlock()
		if damaged(err) {
			r.out.lose("partition %d of topic %s is damaged, and will be offline: %v", p.Index, p.Topic, err)
			err = nil
		}
		if err == nil {
			r.led[p] = epoch
		}
		return err
	})
}

func (r *run) claimPartition(ctx context.Context, p txns.Partition) (substrate.Epoch, error) {
	stream := partition.ManifestStream(p.Topic, p.Index)
	next, err := metalog.NextEpoch(r.v, stream)
	if err != nil || r.opt.DryRun {
		return next + substrate.Epoch(r.opt.EpochMargin) - 1, err
	}
	c, err := claimMended(ctx, r, stream, partition.ManifestSchema(), r.opt.EpochMargin, r.hasFiles(ctx, p))
	if err != nil {
		return next + substrate.Epoch(r.opt.EpochMargin) - 1, err
	}
	return c.epoch, c.w.Close(ctx)
}

func damaged(err error) bool {
	var damage *substrate.DamageError
	var name *substrate.NameError
	return errors.As(err, &damage) || errors.As(err, &name) || errors.Is(err, substrate.ErrNoBase) || errors.Is(err, fs.ErrNotExist)
}

// partitionDirs lists the partitions there are in topics/.
func (r *run) partitionDirs() (out []txns.Partition, err error) {
	topics, err := r.topicDirs()
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		ps, err := r.partitionsOf(t)
		if err != nil {
			return nil, err
		}
		out = append(out, ps...)
	}
	return out, nil
}

// raised is what the new cluster stream has above the old one.
func (r *run) raised(c *projections.Cluster, nextProducer int64) (fs []projections.Fact) {
	fs = append(fs, &projections.ProducerIDsAllocated{First: nextProducer - 1, Count: 1, Broker: -1})
	fs = append(fs, r.fencedBrokers(c)...)
	for _, t := range c.Topics() {
		missing := 0
		for i, p := range t.Partitions {
			epoch, there := r.led[txns.Partition{Topic: t.ID, Index: int32(i)}]
			if !there {
				missing++
				epoch = substrate.Epoch(p.Epoch + r.opt.EpochMargin)
				r.out.lose("partition %d of topic %s: its directory is gone, and it will be offline", i, t.Name)
			}
			fs = append(fs, &projections.PartitionLeaderChanged{TopicID: t.ID, Partition: int32(i), Leader: projections.NoLeader,
				Epoch: max(int32(epoch), p.Epoch+1)})
		}
		if missing == len(t.Partitions) {
			fs = append(fs, &projections.TopicDeleted{ID: t.ID, Name: t.Name}, &projections.TopicRemoved{ID: t.ID, Name: t.Name})
			r.out.lose("topic %s: nothing of it is there, so it is left out", t.Name)
		}
	}
	return fs
}

// fencedBrokers registers the brokers anew, above every epoch that one may have had, each
// fenced until it comes back.
func (r *run) fencedBrokers(c *projections.Cluster) (fs []projections.Fact) {
	epoch := r.floor(c.NextBrokerEpoch())
	for _, b := range c.Brokers() {
		fs = append(fs, &projections.BrokerRegistered{ID: b.ID, Epoch: epoch, Host: b.Host, Listeners: b.Listeners, Rack: b.Rack, Fenced: true})
		epoch++
	}
	if len(fs) == 0 { // somebody has to have had the epoch
		fs = append(fs, &projections.BrokerRegistered{ID: 0, Epoch: epoch, Fenced: true}, &projections.BrokerUnregistered{ID: 0, Epoch: epoch})
	}
	return fs
}

// shardEpochs has every shard without an owner, in the epoch in which its new stream is born.
func shardEpochs(c *projections.Cluster, gs []shard[*groups.Shard], ts []shard[*txns.Shard]) (fs []projections.Fact) {
	born := map[projections.ShardKind]map[int32]substrate.Epoch{projections.ShardGroups: {}, projections.ShardTxns: {}}
	for _, s := range gs {
		born[projections.ShardGroups][s.n] = s.epoch
	}
	for _, s := range ts {
		born[projections.ShardTxns][s.n] = s.epoch
	}
	for kind, at := range born {
		for i, p := range c.Shards(kind) {
			fs = append(fs, &projections.ShardOwnerChanged{Kind: kind, Shard: int32(i), Owner: projections.NoLeader,
				Epoch: max(p.Epoch+1, int32(at[int32(i)]))})
		}
	}
	return fs
}

func (r *run) tell(c *projections.Cluster, gs []shard[*groups.Shard], ts []shard[*txns.Shard]) {
	r.out.ProducerIDs = c.NextProducerID()
	r.out.Partitions = c.PartitionCount()
	for _, t := range c.Topics() {
		r.out.Topics = append(r.out.Topics, Topic{t.ID.String(), t.Name, len(t.Partitions), t.Configs})
	}
	for _, s := range gs {
		r.out.Groups += s.state.Len()
	}
	for _, s := range ts {
		r.out.Txns += s.state.Len()
	}
}

func (r *run) publish(ctx context.Context, c *projections.Cluster, epoch substrate.Epoch, gs []shard[*groups.Shard], ts []shard[*txns.Shard]) error {
	m, err := r.newMeta()
	if err != nil {
		return err
	}
	reason := "volume " + r.out.OldID + " was rolled back"
	err = errors.Join(m.dir(groups.StreamsDir), m.dir(txns.StreamsDir),
		add(m, "cluster", projections.ClusterSchema(), reason, epoch, c))
	for _, s := range gs {
		err = errors.Join(err, add(m, groups.Stream("", s.n), groups.Schema(), reason, s.epoch, s.state))
	}
	for _, s := range ts {
		err = errors.Join(err, add(m, txns.Stream("", s.n), txns.Schema(), reason, s.epoch, s.state))
	}
	if err == nil {
		err = m.place(groups.StreamsDir, txns.StreamsDir)
	}
	if err != nil {
		return err
	}
	return r.finish(ctx, m)
}

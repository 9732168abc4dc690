package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// ErrThere refuses to rebuild what can be read.
var ErrThere = errors.New("the metadata is there and can be read, with offsets and settings that a rebuild leaves behind; with --force it is left behind")

// Rebuild makes the metadata of a volume anew from its partitions. v need not have an ID.
func Rebuild(ctx context.Context, v *substrate.Volume, opt Options) (*Report, error) {
	if v.ID != "" && !opt.Force {
		_, _, err := metalog.ReadState(ctx, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
		if err == nil {
			return nil, fmt.Errorf("meta/%s: %w", v.ID, ErrThere)
		}
	}
	r := newRun(v, opt.withDefaults(1))
	err := r.attempt(ctx, r.rebuild)
	return &r.out, err
}

func (r *run) rebuild(ctx context.Context) error {
	topics, err := r.findTopics(ctx)
	if err != nil {
		return err
	}
	var all []*part
	for _, t := range topics {
		if err := r.makeMissing(t); err != nil {
			return err
		}
		all = append(all, t.parts...)
	}
	err = r.each(ctx, "partitions", len(all), func(ctx context.Context, i int) error { return r.settle(ctx, all[i]) })
	if err != nil {
		return err
	}
	fs, view := r.facts(topics, all)
	cluster, err := apply(projections.NewCluster(), fs)
	if err != nil {
		return err
	}
	r.tell(cluster, nil, nil)
	r.loseRest()
	if r.opt.DryRun {
		return nil
	}
	m, err := r.newMeta()
	if err != nil {
		return err
	}
	if err := add(m, "cluster", projections.ClusterSchema(), "rebuilt from the partitions", view+1, cluster); err != nil {
		return err
	}
	if err := m.place(); err != nil {
		return err
	}
	return r.finish(ctx, m)
}

// loseRest names what the partitions know nothing of.
func (r *run) loseRest() {
	for _, what := range []string{
		"committed offsets and consumer groups, and what was set for groups",
		"transactional IDs: their producers have to begin anew",
		"what was set for brokers, for one or for all",
		"ACLs, credentials and quotas",
		"deletions of topics that were under way: a topic whose files were still there comes back",
	} {
		r.out.lose("%s", what)
	}
}

// settle takes a partition over, aborts what is open there, and closes it, so that whoever
// leads it next finds its end known and nothing to wait for. It is read only in a dry run.
func (r *run) settle(ctx context.Context, p *part) error {
	next, err := metalog.NextEpoch(r.v, p.stream())
	if err != nil {
		next = 1
	}
	p.epoch = next + substrate.Epoch(r.opt.EpochMargin) - 1
	if p.m == nil {
		return nil // it is lost, or damaged, and named
	}
	for _, x := range p.m.Producers {
		p.producer = max(p.producer, x.ID)
		if x.Txn != nil && x.Txn.First >= 0 {
			p.aborted = append(p.aborted, x.ID)
		}
	}
	if r.opt.DryRun {
		return nil
	}
	err = r.takeOver(ctx, p)
	if damaged(err) {
		p.why, err = err, nil
	}
	return err
}

func (r *run) takeOver(ctx context.Context, p *part) error {
	cfg := partition.Config{Node: -1, Now: r.opt.Now, Log: r.opt.Log, ProducerExpiry: 100 * 365 * 24 * time.Hour,
		RecoveryPointIdle: 24 * time.Hour, StallAfter: 24 * time.Hour}
	var led *partition.Partition
	for ; ; p.epoch++ {
		var err error
		led, err = partition.Open(ctx, r.s, p.topic.id, p.topic.name, p.index, int32(p.epoch), cfg)
		if err == nil {
			break
		}
		if !errors.Is(err, substrate.ErrEpochTaken) || ctx.Err() != nil {
			return err
		}
	}
	err := r.abortOpen(ctx, p, led)
	if err != nil {
		return errors.Join(err, led.Abandon(ctx))
	}
	return led.Relinquish(ctx)
}

// abortOpen ends every transaction that is open on a partition. The marker's epoch is above
// the producer's, which fences it there.
func (r *run) abortOpen(ctx context.Context, p *part, led *partition.Partition) error {
	p.aborted = nil
	for _, x := range led.Producers() {
		p.producer = max(p.producer, x.ID)
		if x.CoordinatorEpoch >= 0 || x.TxnStart >= 0 {
			p.txns = append(p.txns, x.ID)
		}
		if x.TxnStart < 0 {
			continue
		}
		m := partition.Marker{ProducerID: x.ID, ProducerEpoch: x.Epoch, CoordinatorEpoch: x.CoordinatorEpoch + 1}
		if x.Epoch < math.MaxInt16 {
			m.ProducerEpoch, m.Version = x.Epoch+1, 2
		}
		a, err := led.WriteMarker(ctx, m)
		if err == nil {
			err = a.Wait(ctx)
		}
		if err != nil {
			return fmt.Errorf("abort producer %d on partition %d of %s: %w", x.ID, p.index, p.topic.name, err)
		}
		p.aborted = append(p.aborted, x.ID)
	}
	return nil
}

// facts are the new cluster's, and the newest epoch that its old stream is known to have had.
func (r *run) facts(topics []*topic, parts []*part) (fs []projections.Fact, view substrate.Epoch) {
	producer := int64(-1)
	fenced, aborted := map[int64]bool{}, map[int64]bool{}
	for _, t := range topics {
		about := t.about()
		fs = append(fs, &projections.TopicCreated{ID: t.id, Name: t.name, Partitions: about.Partitions, Configs: about.Configs, CreatedAt: about.Created})
		view = max(view, about.View.Epoch)
	}
	for _, p := range parts {
		fs = append(fs, &projections.PartitionLeaderChanged{TopicID: p.topic.id, Partition: p.index, Leader: projections.NoLeader, Epoch: int32(p.epoch)})
		producer = max(producer, p.producer)
		for _, id := range p.aborted {
			aborted[id] = true
		}
		for _, id := range p.txns { // nobody knows their transactional IDs any more
			if !fenced[id] {
				fenced[id] = true
				fs = append(fs, &projections.ProducerFenced{ProducerID: id, Epoch: math.MaxInt16, Time: r.at.UnixMilli()})
			}
		}
		if p.why != nil {
			r.out.lose("partition %d of topic %s will be offline: %v", p.index, p.topic.name, p.why)
		}
	}
	r.out.Aborted = len(aborted)
	fs = append(fs, &projections.ProducerIDsAllocated{First: r.floor(producer) - 1, Count: 1, Broker: -1})
	return append(fs, r.fencedBrokers(projections.NewCluster())...), view
}

// makeMissing has the partitions that are gone made anew, if that is wanted.
func (r *run) makeMissing(t *topic) error {
	for _, p := range t.parts {
		if p.m != nil || !errors.Is(p.why, errGone) || !r.opt.MakeMissing {
			continue
		}
		r.out.lose("partition %d of topic %s: its directory is gone, and it is made anew, empty", p.index, t.name)
		p.why = nil
		if r.opt.DryRun {
			continue
		}
		if err := partition.BuildPartition(r.v, r.s.ID(), t.id, t.name, p.index, r.at); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

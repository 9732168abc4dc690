package timeline

import (
	"context"
	"slices"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// Options choose what a page shows.
type Options struct {
	// Since and Until bound the time; zero for no bound. What was so before Since is known
	// from the history before it.
	Since, Until time.Time
	// Streams are named as --stream names them. None stands for all but those of the
	// partitions, which tell of segments.
	Streams []string
}

const clusterStream = "cluster"

// Build reads the history of a volume. A stream that cannot be read is told in the notes,
// but for the cluster's, without which nothing has a name.
func Build(ctx context.Context, v *substrate.Volume, opt Options) (*Timeline, error) {
	streams, err := find(ctx, v, opt.Streams)
	if err != nil {
		return nil, err
	}
	b := newBuilder(opt)
	b.out.Cluster = v.ID
	if err := b.learn(ctx, v); err != nil {
		return nil, err
	}
	for _, s := range streams {
		err := b.read(ctx, s)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && s.Name == clusterStream:
			return nil, err
		case err != nil:
			b.note("%s could not be read to its end: %v", s.Name, err)
		}
	}
	return b.finish(), nil
}

// find returns the streams of a page, the cluster's first.
func find(ctx context.Context, v *substrate.Volume, names []string) (out []*history.Stream, err error) {
	if len(names) == 0 {
		out = append(out, history.Cluster(v))
		for _, k := range history.ShardKinds {
			shards, err := k.List(v)
			if err != nil {
				return nil, err
			}
			for _, n := range shards {
				out = append(out, k.Stream(v, n))
			}
		}
		return out, nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		s, err := history.Find(ctx, v, name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(x, y *history.Stream) int { return rank(x) - rank(y) })
	return out, nil
}

func rank(s *history.Stream) int {
	if s.Name == clusterStream {
		return 0
	}
	return 1
}

// learn takes the names of all topics there have been from what is retained of the
// cluster's history. Other streams have only IDs.
func (b *builder) learn(ctx context.Context, v *substrate.Volume) error {
	view, err := history.ReadCluster(ctx, v)
	if err != nil {
		return err
	}
	b.learnAll(view)
	made := history.Filter{Types: []string{(&projections.TopicCreated{}).EventName(), (&projections.TopicDeleted{}).EventName()}}
	for r, err := range history.Cluster(v).Records(ctx, made) {
		if err != nil {
			return err
		}
		b.learnFrom(r)
	}
	return nil
}

func (b *builder) learnFrom(r history.Record) {
	for _, ev := range r.Events {
		switch f := ev.Data.(type) {
		case *projections.TopicCreated:
			b.names[f.ID.String()] = f.Name
		case *projections.TopicDeleted:
			b.names[f.ID.String()] = f.Name
		}
	}
}

func (b *builder) learnAll(c *projections.Cluster) {
	for _, t := range c.Topics() {
		b.names[t.ID.String()] = t.Name
	}
	for id, name := range c.Removing() {
		b.names[id.String()] = name
	}
}

// read takes a stream in.
func (b *builder) read(ctx context.Context, s *history.Stream) error {
	x, err := s.Index(ctx)
	if err != nil {
		return err
	}
	f := b.follow(s.Name, laneOfStream(b, s))
	for st, err := range s.StepsIn(ctx, x, history.Filter{Since: b.opt.Since, Until: b.opt.Until}) {
		if err != nil {
			return err
		}
		f.step(step{Record: st.Record, before: st.Before.Fold, after: st.After.Fold, changes: history.Diff(st.Before, st.After)})
	}
	f.end()
	if f.begun || b.opt.Since.IsZero() {
		return nil
	}
	// Nothing has happened since. How it was is known from before, if it goes back so far.
	p, err := s.ResolveIn(ctx, x, b.opt.Since.Format(time.RFC3339Nano), time.Time{})
	if err == nil {
		var at history.State
		if at, err = s.At(ctx, p); err == nil {
			b.refresh(nil, at.Fold, b.opt.Since, -1)
		}
	}
	return ctx.Err()
}

package main

import (
	"context"
	"fmt"
	"path"
	"slices"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// shardKind is what the commands know of shards of one kind. Streams and their directory are
// named by it.
type shardKind struct {
	kind   projections.ShardKind
	what   string // one that falls into a shard
	parse  func(name string) (int32, error)
	stream func(v *substrate.Volume, shard int32) *stream
	empty  func(shard int32) any // the state of a shard that nobody has owned yet
}

var (
	groupKind = &shardKind{projections.ShardGroups, "group", groups.ParseStreamName, groupsStream,
		func(shard int32) any { return showShard(groups.NewShard(), shard, nil) }}
	txnKind = &shardKind{projections.ShardTxns, "transactional ID", txns.ParseStreamName, txnsStream,
		func(shard int32) any { return showTxns(txns.NewShard(), shard, nil) }}

	shardKinds = []*shardKind{groupKind, txnKind}
)

// list lists the shards that have a stream. One that nobody has owned yet has none.
func (k *shardKind) list(v *substrate.Volume) ([]int32, error) {
	es, err := v.ListFresh(path.Join(v.MetaDir(), string(k.kind)))
	if err != nil && !isNotExist(err) {
		return nil, err
	}
	var out []int32
	for _, e := range es {
		if n, err := k.parse(e.Name); err == nil && e.Dir {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// find returns a shard's stream, which is absent until somebody owns the shard.
func (k *shardKind) find(ctx context.Context, v *substrate.Volume, shard int32) (*stream, error) {
	s := k.stream(v, shard)
	there, err := k.list(v)
	if err != nil || slices.Contains(there, shard) {
		return s, err
	}
	view, err := readCluster(ctx, v)
	if err != nil {
		return nil, err
	}
	if n := len(view.Shards(k.kind)); int(shard) >= n {
		return nil, fmt.Errorf("there are %d shards of %ss, and no %s", n, k.what, s.label)
	}
	s.absent = true
	s.state = func(_ context.Context, p substrate.Position) (substrate.Position, any, error) {
		if !p.IsZero() {
			return p, nil, fmt.Errorf("%s: nobody has owned it yet, so it has no position %s", s.label, p)
		}
		return p, k.empty(shard), nil
	}
	return s, nil
}

// shardOf is the shard that something falls into. The error says that there is no such thing
// where its shard has no stream.
func (k *shardKind) shardOf(ctx context.Context, v *substrate.Volume, id string) (int32, *stream, error) {
	view, err := readCluster(ctx, v)
	if err != nil {
		return 0, nil, err
	}
	shard, ok := view.ShardOf(k.kind, id)
	if !ok {
		return 0, nil, fmt.Errorf("there is no %s %q: no broker has made the shards yet", k.what, id)
	}
	s, err := k.find(ctx, v, shard)
	if err != nil {
		return 0, nil, err
	}
	if s.absent {
		return 0, nil, fmt.Errorf("there is no %s %q: nobody has owned %s yet", k.what, id, s.label)
	}
	return shard, s, nil
}

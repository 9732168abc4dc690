package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// ShardKind is what tools know of shards of one kind. Streams and their directory are
// named by it.
type ShardKind struct {
	Kind   projections.ShardKind
	What   string // one that falls into a shard
	Stream func(v *substrate.Volume, shard int32) *Stream
}

// The kinds of shards there are.
var (
	GroupShards = &ShardKind{projections.ShardGroups, "group", Groups}
	TxnShards   = &ShardKind{projections.ShardTxns, "transactional ID", Txns}

	ShardKinds = []*ShardKind{GroupShards, TxnShards}
)

// List lists the shards that have a stream. One that nobody has owned yet has none.
func (k *ShardKind) List(v *substrate.Volume) ([]int32, error) {
	es, err := v.ListFresh(path.Join(v.MetaDir(), string(k.Kind)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []int32
	for _, e := range es {
		if n, err := projections.ParseShardName(e.Name); err == nil && e.Dir {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Find returns a shard's stream, which is absent until somebody owns the shard.
func (k *ShardKind) Find(ctx context.Context, v *substrate.Volume, shard int32) (*Stream, error) {
	s := k.Stream(v, shard)
	there, err := k.List(v)
	if err != nil || slices.Contains(there, shard) {
		return s, err
	}
	view, err := ReadCluster(ctx, v)
	if err != nil {
		return nil, err
	}
	if n := len(view.Shards(k.Kind)); int(shard) >= n {
		return nil, fmt.Errorf("there are %d shards of %ss, and no %s", n, k.What, s.Name)
	}
	s.Absent = true
	return s, nil
}

// ShardOf is the shard that something falls into. The error says that there is no such thing
// where its shard has no stream.
func (k *ShardKind) ShardOf(ctx context.Context, v *substrate.Volume, id string) (int32, *Stream, error) {
	view, err := ReadCluster(ctx, v)
	if err != nil {
		return 0, nil, err
	}
	shard, ok := view.ShardOf(k.Kind, id)
	if !ok {
		return 0, nil, fmt.Errorf("there is no %s %q: no broker has made the shards yet", k.What, id)
	}
	s, err := k.Find(ctx, v, shard)
	if err != nil {
		return 0, nil, err
	}
	if s.Absent {
		return 0, nil, fmt.Errorf("there is no %s %q: nobody has owned %s yet", k.What, id, s.Name)
	}
	return shard, s, nil
}

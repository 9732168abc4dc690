package check

import (
	"context"
	"path"
	"slices"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

func clusterStream(v *substrate.Volume) string { return path.Join(v.MetaDir(), "cluster") }

// streamUnit is a stream of the cluster's: the cluster stream, or a shard's.
type streamUnit struct {
	path   string
	verify func(context.Context, *engine) (*metalog.Verification, error)
	kind   projections.ShardKind // empty for the cluster stream
	shard  int32
}

func (e *engine) clusterUnit() unit {
	u := streamUnit{path: clusterStream(e.v)}
	u.verify = verifier(u.path, projections.ClusterSchema())
	return u
}

func verifier[S any](stream string, sc *metalog.Schema[S]) func(context.Context, *engine) (*metalog.Verification, error) {
	return func(ctx context.Context, e *engine) (*metalog.Verification, error) {
		r, _, err := metalog.VerifyState(ctx, e.v, stream, sc)
		return r, err
	}
}

func (u streamUnit) look(ctx context.Context, e *engine) *seen {
	s := &seen{}
	r, err := u.verify(ctx, e)
	if r = s.stream(e, u.path, r, err); r == nil {
		return s
	}
	if u.kind == "" {
		e.strange.Store(slices.ContainsFunc(r.Findings, func(f metalog.Finding) bool { return f.Kind == metalog.KindName }))
	}
	led := e.ledUpTo(r)
	s.judge = func(s *seen, view *projections.Cluster) {
		made := view.Shards(u.kind)
		switch {
		case u.kind == "":
		case int(u.shard) >= len(made):
			s.fault(kindShardAbove, u.path, "is there, but the cluster has %d shards of %s", len(made), u.kind)
		case int64(led) > int64(made[u.shard].Epoch):
			s.fault(kindEpochAhead, u.path, "has epoch %d, but the cluster has given it only up to %d: the cluster stream has gone back", led, made[u.shard].Epoch)
		}
	}
	return s
}

// stream takes what was found in a stream over; nil where there is none.
func (s *seen) stream(e *engine, name string, r *metalog.Verification, err error) *metalog.Verification {
	switch {
	case isNotExist(err):
		s.fault(metalog.KindStream, name, "is missing")
		return nil
	case err != nil:
		s.fault(metalog.KindUnreadable, name, "%v", err)
		return nil
	}
	s.counts.Streams++
	s.counts.Entries += r.Entries
	s.counts.Plugs += r.Plugs
	s.findings = append(s.findings, r.Findings...)
	for _, o := range r.Others {
		s.other(e, o.Dir, o.DirEntry)
	}
	e.noteSessions(r)
	return r
}

// shards are the kinds of shards, each with its directory's name.
var shards = []struct {
	kind projections.ShardKind
	unit func(e *engine, shard int32) streamUnit
}{
	{projections.ShardGroups, func(e *engine, n int32) streamUnit {
		return shardUnit(groups.Stream(e.v.MetaDir(), n), projections.ShardGroups, n, groups.Schema())
	}},
	{projections.ShardTxns, func(e *engine, n int32) streamUnit {
		return shardUnit(txns.Stream(e.v.MetaDir(), n), projections.ShardTxns, n, txns.Schema())
	}},
}

func shardUnit[S any](stream string, kind projections.ShardKind, n int32, sc *metalog.Schema[S]) streamUnit {
	return streamUnit{path: stream, verify: verifier(stream, sc), kind: kind, shard: n}
}

// metaUnit is meta/ down to where the streams are.
type metaUnit struct{}

func (metaUnit) look(_ context.Context, e *engine) *seen {
	s := &seen{}
	es, _ := s.list(e, metaDir)
	for _, de := range es {
		switch {
		case de.Name == e.v.ID:
			s.isDir(metaDir, de)
		case de.Dir && !substrate.IsTemporary(de.Name):
			s.note(kindOtherMeta, path.Join(metaDir, de.Name), "is the metadata of another volume ID")
		default:
			s.other(e, metaDir, de)
		}
	}
	es, _ = s.list(e, e.v.MetaDir())
	for _, de := range es {
		switch de.Name {
		case "cluster", string(projections.ShardGroups), string(projections.ShardTxns):
			s.isDir(e.v.MetaDir(), de)
		default:
			s.other(e, e.v.MetaDir(), de)
		}
	}
	there := map[projections.ShardKind][]int32{}
	for _, k := range shards {
		dir := path.Join(e.v.MetaDir(), string(k.kind))
		es, _ := s.list(e, dir)
		for _, de := range es {
			n, err := projections.ParseShardName(de.Name)
			switch {
			case err == nil && s.isDir(dir, de):
				there[k.kind] = append(there[k.kind], n)
				s.below = append(s.below, k.unit(e, n))
			case err == nil:
			case digits(de.Name):
				s.fault(metalog.KindName, path.Join(dir, de.Name), "%v", err)
			default:
				s.other(e, dir, de)
			}
		}
	}
	s.judge = func(s *seen, view *projections.Cluster) { s.missingShards(e, view, there) }
	return s
}

// missingShards names the shards that the cluster has given to somebody and that have no
// stream. Who is given one first makes it, so until another was given it, it may not have
// been made yet.
func (s *seen) missingShards(e *engine, view *projections.Cluster, there map[projections.ShardKind][]int32) {
	for _, k := range shards {
		for i, p := range view.Shards(k.kind) {
			name := k.unit(e, int32(i)).path
			switch {
			case slices.Contains(there[k.kind], int32(i)):
			case p.Epoch > 1:
				s.fault(kindShardMissing, name, "is missing; the cluster gives it to broker %d, under epoch %d", p.Leader, p.Epoch)
			default:
				s.note(kindShardUnmade, name, "is not made yet; the cluster gives it to broker %d for the first time", p.Leader)
			}
		}
	}
}

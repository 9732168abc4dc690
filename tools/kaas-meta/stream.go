package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// stream is a stream of the volume with what the commands do to it, whatever the
// type of its state.
type stream struct {
	label    string // as --stream names it
	path     string // on the volume
	describe func(metalog.Event) (string, error)
	decode   func(metalog.Event) (any, error)
	// state is the fold up to p, or to the newest entry where p is zero.
	state    func(ctx context.Context, p substrate.Position) (substrate.Position, any, error)
	verify   func() (*metalog.Verification, error)
	manifest bool // of a partition
	absent   bool // there will be such a stream
}

func bind[S any](v *substrate.Volume, s stream, sc *metalog.Schema[S], show func(S) any) *stream {
	s.state = func(ctx context.Context, p substrate.Position) (substrate.Position, any, error) {
		var snap metalog.Snapshot[S]
		var err error
		if p.IsZero() {
			snap, _, err = metalog.ReadState(ctx, v, s.path, sc)
		} else {
			snap, err = metalog.ReadStateAt(ctx, v, s.path, p, sc)
		}
		if err != nil {
			return p, nil, err
		}
		return snap.Pos, show(snap.State), nil
	}
	s.verify = func() (*metalog.Verification, error) { return metalog.Verify(v, s.path, sc) }
	return &s
}

func clusterStream(v *substrate.Volume) *stream {
	return bind(v, stream{
		label: "cluster", path: v.MetaDir() + "/cluster", describe: projections.Describe,
		decode: func(ev metalog.Event) (any, error) { return projections.DecodeEvent(ev) },
	}, projections.ClusterSchema(), func(c *projections.Cluster) any { return showCluster(v.ID, c) })
}

func manifestStream(v *substrate.Volume, label string, id projections.TopicID, index int32) *stream {
	return bind(v, stream{
		label: label, manifest: true, path: partition.ManifestStream(id, index), describe: partition.Describe, decode: partition.DecodeEvent,
	}, partition.ManifestSchema(), func(m *partition.Manifest) any { return m })
}

// groupsStream is the stream of a shard of consumer groups.
func groupsStream(v *substrate.Volume, shard int32) *stream {
	return bind(v, stream{
		label: path.Join(groups.StreamsDir, groups.StreamName(shard)), path: groups.Stream(v.MetaDir(), shard), describe: groups.Describe,
		decode: func(ev metalog.Event) (any, error) { return groups.DecodeEvent(ev) },
	}, groups.Schema(), func(s *groups.Shard) any { return showShard(s, shard, topicNames(context.Background(), v)) })
}

// txnsStream is the stream of a shard of transactional IDs.
func txnsStream(v *substrate.Volume, shard int32) *stream {
	return bind(v, stream{
		label: path.Join(txns.StreamsDir, txns.StreamName(shard)), path: txns.Stream(v.MetaDir(), shard), describe: txns.Describe,
		decode: func(ev metalog.Event) (any, error) { return txns.DecodeEvent(ev) },
	}, txns.Schema(), func(s *txns.Shard) any { return showTxns(s, shard, topicNames(context.Background(), v)) })
}

// streamsHelp says what --stream takes.
const streamsHelp = "cluster, groups/NN for a shard of consumer groups, txns/NN for one of transactional IDs, or topics/TOPIC/PARTITION for a partition's manifest"

// find returns the stream that --stream names.
func find(ctx context.Context, v *substrate.Volume, name string) (*stream, error) {
	if name == "cluster" {
		return clusterStream(v), nil
	}
	for _, k := range shardKinds {
		shard, ok := strings.CutPrefix(name, string(k.kind)+"/")
		if !ok {
			continue
		}
		n, err := k.parse(shard)
		if err != nil {
			return nil, fmt.Errorf("--stream %s: %w", name, err)
		}
		return k.find(ctx, v, n)
	}
	rest, ok := strings.CutPrefix(name, "topics/")
	i := strings.LastIndex(rest, "/")
	if !ok || i < 0 {
		return nil, fmt.Errorf("--stream %s: must be %s", name, streamsHelp)
	}
	topic := rest[:i]
	index, err := strconv.ParseInt(rest[i+1:], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("--stream %s: %q is not a partition number", name, rest[i+1:])
	}
	id, err := topicID(ctx, v, topic)
	if err != nil {
		return nil, err
	}
	return manifestStream(v, name, id, int32(index)), nil
}

func readCluster(ctx context.Context, v *substrate.Volume) (*projections.Cluster, error) {
	snap, _, err := metalog.ReadState(ctx, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
	return snap.State, err
}

// topicID takes a topic's name or, for one that is deleted, its ID.
func topicID(ctx context.Context, v *substrate.Volume, topic string) (projections.TopicID, error) {
	view, err := readCluster(ctx, v)
	if err != nil {
		return projections.TopicID{}, err
	}
	if t := view.Topic(topic); t != nil {
		return t.ID, nil
	}
	if id, err := projections.ParseTopicID(topic); err == nil {
		return id, nil
	}
	return projections.TopicID{}, fmt.Errorf("there is no topic %q", topic)
}

// allStreams lists the streams there are on the volume, cluster first. It goes by
// the directories, not by the metadata, so that what nobody names is seen too.
func allStreams(v *substrate.Volume) ([]*stream, error) {
	out := []*stream{clusterStream(v)}
	for _, k := range shardKinds {
		shards, err := k.list(v)
		if err != nil {
			return nil, err
		}
		for _, n := range shards {
			out = append(out, k.stream(v, n))
		}
	}
	topics, err := v.ListFresh("topics")
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		id, err := projections.ParseTopicID(t.Name)
		if err != nil || !t.Dir {
			continue
		}
		parts, err := v.ListFresh(path.Join("topics", t.Name))
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			if n, err := strconv.ParseInt(p.Name, 10, 32); err == nil {
				out = append(out, manifestStream(v, path.Join("topics", t.Name, p.Name), id, int32(n)))
			}
		}
	}
	return out, nil
}

package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// Stream is a stream of the volume with what tools do to it, whatever the type of its
// state.
type Stream struct {
	Name     string // as people name it
	Path     string // on the volume
	Manifest bool   // of a partition
	Shard    int32  // of groups or transactional IDs
	Absent   bool   // there will be such a stream; it is as if it were empty

	v        *substrate.Volume
	describe func(metalog.Event) (string, error)
	decode   func(metalog.Event) (any, error)
	foldAt   func(ctx context.Context, p substrate.Position) (folder, error)
	verify   func() (*metalog.Verification, error)
	empty    any
	parts    func(s any, n Namer) []part
	names    Namer
}

// folder is a metalog.Fold of any state.
type folder interface {
	Add(e *metalog.Entry) error
	at() (substrate.Position, any)
}

type fold[S any] struct{ *metalog.Fold[S] }

func (f fold[S]) at() (substrate.Position, any) {
	s := f.Snapshot()
	return s.Pos, s.State
}

// Namer says how a topic is called: by name as far as the cluster stream has it, else by ID.
// One that is deleted has both, as NAME#ID: there may be another of its name.
type Namer func(projections.TopicID) string

func bind[S any](v *substrate.Volume, s Stream, sc *metalog.Schema[S], parts func(S, Namer) []part) *Stream {
	s.v, s.empty = v, sc.New()
	s.foldAt = func(ctx context.Context, p substrate.Position) (folder, error) {
		f, err := metalog.FoldAt(ctx, v, s.Path, p, sc)
		return fold[S]{f}, err
	}
	s.verify = func() (*metalog.Verification, error) { return metalog.Verify(v, s.Path, sc) }
	s.parts = func(st any, n Namer) []part { return parts(st.(S), n) }
	return share(v, &s)[0]
}

// share has streams read the names of topics once for all, when one is asked for.
func share(v *substrate.Volume, streams ...*Stream) []*Stream {
	read := sync.OnceValue(func() Namer { return Names(context.Background(), v) })
	for _, s := range streams {
		s.names = func(id projections.TopicID) string { return read()(id) }
	}
	return streams
}

// Cluster is the cluster's stream.
func Cluster(v *substrate.Volume) *Stream {
	return bind(v, Stream{
		Name: "cluster", Path: v.MetaDir() + "/cluster", describe: projections.Describe,
		decode: func(ev metalog.Event) (any, error) { return projections.DecodeEvent(ev) },
	}, projections.ClusterSchema(), clusterParts)
}

// Manifest is the stream of a partition, under a name.
func Manifest(v *substrate.Volume, name string, id projections.TopicID, index int32) *Stream {
	return bind(v, Stream{
		Name: name, Manifest: true, Path: partition.ManifestStream(id, index), describe: describeManifest, decode: partition.DecodeEvent,
	}, partition.ManifestSchema(), manifestParts)
}

// Groups is the stream of a shard of consumer groups.
func Groups(v *substrate.Volume, shard int32) *Stream {
	return bind(v, Stream{
		Name: path.Join(groups.StreamsDir, projections.ShardName(shard)), Shard: shard, Path: groups.Stream(v.MetaDir(), shard), describe: groups.Describe,
		decode: func(ev metalog.Event) (any, error) { return groups.DecodeEvent(ev) },
	}, groups.Schema(), groupsParts)
}

// Txns is the stream of a shard of transactional IDs.
func Txns(v *substrate.Volume, shard int32) *Stream {
	return bind(v, Stream{
		Name: path.Join(txns.StreamsDir, projections.ShardName(shard)), Shard: shard, Path: txns.Stream(v.MetaDir(), shard), describe: txns.Describe,
		decode: func(ev metalog.Event) (any, error) { return txns.DecodeEvent(ev) },
	}, txns.Schema(), txnsParts)
}

// StreamsHelp says what streams are called.
const StreamsHelp = "cluster, groups/NN for a shard of consumer groups, txns/NN for one of transactional IDs, or topics/TOPIC/PARTITION for a partition's manifest"

// Find returns the stream of a name.
func Find(ctx context.Context, v *substrate.Volume, name string) (*Stream, error) {
	if name == "cluster" {
		return Cluster(v), nil
	}
	for _, k := range ShardKinds {
		shard, ok := strings.CutPrefix(name, string(k.Kind)+"/")
		if !ok {
			continue
		}
		n, err := projections.ParseShardName(shard)
		if err != nil {
			return nil, badText("--stream %s: %v", name, err)
		}
		return k.Find(ctx, v, n)
	}
	rest, ok := strings.CutPrefix(name, "topics/")
	i := strings.LastIndex(rest, "/")
	if !ok || i < 0 {
		return nil, badText("--stream %s: must be %s", name, StreamsHelp)
	}
	index, err := strconv.ParseInt(rest[i+1:], 10, 32)
	if err != nil {
		return nil, badText("--stream %s: %q is not a partition number", name, rest[i+1:])
	}
	id, err := topicID(ctx, v, rest[:i])
	if err != nil {
		return nil, err
	}
	return Manifest(v, name, id, int32(index)), nil
}

// ReadCluster is the newest state of the cluster's stream.
func ReadCluster(ctx context.Context, v *substrate.Volume) (*projections.Cluster, error) {
	snap, _, err := metalog.ReadState(ctx, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
	return snap.State, err
}

// topicID takes a topic's name or, for one that is deleted, its ID.
func topicID(ctx context.Context, v *substrate.Volume, topic string) (projections.TopicID, error) {
	view, err := ReadCluster(ctx, v)
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

// Names is the Namer of the cluster's newest state. Where that cannot be read, it has IDs
// only: verify tells of it.
func Names(ctx context.Context, v *substrate.Volume) Namer {
	view, err := ReadCluster(ctx, v)
	if err != nil {
		view = projections.NewCluster()
	}
	return func(id projections.TopicID) string {
		if t := view.TopicByID(id); t != nil {
			return t.Name
		}
		if name, ok := view.Removing()[id]; ok {
			return name + "#" + id.String()
		}
		return id.String()
	}
}

// All lists the streams there are on the volume, the cluster's first. It goes by the
// directories, not by the metadata, so that what nobody names is seen too. Partitions are
// named by their topic's ID.
func All(v *substrate.Volume) ([]*Stream, error) {
	out := []*Stream{Cluster(v)}
	for _, k := range ShardKinds {
		shards, err := k.List(v)
		if err != nil {
			return nil, err
		}
		for _, n := range shards {
			out = append(out, k.Stream(v, n))
		}
	}
	topics, err := v.ListFresh("topics")
	if errors.Is(err, fs.ErrNotExist) {
		return share(v, out...), nil
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
				out = append(out, Manifest(v, path.Join("topics", t.Name, p.Name), id, int32(n)))
			}
		}
	}
	return share(v, out...), nil
}

// Verify checks the stream.
func (s *Stream) Verify() (*metalog.Verification, error) { return s.verify() }

// Index lists the stream's retained history.
func (s *Stream) Index(ctx context.Context) (*metalog.Index, error) {
	if s.Absent {
		return &metalog.Index{Stream: s.Path}, nil
	}
	return metalog.ReadIndex(ctx, s.v, s.Path)
}

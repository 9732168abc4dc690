package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// kind is what restoring knows of one stream, whatever the type of its state.
type kind interface {
	path(v *substrate.Volume) string
	// take is the state at an entry.
	take(ctx context.Context, v *substrate.Volume, e *metalog.Entry) (Saved, error)
	sound(state []byte) error
	// plan is what restoring would do to the stream as it is.
	plan(ctx context.Context, w *work, s *Saved) (StreamPlan, error)
	// publish has it done under a claim of a session.
	publish(ctx context.Context, w *work, s *Saved, session *substrate.Session) (StreamPlan, error)
}

// stream is a kind with its state's type.
type stream[S any] struct {
	label  string
	schema *metalog.Schema[S]
	// merge is what now becomes, events to follow it, and what there is to say.
	merge    func(w *work, then, now S) (S, []metalog.Event, Told, error)
	restored func(from substrate.Position, ms int64, state []byte) (metalog.Event, error)
	// secrets are the kinds of secrets in a state.
	secrets  func(S) []string
	followed bool
}

// ErrStream is the error of a stream that is not restored, or not so.
var ErrStream = errors.New("stream is not to be restored")

// kindOf is the kind of a stream by its label.
func kindOf(label string) (kind, error) {
	group, name, _ := strings.Cut(label, "/")
	switch group {
	case "cluster":
		if name == "" {
			return clusterStream(), nil
		}
	case groups.StreamsDir:
		if n, err := projections.ParseShardName(name); err == nil {
			return groupsStream(label, n), nil
		}
	case txns.StreamsDir:
		if _, err := projections.ParseShardName(name); err == nil {
			return txnsStream(label), nil
		}
	case "topics":
		return nil, fmt.Errorf("%w: %s: a partition's manifest says which of its files count, and is not restored", ErrStream, label)
	}
	return nil, fmt.Errorf("%w: %q is not cluster, groups/NN or txns/NN", ErrStream, label)
}

// Expand makes stream labels of what an operator names: cluster, groups or txns for all shards
// that are there, groups/NN, txns/NN. Nothing named is everything. cluster comes first.
func Expand(v *substrate.Volume, names []string) ([]string, error) {
	if len(names) == 0 {
		names = []string{"cluster", groups.StreamsDir, txns.StreamsDir}
	}
	var out []string
	for _, name := range names {
		if name != groups.StreamsDir && name != txns.StreamsDir {
			if _, err := kindOf(name); err != nil {
				return nil, err
			}
			out = append(out, name)
			continue
		}
		es, err := v.ListFresh(path.Join(v.MetaDir(), name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range es {
			label := path.Join(name, e.Name)
			if _, err := kindOf(label); err == nil && e.Dir {
				out = append(out, label)
			}
		}
	}
	slices.SortFunc(out, compare)
	return slices.Compact(out), nil
}

// compare puts the cluster stream first: the others go by which topics there are.
func compare(a, b string) int { return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a, b)) }

func order(stream string) int {
	switch {
	case stream == "cluster":
		return 0
	case strings.HasPrefix(stream, groups.StreamsDir+"/"):
		return 1
	}
	return 2
}

func (k *stream[S]) path(v *substrate.Volume) string { return path.Join(v.MetaDir(), k.label) }

func (k *stream[S]) take(ctx context.Context, v *substrate.Volume, e *metalog.Entry) (Saved, error) {
	snap, err := metalog.ReadStateAt(ctx, v, k.path(v), e.Pos, k.schema)
	if err != nil {
		return Saved{}, err
	}
	raw, err := k.schema.Encode(snap.State)
	return Saved{Stream: k.label, Pos: e.Pos, TimeMS: e.Time.UnixMilli(), State: raw, Secrets: k.secrets(snap.State)}, err
}

func (k *stream[S]) sound(state []byte) error {
	_, err := k.schema.Decode(state)
	return err
}

func none[S any](S) []string { return nil }

// credentials are the secrets of the cluster's state.
func credentials(c *projections.Cluster) []string {
	if len(c.ScramCredentials()) == 0 {
		return nil
	}
	return []string{"SCRAM credentials"}
}

func clusterStream() kind {
	return &stream[*projections.Cluster]{label: "cluster", schema: projections.ClusterSchema(), merge: mergeCluster, secrets: credentials, followed: true,
		restored: func(from substrate.Position, ms int64, state []byte) (metalog.Event, error) {
			return projections.NewEvent(&projections.Restored{From: from, Time: ms, State: state})
		}}
}

func groupsStream(label string, shard int32) kind {
	return &stream[*groups.Shard]{label: label, schema: groups.Schema(), secrets: none[*groups.Shard],
		merge: func(w *work, then, now *groups.Shard) (*groups.Shard, []metalog.Event, Told, error) {
			return mergeGroups(w, shard, then, now)
		},
		restored: func(from substrate.Position, ms int64, state []byte) (metalog.Event, error) {
			return groups.NewEvent(&groups.Restored{From: from, Time: ms, State: state})
		}}
}

func txnsStream(label string) kind {
	return &stream[*txns.Shard]{label: label, schema: txns.Schema(), merge: mergeTxns, secrets: none[*txns.Shard],
		restored: func(from substrate.Position, ms int64, state []byte) (metalog.Event, error) {
			return txns.NewEvent(&txns.Restored{From: from, Time: ms, State: state})
		}}
}

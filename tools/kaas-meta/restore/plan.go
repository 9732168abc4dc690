package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// Request is what is to be restored.
type Request struct {
	Saved []Saved
	// Groups and Topics, by name or ID, limit what is restored of groups/NN to the offsets of
	// these groups and topics; empty is all.
	Groups, Topics []string
	// Prune has what was made since deleted: topics with their records, groups, offsets.
	Prune bool
	Now   func() time.Time // time.Now
	Host  string           // for people: whose session it is
	PID   int              // likewise

	breaks breaks
}

// breaks takes a rule away, for the tests of the tests.
type breaks struct {
	pieces bool // what is restored is published in more than one entry
}

// Plan is what restoring would do, or has done.
type Plan struct {
	Volume  string       `json:"volume"`
	Prune   bool         `json:"prune"`
	Streams []StreamPlan `json:"streams"`
	// Sealed are the sessions that end by it.
	Sealed []Owner `json:"sealed,omitempty"`
	// Notes are of what an operator may want to know.
	Notes []string `json:"notes,omitempty"`
}

// Changes reports whether there is anything to be done.
func (p *Plan) Changes() bool {
	return slices.ContainsFunc(p.Streams, func(s StreamPlan) bool { return s.Changes })
}

// StreamPlan is what becomes of one stream.
type StreamPlan struct {
	Stream   string    `json:"stream"`
	Then     string    `json:"then"` // the position that was chosen
	ThenTime time.Time `json:"then_time"`
	Now      string    `json:"now"`                // the newest when it was looked at
	Changes  bool      `json:"changes"`            // else it is so already, and is not claimed
	Position string    `json:"position,omitempty"` // where it was restored
	Told
	// undecided: what is newest may yet be disowned.
	undecided bool
}

// noEntry stands for the newest position of a stream that nobody has made yet.
const noEntry = "-"

// Silent reports that there is nothing to be said of the stream.
func (s *StreamPlan) Silent() bool {
	return !s.Changes && len(s.Restored)+len(s.Raised)+len(s.LeftOut)+len(s.Stays) == 0
}

// work is a request under way.
type work struct {
	Request
	v       *substrate.Volume
	cluster *projections.Cluster // as it is, or will be
	groups  map[string]bool
	topics  map[projections.TopicID]bool
}

// begin reads the cluster and looks at what is asked.
func begin(ctx context.Context, v *substrate.Volume, r Request) (*work, error) {
	w := &work{Request: r, v: v, groups: map[string]bool{}, topics: map[projections.TopicID]bool{}}
	if w.Now == nil {
		w.Now = time.Now
	}
	snap, _, err := metalog.ReadState(ctx, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
	if err != nil {
		return nil, fmt.Errorf("the cluster's state cannot be read: %w", err)
	}
	w.cluster = snap.State
	w.Saved = slices.SortedStableFunc(slices.Values(w.Saved), func(a, b Saved) int { return compare(a.Stream, b.Stream) })
	if len(w.Saved) == 0 {
		return nil, errors.New("there is no stream to restore")
	}
	for _, s := range w.Saved {
		if len(r.Groups)+len(r.Topics) > 0 && order(s.Stream) != 1 {
			return nil, fmt.Errorf("%w: groups and topics choose within groups/NN, and %s is to be restored whole", ErrStream, s.Stream)
		}
	}
	for _, g := range r.Groups {
		if !w.knows(ctx, g) {
			return nil, fmt.Errorf("there is no group %q, neither then nor now", g)
		}
		w.groups[g] = true
	}
	for _, t := range r.Topics {
		id, err := w.topicID(t)
		if err != nil {
			return nil, err
		}
		w.topics[id] = true
	}
	return w, nil
}

// knows reports whether a group is, or was, in what is to be restored.
func (w *work) knows(ctx context.Context, group string) bool {
	for _, s := range w.Saved {
		if then, err := groups.Schema().Decode(s.State); err == nil && then.Group(group) != nil {
			return true
		}
		now, _, err := metalog.ReadState(ctx, w.v, w.v.MetaDir()+"/"+s.Stream, groups.Schema())
		if err == nil && now.State.Group(group) != nil {
			return true
		}
	}
	return false
}

func (w *work) topicID(name string) (projections.TopicID, error) {
	if t := w.cluster.Topic(name); t != nil {
		return t.ID, nil
	}
	if id, err := projections.ParseTopicID(name); err == nil {
		return id, nil
	}
	return projections.TopicID{}, fmt.Errorf("there is no topic %q", name)
}

// Make plans without changing anything. What brokers do meanwhile is not in it.
func Make(ctx context.Context, v *substrate.Volume, r Request) (*Plan, error) {
	w, err := begin(ctx, v, r)
	if err != nil {
		return nil, err
	}
	before := w.cluster
	p := &Plan{Volume: v.ID, Prune: r.Prune}
	for i := range w.Saved {
		k, err := kindOf(w.Saved[i].Stream)
		if err != nil {
			return nil, err
		}
		s, err := k.plan(ctx, w, &w.Saved[i])
		if err != nil {
			return nil, err
		}
		p.Streams = append(p.Streams, s)
		if s.Changes || s.undecided {
			if err := p.seal(v, k.path(v), s.Stream, before); err != nil {
				return nil, err
			}
		}
		if s.undecided {
			say(&p.Notes, "%s: its owner is sealed and has no successor yet; what counts of %s shows when it is claimed", s.Stream, s.Now)
		}
		w.strayOffsets(ctx, &s, &p.Notes)
	}
	return p, nil
}

func (k *stream[S]) plan(ctx context.Context, w *work, s *Saved) (StreamPlan, error) {
	p := StreamPlan{Stream: s.Stream, Then: s.Pos.String(), ThenTime: s.Time(), Now: noEntry}
	now := k.schema.New()
	there, err := exists(w.v, k.label)
	if err != nil {
		return p, err
	}
	if there {
		snap, committed, err := metalog.ReadState(ctx, w.v, k.path(w.v), k.schema)
		if err != nil {
			return p, err
		}
		now, p.Now = snap.State, snap.Pos.String()
		if !committed {
			e, _, err := metalog.ReadEntry(w.v, k.path(w.v), snap.Pos)
			if err != nil {
				return p, err
			}
			p.undecided = !e.Closed
		}
	}
	told, evs, err := k.next(w, s, now)
	p.Told, p.Changes = told, len(evs) > 0
	return p, err
}

package txns

import (
	"fmt"
	"iter"
	"path"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/internal/ordered"
)

// Shard is the view of one shard's stream. It never changes; all that its methods return
// is shared and only to be read.
type Shard struct{ txns ordered.Map[string, *Txn] }

// draft is a view under way: what a batch of events changes in what.
type draft struct {
	txns    ordered.Map[string, *Txn]
	changes map[string]ordered.Change[*Txn]
}

// NewShard is the view of a stream without events.
func NewShard() *Shard { return &Shard{} }

// Txn returns the transaction of a transactional ID, or nil.
func (s *Shard) Txn(id string) *Txn {
	t, _ := s.txns.Get(id)
	return t
}

// Txns goes through the transactions by transactional ID.
func (s *Shard) Txns() iter.Seq[*Txn] {
	return func(yield func(*Txn) bool) {
		for _, t := range s.txns.All {
			if !yield(t) {
				return
			}
		}
	}
}

// Len is the number of transactional IDs.
func (s *Shard) Len() int { return s.txns.Len() }

// Equal reports whether two views show the same.
func (s *Shard) Equal(o *Shard) bool { return s.txns.Equal(o.txns, (*Txn).Equal) }

// Schema tells metalog how a shard's stream is folded.
func Schema() *metalog.Schema[*Shard] {
	return &metalog.Schema[*Shard]{New: NewShard, Apply: Apply, Encode: Encode, Decode: Decode, Known: Known}
}

// Apply returns the view after a batch of events. An event of an unknown type is
// left out; one whose bytes do not decode is an error and nothing is applied.
func Apply(s *Shard, evs []metalog.Event) (*Shard, error) {
	d := &draft{s.txns, make(map[string]ordered.Change[*Txn], len(evs))}
	if err := registry.Each(evs, func(f Fact) { f.apply(d) }); err != nil {
		return nil, err
	}
	return &Shard{d.txns.With(d.changes)}, nil
}

// Encode returns the view as one msgpack value: the transactions by ID.
func Encode(s *Shard) ([]byte, error) {
	all := make([]*Txn, 0, s.Len())
	for t := range s.Txns() {
		all = append(all, t)
	}
	return encode(all)
}

// Decode is the inverse of Encode. It refuses what no fold gives.
func Decode(raw []byte) (*Shard, error) {
	var all []*Txn
	if err := msgpack.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("view of transactions: %w", err)
	}
	es := make([]ordered.Entry[string, *Txn], len(all))
	for i, t := range all {
		if t == nil || !t.valid() || i > 0 && t.ID <= all[i-1].ID {
			return nil, fmt.Errorf("view of transactions: number %d of %d is out of order or cannot be", i+1, len(all))
		}
		es[i] = ordered.Entry[string, *Txn]{Key: t.ID, Value: t.trim()}
	}
	return &Shard{ordered.Of(es)}, nil
}

// StreamsDir is the directory of the shards' streams below a volume's metadata.
const StreamsDir = "txns"

// Stream is where a shard's stream is, below the volume's directory of metadata.
func Stream(metaDir string, shard int32) string {
	return path.Join(metaDir, StreamsDir, projections.ShardName(shard))
}

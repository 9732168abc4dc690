package groups

import (
	"iter"
	"path"

	"kaas.dev/kaas/projections"
)

// Shard is the view of one shard's stream. It never changes; all that its methods return
// is shared and only to be read.
type Shard struct{ groups table }

// NewShard is the view of a stream without events.
func NewShard() *Shard { return &Shard{} }

// Group returns the group with that ID, or nil.
func (s *Shard) Group(id string) *Group { return s.groups.get(id) }

// Groups goes through the groups by ID.
func (s *Shard) Groups() iter.Seq[*Group] { return s.groups.all }

// Len is the number of groups.
func (s *Shard) Len() int { return s.groups.size }

// StreamsDir is the directory of the shards' streams below a volume's metadata.
const StreamsDir = "groups"

// Stream is where a shard's stream is, below the volume's directory of metadata.
func Stream(metaDir string, shard int32) string {
	return path.Join(metaDir, StreamsDir, projections.ShardName(shard))
}

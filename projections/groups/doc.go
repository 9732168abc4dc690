// Package groups holds the events of the group shards' streams and the view that is
// folded from them. It is pure: no I/O, no clock, no locks.
//
// A shard's stream is meta/<volume ID>/groups/NN. Its view is a [Shard]: every consumer
// group that falls into the shard, with its committed offsets and, as far as it has
// members, its membership. Whoever owns the shard writes the stream; nobody follows it,
// and it is read when the shard changes hands.
//
// # Invariants
//
//   - Views are immutable values; what did not change is shared.
//   - Apply is pure and total: an event about something unknown changes nothing, and
//     folding a history over a view that holds a prefix of it gives the same view.
//   - Offsets are of a topic's ID, not of its name: a topic that is made again under the
//     name of a deleted one begins without any.
//   - Equal views have equal encoded bytes.
package groups

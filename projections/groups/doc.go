// Package groups holds the events of the group shards' streams and the view that is
// folded from them. It is pure: no I/O, no clock, no locks.
//
// A shard's stream is meta/<volume ID>/groups/NN, see [Stream]. Its view is a [Shard]:
// every consumer group that falls into the shard, with its committed offsets and, as far
// as it has members, its membership. Whoever owns the shard writes the stream; nobody
// follows it, and it is read when the shard changes hands.
//
// # On the volume
//
// An event (event_*.go, one file each) is its name and a msgpack map of the struct's
// fields under short keys; a field that a build does not know is passed over. Offsets,
// lists of partitions and assignments are packed (pack.go), for a busy group writes
// little else:
//
//	offsets of a topic  ID (16 bytes), flags (1), number, then for each partition:
//	                    its distance from the one before less 1, offset, leader epoch + 1,
//	                    and as the flags say (4: time of commit less the one before's,
//	                    2: expiry, 1: length of the metadata and the metadata)
//	partitions          ID (16 bytes), number, distances likewise
//	assignment          number of topics, then for each its partitions
//
// Numbers are varints, signed ones zigzag, but for the offset and the counts. Flags that
// a build does not know are an error. In a base the IDs of topics stand once and a group's
// offsets name them by their place.
//
// # Invariants
//
//   - Views are immutable values; what did not change is shared. A small event costs the
//     copy of its group and of about the square root of the number of groups.
//   - Apply is pure and total: an event about something unknown changes nothing, and
//     folding a history over a view that holds a prefix of it gives the same view.
//   - Offsets are of a topic's ID, not of its name: a topic that is made again under the
//     name of a deleted one begins without any.
//   - A group in the view has offsets, staged offsets or a membership. It has members of
//     one protocol at most, and EmptySince is 0 just while it has any.
//   - Of offsets of a partition the later in the stream wins, whatever the numbers are; a
//     staged one counts from where it was staged against a plain one.
//   - Restored puts another view in the place of the one there is. [Restore] makes it so
//     that what is staged stays staged, and nobody goes on by what was there before.
//   - Equal views have equal encoded bytes.
//
// # Use
//
//	ev, _ := groups.NewEvent(&groups.OffsetsCommitted{Group: "billing", Time: now, Topics: offsets})
//	next, err := groups.Apply(view, []metalog.Event{ev})
package groups

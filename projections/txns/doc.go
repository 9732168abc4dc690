// Package txns holds the events of the transaction shards' streams and the view that is
// folded from them. It is pure: no I/O, no clock, no locks.
//
// A shard's stream is meta/<volume ID>/txns/NN. Its view is a [Shard]: every transactional ID
// that falls into the shard, with its producer and how its transaction stands. Whoever owns
// the shard writes the stream; nobody follows it, and it is read when the shard changes hands.
//
// An event has a [Txn] whole, as Kafka's records of it do, so what an event means does not
// depend on the events before it. Restored has the whole view; [Restore] makes it.
//
// # Invariants
//
//   - Views are immutable values; what did not change is shared.
//   - Apply is pure and total: an event about a transaction that cannot be changes nothing, and
//     folding a history over a view that holds a prefix of it gives the same view.
//   - Partitions are of a topic's ID, not of its name: a transaction never ends in a topic that
//     was made again under the name of a deleted one.
//   - Equal views have equal encoded bytes.
package txns

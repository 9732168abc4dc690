// Package history reads what the streams of a volume tell: which entries there are, when
// they were written, by whom and why, what became of them, and what the state was at any
// retained moment. It changes nothing and needs no broker.
//
// # Call order
//
// [Find] a stream by the name that people call it, or [All] of them. [Stream.Records] goes
// through its entries, [Stream.Steps] with the states before and after each, [Stream.At] is
// the state at a position, [Diff] what changed between two states, and [Resolve] the
// position that a time or a text names.
//
// # Invariants
//
//   - What is read first are names: listings tell the positions. A time is found by a
//     binary search over the heads of entries.
//   - What is held does not grow with the length of a history, but for its positions.
//   - Entries that are pruned while they are read are left out; damaged ones are told and
//     never passed over. Disowned entries are told as what they are.
package history

// Package check proves that a volume is sound, or tells what is not: it is the engine of
// kaas-meta verify.
//
// It reads every session, every stream with its claims and entries, every partition's files
// against its manifest, and what the cluster's state says there is against what there is.
// [Kinds] are the findings that it makes, each with what to do about it.
//
// # Invariants
//
//   - Nothing is changed: the volume is wrapped so that nothing can be.
//   - A fault is told only if it was seen at every look. Brokers may be running: tokens move,
//     entries are pruned, segments are made and removed between two calls. So the units in
//     which a look has seen a fault are looked at again, a little later, with the cluster's
//     state read anew after the look, and what does not stay is dropped.
//   - A fault is what somebody has to do something about; a note is explained.
//   - Memory is bounded by the cluster's state, the number of partitions, and a piece of a
//     file for each reader, whatever the segments and the history hold.
//
// # Call order
//
// [Run].
package check

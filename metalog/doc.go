// Package metalog keeps a piece of cluster state as an append-only series of
// snapshot files with one writer at a time: a stream.
//
// # On the volume
//
//	meta/<volume ID>/cluster/0000000006/claim                                     the owner of epoch 6
//	meta/<volume ID>/cluster/0000000006/0000000006-00000000000000000043.snap      entry 6-43
//	meta/<volume ID>/cluster/0000000006/HEAD                                      a hint for followers
//
// A position is an epoch and a sequence from 1. An entry holds events; a base
// holds the full state after them too. The first entry of an epoch is a base that
// names the position it continues from. Each entry carries the position and the
// CRC32C of the whole file before it, so that a series is a chain. An empty entry
// file is a plug. docs/metalog-format.md has the bytes.
//
// # Invariants
//
//   - A published entry is never changed; a position never gets two values.
//   - What [Writer.Publish] acknowledged is in every later owner's base.
//   - A [Reader] shows only what no later owner can contradict, and never goes back.
//   - Whoever folds a stream reads at most 1,025 files.
//   - The newest base that a Check has covered, and all after it, is never pruned.
//   - An unreadable entry is an error that names it, never skipped.
//
// # Call order
//
// [Build] a stream once, as part of the directory it is born in. [Claim] it, then
// [Writer.Publish] any number of times, then [Writer.Close]. Others use [Reader].
package metalog

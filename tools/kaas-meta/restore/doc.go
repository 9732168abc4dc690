// Package restore puts streams of a volume back to an earlier state: of a position of
// theirs, or of a backup file.
//
// # What happens
//
// History is never rewritten. A stream is claimed above all its epochs, as any owner does,
// so whoever owned it is sealed; the claim's first entry holds one event, Restored, with
// the whole state; a closed entry follows, so that the next owner need not seal. What the
// state is, the Restore functions of packages projections, groups and txns say: the chosen
// one, but nothing that only rises is lowered. It is decided where the stream orders it,
// over what the claim continues from. A stream in which nothing is to be changed is not claimed.
//
// The cluster stream goes first, since what is restored of groups depends on which topics
// there are. A running controller is fenced by the claim; the next one takes the state up. Who owns a shard loses
// its whole data session: sealing is never for a part.
//
// A crash leaves each stream as it was or restored, and to run the same again finishes the
// rest: restoring twice is as once.
//
// # The backup file
//
// One frame of package substrate (docs/metalog-format.md), of kind "back", flag 1 where it holds
// secrets. Its body is a msgpack map:
//
//	volume   the ID of the volume it was made of
//	made_ms  when
//	streams  for each: stream (cluster, groups/NN, txns/NN), pos and time_ms of the entry
//	         whose state it is, state as a base holds it, secrets (what kinds of, nil for none)
package restore

// Package txnshard runs one shard of the transaction coordinator: the transactional IDs that
// fall into it, their producers, and the ends of their transactions.
//
// # On the volume
//
// A shard is one stream, meta/<volume ID>/txns/NN, of the facts in projections/txns. The broker
// that the controller gave the shard owns the stream's epoch; nobody follows it. Its epoch is
// the coordinator epoch that markers carry.
//
// # The machine
//
// What a request makes of a transaction is a pure function in machine_*.go: of the transaction,
// the request and the time, to the transaction afterwards or an error. It runs where the stream
// orders its entries, so what it saw holds when its fact is applied.
//
//	Empty, Complete* --add--> Ongoing --end--> Prepare* --all markers--> Complete*
//
// With transaction version 2 (KIP-890) every end raises the producer's epoch, an empty
// transaction may be aborted, and an end that is asked for again is known by its epoch. Where
// the epochs of a producer are used up it gets a new ID.
//
// # Ends
//
// Prepare* is committed before anybody hears of the end, and decides it. From then on a goroutine
// per transaction (ending.go) drives it to Complete* (rule 2): a marker to the leader of every
// partition and to the owner of every shard of groups, sent again without end, wherever the view
// sends it, until each has acknowledged; a partition of a deleted topic needs none. A new owner
// of the shard finds Prepare* in the fold and goes on. Markers to one broker share requests
// (sender.go).
//
// # Fences
//
// An epoch that InitProducerId raised, or a timeout, is a fence of the cluster stream before
// anybody may rely on it: before InitProducerId answers, or before the timed out transaction is
// complete.
//
// # Invariants
//
//   - Nothing is answered that rests on a fact which is not committed. What is refused for good,
//     or found to be so already, rests on a Check begun after the call: a former owner would
//     tell a producer that it is fenced, or a leader that its transaction is open.
//   - A transaction is ended once: its outcome is what the first committed Prepare* says.
//   - The epochs of a producer ID only rise, and none is given to two who asked.
//   - Time that passes is measured here, from when this owner saw a transaction begin; no
//     step of a clock ends one.
package txnshard

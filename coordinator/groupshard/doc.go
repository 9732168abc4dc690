// Package groupshard runs one shard of the consumer groups: the groups whose IDs fall into
// it, their committed offsets and their members, of both protocols.
//
// # On the volume
//
// A shard is one stream, meta/<volume ID>/groups/NN, of the facts in projections/groups.
// The broker that the controller gave the shard owns the stream's epoch; nobody follows it.
// An offset, a membership or a target assignment is acknowledged when the entry that holds
// it is committed: renamed into place and covered by a Check (rules 1 and 3). What arrives
// together shares an entry.
//
// # In memory
//
// What is committed is an immutable view. The classic protocol needs more: who waits in a
// JoinGroup, and until when. That lives in package classic, is made anew from the view when
// the shard changes hands, and only what a rebalance ends with is published. The
// next-generation protocol (package consumer) has nothing beyond the view but deadlines.
//
// # Invariants
//
//   - Nothing is answered that rests on a fact which is not committed. What is refused rests
//     on facts that are.
//   - Who may commit is decided where the stream orders the commit, so that no commit of an
//     earlier generation stands behind the membership of a later one.
//   - An owner that was fenced publishes nothing, so it neither commits an offset nor gives a
//     partition to anybody. It may answer a heartbeat as if nothing had happened.
//   - Sessions run from when a member was last heard by this owner; a new owner begins them
//     all anew. No deadline is on the volume.
package groupshard

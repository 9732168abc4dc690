// Package consumer decides for groups under the next-generation protocol (KIP-848). It is
// pure: a call gets the committed group, the newest topics and a request, and returns the
// facts to commit with the answer that holds once they are. There are no flags and no
// caches that could miss a change: every heartbeat compares the subscribed topics with
// what the group's epoch was last raised for.
//
// # Terms
//
// The group's epoch rises when members, subscriptions or topics change what there is to
// be assigned. The first heartbeat that finds no target for that epoch has one made. Each
// member goes from what it has to its target by itself, at its own heartbeats:
//
//	Stable               has its target, and is at the target's epoch
//	UnrevokedPartitions  was told to give some up; stays at its epoch until it has
//	UnreleasedPartitions is at the target's epoch; what it lacks, others have yet to give up
//
// # Invariants
//
//   - A partition is in Assigned or Revoking of one member at most. It leaves them only
//     when the member says that it owns it no longer, joins anew, or is gone.
//   - Epochs of a group, and of a member while it is there, never go back.
//   - A member that repeats a request, because the answer was lost, gets what it missed.
//   - What a heartbeat without news costs does not grow with the group, given a [Memory].
//
// # Migration
//
// A classic group whose members are consumers becomes one of this protocol when a member
// of it joins, and their next requests of the classic protocol are decided here too:
// [ClassicJoin], [ClassicSync], [ClassicHeartbeat] and [ClassicLeave]. Such a member has
// its member epoch for a generation, is told to join anew when it has a step to go, and
// says what it owns when it joins; there is no leader. When only such members are left
// the facts are one ClassicGroupChanged, and the group is classic again: its caller has it
// rebalance. Whoever is not in the committed membership yet, because a classic rebalance
// is under way, is part of what an upgrade takes over only if the caller's Group has it.
//
// # Use
//
//	facts, answer, err := consumer.Heartbeat(view.Group(id), topics, cfg, now, request)
//	facts := consumer.Fence(view.Group(id), topics, cfg, now, member)   // a timer ended
package consumer

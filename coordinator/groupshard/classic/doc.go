// Package classic is the live state of one consumer group under the classic protocol:
// JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and who may commit. It is pure: the
// time is passed in, and there are no goroutines, clocks or locks. A [Group] belongs to
// one caller at a time.
//
// # States
//
//	Empty                no members
//	PreparingRebalance   waits for the members to join
//	CompletingRebalance  the generation has begun, and waits for its leader's assignment
//	Stable               every member may have its assignment
//	Dead                 not served here any more, see [Group.Close]
//
// # Answers
//
// A request that may have to wait carries a [Token] and is answered by an [Effect] with
// the same token, at once or later; the caller takes the effects after every call. A
// token is answered at most once, and at least once when the timers have run and every
// store has ended.
//
// # What is stored
//
// A [Store] asks for a membership to be made durable: when the leader's assignment ends a
// rebalance, when the last member is gone, and when a static member is replaced without a
// rebalance. Stores are written in the order of their IDs, and the end of each is told by
// [Group.Stored]. Members learn of an assignment only once it is stored, so whoever owns
// the group next knows it too: [New] goes on with the stored membership, the sessions
// begin anew, and nobody has to rejoin.
//
// # Invariants
//
//   - The generation never falls, and rises with every rebalance.
//   - A generation has one leader, and its assignments are all of that leader's making.
//   - A generation has at most [Config.MaxSize] members.
//
// # Differences from Apache Kafka, none of which a client can be hurt by
//
//   - A static member that comes back with other topics than before starts a rebalance:
//     the assignment has to follow. (There, only another choice of the assignor does.)
//   - A static member that comes back has a place in a full group: its own.
//   - Static members that did not rejoin count for the size limit.
//   - Of two equally popular assignors the group keeps the one it has.
//   - A request that waits is answered REBALANCE_IN_PROGRESS when its member sends
//     another of the kind, and UNKNOWN_MEMBER_ID when its member is dropped.
//   - A static member's replacement that could not be stored stands: only the join fails.
package classic

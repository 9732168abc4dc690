// Package balance says which broker is to lead what. It is pure: the same places and
// brokers always give the same moves, in whatever order the brokers are named.
//
// # Terms
//
// A place is a partition or a shard: something that one broker leads. Places of one
// group, such as a topic's partitions, had better be led by different brokers. The
// load of a broker is the number of places it leads.
//
// # Rules, the first before the second
//
//   - [Assign] moves only what has no living leader, [Even] as little as can be.
//   - The loads are as even as those moves can make them.
//   - Of all the choices that are left, one that spreads the groups is taken: among
//     what may be taken from a broker, that of which it leads most of a group; among
//     who may be given a place, the one that leads least of its group.
//
// # Use
//
//	moves := balance.Assign(places, live)       // a broker died: at once
//	moves := balance.Even(places, live, 100)    // one has joined: by handover, bit by bit
package balance

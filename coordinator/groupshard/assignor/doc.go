// Package assignor says which member of a group is to have which partitions. It is pure:
// the same problem always has the same solution.
//
// # Terms
//
// A member may be given partitions of the topics that it subscribes to. What it has now
// is its previous target. A member's load is the number of its partitions.
//
// # Rules, the first before the second
//
//   - Every partition of a topic with subscribers goes to exactly one of them.
//   - [Uniform] makes the loads even: nothing can be handed on, straight or through others,
//     from one member to another that has two fewer. [Range] makes them even within each
//     topic, and gives partitions of one number in topics of the same subscribers and the
//     same size to one member, so that such topics can be joined.
//   - Members keep what they have as far as that allows.
//   - What is left over goes to the members in the order of the problem.
//
// # Use
//
//	assign := assignor.Named("uniform")
//	targets := assign(assignor.Problem{Topics: topics, Members: members})
package assignor

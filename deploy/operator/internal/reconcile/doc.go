// Package reconcile makes the cluster what KafkaTopic and KafkaUser resources say, over and
// over: when a resource or a password's Secret changes, and every so often, for a cluster does
// not tell of its changes.
//
// # Order
//
// Whatever ends the operator, the next one finds what it needs in the resource:
//
//  1. a finalizer is on it before the cluster is touched, so that a deletion is seen;
//  2. its status says that it holds the topic or user (the name there), and which settings and
//     which Secret are the operator's, before the first change. What never got so far is deleted
//     without a look at the cluster;
//  3. the changes, each of which does nothing if it is made again;
//  4. the status, and last of all, at a deletion, the finalizer.
//
// Status and finalizers are written against the version of the resource that was looked at; a
// resource that has changed meanwhile is looked at again.
//
// # One resource for a name
//
// Of several resources for one topic or user one holds it: the one that has held it, then the
// oldest. The others say so, and change nothing, until it is gone: then the first of them holds
// the name, and what the cluster has of it stays.
package reconcile

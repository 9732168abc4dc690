// Package acl decides who may do what, as Kafka's StandardAuthorizer does.
//
// A [View] is what the ACLs of a cluster's view come to, with the super users and with what
// holds where there are none. It never changes: other ACLs are another view. What one principal
// may do from one host is a [Subject], which the view makes at the first use and keeps, as
// long as there is room: it has the ACLs that are about him by the names they are for, so that
// a decision is a few look-ups, without a lock and without an allocation.
//
// Invariants: an ACL that denies beats all that allow; a super user may do everything; who may
// read, write, delete or alter something may describe it, and who may alter its configuration
// may describe that, but who is denied the one is not denied the other. A nil Subject is that
// of a broker without an authorizer: he may do everything.
//
// Call order: [New] for the ACLs of the newest view, [View.Of] for who asks,
// [Subject.Allows] for each resource.
package acl

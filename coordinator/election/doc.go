// Package election chooses, among brokers, who tries to be controller.
//
// Nothing that must be safe rests on it. Whoever is elected claims the cluster stream,
// and the claim alone decides; two who believe themselves elected cost a claim, and
// nobody elected costs time. So its records are hints: they are not synced, and what
// is lost of them is waited for like a dead holder.
//
// The loop is client-go's leaderelection: a holder renews a record, and a candidate that
// has seen the record unchanged for its lease duration, by its own monotonic clock, takes
// it. The times in a record are for people. The record is a Lease of Kubernetes
// ([NewLeaseLock]) or lies on the volume ([NewVolumeLock]).
//
// # Times
//
//	                     on the volume   by a Lease
//	lease duration       3 s             8 s
//	renew deadline       2 s             6 s
//	retry period         500 ms          1 s
//	one call             1 s             3 s
//
// A holder that ends without a word is followed after the lease duration, a retry period
// and a call at the latest; one that releases the lock, within a retry period. A holder
// that cannot renew leads no more after a retry period and the renew deadline. Where nobody
// can reach the record, nobody leads from then on, and who led last leads again within a
// retry period of its being reached: to the others its lease begins anew.
//
// # On the volume
//
//	election/00000000000000000042      the 42nd record; the highest number counts
//
// A record is a file of kind "elec" with the 24 byte header of substrate.Frame and one
// msgpack value. It is made by an exclusive create of the number after the one that its
// writer saw last, so one number has one maker; written once; and removed by later
// writers when 64 newer ones are there. A number is never used again, so what a host
// remembers of a name, present or absent, never misleads it. Other names in the directory
// are left alone.
//
// The newest record may be empty or torn: its writer is under way, or died. Then it has
// an unknown holder and expires like any other; but who finds a record of its own
// identity below it goes on from there, and the other, if it lives, sees that and loses.
//
// # Which of the substrate's four rules carries what
//
// A create has one winner; a look is a listing and an open of a name that it shows. No
// rule is needed for durability (1), since nothing here is durable; what fails is done
// again by the loop at the next number (2); one writer (3) is what all this is to bring
// about soon, and the stream's epoch what makes it true; a number names one record (4).
//
// # Invariants
//
//   - Lead has returned before this process campaigns again, and before the lock is released.
//   - Lead's context ends before the lease does, if the holder's clock runs: at most
//     RetryPeriod + RenewDeadline after the last renewal.
//   - No call is waited for longer than half of RenewDeadline; one that hangs stays behind
//     in one of few places.
//   - A record that was deleted is as it was: its holder makes it again, and others do so
//     when its lease is over.
//   - An unhealthy process neither renews nor takes.
//   - The identity is the node.id: a restarted process takes over from its dead self at once.
//
// # Call order
//
// [NewVolumeLock] or [NewLeaseLock], then [Run].
package election

// Package rebuild makes a volume's metadata anew, under a new volume ID: from the metadata
// itself where the volume came back from a storage snapshot ([RolledBack]), and from the
// partitions where the metadata is lost ([Rebuild]).
//
// # Steps
//
// Both need all brokers stopped. That cannot be proved by reading, so everything goes as if
// one still ran:
//
//  1. A session of our own is opened, and every other under sessions/ is sealed.
//  2. Every stream is claimed above what it shows. Those of the metadata stay claimed and
//     open: whoever claims above us has to seal our session first.
//  3. meta/<new volume ID>/ is built aside, complete, and renamed into place. Nobody reads it.
//  4. A Check of our session: nobody has claimed above us, so nobody was told anything since
//     step 2 that the new metadata lacks.
//  5. volume/id is replaced, by one rename. This alone makes it so: a crash before it leaves
//     the volume as it was, but for claims, and a crash after it leaves it restored.
//  6. Every session is sealed that is there by now, and ours is checked once more. A broker
//     that opened a session on the old ID is sealed by that, or has looked at the ID after the
//     rename, and ends.
//
// # What is raised
//
// A volume that was rolled back has forgotten what it gave out since the snapshot, and so
// nothing may be given out twice that clients, or brokers that still run, may have:
//
//   - Leader epochs, by a margin ([Options.EpochMargin]). A broker that led in an epoch which
//     the volume has forgotten must not meet that number again: it might have an entry on its
//     way there. And a client ignores leaders with an epoch below one that it has seen. Each
//     number in between is claimed, and stays there for good, so the margin is small: 16 is
//     more than a partition sees in a day with two rolling restarts.
//   - Producer IDs and the epochs of brokers' registrations, to [floor], which costs nothing.
//   - Producers of transactions, each: its transactional ID gets another producer ID, and its
//     open transaction is aborted. The producer may have begun a transaction that the volume
//     has forgotten half of, and must not commit the rest of it.
//   - Epochs of the other streams go on above what they were, and need no margin: they live
//     below the new volume ID.
//
// # Invariants
//
//   - Nothing is changed below the old meta/<volume ID>/ but claims, and nothing is removed.
//   - A partition's log keeps all that its manifest admits and all whole batches behind that.
//   - A producer ID is never handed out twice.
package rebuild

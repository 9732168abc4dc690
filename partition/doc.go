// Package partition keeps one partition's log on the shared volume: its segments,
// its manifest, and the leadership that may write them.
//
// # On the volume
//
//	topics/<topic ID, 32 hex>/<partition>/meta/…              a metalog stream, the manifest; its epoch is the leader epoch
//	topics/<topic ID>/<partition>/<base>.<epoch>.<gen>.log    record batches, 20, 10 and 10 decimal digits
//	topics/<topic ID>/<partition>/<base>.<epoch>.<gen>.index  rebuildable, never fsynced
//	topics/<topic ID>/<partition>/<base>.<epoch>.<gen>.txnindex  likewise, Kafka's format; none without aborts
//
// A segment holds Kafka record batches (KIP-98) as sent, but for base offset,
// partition leader epoch and, where the topic asks for it, append time. The epoch in
// its name is that of the leader who made it and gen counts within the epoch, so that
// no name is made twice: 00000000000000000042.0000000007.0000000000.log.
//
// # Invariants
//
//   - What the manifest does not admit does not exist: it gives every segment but the
//     newest an end, in offsets and bytes, and the newest a recovery point.
//   - The offset is assigned at the one point that orders the write.
//   - A batch is acknowledged and shown only after fdatasync of its file, a manifest
//     that names the file, and a Check of the session that began after both.
//   - Nothing appends to a file of another leader: a takeover copies what follows the
//     recovery point into a segment of its own before it shows any of it.
//   - After a failed write or fdatasync the partition has failed; nothing is tried again
//     and believed.
//   - The manifest tells what the cluster knows of the topic ([About]): the leader adds it
//     when it takes over and whenever that changes, in an entry of its own.
//   - What is known of idempotent producers is what replaying the log gives (but for those
//     idle for too long, and batches that retention removed). A batch is judged where its
//     offset is given. The manifest has the state as of its recovery point, never beyond;
//     a takeover adds what it adopts. A repeated batch is answered when the first copy is
//     committed.
//   - The last stable offset is the high watermark, or the first offset of a transaction
//     that is open or whose marker is not committed. A transaction is begun only with its
//     coordinator's word, which a marker that comes between makes worthless (KIP-890).
//   - What aborted transactions a segment's markers end, its index file lists. The manifest
//     has a count and a checksum of that, and the least offset that matters to it, so
//     that a file which is lost or damaged is known, and made again from the headers.
//   - Nothing is unlinked while a committed manifest names it: retention, DeleteRecords
//     and compaction publish a manifest without the file, a Check covers that, and only
//     then the file goes, after file.delete.delay.ms. A later leader removes what an
//     earlier one left.
//   - The log start never passes the recovery point, so a takeover always finds it.
//   - Compaction writes new segments and swaps them in by one entry. Offsets and headers
//     stay: over a hole a read gives the next batch, and the log never ends in a hole.
//   - What its leader told producers had failed, the same process does not take up again.
//   - A commit that the volume leaves without an answer fails the partition, and a read its
//     reader, who leaves the call behind.
//   - Nothing is locked during I/O.
//   - A configuration is replaced whole by [Partition.Reconfigure]; a decision is made by
//     one of them, never by parts of two.
//
// # Call order
//
// [BuildTopic] once; then, under the epoch the controller assigned, [Open],
// [Partition.Append] with [Appended.Wait], [Partition.Read], and at the end
// [Partition.Relinquish] or [Partition.Abandon]. A [Cleaner] calls [Partition.Retain] and
// [Partition.Compact] of all partitions of a broker.
//
// A transactional batch is verified ([Partition.StartVerification], [Partition.AppendTxn]),
// and [Partition.WriteMarker] ends what it began; [Partition.ReadCommitted] and
// [Partition.CutCommitted] are for who reads committed records only.
//
// Records are looked at only where their content matters: compaction, keys on compacted
// topics, compression.type, lookups by time.
package partition

// Package coordinator runs a broker on the shared volume: it holds the broker's two
// sessions, owns the cluster stream, and keeps the partitions that the view assigns
// to it open. In this form a broker is its own controller.
//
// # On the volume
//
//	sessions/<uuid>                   two of this process: one as controller, one for data
//	meta/<volume ID>/cluster          the cluster stream, see metalog and projections
//	topics/<topic ID>                 a topic's directory, see partition
//	topics/~deleted~<topic ID>        a deleted topic on its way out
//
// # Invariants
//
//   - The view shows only what is committed, and goes only forward.
//   - A directory that serves one node ID is refused to any other, unchanged.
//   - A newcomer with the same node ID wins at once: its claim seals the older
//     process, whose Done closes with substrate.ErrFenced. Nobody waits for anybody.
//   - A topic's directory is complete before TopicCreated is published, and is
//     removed only after TopicDeleted is committed or TopicCreated was refused for
//     good. A directory that no metadata names is nobody's to remove by guesswork.
//   - A change of a configuration is made on the state at the point that orders it, and
//     is answered when the partitions here go by it. A partition that is opened
//     meanwhile is shown only under the newest.
//   - A partition's directory is complete before PartitionsAdded is published. What a
//     refused growth has built is taken by the next.
//   - A partition is opened only under an epoch that the view gives it. One that
//     cannot be opened, or that fails, is given a higher one until it serves.
//   - A producer ID is handed out once: its block is committed first.
//   - Work on the volume belongs to the broker, never to the request that asked for
//     it: a client that goes away leaves nothing half done.
//   - One partition's hang costs the others nothing: neither places nor the session.
//   - While the volume has little room records are refused, and what frees some goes on:
//     ~deleted~ballast~<node ID> is a file that is given up for it.
//   - No mutex is held during I/O or while waiting.
//
// # Call order
//
// [Start], then any of the methods from any goroutine, then [Broker.Stop], also
// after [Broker.Done].
package coordinator

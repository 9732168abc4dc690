// Package coordinator runs a broker of the cluster on the shared volume. Every process
// follows the cluster stream into its view, keeps the partitions and the shards of consumer
// groups open that the view gives it (a place, see slots.go), and stands for controller; the one that is elected writes the stream.
//
// # On the volume
//
//	sessions/<uuid>                   one for data, and one for each term as controller
//	election/                         the election's records, see the package election
//	meta/<volume ID>/cluster          the cluster stream, see metalog and projections
//	meta/<volume ID>/groups/NN        a shard of consumer groups, see groupshard; made by its first owner
//	topics/<topic ID>                 a topic's directory, see partition
//	topics/~deleted~<topic ID>        a deleted topic on its way out
//
// # Between brokers
//
// On the inter-broker listener: BrokerRegistration (tag 10002: the data session) and
// BrokerHeartbeat (tag 10000: how far the broker follows; 10001: places that it is to
// serve and does not, or still has). See wire.go. What a controller knows beyond the stream
// it was told so, and a new one is told it again.
//
// # Invariants
//
//   - The view shows only what is committed, and goes only forward.
//   - To be elected makes nothing safe: what a controller publishes counts by the Check of
//     its session, and the next one's claim seals that.
//   - A broker is fenced only after its data session is sealed on the volume. A newcomer
//     with its node ID is registered only then; the older process ends with
//     substrate.ErrFenced when it reads so.
//   - A leader that lives hands a partition over: it closes, and the next one claims when
//     it has listed that. A move that gets no closing is given up, never forced.
//   - A topic's directory is complete before TopicCreated is published, and is
//     removed only after TopicDeleted is committed and every living broker has closed it,
//     or after TopicCreated was refused for good. A directory that no metadata names is
//     nobody's to remove by guesswork.
//   - A change of a configuration is made on the state at the point that orders it. A
//     partition that is opened meanwhile is shown only under the newest.
//   - A partition's directory is complete before PartitionsAdded is published. What a
//     refused growth has built is taken by the next.
//   - A partition is opened only under an epoch that the view gives this broker. One that
//     cannot be opened, or that fails, is reported, and given a higher one until it serves.
//   - A producer ID is handed out once: its block is committed first.
//   - Work on the volume belongs to the broker, never to the request that asked for
//     it: a client that goes away leaves nothing half done.
//   - One partition's hang costs the others nothing: neither places nor the session.
//   - While a probe write hangs, a broker asks for its fence and stands for nothing.
//   - While the volume has little room records are refused, and what frees some goes on:
//     ~deleted~ballast~<node ID> is a file that is given up for it.
//   - No mutex is held during I/O or while waiting.
//
// # Call order
//
// [Start], then any of the methods from any goroutine, then [Broker.Retire] if others are
// to take over first, then [Broker.Stop], also after [Broker.Done].
package coordinator

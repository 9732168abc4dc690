// Package server speaks Kafka's protocol to clients: listeners, connections,
// framing, memory bounds, and one handler per API key.
//
// # On the wire
//
//	request   int32 size, int16 key, int16 version, int32 correlation ID, header, body
//	response  int32 size, int32 correlation ID, [tag section], body
//
// Bodies are kmsg's; the headers are written here. A flexible request has a tag
// section behind the client ID, a flexible response one behind the correlation ID,
// except ApiVersions, whose response header has none whatever the version.
//
// # A request's way
//
// One goroutine per connection reads. It checks the size, takes memory from a
// [budget], reads, decodes, and calls the handler's start, which does whatever must
// happen in the order of the wire (appending to logs). start returns a reply: the
// part that may wait. Replies run side by side; one goroutine per connection writes
// their answers in the order of the requests. So five produce requests in flight
// share one commit.
//
// Fetch answers tell where records lie. Large ones stay in their segment's file until
// the writer has the kernel send them, after a head whose sizes count them; a connection
// whose records cannot be sent whole is closed.
//
// # Listeners
//
// A connection knows its listener. Brokers are named to it with their address of the
// listener of that name, and those without one are not; what is between brokers is there
// on inter.broker.listener.name alone (see api.inner). The end of a connection that carried
// a broker's newest heartbeat is told to the backend.
//
// # Changes of the cluster
//
// They are the controller's (see api.forward). Another broker passes the request on with
// an unknown tag that keeps it from being passed on again, looks for a controller as long
// as the request may take, and answers when its own view has come to the position that the
// controller's answer names.
//
// # Groups
//
// A group's requests go to the shard that coordinates it, if it is served here, in the order
// of their connection and one by one, as Kafka has it. Names of topics are made IDs on the
// way in and names on the way out. Errors are told in codes that group clients take for a
// reason to wait or to look for the coordinator (groups.go).
//
// # Quotas
//
// What clients use is counted where it comes to be known: bytes of a Produce as it starts, of
// a Fetch and the time of any request as it is answered, partitions at the controller. A client
// above its quota is told in the answer, and its connection is muted (throttle.go): its reader
// starts nothing until then. Who passes a request on says for whom, and is told in a tag for
// how long the client has to wait.
//
// # Fetch sessions
//
// A session (KIP-227) is what a consumer fetches and what it was last told of each
// partition, in the order of whose turn is next. The [fetchCache] holds a bounded number of
// sessions, and of partitions in them. A request changes its session in its turn on the
// wire, waits and reads without holding it, and notes its answer if no other request
// of the session came in between. Nothing is locked but while one of the two changes.
//
// # Invariants
//
//   - A request costs its sender's connection at most: whatever cannot be decoded,
//     is not served, or panics ends that connection and nothing else.
//   - Memory: request bytes held at any time are at most queued.max.request.bytes, half
//     of it for half-read requests, and one request (see [budget]). Nothing is allocated
//     because a peer claims a length, only for bytes that came and about as many more.
//   - Records in memory on their way to consumers are at most queued.max.response.bytes
//     of all connections together, and a few KiB of each; who reads slowly keeps nobody
//     waiting (see [answers]).
//   - [apis] is the one table of what is served, and what ApiVersions tells.
//   - An unread answer holds an open file for each large piece of it, not its bytes.
//   - Handlers read the cluster from an immutable view and take no locks.
//   - The package touches no file: config comes through a properties loader, the
//     volume through the packages below.
//
// Call order: [LoadConfig], [Listen], [Start] (through a Backend), [Server.Shutdown];
// [Run] does all of it for the kaas command.
package server

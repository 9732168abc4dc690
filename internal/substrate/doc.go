// Package substrate is the only way kaas touches the shared volume: the file
// system interface, the three primitives built on it, and the fence.
//
// # What the volume promises
//
// (a) A rename within one directory is atomic. (b) An exclusive create has one
// winner. (c) Close-to-open: an open sees what was closed before. Beyond them the
// server refuses to rename a file onto a directory, or a directory onto one that
// is not empty; mkdir has one winner; what was fsynced is seen by later opens.
// Nothing else is relied on: no clock, no lock, no stat, no read.
//
// # The four rules
//
//  1. A durable change is one rename: temp file, write, fsync, close, rename,
//     fsync of the directory ([Volume.ReplaceFile]).
//  2. What cannot be one step is idempotent and re-driven to its named end-state.
//  3. Every piece of state has one writer, fenced by epoch ([Session], [Claim]).
//  4. A name is not an identity: what can be deleted and made again under the
//     same name is addressed by an ID.
//
// Code on the volume says in a comment which of them carries it.
//
// # On the volume
//
//	volume/id                                  made once: volume ID and format version
//	sessions/<uuid>/0 or 1                     a session's token, a file its owner renames between the two names
//	<stream>/0000000006/claim                  who owns epoch 6 of the stream
//	<stream>/0000000006/0000000006-00000000000000000043.snap
//	~new~<session>~<nonce>                     a temporary name of that session's process
//	~deleted~<name>                            removal under way; anyone may finish it
//
// Every file but a segment starts with the 24 byte header of [Frame], then one
// msgpack value. An empty entry file is a plug: nobody may publish there again.
//
// # The fence
//
// A write may be acknowledged only after a [Session.Check] that began when the
// write was already visible. Check is a rename of the token; [Volume.Seal] makes a
// directory at the free one of its two names, so that the server refuses the next
// rename. Claim renames a complete directory to the epoch's name, seals whoever
// owned a lower epoch, plugs the position after the newest entry, and only then
// takes that entry as its base. Either the old owner's Check fails or the new
// owner sees the write; pauses of any length and lost replies change nothing.
//
// # Calls that hang
//
// A call on the volume cannot be cancelled, and one that hangs pins a thread. [Pool] lets
// a bounded number through, of all and of each partition; [Do] has a caller stop waiting
// while its call stays.
//
// Call order: [OpenVolume], [Volume.OpenSession], [Session.Claim], write, [Session.Check].
package substrate

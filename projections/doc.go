// Package projections holds the events of the cluster stream and the view that is
// folded from them. It is pure: no I/O, no clock, no locks.
//
// # Events
//
// An event is a past-tense fact, one file each (event_*.go): a struct that knows
// its name, how to say itself in a line, and how it changes a view. Adding one is
// adding a file. On the volume an event is its name and a msgpack map of the
// struct's fields; a field that a build does not know is passed over, so fields may
// be added but never change their meaning.
//
// # The view
//
// [Cluster] is an immutable value. Applying a batch of events gives a new one that
// shares what did not change; an outer map is cloned once a batch. Its encoded form
// (codec.go) is deterministic: equal views have equal bytes.
//
// # Invariants
//
//   - Apply is pure and total. An event about something unknown, or with numbers
//     out of range, changes nothing. Only bytes that are not an event are an error,
//     and then nothing of the batch is applied.
//   - Folding a history over a view that already holds a prefix of it gives the
//     same view: numbers only rise, and what was deleted stays deleted.
//   - A snapshot plus its suffix gives the view of the whole.
//   - A broker's event is about the registration whose epoch it names, never about a
//     later one. What a broker leads or owns is said by other events alone.
//   - The number of shards of a kind never changes, so a key stays in its shard.
//   - A producer's fence only rises, until it is forgotten with all that are as old.
//   - Restored puts another view in the place of the one there is. [Restore], which makes
//     that view, keeps all of this.
//   - A topic is its ID. A name is only looked up, and no two living topics share one.
//
// # Use
//
//	ev, _ := projections.NewEvent(&projections.TopicCreated{ID: id, Name: "orders", Partitions: 3})
//	next, err := projections.Apply(view, []metalog.Event{ev})
package projections

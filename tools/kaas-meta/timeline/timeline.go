// Package timeline makes one HTML page of a cluster's life: a lane for the controllers, for
// each broker, topic, partition, consumer group, transactional ID and shard, with what each
// was at any time, and a mark for every event, behind which is the entry that it stands in
// and what that entry changed, object by object.
//
// [Build] reads a volume and changes nothing. [Timeline.WritePage] writes the page, which
// needs nothing else: no network, no fonts, no library. The same history gives the same
// bytes.
//
// # The page
//
//	web/page.html   what there is before any script has run
//	web/page.css    light and dark
//	web/*.js        one script, in the order of the files' names
//	the data        JSON in a script element, see encode.go
//
// Go's tests look at the data, and at what could be taken for markup. With KAAS_E2E=1 they
// also use the page in a headless Chromium that reaches no network, and with -artifacts
// -outputdir DIR leave pictures of it. KAAS_E2E=all makes a missing Chromium a failure.
//
// # Names are not ours
//
// Names of topics, groups, members and transactional IDs, and reasons, are chosen by
// clients. They are data of the page and nowhere markup: the JSON has no character that ends
// its element, the script makes text nodes only, and the page's policy lets no script run
// but its own. What cannot be seen, such as marks that turn the direction of text, is
// written as its code.
package timeline

import (
	"time"

	"kaas.dev/kaas/metalog"
)

// Timeline is what a page shows.
type Timeline struct {
	Cluster string // the cluster's ID
	// From and To bound what is shown. An open end of a span is at To.
	From, To time.Time
	Lanes    []Lane
	Entries  []Entry  // by time, stream and position
	Notes    []string // what could not be shown
}

// Section is a heading that lanes stand under. The page has them in this order.
type Section int

// The sections.
const (
	SectionCluster Section = iota
	SectionBrokers
	SectionTopics
	SectionGroups
	SectionTxns
	SectionShards
)

var sectionNames = []string{"Cluster", "Brokers", "Topics", "Consumer groups", "Transactions", "Shards"}

// Lane is the life of one object.
type Lane struct {
	Section Section
	Name    string
	// Parent is the index of the lane that this one is a part of, a partition of its topic;
	// -1 for none. A parent stands before its parts.
	Parent int
	Spans  []Span // in order, not overlapping
	Marks  []Mark // by entry
}

// Style says how a span looks.
type Style string

// The styles.
const (
	StyleBroker  Style = "broker"  // is in the hands of a broker, in that one's colour
	StyleNobody  Style = "nobody"  // should be and is not
	StyleFenced  Style = "fenced"  // is there and may do nothing
	StyleExists  Style = "exists"  // is there
	StyleActive  Style = "active"  // a group with members
	StyleIdle    Style = "idle"    // one without, or a transactional ID between transactions
	StyleOngoing Style = "ongoing" // an open transaction
	StyleEnding  Style = "ending"  // one whose end is decided and not known everywhere
)

// Span is how an object was for a while.
type Span struct {
	From, To time.Time
	Style    Style
	Broker   int32 // for StyleBroker
	Label    string
	Entry    int // with which it began, or -1 if that was before
}

// Kind says what an event is about.
type Kind string

// The kinds, each with a mark of its own.
const (
	KindChange  Kind = "change"  // a broker, topic or configuration
	KindLeader  Kind = "leader"  // a leader, an owner or the controller
	KindMembers Kind = "members" // of a group
	KindCommit  Kind = "commit"  // of offsets
	KindTxn     Kind = "txn"     // of a transaction
	KindSegment Kind = "segment" // of a partition's files
	KindStream  Kind = "stream"  // of the stream itself: a takeover without events, a close, a plug
	KindTrouble Kind = "trouble" // it was disowned, or cannot be read
)

// Mark is an entry in a lane.
type Mark struct {
	Entry  int
	Kind   Kind
	Events []int // of the entry, those about the lane; none where it is the entry itself
}

// Entry is an entry of a stream.
type Entry struct {
	Stream   string
	Position string
	Previous string
	Time     time.Time // of a plug and of an unreadable file that of the entry before it
	Node     int32     // -1 for a stream's birth, and where it is not known
	Session  string
	Reason   string
	Status   metalog.Status
	Closed   bool   // its writer wrote nothing more
	Problem  string // why it cannot be read, or what else is special
	Events   []Event
	Changes  []Change
	// Untold is how many rows of Changes were left out, as too many.
	Untold int
}

// Event is one event in a line.
type Event struct{ Type, Text string }

// Change is what became of one object.
type Change struct {
	Object string // such as "partition orders/3"
	Fields []Field
}

// Field is a field of an object that changed. Empty stands for absent; there are no empty
// values.
type Field struct{ Name, Before, After string }

// Events counts the events of all entries.
func (t *Timeline) Events() (n int) {
	for i := range t.Entries {
		n += len(t.Entries[i].Events)
	}
	return n
}

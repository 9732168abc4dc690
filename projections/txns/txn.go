package txns

import (
	"encoding/json"
	"fmt"
	"slices"
)

// NoProducer and NoEpoch stand for none.
const (
	NoProducer int64 = -1
	NoEpoch    int16 = -1
	// NotStarted is the time of a transaction that has not begun.
	NotStarted int64 = -1
)

// State says how the transaction of a transactional ID stands (KIP-98). The numbers are
// Kafka's.
type State int8

// The states.
const (
	Empty          State = 0 // there is a producer, which has not begun anything
	Ongoing        State = 1
	PrepareCommit  State = 2 // it is committed; some partition or group may not know yet
	PrepareAbort   State = 3 // it is aborted, likewise
	CompleteCommit State = 4 // everybody knows
	CompleteAbort  State = 5
)

var stateNames = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}

func (s State) valid() bool { return s >= 0 && int(s) < len(stateNames) }

// String is Kafka's name of the state.
func (s State) String() string {
	if !s.valid() {
		return fmt.Sprintf("state %d", int8(s))
	}
	return stateNames[s]
}

// MarshalJSON makes states readable.
func (s State) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// ParseState is the strict inverse of String.
func ParseState(name string) (State, bool) {
	i := slices.Index(stateNames, name)
	return State(i), i >= 0
}

// Ending reports a transaction whose end is decided and not known everywhere.
func (s State) Ending() bool { return s == PrepareCommit || s == PrepareAbort }

// Txn is what is committed of one transactional ID: an immutable value.
type Txn struct {
	ID         string `msgpack:"n" json:"transactionalId"`
	ProducerID int64  `msgpack:"i" json:"producerId"`
	// Epoch is the producer's newest. In an ending transaction it is that of the end's
	// markers, which from transaction version 2 on is one above that of the records.
	Epoch int16 `msgpack:"e" json:"producerEpoch"`
	// LastEpoch is the one before, of a producer that may ask again for what raised it;
	// NoEpoch where that was another.
	LastEpoch int16 `msgpack:"l" json:"lastProducerEpoch"`
	// PrevProducerID is whom ProducerID replaced when its epochs were used up, until it has
	// begun a transaction; NoProducer else. The last epoch is then that one's.
	PrevProducerID int64 `msgpack:"p" json:"previousProducerId"`
	// NextProducerID replaces ProducerID when the ending transaction is complete; NoProducer
	// where it stays.
	NextProducerID int64 `msgpack:"x" json:"nextProducerId"`
	State          State `msgpack:"s" json:"state"`
	// Fencing says that the end was not the producer's wish: its epoch is fenced on all
	// partitions before the transaction is complete.
	Fencing bool  `msgpack:"f,omitempty" json:"fencing,omitempty"`
	Timeout int32 `msgpack:"o" json:"timeoutMs"`
	// Version is the transaction version that the last change was made under: 2 with an epoch
	// raised at every end (KIP-890), else 0.
	Version    int8       `msgpack:"v" json:"transactionVersion"`
	Partitions Partitions `msgpack:"t" json:"partitions"` // of an open or ending transaction
	// Groups are the shards of the consumer groups whose offsets are part of it, ascending.
	Groups  []int32 `msgpack:"g" json:"groupShards"`
	Started int64   `msgpack:"b" json:"started"` // ms since 1970; NotStarted
	Updated int64   `msgpack:"u" json:"updated"` // ms since 1970
}

// Has reports whether a partition is part of the transaction.
func (t *Txn) Has(p Partition) bool {
	_, ok := slices.BinarySearchFunc(t.Partitions, p, Partition.Compare)
	return ok
}

// HasGroups reports whether a shard of groups is part of it.
func (t *Txn) HasGroups(shard int32) bool {
	_, ok := slices.BinarySearch(t.Groups, shard)
	return ok
}

// valid reports whether a transaction can be.
func (t *Txn) valid() bool {
	return t.ID != "" && t.ProducerID >= 0 && t.Epoch >= 0 && t.State.valid() && t.Timeout > 0 &&
		t.Partitions.sorted() && ascending(t.Groups) && (t.Open() || len(t.Partitions)+len(t.Groups) == 0)
}

// Open reports whether anything may be part of the transaction: it is open or ending.
func (t *Txn) Open() bool { return t.State == Ongoing || t.State.Ending() }

// trim leaves nothing empty that is not nil, so that equal transactions have equal bytes.
func (t *Txn) trim() *Txn {
	if len(t.Partitions) == 0 {
		t.Partitions = nil
	}
	if len(t.Groups) == 0 {
		t.Groups = nil
	}
	return t
}

func ascending(ns []int32) bool {
	for i, n := range ns {
		if n < 0 || i > 0 && n <= ns[i-1] {
			return false
		}
	}
	return true
}

// Equal reports whether two are the same.
func (t *Txn) Equal(u *Txn) bool {
	return t.ID == u.ID && t.ProducerID == u.ProducerID && t.Epoch == u.Epoch && t.LastEpoch == u.LastEpoch &&
		t.PrevProducerID == u.PrevProducerID && t.NextProducerID == u.NextProducerID && t.State == u.State &&
		t.Fencing == u.Fencing && t.Timeout == u.Timeout && t.Version == u.Version &&
		slices.Equal(t.Partitions, u.Partitions) && slices.Equal(t.Groups, u.Groups) &&
		t.Started == u.Started && t.Updated == u.Updated
}

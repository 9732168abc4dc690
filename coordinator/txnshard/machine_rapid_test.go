package txnshard

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"kaas.dev/kaas/projections/txns"
)

// life is one transactional ID whose producers do anything at any time, with what they were
// given checked against what they may do.
type life struct {
	t       *txns.Txn
	nextID  int64
	now     int64
	handed  map[Producer]bool // all that were ever given out
	all     []Producer        // likewise, in order
	fenced  map[Producer]bool // of them, before a foreign InitProducerId
	newest  Producer
	outcome map[Producer]bool // how the transaction ended that a producer with that epoch ended
	epochs  map[int64]int16   // the highest that was seen of each ID
}

// set makes n the state.
func (l *life) set(t *rapid.T, n *txns.Txn) {
	l.t = n
	if old, ok := l.epochs[n.ProducerID]; ok && n.Epoch < old {
		t.Fatalf("the epoch of producer %d fell from %d to %d", n.ProducerID, old, n.Epoch)
	}
	l.epochs[n.ProducerID] = n.Epoch
}

func (l *life) fresh() int64 { l.nextID++; return l.nextID }

// step calls f, again with a new producer ID where it asks for one.
func (l *life) step(f func(fresh int64) (*txns.Txn, error)) (*txns.Txn, error) {
	n, err := f(txns.NoProducer)
	if errors.Is(err, errNeedID) {
		n, err = f(l.fresh())
	}
	return n, err
}

// any is some producer that was given out, mostly the newest.
func (l *life) any(t *rapid.T) Producer {
	if len(l.all) == 0 || rapid.Bool().Draw(t, "newest") {
		return l.newest
	}
	return l.all[len(l.all)-1-rapid.IntRange(0, min(len(l.all)-1, 5)).Draw(t, "back")]
}

// hand notes that a producer was given out.
func (l *life) hand(t *rapid.T, p Producer) {
	if l.fenced[p] {
		t.Fatalf("%+v is given out, and is fenced", p)
	}
	if !l.handed[p] {
		l.handed[p] = true
		l.all = append(l.all, p)
	}
}

func (l *life) init(t *rapid.T) {
	who := nobody
	if rapid.Bool().Draw(t, "goes on") {
		who = l.any(t)
	}
	before := l.t
	n, err := l.step(func(fresh int64) (*txns.Txn, error) { return initProducer(l.t, "t", 1000, who, fresh, l.now) })
	if err != nil {
		return
	}
	if l.fenced[who] {
		t.Fatalf("%+v is fenced, and goes on", who)
	}
	l.set(t, n)
	if n.State.Ending() {
		if who == nobody {
			l.fence()
		}
		return
	}
	got := current(n)
	again := who != nobody && before != nil && who != current(before)
	if l.handed[got] && !again {
		t.Fatalf("%+v was given out twice", got)
	}
	if who == nobody {
		l.fence()
	}
	l.newest = got
	l.hand(t, got)
}

func (l *life) fence() {
	for p := range l.handed {
		l.fenced[p] = true
	}
}

func (l *life) add(t *rapid.T) {
	who := l.any(t)
	n, err := add(l.t, Add{ID: "t", Producer: who, Partitions: []txns.Partition{part(1, rapid.Int32Range(0, 3).Draw(t, "partition"))}}, l.now)
	if err != nil {
		return
	}
	l.accepted(t, who, "adds")
	l.set(t, n)
}

// accepted is told of a producer whose request has an effect.
func (l *life) accepted(t *rapid.T, who Producer, what string) {
	if !l.handed[who] || l.fenced[who] {
		t.Fatalf("%+v %s, and was given to nobody or is fenced", who, what)
	}
	if l.t.State == txns.Ongoing && l.epochs[who.ID] > who.Epoch {
		t.Fatalf("%+v %s below epoch %d", who, what, l.epochs[who.ID])
	}
}

func (l *life) end(t *rapid.T) {
	who, commit := l.any(t), rapid.Bool().Draw(t, "commit")
	before := l.t
	n, err := l.step(func(fresh int64) (*txns.Txn, error) { return end(l.t, "t", who, commit, 2, fresh, l.now) })
	if err != nil {
		return
	}
	l.accepted(t, who, "ends")
	if had, ok := l.outcome[who]; ok && had != commit {
		t.Fatalf("what %+v ended with commit %v is ended with %v", who, had, commit)
	}
	if n == before && l.outcome[who] != commit {
		t.Fatalf("%+v is told that it ended what it did not", who)
	}
	l.outcome[who] = commit
	l.set(t, n)
	l.newest = successor(n)
	l.hand(t, l.newest)
}

func (l *life) expire(t *rapid.T) {
	if l.t == nil || l.t.State != txns.Ongoing {
		return
	}
	was := current(l.t)
	n, err := l.step(func(fresh int64) (*txns.Txn, error) { return expire(l.t, fresh, l.now) })
	if err != nil {
		t.Fatal(err)
	}
	l.outcome[was] = false
	l.set(t, n)
	l.hand(t, successor(n)) // its producer may ask for it
}

func (l *life) complete(t *rapid.T) {
	if l.t == nil || !l.t.State.Ending() {
		return
	}
	commit, next := outcome(l.t.State), successor(l.t)
	l.set(t, complete(l.t, l.now))
	if outcome(l.t.State) != commit || l.t.State.Ending() || l.t.Open() || successor(l.t) != next {
		t.Fatalf("complete as %+v", l.t)
	}
}

// Whatever the producers of a transactional ID do, epochs only rise, nothing is given out
// twice, who is fenced has no effect, and no outcome changes.
func TestProducersOfOneID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{handed: map[Producer]bool{}, fenced: map[Producer]bool{}, outcome: map[Producer]bool{}, epochs: map[int64]int16{}}
		if rapid.Bool().Draw(t, "nearly used up") {
			x := at(txns.Empty, lastEpoch-3, -1)
			x.ProducerID, l.nextID = 1, 1
			l.newest = current(x)
			l.hand(t, l.newest)
			l.set(t, x)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.now++
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				l.init(t)
			case 2, 3, 4:
				l.add(t)
			case 5, 6:
				l.end(t)
			case 7:
				l.expire(t)
			default:
				l.complete(t)
			}
		}
	})
}

func TestRefusalsForGoodAreTold(t *testing.T) {
	for _, err := range []error{kerr.ProducerFenced, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping} {
		if !forGood(err) {
			t.Errorf("%v is not for good", err)
		}
	}
	for _, err := range []error{kerr.ConcurrentTransactions, kerr.NotCoordinator, errNeedID, nil} {
		if forGood(err) {
			t.Errorf("%v is for good", err)
		}
	}
}

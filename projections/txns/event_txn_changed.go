package txns

import (
	"fmt"
	"strings"

	"kaas.dev/kaas/projections/internal/ordered"
)

// TxnChanged: a transactional ID and its transaction stand like this from now on.
type TxnChanged struct {
	Txn Txn `msgpack:"t" json:"transaction"`
}

func init() { register(func() Fact { return new(TxnChanged) }) }

// EventName implements Fact.
func (*TxnChanged) EventName() string { return "TxnChanged" }

func (e *TxnChanged) String() string {
	t := &e.Txn
	var b strings.Builder
	fmt.Fprintf(&b, "transactional ID %q: %s, producer %d epoch %d", t.ID, t.State, t.ProducerID, t.Epoch)
	if len(t.Partitions) > 0 {
		fmt.Fprintf(&b, ", partitions")
		_ = t.Partitions.byTopic(func(run Partitions) error {
			fmt.Fprintf(&b, " %s", run[0].Topic)
			for i, p := range run {
				fmt.Fprintf(&b, "%c%d", "/,"[min(i, 1)], p.Index)
			}
			return nil
		})
	}
	if len(t.Groups) > 0 {
		fmt.Fprintf(&b, ", shards of groups %d", t.Groups)
	}
	if t.NextProducerID != NoProducer {
		fmt.Fprintf(&b, ", then producer %d", t.NextProducerID)
	}
	return b.String()
}

func (e *TxnChanged) apply(d *draft) {
	if e.Txn.valid() {
		t := e.Txn
		d.changes[t.ID] = ordered.Change[*Txn]{Value: t.trim()}
	}
}

package txns

import (
	"fmt"

	"kaas.dev/kaas/projections/internal/ordered"
)

// TxnRemoved: a transactional ID was idle for too long and is forgotten.
type TxnRemoved struct {
	ID string `msgpack:"n" json:"transactionalId"`
}

func init() { register(func() Fact { return new(TxnRemoved) }) }

// EventName implements Fact.
func (*TxnRemoved) EventName() string { return "TxnRemoved" }

func (e *TxnRemoved) String() string { return fmt.Sprintf("transactional ID %q forgotten", e.ID) }

func (e *TxnRemoved) apply(d *draft) { d.changes[e.ID] = ordered.Change[*Txn]{Gone: true} }

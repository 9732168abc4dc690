package projections

import "fmt"

// ScramCredentialRemoved says that a user gets in no more with one mechanism.
type ScramCredentialRemoved struct {
	User      string         `msgpack:"user" json:"user"`
	Mechanism ScramMechanism `msgpack:"mechanism" json:"mechanism"`
}

func init() { register(func() Fact { return new(ScramCredentialRemoved) }) }

// EventName implements Fact.
func (*ScramCredentialRemoved) EventName() string { return "ScramCredentialRemoved" }

func (e *ScramCredentialRemoved) String() string {
	return fmt.Sprintf("user %q has no credential for %s any more", e.User, e.Mechanism)
}

func (e *ScramCredentialRemoved) apply(d *draft) {
	k := scramKey{e.User, e.Mechanism}
	if d.scram[k] != nil {
		delete(d.editScram(), k)
	}
}

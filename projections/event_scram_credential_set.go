package projections

import (
	"fmt"
	"time"
)

// ScramCredentialSet says that a user proves himself by this from now on, with one mechanism.
type ScramCredentialSet struct {
	User       string         `msgpack:"user" json:"user"`
	Mechanism  ScramMechanism `msgpack:"mechanism" json:"mechanism"`
	Iterations int32          `msgpack:"iterations" json:"iterations"`
	Salt       Secret         `msgpack:"salt" json:"salt"`
	StoredKey  Secret         `msgpack:"stored_key" json:"stored_key"`
	ServerKey  Secret         `msgpack:"server_key" json:"server_key"`
	SetAt      int64          `msgpack:"set_ms" json:"set_ms"` // milliseconds since 1970
}

func init() { register(func() Fact { return new(ScramCredentialSet) }) }

// EventName implements Fact.
func (*ScramCredentialSet) EventName() string { return "ScramCredentialSet" }

func (e *ScramCredentialSet) String() string {
	return fmt.Sprintf("user %q has another credential for %s, of %d iterations", e.User, e.Mechanism, e.Iterations)
}

func (e *ScramCredentialSet) apply(d *draft) {
	if e.User == "" || !e.Mechanism.Valid() {
		return
	}
	c := &ScramCredential{e.User, e.Mechanism, e.Iterations, e.Salt, e.StoredKey, e.ServerKey, time.UnixMilli(e.SetAt).UTC()}
	d.editScram()[scramKey{e.User, e.Mechanism}] = c
	if len(d.scramSecret) == 0 {
		d.scramSecret = c.secret()
	}
}

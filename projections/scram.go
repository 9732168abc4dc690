package projections

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ScramMechanism is a mechanism of SCRAM by Kafka's number for it (KIP-554).
type ScramMechanism int8

// The mechanisms there are.
const (
	ScramSHA256 ScramMechanism = 1
	ScramSHA512 ScramMechanism = 2
)

// String is the mechanism's name in SASL.
func (m ScramMechanism) String() string {
	switch m {
	case ScramSHA256:
		return "SCRAM-SHA-256"
	case ScramSHA512:
		return "SCRAM-SHA-512"
	}
	return fmt.Sprintf("SCRAM mechanism %d", int8(m))
}

// Valid reports whether it is one that there is.
func (m ScramMechanism) Valid() bool { return m == ScramSHA256 || m == ScramSHA512 }

// Bounds of a credential's iterations, as in Kafka.
const (
	MinScramIterations = 4096
	MaxScramIterations = 16384
)

// MaxScramSalt bounds a credential's salt, which whoever names its user is sent.
const MaxScramSalt = 1 << 10

// Secret is what nobody is to see who was not given it: as text and in JSON it is hidden.
type Secret []byte

const hidden = "[hidden]"

func (Secret) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return hidden }

// Format implements fmt.Formatter: no verb shows the bytes.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(hidden) }

// ScramCredential is by what a user proves himself with one mechanism (RFC 5802). It is no
// password, but whoever has it can try passwords at leisure, and can pass himself off as the
// server.
type ScramCredential struct {
	User       string
	Mechanism  ScramMechanism
	Iterations int32
	Salt       Secret
	StoredKey  Secret
	ServerKey  Secret
	SetAt      time.Time
}

func (c *ScramCredential) equal(d *ScramCredential) bool {
	return c.User == d.User && c.Mechanism == d.Mechanism && c.Iterations == d.Iterations && c.SetAt.Equal(d.SetAt) && c.sameProof(d)
}

func (c *ScramCredential) sameProof(d *ScramCredential) bool {
	return c.Iterations == d.Iterations && bytes.Equal(c.Salt, d.Salt) &&
		bytes.Equal(c.StoredKey, d.StoredKey) && bytes.Equal(c.ServerKey, d.ServerKey)
}

// scramKey orders and finds credentials.
type scramKey struct {
	user      string
	mechanism ScramMechanism
}

func (k scramKey) compare(o scramKey) int {
	return cmp.Or(cmp.Compare(k.user, o.user), cmp.Compare(k.mechanism, o.mechanism))
}

// ScramCredential is a user's credential for a mechanism, nil if there is none.
func (c *Cluster) ScramCredential(user string, m ScramMechanism) *ScramCredential {
	return c.scram[scramKey{user, m}]
}

// ScramSecret is a key that all brokers have, and nobody else, as long as the cluster is there:
// what users would have who are not there is made with it. It comes of the first credential that
// there ever was, and is empty as long as there was none.
func (c *Cluster) ScramSecret() Secret { return c.scramSecret }

func (c *ScramCredential) secret() Secret {
	h := hmac.New(sha256.New, c.ServerKey)
	h.Write([]byte("users that are not there"))
	h.Write(c.StoredKey)
	return h.Sum(nil)
}

// ScramCredentials are all credentials, by user and mechanism.
func (c *Cluster) ScramCredentials() []*ScramCredential {
	keys := slices.SortedFunc(maps.Keys(c.scram), scramKey.compare)
	out := make([]*ScramCredential, len(keys))
	for i, k := range keys {
		out[i] = c.scram[k]
	}
	return out
}

// editScram returns the credentials, to be changed.
func (d *draft) editScram() map[scramKey]*ScramCredential {
	if !d.own.scram {
		d.own.scram = true
		d.scram = maps.Clone(d.scram)
	}
	return d.scram
}

// The bounds of all credentials together.
const (
	MaxScramCredentials = 100_000
	MaxScramBytes       = 16 << 20 // of users' names and salts
)

// ScramFits is an error where credentials that are set would make more of them than may be.
// It wraps kerr.PolicyViolation.
func (c *Cluster) ScramFits(fs []Fact) error {
	n, bytes := 0, 0
	for _, f := range fs {
		s, ok := f.(*ScramCredentialSet)
		if !ok {
			continue
		}
		if old := c.scram[scramKey{s.User, s.Mechanism}]; old != nil {
			bytes += len(s.Salt) - len(old.Salt)
		} else {
			n, bytes = n+1, bytes+len(s.User)+len(s.Salt)
		}
	}
	if n <= 0 && bytes <= 0 {
		return nil
	}
	n += len(c.scram)
	for k, old := range c.scram {
		bytes += len(k.user) + len(old.Salt)
	}
	switch {
	case n > MaxScramCredentials:
		return fmt.Errorf("%w: there would be more than %d credentials", kerr.PolicyViolation, MaxScramCredentials)
	case bytes > MaxScramBytes:
		return fmt.Errorf("%w: the names and salts of all credentials would take more than %d bytes", kerr.PolicyViolation, MaxScramBytes)
	}
	return nil
}

// scramBody is a credential in the encoded view.
type scramBody struct {
	User       string         `msgpack:"user"`
	Mechanism  ScramMechanism `msgpack:"mechanism"`
	Iterations int32          `msgpack:"iterations"`
	Salt       []byte         `msgpack:"salt"`
	StoredKey  []byte         `msgpack:"stored_key"`
	ServerKey  []byte         `msgpack:"server_key"`
	SetAt      int64          `msgpack:"set_ms"`
}

func encodeScram(c *Cluster) (out []scramBody) {
	for _, s := range c.ScramCredentials() {
		out = append(out, scramBody{s.User, s.Mechanism, s.Iterations, s.Salt, s.StoredKey, s.ServerKey, s.SetAt.UnixMilli()})
	}
	return out
}

func (c *Cluster) decodeScram(bodies []scramBody) error {
	for _, b := range bodies {
		k := scramKey{b.User, b.Mechanism}
		switch {
		case b.User == "" || !b.Mechanism.Valid():
			return errors.New("a credential is of nobody, or for no mechanism")
		case c.scram[k] != nil:
			return fmt.Errorf("the credential of user %q for %s stands twice", b.User, b.Mechanism)
		}
		c.scram[k] = &ScramCredential{b.User, b.Mechanism, b.Iterations, b.Salt, b.StoredKey, b.ServerKey, time.UnixMilli(b.SetAt).UTC()}
	}
	return nil
}

// credentials has everybody's be as they were then.
func (r *restoring) credentials() {
	r.View.scram = maps.Clone(r.then.scram)
	keys := slices.Concat(slices.Collect(maps.Keys(r.now.scram)), slices.Collect(maps.Keys(r.then.scram)))
	slices.SortFunc(keys, scramKey.compare)
	for _, k := range slices.Compact(keys) {
		now, then := r.now.scram[k], r.then.scram[k]
		switch {
		case then == nil:
			say(&r.Restored, "user %q loses what it has for %s: it had nothing then", k.user, k.mechanism)
		case now == nil:
			say(&r.Restored, "user %q gets in with %s again", k.user, k.mechanism)
		case !now.sameProof(then):
			say(&r.Restored, "user %q has the password for %s that it had then", k.user, k.mechanism)
		}
	}
}

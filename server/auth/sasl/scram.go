package sasl

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/xdg-go/scram"

	"kaas.dev/kaas/projections"
)

// Credentials finds a user's credential for SCRAM, nil if there is none.
type Credentials func(user string, m projections.ScramMechanism) *projections.ScramCredential

type scramMechanism struct {
	server *scram.Server
	// salts is the key by which unknown users get the salts that they would have, where secret
	// has none, which is so as long as there are no users.
	salts  []byte
	secret func() []byte
	of     projections.ScramMechanism
	find   Credentials
}

// NewScram is SCRAM with the credentials that find knows when a client begins. By secret, which
// is the same on all brokers and may be empty, users that are not there have salts.
func NewScram(m projections.ScramMechanism, find Credentials, secret func() []byte) Mechanism {
	s := &scramMechanism{of: m, find: find, secret: secret, salts: make([]byte, 32)}
	_, _ = rand.Read(s.salts) // never fails
	s.server, _ = hashOf(m).NewServer(s.lookup)
	return s
}

func hashOf(m projections.ScramMechanism) scram.HashGeneratorFcn {
	if m == projections.ScramSHA512 {
		return scram.SHA512
	}
	return scram.SHA256
}

// credential is what a user has to log in with, nil if that is nothing fit for it.
func (s *scramMechanism) credential(user string) *projections.ScramCredential {
	if c := s.find(user, s.of); c != nil && len(c.Salt) <= projections.MaxScramSalt {
		return c
	}
	return nil
}

// lookup gives an unknown user what nobody can prove to have, so that who asks goes on.
func (s *scramMechanism) lookup(user string) (scram.StoredCredentials, error) {
	c := s.credential(user)
	if user == "" {
		return scram.StoredCredentials{}, errors.New("no user is named")
	}
	if c == nil {
		size := hashOf(s.of)().Size()
		no := make([]byte, 2*size)
		_, _ = rand.Read(no)
		key := s.secret()
		if len(key) == 0 {
			key = s.salts
		}
		h := hmac.New(sha256.New, key)
		h.Write([]byte(s.of.String()))
		h.Write([]byte(user))
		return scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(saltOf(h.Sum(nil))), Iters: projections.MinScramIterations},
			StoredKey:  no[:size], ServerKey: no[size:],
		}, nil
	}
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(c.Salt), Iters: int(c.Iterations)},
		StoredKey:  c.StoredKey, ServerKey: c.ServerKey,
	}, nil
}

func (s *scramMechanism) Begin() Exchange {
	return &scramExchange{s: s, c: s.server.NewConversation()}
}

// maxScramMessage bounds a message, which has a name and a few keys in it.
const maxScramMessage = 8 << 10

type scramExchange struct {
	s     *scramMechanism
	c     *scram.ServerConversation
	first bool // the first message has come
	over  bool
}

func (x *scramExchange) Step(message []byte) (answer []byte, who *User, err error) {
	if x.over {
		return nil, nil, errOver
	}
	if len(message) > maxScramMessage {
		x.over = true
		return nil, nil, errors.New("SCRAM: the message is too long")
	}
	if !x.first && byToken(message) {
		x.over = true
		return nil, nil, errors.New("there are no delegation tokens")
	}
	out, err := x.c.Step(string(message))
	if err != nil {
		x.over = true
		return nil, nil, errors.New(reason(out))
	}
	if !x.first {
		x.first = true
		if err := otherID(x.c.AuthzID(), x.c.Username()); err != nil {
			x.over = true
			return nil, nil, err
		}
		return []byte(out), nil, nil
	}
	x.over = true
	// The user may have been removed since the first message.
	if !x.c.Valid() || x.s.credential(x.c.Username()) == nil {
		return nil, nil, errors.New("the proof is wrong")
	}
	return []byte(out), &User{Name: x.c.Username()}, nil
}

// reason is why an exchange failed. What the library says of it may hold what the client sent.
func reason(out string) string {
	if code, ok := strings.CutPrefix(out, "e="); ok {
		return "SCRAM: " + code
	}
	return "SCRAM: the message is malformed"
}

// byToken reports that a client means to use a delegation token, by an extension that Kafka has.
func byToken(message []byte) bool {
	parts := strings.Split(string(message), ",")
	return len(parts) > 4 && slices.ContainsFunc(parts[4:], func(s string) bool { return strings.EqualFold(s, "tokenauth=true") })
}

// saltBits is what is random in a salt.
const saltBits = 130

// saltOf makes a salt of random bytes as Kafka's tools do, a number in the base of 36, so that
// nobody is told apart by how his was made.
func saltOf(random []byte) []byte {
	n := new(big.Int).SetBytes(random)
	return n.And(n, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), saltBits), big.NewInt(1))).Append(nil, 36)
}

// NewCredential makes a user's credential of a password. The password is used as it is, as
// Kafka's clients do, and not by SASLprep.
func NewCredential(user string, m projections.ScramMechanism, password string, iterations int32) (*projections.ScramCredentialSet, error) {
	if user == "" || password == "" || !m.Valid() {
		return nil, errors.New("a credential is of a user with a password, for a mechanism that there is")
	}
	if iterations < projections.MinScramIterations || iterations > projections.MaxScramIterations {
		return nil, fmt.Errorf("%d iterations are not from %d to %d", iterations, projections.MinScramIterations, projections.MaxScramIterations)
	}
	c, err := hashOf(m).NewClientUnprepped(user, password, "")
	if err != nil {
		return nil, err
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random)
	salt := saltOf(random)
	stored, err := c.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: int(iterations)})
	if err != nil {
		return nil, errors.New("no key can be made of the password")
	}
	return &projections.ScramCredentialSet{User: user, Mechanism: m, Iterations: iterations, Salt: salt, StoredKey: stored.StoredKey, ServerKey: stored.ServerKey}, nil
}

// HashBytes is how long a mechanism's salted passwords are.
func HashBytes(m projections.ScramMechanism) int { return hashOf(m)().Size() }

// FromSaltedPassword makes a credential of what Kafka's clients send for a new password.
func FromSaltedPassword(user string, m projections.ScramMechanism, salt, salted []byte, iterations int32) *projections.ScramCredentialSet {
	hash := hashOf(m)
	mac := func(text string) []byte {
		h := hmac.New(hash, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	h := hash()
	h.Write(mac("Client Key"))
	return &projections.ScramCredentialSet{User: user, Mechanism: m, Iterations: iterations, Salt: salt, StoredKey: h.Sum(nil), ServerKey: mac("Server Key")}
}

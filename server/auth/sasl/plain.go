package sasl

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
)

type plain struct {
	passwords map[string][sha256.Size]byte
}

// NewPlain is PLAIN with these passwords of users. A user without a password gets never in.
func NewPlain(passwords map[string]string) Mechanism {
	p := &plain{passwords: map[string][sha256.Size]byte{}}
	for user, password := range passwords {
		if user != "" && password != "" {
			p.passwords[user] = sha256.Sum256([]byte(password))
		}
	}
	return p
}

func (p *plain) Begin() Exchange { return &plainExchange{p: p} }

type plainExchange struct {
	p    *plain
	over bool
}

// Step takes the only message there is: authorization ID, user and password, with a NUL
// between them.
func (x *plainExchange) Step(message []byte) ([]byte, *User, error) {
	if x.over {
		return nil, nil, errOver
	}
	x.over = true
	if n := bytes.Count(message, []byte{0}); n != 2 {
		return nil, nil, refusef("Invalid SASL/PLAIN response: expected 3 tokens, got %d", n+1)
	}
	parts := bytes.Split(message, []byte{0})
	user, password := string(parts[1]), parts[2]
	switch {
	case user == "":
		return nil, nil, refusef("Authentication failed: username not specified")
	case len(password) == 0:
		return nil, nil, refusef("Authentication failed: password not specified")
	}
	// Passwords of any length, and those of unknown users, take the same time to compare.
	want, known := x.p.passwords[user]
	got := sha256.Sum256(password)
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 || !known {
		return nil, nil, refusef("Authentication failed: Invalid username or password")
	}
	if err := otherID(string(parts[0]), user); err != nil {
		return nil, nil, err
	}
	return []byte{}, &User{Name: user}, nil
}

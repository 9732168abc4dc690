package sasl

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"hash"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"kaas.dev/kaas/projections"
)

func credential(t testing.TB, user, password string, m projections.ScramMechanism) *projections.ScramCredential {
	t.Helper()
	e, err := NewCredential(user, m, password, 4096)
	if err != nil {
		t.Fatal(err)
	}
	return &projections.ScramCredential{User: e.User, Mechanism: e.Mechanism, Iterations: e.Iterations, Salt: e.Salt, StoredKey: e.StoredKey, ServerKey: e.ServerKey}
}

// only is a world of one credential.
func only(c *projections.ScramCredential) Credentials {
	return func(user string, m projections.ScramMechanism) *projections.ScramCredential {
		if user != c.User || m != c.Mechanism {
			return nil
		}
		return c
	}
}

// converse has a client with a password log in, and change what it sends; it returns who is let
// in, and whether the server has proved itself.
func converse(t testing.TB, m Mechanism, h scram.HashGeneratorFcn, user, password string, change func(step int, text string) string) (*User, bool, error) {
	t.Helper()
	cl, err := h.NewClientUnprepped(user, password, "")
	if err != nil {
		t.Fatal(err)
	}
	conv, x := cl.NewConversation(), m.Begin()
	out, err := conv.Step("")
	if err != nil {
		t.Fatal(err)
	}
	answer, who, err := x.Step([]byte(change(0, out)))
	if who != nil || err != nil {
		return who, false, err
	}
	if out, err = conv.Step(string(answer)); err != nil {
		t.Fatal(err)
	}
	if answer, who, err = x.Step([]byte(change(1, out))); err != nil {
		if _, again, _ := x.Step([]byte(out)); again != nil {
			t.Errorf("after a failure %v is let in", again)
		}
		return who, false, err
	}
	_, err = conv.Step(string(answer))
	return who, conv.Valid() && err == nil, nil
}

func as(_ int, s string) string { return s }

func TestScram(t *testing.T) {
	for m, h := range map[projections.ScramMechanism]scram.HashGeneratorFcn{projections.ScramSHA256: scram.SHA256, projections.ScramSHA512: scram.SHA512} {
		for _, user := range []string{"alice", "CN=alice,OU=x", "ä ö", "=2C"} {
			mech := NewScram(m, only(credential(t, user, "sécret", m)), noSecret)
			who, proved, err := converse(t, mech, h, user, "sécret", as)
			if err != nil || who == nil || who.Name != user || !who.Expires.IsZero() || !proved {
				t.Errorf("%s %q: %v, proved %v, %v", m, user, who, proved, err)
			}
			for _, wrong := range [][2]string{{user, "secret"}, {user, ""}, {"bob", "sécret"}, {"", "sécret"}, {user + "x", "sécret"}} {
				if who, _, err := converse(t, mech, h, wrong[0], wrong[1], as); who != nil || err == nil {
					t.Errorf("%s %q: lets %v in, %v", m, wrong, who, err)
				}
			}
		}
	}
	// A credential of one mechanism is none of the other.
	mech := NewScram(projections.ScramSHA512, only(credential(t, "alice", "x", projections.ScramSHA256)), noSecret)
	if who, _, err := converse(t, mech, scram.SHA512, "alice", "x", as); who != nil || err == nil {
		t.Errorf("lets %v in, %v", who, err)
	}
}

// A credential with a salt out of bounds is nobody's: what is answered without authentication is
// short, whatever is on the volume.
func TestScramLongSalt(t *testing.T) {
	for size, in := range map[int]bool{projections.MaxScramSalt: true, projections.MaxScramSalt + 1: false, 1 << 20: false} {
		c := credential(t, "alice", "x", projections.ScramSHA256)
		c.Salt = bytes.Repeat([]byte("s"), size)
		salted, err := pbkdf2.Key(sha256.New, "x", c.Salt, 4096, 32)
		if err != nil {
			t.Fatal(err)
		}
		e := FromSaltedPassword("alice", c.Mechanism, c.Salt, salted, 4096)
		c.StoredKey, c.ServerKey = e.StoredKey, e.ServerKey
		mech := NewScram(projections.ScramSHA256, only(c), noSecret)
		first, _, err := mech.Begin().Step([]byte("n,,n=alice,r=abc"))
		if err != nil || len(first) > 2048 {
			t.Errorf("salt of %d: %d bytes are sent, %v", size, len(first), err)
		}
		if who, _, err := converse(t, mech, scram.SHA256, "alice", "x", as); (who != nil && err == nil) != in {
			t.Errorf("salt of %d: %v, %v", size, who, err)
		}
	}
}

// What is changed on its way lets nobody in.
func TestScramChanged(t *testing.T) {
	c := credential(t, "alice", "x", projections.ScramSHA256)
	mech := NewScram(projections.ScramSHA256, only(c), noSecret)
	for name, change := range map[string]func(int, string) string{
		"nonce":      func(i int, s string) string { return swap(i == 1, s, "r=", "r=x") },
		"proof":      func(i int, s string) string { return swap(i == 1, s, ",p=", ",p=AAAA") },
		"no proof":   func(i int, s string) string { return swap(i == 1, s, ",p=", ",q=") },
		"binding":    func(i int, s string) string { return swap(i == 1, s, "c=biws", "c=eSws") },
		"again":      func(i int, s string) string { return swap(i == 1, s, s, "n,,n=alice,r=abc") },
		"other user": func(i int, s string) string { return swap(i == 0, s, "n=alice", "n=bob") },
		"other id":   func(i int, s string) string { return swap(i == 0, s, "n,,", "n,a=bob,") },
		"bound":      func(i int, s string) string { return swap(i == 0, s, "n,,", "p=tls-exporter,,") },
		"by token":   func(i int, s string) string { return swap(i == 0, s, s, s+",tokenauth=true") },
	} {
		if who, _, err := converse(t, mech, scram.SHA256, "alice", "x", change); who != nil || err == nil {
			t.Errorf("%s: lets %v in, %v", name, who, err)
		}
	}
	// The same, when the user is removed meanwhile.
	gone := false
	mech = NewScram(projections.ScramSHA256, func(user string, m projections.ScramMechanism) *projections.ScramCredential {
		if gone {
			return nil
		}
		return only(c)(user, m)
	}, noSecret)
	who, _, err := converse(t, mech, scram.SHA256, "alice", "x", func(i int, s string) string { gone = i == 1; return s })
	if who != nil || err == nil {
		t.Errorf("a user who was removed is let in: %v, %v", who, err)
	}
}

func swap(do bool, s, from, to string) string {
	if do {
		return strings.Replace(s, from, to, 1)
	}
	return s
}

func noSecret() []byte { return nil }

// An unknown user is asked the same as a known one, each time with the same salt, whichever
// broker he asks, and with another than others are. Salts all look as Kafka's tools make them.
func TestUnknownUsersAreAskedToo(t *testing.T) {
	c := credential(t, "alice", "x", projections.ScramSHA256)
	of := func(secret string) Mechanism {
		return NewScram(projections.ScramSHA256, only(c), func() []byte { return []byte(secret) })
	}
	form := regexp.MustCompile(`^s=([A-Za-z0-9+/=]+),i=4096$`)
	ask := func(mech Mechanism, user string) string {
		answer, who, err := mech.Begin().Step([]byte("n,,n=" + user + ",r=abc"))
		if err != nil || who != nil {
			t.Fatalf("%s: %v, %v", user, who, err)
		}
		_, rest, _ := strings.Cut(string(answer), ",")
		m := form.FindStringSubmatch(rest)
		if m == nil {
			t.Fatalf("%s: %s", user, rest)
		}
		salt, err := base64.StdEncoding.DecodeString(m[1])
		if err != nil || !regexp.MustCompile(`^[0-9a-z]{20,26}$`).Match(salt) {
			t.Errorf("%s: salt %q, %v", user, salt, err)
		}
		return rest
	}
	one, other := of("the cluster's"), of("the cluster's")
	bob := ask(one, "bob")
	if bob != ask(one, "bob") || bob != ask(other, "bob") || ask(one, "alice") != ask(other, "alice") {
		t.Errorf("bob %s, then %s, by another broker %s", bob, ask(one, "bob"), ask(other, "bob"))
	}
	if bob == ask(one, "carol") || bob == ask(one, "alice") || bob == ask(of("another's"), "bob") {
		t.Errorf("bob's salt %s is another's, too", bob)
	}
	none := NewScram(projections.ScramSHA256, only(c), noSecret)
	if first := ask(none, "bob"); first != ask(none, "bob") || first == ask(none, "carol") {
		t.Error("without a secret")
	}
}

// A credential that is made of a password is what Kafka's clients make of it.
func TestCredentialsAreKafkas(t *testing.T) {
	for m, h := range map[projections.ScramMechanism]func() hash.Hash{projections.ScramSHA256: sha256.New, projections.ScramSHA512: sha512.New} {
		c := credential(t, "alice", "secret", m)
		salted, err := pbkdf2.Key(h, "secret", c.Salt, int(c.Iterations), h().Size())
		if err != nil {
			t.Fatal(err)
		}
		got := FromSaltedPassword("alice", m, c.Salt, salted, c.Iterations)
		if !bytes.Equal(got.StoredKey, c.StoredKey) || !bytes.Equal(got.ServerKey, c.ServerKey) {
			t.Errorf("%s: another credential", m)
		}
	}
	for _, bad := range []struct {
		user, password string
		m              projections.ScramMechanism
		iterations     int32
	}{{"", "x", 1, 4096}, {"a", "", 1, 4096}, {"a", "x", 3, 4096}, {"a", "x", 1, 4095}, {"a", "x", 1, 16385}} {
		if _, err := NewCredential(bad.user, bad.m, bad.password, bad.iterations); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestPlain(t *testing.T) {
	p := NewPlain(map[string]string{"alice": "secret", "empty": "", "": "nobody"})
	for message, want := range map[string]string{
		"\x00alice\x00secret": "alice", "alice\x00alice\x00secret": "alice",
		"bob\x00alice\x00secret": "", "\x00alice\x00Secret": "", "\x00alice\x00secretx": "", "\x00alice\x00secre": "", "\x00Alice\x00secret": "", "\x00bob\x00secret": "",
		"\x00\x00nobody": "", "\x00empty\x00": "", "\x00alice\x00": "", "\x00\x00": "", "": "", "alice": "", "alice\x00secret": "", "\x00alice\x00secret\x00": "", "\x00alice\x00\x00secret": "",
	} {
		x := p.Begin()
		answer, who, err := x.Step([]byte(message))
		if (who == nil) != (want == "") || (err == nil) != (want != "") || who != nil && (who.Name != want || len(answer) != 0) {
			t.Errorf("%q: %v, %v", message, who, err)
		}
		if err != nil && strings.Contains(err.Error()+Told(err, Plain, false), "secret") {
			t.Errorf("%q: %v", message, err)
		}
		if _, who, err := x.Step([]byte("\x00alice\x00secret")); who != nil || err == nil {
			t.Errorf("%q: a second message lets %v in", message, who)
		}
	}
}

func TestTold(t *testing.T) {
	if got := Told(errors.New("alice has no such password"), Plain, true); got != "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN" {
		t.Error(got)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("\x00alice\x00wrong"))
	f.Add([]byte("alice\x00alice\x00secre"))
	p := NewPlain(map[string]string{"alice": "secret"})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, who, _ := p.Begin().Step(b)
		good := bytes.Equal(b, []byte("\x00alice\x00secret")) || bytes.Equal(b, []byte("alice\x00alice\x00secret"))
		if (who != nil) != good {
			t.Fatalf("%q: %v", b, who)
		}
	})
}

// Whoever does not know the password gets in by no two messages.
func FuzzScram(f *testing.F) {
	f.Add([]byte("n,,n=alice,r=abc"), []byte("c=biws,r=abc,p=AAAA"))
	f.Add([]byte("y,a=alice,n=al=2Cice,r=abc,x=y"), []byte("c=eSws,r=,p="))
	f.Add([]byte("n,,n=bob,r=abc,tokenauth=true"), []byte{})
	mech := NewScram(projections.ScramSHA256, only(credential(f, "alice", "secret", projections.ScramSHA256)), noSecret)
	f.Fuzz(func(t *testing.T, first, final []byte) {
		x := mech.Begin()
		answer, who, err := x.Step(first)
		if who != nil || (err == nil) != strings.HasPrefix(string(answer), "r=") {
			t.Fatalf("%q: %q, %v, %v", first, answer, who, err)
		}
		nonce, _, _ := strings.Cut(string(answer), ",")
		for _, second := range []string{string(final), strings.Replace(string(final), "r=", nonce, 1)} {
			if _, who, _ := x.Step([]byte(second)); who != nil {
				t.Fatalf("%q, %q: %v", first, final, who)
			}
		}
	})
}

// A message that is nothing but separators is not taken apart.
func TestSeparators(t *testing.T) {
	const long = 512 << 10
	first := func(m Mechanism, message []byte) func() {
		return func() {
			if _, who, err := m.Begin().Step(message); who != nil || err == nil {
				t.Errorf("%v is let in", who)
			}
		}
	}
	m := projections.ScramSHA256
	for what, step := range map[string]func(){
		"PLAIN": first(NewPlain(map[string]string{"a": "b"}), make([]byte, long)),
		"SCRAM": first(NewScram(m, only(credential(t, "a", "b", m)), noSecret), bytes.Repeat([]byte{','}, long)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		step()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<10 {
			t.Errorf("%s: %d bytes are allocated for %d", what, got, long)
		}
	}
}

package projections

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
)

func credentialOf(user, key string) *ScramCredentialSet {
	return &ScramCredentialSet{User: user, Mechanism: ScramSHA256, Iterations: 4096, Salt: Secret("pepper"), StoredKey: Secret(key), ServerKey: Secret("server")}
}

func TestScramCredentialsLive(t *testing.T) {
	c := NewCluster()
	apply := func(f Fact) { t.Helper(); c = fold(t, c, []metalog.Event{mustEvent(t, f)}) }
	apply(credentialOf("alice", "one"))
	apply(credentialOf("bob", "two"))
	apply(credentialOf("alice", "three"))
	apply(&ScramCredentialRemoved{User: "bob", Mechanism: ScramSHA512}) // he has none
	if got := c.ScramCredential("alice", ScramSHA256); got == nil || string(got.StoredKey) != "three" || len(c.ScramCredentials()) != 2 {
		t.Fatalf("alice has %v, all are %v", got, c.ScramCredentials())
	}
	apply(&ScramCredentialRemoved{User: "alice", Mechanism: ScramSHA256})
	if c.ScramCredential("alice", ScramSHA256) != nil || c.ScramCredential("bob", ScramSHA256) == nil {
		t.Fatal("the wrong one was removed")
	}
	for _, f := range []Fact{credentialOf("", "x"), &ScramCredentialSet{User: "carol", Mechanism: 3}} {
		apply(f)
	}
	if len(c.ScramCredentials()) != 1 {
		t.Fatalf("nobody has a credential, or for no mechanism: %v", c.ScramCredentials())
	}
}

// A credential is in no text that is made of an event or of a view's part.
func TestSecretsAreHidden(t *testing.T) {
	e := credentialOf("alice", "stored-key")
	c := fold(t, NewCluster(), []metalog.Event{mustEvent(t, e)}).ScramCredential("alice", ScramSHA256)
	js, err := json.Marshal([]any{e, c})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(js), e.String(), fmt.Sprintf("%v %+v %#v %s %x %q %d", *e, *e, *e, e.Salt, e.Salt, e.Salt, e.Salt), fmt.Sprintf("%v %+v %#v", c, *c, *c)} {
		for _, secret := range []string{"pepper", "stored-key", "server\"", fmt.Sprintf("%x", "pepper"), fmt.Sprintf("%v", []byte("pepper")), fmt.Sprintf("%#v", []byte("pepper")), "cGVwcGVy"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s", text, secret)
			}
		}
	}
}

func TestRestoreBringsCredentialsBack(t *testing.T) {
	then := fold(t, NewCluster(), []metalog.Event{mustEvent(t, credentialOf("alice", "old")), mustEvent(t, credentialOf("bob", "gone"))})
	now := fold(t, NewCluster(), []metalog.Event{mustEvent(t, credentialOf("alice", "new")), mustEvent(t, credentialOf("carol", "since"))})
	r := Restore(then, now, anyFiles)
	if len(r.View.ScramCredentials()) != 2 || string(r.View.ScramCredential("alice", ScramSHA256).StoredKey) != "old" || r.View.ScramCredential("carol", ScramSHA256) != nil {
		t.Fatalf("restored %v", r.View.ScramCredentials())
	}
	said := strings.Join(r.Restored, "; ")
	for _, who := range []string{"alice", "bob", "carol"} {
		if !strings.Contains(said, who) {
			t.Errorf("%q says nothing of %s", said, who)
		}
	}
}

func TestCredentialsHaveBounds(t *testing.T) {
	for what, tc := range map[string]struct {
		have, added, long int // credentials; the length of one more user
		fit               bool
	}{
		"as many as may be": {0, MaxScramCredentials, 0, true}, "one too many": {MaxScramCredentials, 1, 0, false}, "too many at once": {1, MaxScramCredentials, 0, false},
		"as long as may be": {0, 0, MaxScramBytes - len("pepper"), true}, "too long": {0, 0, MaxScramBytes, false},
		"too long together": {1, 0, MaxScramBytes - len("pepper"), false}, "none": {MaxScramCredentials, 0, 0, true},
	} {
		c, fs := NewCluster(), []Fact{}
		d := newDraft(c)
		for i := range tc.have {
			credentialOf(strconv.Itoa(i), "x").apply(d)
		}
		c = d.view()
		for i := range tc.added {
			fs = append(fs, credentialOf("new"+strconv.Itoa(i), "x"))
		}
		if tc.long > 0 {
			fs = append(fs, credentialOf(strings.Repeat("x", tc.long), "x"))
		}
		if tc.have > 0 { // is there already
			fs = append(fs, credentialOf("0", "y"), &ScramCredentialRemoved{User: "0", Mechanism: ScramSHA256})
		}
		if err := c.ScramFits(fs); (err == nil) != tc.fit || !tc.fit && !errors.Is(err, kerr.PolicyViolation) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// One that takes the place of another may have no more salt than there is room for.
	long := credentialOf("a", "x")
	long.Salt = make(Secret, MaxScramBytes)
	if err := fold(t, NewCluster(), []metalog.Event{mustEvent(t, credentialOf("a", "x"))}).ScramFits([]Fact{long}); !errors.Is(err, kerr.PolicyViolation) {
		t.Errorf("a long salt: %v", err)
	}
}

// What unknown users' salts are made with is there from the first credential on, and stays
// whatever becomes of that, also in a view that was read back, or written by an older build.
func TestScramSecret(t *testing.T) {
	set := func(c *Cluster, user, key string) *Cluster {
		return fold(t, c, []metalog.Event{mustEvent(t, credentialOf(user, key))})
	}
	c := NewCluster()
	if len(c.ScramSecret()) != 0 {
		t.Error("there is a secret without users")
	}
	c = set(c, "bob", "b")
	want := slices.Clone(c.ScramSecret())
	c = set(set(c, "alice", "a"), "bob", "other")
	c = fold(t, c, []metalog.Event{mustEvent(t, &ScramCredentialRemoved{User: "bob", Mechanism: credentialOf("bob", "").Mechanism})})
	raw, err := Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(raw)
	if err != nil || len(want) != 32 || !slices.Equal(c.ScramSecret(), want) || !slices.Equal(back.ScramSecret(), want) {
		t.Errorf("%x, %x, then %x, %v", []byte(want), []byte(c.ScramSecret()), []byte(back.ScramSecret()), err)
	}
	old := *c
	old.scramSecret = nil
	if raw, err = Encode(&old); err != nil {
		t.Fatal(err)
	}
	if back, err = Decode(raw); err != nil || len(back.ScramSecret()) != 32 || fmt.Sprint(back.ScramSecret()) != hidden {
		t.Errorf("of an older build: %v, %v", back.ScramSecret(), err)
	}
}

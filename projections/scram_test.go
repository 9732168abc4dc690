package projections

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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

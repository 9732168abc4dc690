package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"kaas.dev/kaas/server/auth/sasl"
)

// provider signs tokens.
type provider struct {
	t   testing.TB
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{t: t}
	var err1, err2 error
	p.rsa, err1 = rsa.GenerateKey(rand.Reader, 2048)
	p.ec, err2 = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return p
}

// jwks are the public keys, with some that are no use.
func (p *provider) jwks() []byte {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: p.rsa.Public(), KeyID: "r", Algorithm: "RS256", Use: "sig"}, {Key: p.ec.Public(), KeyID: "e"},
		{Key: []byte("a secret that both sides know, of some length"), KeyID: "s"}, {Key: p.rsa.Public(), KeyID: "enc", Use: "enc"},
	}}
	b, err := json.Marshal(set)
	if err != nil {
		p.t.Fatal(err)
	}
	return []byte(strings.Replace(string(b), `{"keys":[`, `{"keys":[{"kty":"moon","kid":"m"},`, 1))
}

func (p *provider) sign(alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	p.t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	raw, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return raw
}

// claims are good ones, but for those that are given; nil takes one away.
func claims(change ...any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{"sub": "alice", "iss": "provider", "aud": "kaas", "iat": now - 10, "exp": now + 300, "scope": "a b"}
	for i := 0; i+1 < len(change); i += 2 {
		if name := change[i].(string); change[i+1] == nil {
			delete(c, name)
		} else {
			c[name] = change[i+1]
		}
	}
	return c
}

func settings(url string) Settings {
	return Settings{URL: url, Refresh: time.Hour, Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, Issuer: "provider", Audience: []string{"other", "kaas"},
		Skew: 30 * time.Second, ScopeClaim: "scope", SubClaim: "sub"}
}

// run runs a mechanism until the test's end.
func run(t testing.TB, s Settings) *Mechanism {
	m := New(s, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return m
}

func file(t testing.TB, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func message(token string) []byte { return []byte("n,,\x01auth=Bearer " + token + "\x01\x01") }

// lets reports who a token lets in, nobody if "".
func lets(t testing.TB, m *Mechanism, token string) string {
	t.Helper()
	x := m.Begin()
	answer, who, err := x.Step(message(token))
	if err == nil && who == nil {
		if string(answer) != invalidToken {
			t.Errorf("answered %q", answer)
		}
		var told *sasl.Refused
		if _, who, err = x.Step([]byte{1}); !errors.As(err, &told) || told.Text != invalidToken || strings.Contains(err.Error(), token) {
			t.Errorf("then %v", err)
		}
	}
	if who == nil {
		return ""
	}
	if left := time.Until(who.Expires); left <= 0 || left > time.Hour {
		t.Errorf("good for %v", left)
	}
	return who.Name
}

func TestTokens(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	m := run(t, settings("file://"+file(t, p.jwks())))
	der, err := x509.MarshalPKIXPublicKey(p.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	body := func(c map[string]any) string {
		b, _ := json.Marshal(c)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + body(claims()) + "."
	good := p.sign(jose.RS256, p.rsa, "r", claims())
	cut := strings.Split(good, ".")
	now := time.Now().Unix()
	for name, tc := range map[string]struct{ token, who string }{
		"good":                   {good, "alice"},
		"by the other key":       {p.sign(jose.ES256, p.ec, "e", claims("scope", []string{"a"})), "alice"},
		"without an ID":          {p.sign(jose.ES256, p.ec, "", claims("scope", nil)), "alice"},
		"within the skew":        {p.sign(jose.RS256, p.rsa, "r", claims("exp", now+20, "iat", now+20)), "alice"},
		"several audiences":      {p.sign(jose.RS256, p.rsa, "r", claims("aud", []string{"x", "kaas"})), "alice"},
		"of a stranger":          {other.sign(jose.RS256, other.rsa, "r", claims()), ""},
		"unknown ID":             {p.sign(jose.RS256, p.rsa, "x", claims()), ""},
		"ID of another key":      {p.sign(jose.RS256, p.rsa, "e", claims()), ""},
		"key for something else": {p.sign(jose.RS256, p.rsa, "enc", claims()), ""},
		"another algorithm":      {p.sign(jose.RS512, p.rsa, "r", claims()), ""},
		"unsigned":               {none, ""},
		"public key as secret":   {p.sign(jose.HS256, der, "r", claims()), ""},
		"shared secret":          {p.sign(jose.HS256, []byte("a secret that both sides know, of some length"), "s", claims()), ""},
		"signature cut off":      {cut[0] + "." + cut[1] + ".", ""},
		"other claims":           {cut[0] + "." + body(claims("sub", "kaas")) + "." + cut[2], ""},
		"expired":                {p.sign(jose.RS256, p.rsa, "r", claims("exp", now-31)), ""},
		"not yet":                {p.sign(jose.RS256, p.rsa, "r", claims("nbf", now+60)), ""},
		"from the future":        {p.sign(jose.RS256, p.rsa, "r", claims("iat", now+60)), ""},
		"for ever":               {p.sign(jose.RS256, p.rsa, "r", claims("exp", nil)), ""},
		"since when":             {p.sign(jose.RS256, p.rsa, "r", claims("iat", nil)), ""},
		"another issuer":         {p.sign(jose.RS256, p.rsa, "r", claims("iss", "x")), ""},
		"no issuer":              {p.sign(jose.RS256, p.rsa, "r", claims("iss", nil)), ""},
		"for others":             {p.sign(jose.RS256, p.rsa, "r", claims("aud", "x")), ""},
		"nobody's":               {p.sign(jose.RS256, p.rsa, "r", claims("sub", nil)), ""},
		"blank":                  {p.sign(jose.RS256, p.rsa, "r", claims("sub", " ")), ""},
		"a number's":             {p.sign(jose.RS256, p.rsa, "r", claims("sub", 7)), ""},
		"no scope":               {p.sign(jose.RS256, p.rsa, "r", claims("scope", 7)), ""},
		"nonsense":               {"x", ""},
	} {
		if got := lets(t, m, tc.token); got != tc.who {
			t.Errorf("%s: lets %q in, want %q", name, got, tc.who)
		}
	}
}

func TestOtherClaims(t *testing.T) {
	p := newProvider(t)
	s := settings("file://" + file(t, p.jwks()))
	s.Issuer, s.Audience, s.SubClaim, s.ScopeClaim = "", nil, "client_id", "scp"
	m := run(t, s)
	if got := lets(t, m, p.sign(jose.RS256, p.rsa, "r", claims("iss", nil, "aud", nil, "client_id", "app", "scope", 7))); got != "app" {
		t.Errorf("lets %q in", got)
	}
}

func TestMessages(t *testing.T) {
	p := newProvider(t)
	m := run(t, settings("file://"+file(t, p.jwks())))
	good := p.sign(jose.RS256, p.rsa, "r", claims())
	for text, want := range map[string]string{
		"n,,\x01auth=Bearer " + good + "\x01\x01":                        "alice",
		"n,,\x01auth=bearer  " + good + "\x01traceId=1 2\x01x=y\x01\x01": "alice",
		"n,a=alice,\x01auth=Bearer " + good + "\x01\x01":                 "alice",
		"n,a=bob,\x01auth=Bearer " + good + "\x01\x01":                   "",
		"n,a=,\x01auth=Bearer " + good + "\x01\x01":                      "",
		"n,,\x01auth=Basic " + good + "\x01\x01":                         "",
		"n,,\x01auth=Bearer " + good + "\x01":                            "",
		"y,,\x01auth=Bearer " + good + "\x01\x01":                        "",
		"n,,\x01auth=Bearer " + good + "\x01x1=y\x01\x01":                "",
		good: "", "": "", "\x01": "",
	} {
		x := m.Begin()
		_, who, err := x.Step([]byte(text))
		if (who == nil) != (want == "") || who != nil && who.Name != want || (err == nil) != (want != "") {
			t.Errorf("%.30q: %v, %v", text, who, err)
		}
		if _, who, err := x.Step(message(good)); who != nil || err == nil {
			t.Errorf("%.30q: a second message lets %v in, %v", text, who, err)
		}
	}
}

// Who has been told that a token is not good gets no second try in the same exchange.
func TestNoSecondToken(t *testing.T) {
	p := newProvider(t)
	m := run(t, settings("file://"+file(t, p.jwks())))
	x := m.Begin()
	if _, who, err := x.Step(message("x.y.z")); who != nil || err != nil {
		t.Fatal(who, err)
	}
	if _, who, err := x.Step(message(p.sign(jose.RS256, p.rsa, "r", claims()))); who != nil || err == nil {
		t.Fatal(who, err)
	}
}

// Keys that the provider changes are found, by whoever comes with a token of a new one, and a
// provider that is away, or tells nonsense, takes none away.
func TestKeysRotate(t *testing.T) {
	first, second := newProvider(t), newProvider(t)
	var body atomic.Pointer[[]byte]
	var asked atomic.Int32
	tell := func(b []byte) { body.Store(&b) }
	tell(nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if b := *body.Load(); b != nil {
			_, _ = w.Write(b)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	m := run(t, settings(srv.URL+"/keys"))
	old := first.sign(jose.RS256, first.rsa, "r", claims())
	if got := lets(t, m, old); got != "" {
		t.Fatalf("without keys %q is let in", got)
	}
	tell(first.jwks())
	eventually(t, func() bool { return lets(t, m, old) == "alice" })

	renamed := []byte(strings.ReplaceAll(string(second.jwks()), `"kid":"r"`, `"kid":"r2"`))
	tell(renamed)
	next := second.sign(jose.RS256, second.rsa, "r2", claims())
	eventually(t, func() bool { return lets(t, m, next) == "alice" })
	if got := lets(t, m, old); got != "" {
		t.Errorf("a key that is gone lets %q in", got)
	}
	for _, bad := range [][]byte{nil, []byte("nonsense"), []byte(`{"keys":[]}`), make([]byte, mostKeys+1)} {
		tell(bad)
		before := asked.Load()
		lets(t, m, second.sign(jose.RS256, second.rsa, "missed", claims()))
		eventually(t, func() bool { return asked.Load() > before+1 })
		if got := lets(t, m, next); got != "alice" {
			t.Errorf("after %.10q the keys are lost", bad)
		}
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("not within a minute")
		}
	}
}

func TestMissingFile(t *testing.T) {
	m := run(t, settings("file:///no/such/keys.json"))
	if got := lets(t, m, "x.y.z"); got != "" {
		t.Error(got)
	}
}

func FuzzStep(f *testing.F) {
	p := newProvider(f)
	m := run(f, settings("file://"+file(f, p.jwks())))
	good := message(p.sign(jose.RS256, p.rsa, "r", claims("sub", "kaas")))
	f.Add([]byte("n,a=alice,\x01auth=Bearer a.b.c\x01k=v\x01\x01"))
	f.Add(message("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, who, _ := m.Begin().Step(b); who != nil && string(b) != string(good) {
			t.Fatalf("%q lets %v in", b, who)
		}
	})
}

func TestLongMessage(t *testing.T) {
	m := &Mechanism{}
	if _, who, err := m.Begin().Step(message(strings.Repeat("a", maxMessage))); who != nil || err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%v, %v", who, err)
	}
}

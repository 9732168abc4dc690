package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"kaas.dev/kaas/server/auth/sasl"
)

// Clients with tokens get in as whom the token is of, for as long as it is good.
func TestTokensOnTheWire(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	sign := func(good time.Duration) string {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := jwt.Signed(s).Claims(map[string]any{"sub": "alice", "iat": time.Now().Unix(), "exp": time.Now().Add(good).Unix()}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	n := served(t, startNode(t, t.TempDir(), saslSets("sasl.enabled.mechanisms=PLAIN,OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url=file://"+file,
		"sasl.server.callback.handler.class="+validator, "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.clock.skew.seconds=5")...))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cl := kgoClient(t, n.Addr(), kgo.SASL(oauth.Auth{Token: sign(time.Hour), Extensions: map[string]string{"traceId": "7"}}.AsMechanism()))
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Error(err)
	}
	c := dial(t, n.Addr())
	c.handshake(sasl.OAuthBearer)
	message := func(token string) string { return "n,,\x01auth=Bearer " + token + "\x01\x01" }
	if a := c.authenticate(message(sign(time.Minute))); a.ErrorCode != 0 || a.SessionLifetimeMillis < 50_000 || a.SessionLifetimeMillis > 60_000 {
		t.Errorf("error %d, good for %d ms", a.ErrorCode, a.SessionLifetimeMillis)
	}
	c = dial(t, n.Addr())
	c.handshake(sasl.OAuthBearer)
	unsigned := "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6OTk5OTk5OTk5OX0."
	if a := c.authenticate(message(unsigned)); a.ErrorCode != 0 || !strings.Contains(string(a.SASLAuthBytes), "invalid_token") {
		t.Errorf("an unsigned token: %d %s", a.ErrorCode, a.SASLAuthBytes)
	}
	if a := c.authenticate("\x01"); a.ErrorCode != 58 || !strings.Contains(*a.ErrorMessage, "invalid_token") {
		t.Errorf("then: %d %v", a.ErrorCode, a.ErrorMessage)
	}
	c.closed()
}

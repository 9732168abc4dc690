package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
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
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"kaas.dev/kaas/internal/testcerts"
)

// tokenProvider is an identity provider that gives tokens to brokers, by TLS.
type tokenProvider struct {
	url, keys, trust string // its endpoint, and files
	signer           jose.Signer
	life             time.Duration
	down             atomic.Bool
	given            atomic.Int64
}

const brokersSecret = "of-the-brokers"

func startProvider(t *testing.T, life time.Duration) *tokenProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	ca := testcerts.Authority(t, "ca")
	p := &tokenProvider{keys: keyFile(t, "keys.json", set), trust: keyFile(t, "ca.pem", ca.CertPEM()), life: life}
	if p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(p)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Local(t, "id").TLS()}}
	s.StartTLS()
	t.Cleanup(s.Close)
	p.url = s.URL + "/token"
	return p
}

// ServeHTTP gives a token to who has the brokers' secret.
func (p *tokenProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case p.down.Load():
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	case id != "brokers" || secret != brokersSecret || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka":
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
		return
	}
	raw, err := p.sign()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.given.Add(1)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, raw, int(p.life.Seconds()))
}

// sign makes a token of the brokers.
func (p *tokenProvider) sign() (string, error) {
	now := time.Now()
	return jwt.Signed(p.signer).Claims(jwt.Claims{Issuer: "provider", Subject: "kaas", Audience: jwt.Audience{"kaas"},
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(p.life))}).Serialize()
}

func (p *tokenProvider) token(t *testing.T) string {
	t.Helper()
	raw, err := p.sign()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sets are the settings of a broker that logs in to others with the provider's tokens, and lets
// clients in with PLAIN on a listener of their own.
func (p *tokenProvider) sets(id int, secret string, more ...string) []string {
	const module = "listener.name.brokers.oauthbearer.sasl.jaas.config=" + oauthModule
	return append([]string{
		"listeners=CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0", "listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT",
		"inter.broker.listener.name=BROKERS", "sasl.mechanism.inter.broker.protocol=OAUTHBEARER", "sasl.enabled.mechanisms=OAUTHBEARER",
		"listener.name.clients.sasl.enabled.mechanisms=PLAIN", "listener.name.clients.plain.sasl.jaas.config=" + plainJAAS,
		"sasl.oauthbearer.jwks.endpoint.url=file://" + p.keys, "sasl.oauthbearer.expected.issuer=provider", "sasl.oauthbearer.expected.audience=kaas",
		"sasl.oauthbearer.clock.skew.seconds=1", "listener.name.brokers.oauthbearer.sasl.oauthbearer.token.endpoint.url=" + p.url,
		module + ` required clientId="brokers" clientSecret="` + secret + `" scope="kafka" ssl.truststore.type="PEM" ssl.truststore.location="` + p.trust + `";`,
		"sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
		"authorizer.class.name=" + standardAuthorizer, "super.users=User:alice;User:kaas", "broker.heartbeat.interval.ms=200", fmt.Sprint("node.id=", id),
	}, more...)
}

// Brokers log in to one another with tokens of a provider, and go on doing so when those have
// expired: requests pass through every broker, and none is fenced.
func TestBrokersWithTokens(t *testing.T) {
	p := startProvider(t, 6*time.Second)
	dir, log := filepath.Join(t.TempDir(), "data"), &lockedBuffer{}
	var nodes []*Node
	for id := 1; id <= 3; id++ {
		nodes = append(nodes, startLogged(t, testConfig(t, dir, p.sets(id, brokersSecret, "broker.session.timeout.ms=9000")...), log))
	}
	for _, n := range nodes {
		awaitCluster(t, n, "three brokers serve", func() bool { return alive(n) == 3 && n.broker.Ready() })
	}
	epochs := fmt.Sprint(nodes[0].broker.View().Brokers())
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	var clients []*kgo.Client
	for _, n := range nodes {
		clients = append(clients, kgoClient(t, n.Addr(), kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism())))
	}
	made := 0
	for began, given := time.Now(), p.given.Load(); time.Since(began) < 14*time.Second || p.given.Load() < given+6; made++ {
		for i, cl := range clients { // the request is for this broker alone, which asks the controller if it is another
			topic := fmt.Sprintf("t-%d-%d", made, i)
			if code := createAt(ctx, t, cl, int32(i+1), topic); code != 0 {
				t.Fatalf("broker %d makes no topic: error %d", i+1, code)
			}
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d tokens in %v", p.given.Load(), time.Since(began))
		}
	}
	if now := fmt.Sprint(nodes[0].broker.View().Brokers()); now != epochs {
		t.Errorf("brokers were %s, and are %s", epochs, now)
	}
	for _, secret := range []string{brokersSecret, "eyJ"} { // as every token begins
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %s in it", secret)
		}
	}
	t.Logf("%d tokens, %d topics made through each broker", p.given.Load(), made)
}

// A provider that is out of order, or that refuses, is told of, without a secret. What needs a
// token waits, and comes about when there is one.
func TestBrokersWithoutTokens(t *testing.T) {
	p := startProvider(t, 3*time.Second)
	dir, log := filepath.Join(t.TempDir(), "data"), &lockedBuffer{}
	retry := []string{"sasl.login.retry.backoff.max.ms=500", "broker.session.timeout.ms=2000"}
	first := served(t, startLogged(t, testConfig(t, dir, p.sets(1, brokersSecret, retry...)...), log))
	second := served(t, startLogged(t, testConfig(t, dir, p.sets(2, brokersSecret, retry...)...), log))
	awaitCluster(t, first, "two brokers serve", func() bool { return alive(first) == 2 })
	p.down.Store(true)
	logged(t, log, "no new token")
	logged(t, log, "no token from "+p.url+": HTTP status 503")
	awaitCluster(t, first, "the other broker is fenced", func() bool { return alive(first) == 1 || alive(second) == 1 })
	p.down.Store(false)
	for _, n := range []*Node{first, second} {
		awaitCluster(t, n, "two brokers serve again", func() bool { return alive(n) == 2 && n.broker.Ready() })
	}

	wrong := &lockedBuffer{}
	cfg := testConfig(t, dir, p.sets(3, "hunter2", retry...)...)
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		n, err := Open(ctx, cfg, slog.New(slog.NewTextHandler(wrong, nil)))
		if err == nil {
			err = n.Stop(context.WithoutCancel(ctx))
		}
		opened <- err
	}()
	logged(t, wrong, "HTTP status 401, invalid_client")
	cancel()
	<-opened
	adm := kadm.NewClient(kgoClient(t, first.Addr(), kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism())))
	if brokers, err := adm.ListBrokers(t.Context()); err != nil || len(brokers) != 2 {
		t.Errorf("a broker that is refused is among %v, %v", brokers, err)
	}
	for _, secret := range []string{brokersSecret, "hunter2", "eyJ"} {
		if strings.Contains(log.String()+wrong.String(), secret) {
			t.Errorf("a log has %s in it", secret)
		}
	}
}

// Tokens may come from a file, which is read whenever a broker logs in: what is put into it is
// used by connections that are made then, and by those that there are when their token expires.
func TestBrokersWithTokenFile(t *testing.T) {
	p := startProvider(t, 4*time.Second)
	dir, file := filepath.Join(t.TempDir(), "data"), keyFile(t, "token", []byte(p.token(t)))
	put := func() {
		next := keyFile(t, "token", []byte(p.token(t)))
		if err := os.Rename(next, file); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				put()
			case <-ctx.Done():
				return
			}
		}
	})
	defer wg.Wait()
	defer cancel()
	var nodes []*Node
	for id := 1; id <= 2; id++ {
		sets := p.sets(id, "unused", "listener.name.brokers.oauthbearer.sasl.oauthbearer.token.endpoint.url=file://"+file)
		nodes = append(nodes, startNode(t, dir, sets...))
	}
	for _, n := range nodes {
		awaitCluster(t, n, "two brokers serve", func() bool { return alive(n) == 2 && n.broker.Ready() })
	}
	cl := kgoClient(t, nodes[1].Addr(), kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism()))
	for made, began := 0, time.Now(); time.Since(began) < 6*time.Second; made++ { // more than a token's time
		for id := range int32(2) {
			if code := createAt(ctx, t, cl, id+1, fmt.Sprintf("t-%d-%d", made, id)); code != 0 {
				t.Fatalf("broker %d makes no topic: error %d", id+1, code)
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if given := p.given.Load(); given != 0 {
		t.Errorf("%d tokens were fetched", given)
	}
}

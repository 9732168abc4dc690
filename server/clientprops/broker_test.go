package clientprops

import (
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/testcerts"
	"kaas.dev/kaas/server"
)

// testBroker is a broker with a listener for each way in.
type testBroker struct {
	ca                *testcerts.Identity
	tokens            jose.Signer
	trust             string // what clients are to trust, a file
	sasl, mtls, plain string // addresses
}

func startBroker(t *testing.T) *testBroker {
	t.Helper()
	ca := testcerts.Authority(t, "ca")
	return startBrokerAs(t, ca, ca.Local(t, "broker"))
}

func startBrokerAs(t *testing.T, ca, as *testcerts.Identity) *testBroker {
	t.Helper()
	b := &testBroker{ca: ca}
	b.trust = write(t, "ca.pem", b.ca.CertPEM())
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: as.Key.Public(), KeyID: "k"}}})
	if err == nil {
		b.tokens, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: as.Key, KeyID: "k"}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	const jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required "
	cfg, err := server.LoadConfig(server.Sources{Sets: []string{
		"listeners=PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,MTLS://127.0.0.1:0", "inter.broker.listener.name=PLAINTEXT",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL", "http.listeners=127.0.0.1:0", "log.dirs=" + t.TempDir(),
		"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1", "ssl.keystore.type=PEM", "ssl.truststore.type=PEM",
		"ssl.keystore.location=" + write(t, "broker.pem", as.PEM(t, "")), "ssl.truststore.location=" + b.trust,
		"listener.name.mtls.ssl.client.auth=required", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		"sasl.oauthbearer.jwks.endpoint.url=file://" + write(t, "keys.json", keys),
		"listener.name.sasl.plain.sasl.jaas.config=" + jaas + `user_alice="hunter2";`,
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS;User:alice;User:CN=alice",
	}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := server.Open(t.Context(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	b.plain, b.sasl, b.mtls = n.AddrOf("PLAINTEXT"), n.AddrOf("SASL"), n.AddrOf("MTLS")
	return b
}

// token is one of alice.
func (b *testBroker) token(t *testing.T, good time.Duration) string {
	t.Helper()
	now := time.Now()
	raw, err := jwt.Signed(b.tokens).Claims(jwt.Claims{Subject: "alice", IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(good))}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// ask asks a broker as a file with these lines says.
func (b *testBroker) ask(t *testing.T, addr string, lines ...string) error {
	t.Helper()
	c, err := Load(write(t, "client.properties", []byte(strings.Join(lines, "\n"))))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Notes) > 0 {
		t.Errorf("%q: %q", lines, c.Notes)
	}
	opts, err := c.Options()
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.RetryTimeout(5*time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = kadm.NewClient(cl).BrokerMetadata(ctx)
	return err
}

// A broker is reached by whoever says what it asks for, and by nobody else.
func TestBroker(t *testing.T) {
	b := startBroker(t)
	set := func(m kadm.ScramMechanism, password string) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.plain))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		r, err := kadm.NewClient(cl).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "alice", Mechanism: m, Iterations: 4096, Password: password}})
		if err != nil || r.Error() != nil {
			t.Fatal(err, r.Error())
		}
	}
	set(kadm.ScramSha256, "hunter2")
	set(kadm.ScramSha512, "hunter2")
	alice := b.ca.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "alice"}})
	stranger := testcerts.Authority(t, "ca")
	trust := "ssl.truststore.type=PEM\nssl.truststore.location=" + b.trust
	sasl := "security.protocol=SASL_SSL\nsasl.mechanism="
	inline := func(b []byte) string { return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", "\\n") }
	const whatever = " " // every error has a blank
	for name, tc := range map[string]struct {
		addr  string
		lines []string
		fails string // what the error has, empty where there is none
	}{
		"PLAINTEXT":           {b.plain, nil, ""},
		"PLAIN":               {b.sasl, []string{sasl + "PLAIN", "sasl.jaas.config=" + plainLine, trust}, ""},
		"SCRAM-SHA-256":       {b.sasl, []string{sasl + "SCRAM-SHA-256", "sasl.jaas.config=" + scramLine, trust}, ""},
		"SCRAM-SHA-512":       {b.sasl, []string{sasl + "SCRAM-SHA-512", "sasl.jaas.config=" + scramLine, trust}, ""},
		"OAUTHBEARER":         {b.sasl, []string{sasl + "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url=file://" + write(t, "token", []byte(b.token(t, time.Hour)+"\n")), trust}, ""},
		"stores PKCS12":       {b.mtls, []string{"security.protocol=SSL", "ssl.truststore.type=PKCS12", "ssl.truststore.password=pw", "ssl.truststore.location=" + write(t, "t.p12", b.ca.TrustPKCS12(t, "pw")), "ssl.keystore.type=PKCS12", "ssl.keystore.password=pw2", "ssl.keystore.location=" + write(t, "k.p12", alice.PKCS12(t, "pw2"))}, ""},
		"stores JKS":          {b.mtls, []string{"security.protocol=SSL", "ssl.truststore.password=pw", "ssl.truststore.location=" + write(t, "t.jks", b.ca.TrustJKS(t, "pw")), "ssl.keystore.password=pw2", "ssl.key.password=pw3", "ssl.keystore.location=" + write(t, "k.jks", alice.JKS(t, "pw2", "pw3"))}, ""},
		"PEM in the settings": {b.mtls, []string{"security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.certificates=" + inline(b.ca.CertPEM()), "ssl.keystore.type=PEM", "ssl.key.password=pw", "ssl.keystore.key=" + inline(alice.KeyPEM(t, "pw")), "ssl.keystore.certificate.chain=" + inline(alice.CertPEM())}, ""},
		"TLS 1.2 alone":       {b.mtls, []string{"security.protocol=SSL", trust, "ssl.enabled.protocols=TLSv1.2", "ssl.keystore.type=PEM", "ssl.keystore.location=" + write(t, "a.pem", alice.PEM(t, ""))}, ""},

		"wrong password":       {b.sasl, []string{sasl + "SCRAM-SHA-512", "sasl.jaas.config=" + strings.Replace(scramLine, "hunter2", "hunter3", 1), trust}, "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"},
		"no token":             {b.sasl, []string{sasl + "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url=file:///no/such", trust}, "no token to log in with: open /no/such: no such file or directory"},
		"a token that is over": {b.sasl, []string{sasl + "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url=file://" + write(t, "token", []byte(b.token(t, -time.Hour))), trust}, "the token has expired at"},
		"no certificate":       {b.mtls, []string{"security.protocol=SSL", trust}, whatever}, // the broker's word or the end of the connection, whichever is seen
		"untrusted broker":     {b.mtls, []string{"security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=" + write(t, "o.pem", stranger.CertPEM())}, "certificate signed by unknown authority"},
		"no TLS":               {b.plain, []string{"security.protocol=SSL", trust}, "unable to dial"}, // which end of the connection is seen first is chance
	} {
		t.Run(name, func(t *testing.T) {
			err := b.ask(t, tc.addr, tc.lines...)
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%v, want %q", err, tc.fails)
			}
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("the error tells a password: %v", err)
			}
		})
	}
}

// The name in a broker's certificate is looked at, unless it is not to be.
func TestEndpointIdentification(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	b := startBrokerAs(t, ca, ca.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"elsewhere"}}))
	alice := write(t, "a.pem", ca.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "alice"}}).PEM(t, ""))
	lines := []string{"security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=" + b.trust, "ssl.keystore.type=PEM", "ssl.keystore.location=" + alice}
	if err := b.ask(t, b.mtls, lines...); err == nil || !strings.Contains(err.Error(), "doesn't contain any IP SANs") {
		t.Error(err)
	}
	if err := b.ask(t, b.mtls, append(lines, "ssl.endpoint.identification.algorithm=")...); err != nil {
		t.Error(err)
	}
}

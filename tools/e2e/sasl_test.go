package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	modules     = "org.apache.kafka.common.security."
	plainLogin  = modules + `plain.PlainLoginModule required username="%s" password="%s";`
	scramLogin  = modules + `scram.ScramLoginModule required username="%s" password="%s";`
	brokerLogin = modules + `plain.PlainLoginModule required username="broker" password="of-brokers" user_broker="of-brokers" user_admin="of-admin";`
)

// saslBroker is one that lets in by each mechanism, with a token for it that it takes.
func saslBroker(t *testing.T) (b *broker, token string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256"}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	token, err = jwt.Signed(s).Claims(map[string]any{"sub": "app", "iss": "provider", "aud": "kaas", "scope": "x", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	b = newBroker(t, filepath.Join(t.TempDir(), "data"), "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		"sasl.mechanism.inter.broker.protocol=PLAIN", "listener.name.plaintext.plain.sasl.jaas.config="+brokerLogin,
		"listener.name.plaintext.oauthbearer.sasl.jaas.config="+modules+"oauthbearer.OAuthBearerLoginModule required;",
		"sasl.oauthbearer.jwks.endpoint.url=file://"+inFile(t, string(keys)), "sasl.oauthbearer.expected.issuer=provider", "sasl.oauthbearer.expected.audience=kaas",
		"connections.max.reauth.ms=4000")
	b.opts = []kgo.Opt{kgo.SASL(plain.Auth{User: "admin", Pass: "of-admin"}.AsMechanism())}
	b.start()
	return b, token
}

func inFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// login is the properties of a Java client.
func login(t *testing.T, mechanism, jaas string, more ...string) string {
	return inFile(t, strings.Join(append(more, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism="+mechanism, "sasl.jaas.config="+jaas), "\n"))
}

// Kafka's own tools make users, and its clients get in with each mechanism, and with nothing
// else.
func TestJavaSASL(t *testing.T) {
	needKaas(t)
	cp := needJava(t)
	b, token := saslBroker(t)
	tokenFile := "file://" + inFile(t, token)
	java := func(class string, args ...string) *exec.Cmd {
		return command(t, "java", append([]string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + tokenFile,
			"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=" + strings.TrimPrefix(tokenFile, "file://"),
			"-cp", cp, "org.apache.kafka.tools." + class, "--bootstrap-server", b.addr}, args...)...)
	}
	admin := login(t, "PLAIN", fmt.Sprintf(plainLogin, "admin", "of-admin"))
	for _, config := range []string{"SCRAM-SHA-256=[password=of-bob]", "SCRAM-SHA-512=[iterations=8192,password=of-bob]"} { // both at once are refused, by Kafka too
		run(t, java("ConfigCommand", "--alter", "--add-config", config, "--command-config", admin, "--entity-type", "users", "--entity-name", "bob"))
	}
	oauth := modules + "oauthbearer.OAuthBearerLoginModule required;"
	for i, tc := range []struct {
		mechanism, jaas string
		more            []string
		in              bool
	}{
		{"PLAIN", fmt.Sprintf(plainLogin, "admin", "of-admin"), nil, true},
		{"PLAIN", fmt.Sprintf(plainLogin, "admin", "x"), nil, false},
		{"SCRAM-SHA-256", fmt.Sprintf(scramLogin, "bob", "of-bob"), nil, true},
		{"SCRAM-SHA-512", fmt.Sprintf(scramLogin, "bob", "of-bob"), nil, true},
		{"SCRAM-SHA-512", fmt.Sprintf(scramLogin, "bob", "x"), nil, false},
		{"SCRAM-SHA-256", fmt.Sprintf(scramLogin, "mallory", "x"), nil, false},
		{"OAUTHBEARER", oauth, []string{"sasl.login.callback.handler.class=" + modules + "oauthbearer.OAuthBearerLoginCallbackHandler", "sasl.oauthbearer.token.endpoint.url=" + tokenFile}, true},
		{"OAUTHBEARER", modules + `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";`, nil, false},
	} {
		out, err := java("TopicCommand", "--create", "--topic", fmt.Sprint("by-", i), "--command-config", login(t, tc.mechanism, tc.jaas, tc.more...)).CombinedOutput()
		if (err == nil) != tc.in || !tc.in && !strings.Contains(string(out), "Authentication") && !strings.Contains(string(out), "invalid_token") {
			t.Errorf("%d, %s: %v\n%s", i, tc.mechanism, err, tail(out, 2048))
		}
	}
	producer := consoleProducer(t, cp, b.addr)
	producer.Args = append(producer.Args, "--command-config", login(t, "SCRAM-SHA-512", fmt.Sprintf(scramLogin, "bob", "of-bob")))
	run(t, producer)
	want := split(text())
	if got := consumeAs(t, b.addr, len(want)); got != len(want) {
		t.Errorf("%d lines of %d", got, len(want))
	}
}

// consumeAs counts the lines of the topic, as somebody who may.
func consumeAs(t *testing.T, addr string, want int) (lines int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.SASL(plain.Auth{User: "admin", Pass: "of-admin"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for lines < want {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d lines: %v", lines, err)
		}
		lines += fs.NumRecords()
	}
	return lines
}

// librdkafka gets in likewise.
func TestKcatSASL(t *testing.T) {
	needKaas(t)
	need(t, "kcat")
	b, _ := saslBroker(t)
	kcat := func(args ...string) *exec.Cmd {
		return command(t, "kcat", append([]string{"-b", b.addr, "-m", "10", "-X", "security.protocol=SASL_PLAINTEXT"}, args...)...)
	}
	as := func(mechanism, user, password string) []string {
		return []string{"-X", "sasl.mechanism=" + mechanism, "-X", "sasl.username=" + user, "-X", "sasl.password=" + password}
	}
	setScram(t, b.addr, "bob", "of-bob")
	by := [][]string{as("PLAIN", "admin", "of-admin")}
	if soundScram(t) {
		by = append(by, as("SCRAM-SHA-256", "bob", "of-bob"), as("SCRAM-SHA-512", "bob", "of-bob"))
	}
	for _, args := range by {
		run(t, kcat(append(args, "-P", "-E", "-t", topic, "-l", textFile(t))...))
	}
	if out := run(t, kcat(append(as("PLAIN", "admin", "of-admin"), "-C", "-e", "-q", "-t", topic, "-c", "3")...)); len(split(out)) != 3 {
		t.Errorf("three lines are %q", out)
	}
	for name, args := range map[string][]string{
		"password": as("PLAIN", "admin", "x"), "nobody": as("SCRAM-SHA-512", "mallory", "x"),
		"unsecured": {"-X", "sasl.mechanism=OAUTHBEARER", "-X", "enable.sasl.oauthbearer.unsecure.jwt=true", "-X", "sasl.oauthbearer.config=principal=admin"},
	} {
		out, err := kcat(append(args, "-L")...).CombinedOutput()
		if err == nil || !strings.Contains(strings.ToLower(string(out)), "authentication") {
			t.Errorf("%s: %v\n%s", name, err, tail(out, 2048))
		}
	}
}

// soundScram reports whether kcat's librdkafka gets in with SCRAM anywhere. Below 2.6.1 it repeats
// a part of the nonce, which Kafka has not let pass since it was found that others may then, too
// (CVE-2024-56128).
func soundScram(t *testing.T) bool {
	t.Helper()
	out := string(run(t, command(t, "kcat", "-V")))
	var major, minor, patch int
	if _, after, ok := strings.Cut(out, "librdkafka "); ok {
		_, _ = fmt.Sscanf(after, "%d.%d.%d", &major, &minor, &patch)
	}
	return major > 2 || major == 2 && (minor > 6 || minor == 6 && patch >= 1)
}

// setScram gives a user a password.
func setScram(t *testing.T, addr, user, password string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.SASL(plain.Auth{User: "admin", Pass: "of-admin"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var changes []kadm.UpsertSCRAM
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		changes = append(changes, kadm.UpsertSCRAM{User: user, Mechanism: m, Iterations: 4096, Password: password})
	}
	for _, c := range changes {
		rs, err := kadm.NewClient(cl).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{c})
		if err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
	}
}

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/testcerts"
	"kaas.dev/kaas/server/tlsconf"
)

// tlsKeyRows reach a listener's settings; what those do is shown in tlsconf.
func tlsKeyRows(testing.TB) map[string]keyRow {
	rows := map[string]keyRow{
		"security.inter.broker.protocol": {"PLAINTEXT", func(c *Config) bool { return c.InterBroker == "PLAINTEXT" }}, // TestBetweenBrokers
	}
	for _, k := range tlsconf.Keys {
		rows[k.Name] = keyRow{"some", func(c *Config) bool {
			v, name, given := c.listenerSetting("ANY", k.Name)
			return v == "some" && name == k.Name && given
		}}
	}
	return rows
}

// keyFile writes a file of the test.
func keyFile(t testing.TB, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestListenerSettingsComeFirst(t *testing.T) {
	c, err := LoadConfig(Sources{
		File: writeFile(t, "listeners=PLAINTEXT://:0,IN_SIDE://:0,OUT://:0\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN_SIDE:SSL,OUT:SSL\n"+
			"ssl.keystore.location=/all\nssl.keystore.type=PEM\nlistener.name.out.ssl.keystore.location=/out\nlistener.name.in_side.ssl.client.auth=requested\n"),
		Environ: []string{"KAAS_LISTENER_NAME_IN_SIDE_SSL_CLIENT_AUTH=required", "KAAS_SSL_CLIENT_AUTH=none"},
		Sets:    []string{"listener.name.OUT.ssl.client.auth=requested"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ listener, key, value, name string }{
		{"IN_SIDE", "ssl.keystore.location", "/all", "ssl.keystore.location"},
		{"OUT", "ssl.keystore.location", "/out", "listener.name.out.ssl.keystore.location"},
		{"IN_SIDE", "ssl.client.auth", "required", "listener.name.in.side.ssl.client.auth"},
		{"OUT", "ssl.client.auth", "requested", "listener.name.OUT.ssl.client.auth"},
		{"OUT", "ssl.truststore.type", "JKS", "ssl.truststore.type"},
	} {
		if value, name, _ := c.listenerSetting(tc.listener, tc.key); value != tc.value || name != tc.name {
			t.Errorf("%s of %s: %q under %s", tc.key, tc.listener, value, name)
		}
	}
	if c.Listeners[0].TLS != nil || c.Listeners[1].TLS == nil || !c.Listeners[1].TLS.ClientAuth() {
		t.Error("the listeners have not got their settings")
	}
}

func TestBetweenBrokers(t *testing.T) {
	listeners := "listeners=PLAINTEXT://:0,SSL://:0"
	keys := []string{listeners, "ssl.keystore.type=PEM", "ssl.keystore.location=/x"}
	for _, tc := range []struct{ set, want string }{
		{"node.id=1", "PLAINTEXT"},
		{"security.inter.broker.protocol=ssl", "SSL"},
		{"inter.broker.listener.name=SSL", "SSL"},
	} {
		c, err := LoadConfig(Sources{Sets: append(keys, tc.set)})
		if err != nil {
			t.Errorf("%s: %v", tc.set, err)
		} else if c.InterBroker != tc.want {
			t.Errorf("%s: %s", tc.set, c.InterBroker)
		}
	}
	_, err := LoadConfig(Sources{Sets: append(keys, "security.inter.broker.protocol=SSL", "inter.broker.listener.name=SSL")})
	if err == nil || !strings.Contains(err.Error(), "only one of them") {
		t.Errorf("both: %v", err)
	}
}

// A broker whose keys are not in order does not start, touches nothing, and says in a line
// which setting and which file are to blame, and no secret.
func TestStartsWithoutItsKeys(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	good := keyFile(t, "good.pem", ca.Local(t, "b").PEM(t, ""))
	const secret = "open-sesame"
	for _, tc := range []struct {
		sets []string
		want []string
	}{
		{[]string{"ssl.keystore.location=/no/such.pem", "ssl.keystore.type=PEM"}, []string{"ssl.keystore.location", "/no/such.pem", "no such file"}},
		{[]string{"ssl.keystore.location=" + good, "ssl.keystore.type=PEM", "listener.name.ssl.ssl.truststore.location=/no/ts", "ssl.truststore.type=PEM"},
			[]string{"listener.name.ssl.ssl.truststore.location", "/no/ts"}},
		{[]string{"ssl.keystore.location=" + keyFile(t, "enc.pem", ca.Local(t, "b").PEM(t, "right")), "ssl.keystore.type=PEM", "ssl.key.password=" + secret},
			[]string{"ssl.key.password", "enc.pem", "password is wrong"}},
		{[]string{"ssl.keystore.location=" + keyFile(t, "b.p12", ca.Local(t, "b").PKCS12(t, "right")), "ssl.keystore.type=PKCS12", "ssl.keystore.password=" + secret},
			[]string{"ssl.keystore.password", "b.p12", "password is wrong"}},
		{[]string{"ssl.keystore.location=" + good, "ssl.keystore.type=PEM", "ssl.truststore.type=PEM",
			"ssl.truststore.location=" + keyFile(t, "other.pem", testcerts.Authority(t, "other").CertPEM())},
			[]string{"ssl.keystore.location", "good.pem", "other brokers would not accept"}},
	} {
		dir := filepath.Join(t.TempDir(), "volume")
		n, err := Open(t.Context(), testConfig(t, dir, append(tc.sets, "listeners=SSL://127.0.0.1:0")...), testLog(t))
		if err == nil {
			_ = n.Stop(t.Context())
			t.Errorf("%v: started", tc.sets)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %q does not say %q", tc.sets, err, want)
			}
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %q", tc.sets, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%v: the volume was touched: %v", tc.sets, err)
		}
	}
}

// Passwords are named and never shown, also where they stand for one listener.
func TestSecretsAreNotDescribed(t *testing.T) {
	const secret = "open-sesame"
	n := startNode(t, t.TempDir(), "ssl.keystore.password="+secret, "listener.name.plaintext.ssl.key.password="+secret, "ssl.keystore.location=/shown")
	c := dial(t, n.Addr())
	seen := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, d := range c.describe(kmsg.ConfigResourceTypeBroker, "0") {
		seen[d.Name] = d
		if strings.Contains(fmt.Sprintf("%+v", d), secret) || d.Value != nil && strings.Contains(*d.Value, secret) {
			t.Errorf("%s is shown", d.Name)
		}
		for _, s := range d.ConfigSynonyms {
			if s.Value != nil && strings.Contains(*s.Value, secret) {
				t.Errorf("%s is shown as a synonym of %s", s.Name, d.Name)
			}
		}
	}
	for _, name := range []string{"ssl.keystore.password", "listener.name.plaintext.ssl.key.password", "ssl.truststore.password"} {
		d, ok := seen[name]
		if !ok || !d.IsSensitive || d.Value != nil || d.ConfigType != kmsg.ConfigTypePassword || !d.ReadOnly {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := seen["ssl.keystore.location"]; d.IsSensitive || d.Value == nil || *d.Value != "/shown" || d.Source != kmsg.ConfigSourceStaticBrokerConfig {
		t.Errorf("ssl.keystore.location: %+v", d)
	}
	if code := c.alter(kmsg.ConfigResourceTypeBroker, "0", false, "SET ssl.keystore.location=/other"); code != kerr.InvalidRequest.Code {
		t.Errorf("changed while it runs: %d", code)
	}
}

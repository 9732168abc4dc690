package clientprops

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/testcerts"
	"kaas.dev/kaas/server/tlsconf"
)

const (
	plainLine = `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hunter2";`
	scramLine = `org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="hunter2";`
	oauthLine = `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="kaas" clientSecret="hunter2";`
)

// with are properties, given as KEY=VALUE.
func with(lines ...string) map[string]string {
	out := map[string]string{}
	for _, l := range lines {
		key, value, _ := strings.Cut(l, "=")
		out[key] = value
	}
	return out
}

// What is wrong is told by its key, and no password is.
func TestRefused(t *testing.T) {
	tls, login := with("security.protocol=SSL"), with("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-512", "sasl.jaas.config="+scramLine)
	tokens := with("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER", "sasl.jaas.config="+oauthLine, "sasl.oauthbearer.token.endpoint.url=https://id.example/token")
	for _, tc := range []struct {
		base      map[string]string
		give, key string
	}{
		{nil, "security.protocol=TLS", "security.protocol"},
		{nil, "security.protocol=SASL_SSL", "sasl.mechanism"},
		{nil, "socket.connection.setup.timeout.ms=soon", "socket.connection.setup.timeout.ms"},
		{nil, "ssl.engine.factory.class=a.B", "ssl.engine.factory.class"},
		{nil, "sasl.login.class=a.B", "sasl.login.class"},
		{tls, "ssl.truststore.type=BKS", "ssl.truststore.type"},
		{tls, "ssl.truststore.password=hunter2", "ssl.truststore.password"},
		{tls, "ssl.keystore.key=hunter2", "ssl.keystore.key"},
		{tls, "ssl.keystore.location=x", "ssl.keystore.password"},
		{tls, "ssl.endpoint.identification.algorithm=ldaps", "ssl.endpoint.identification.algorithm"},
		{tls, "ssl.enabled.protocols=TLSv1", "ssl.enabled.protocols"},
		{login, "sasl.mechanism=GSSAPI", "sasl.mechanism"},
		{login, "sasl.mechanism=PLAIN", "sasl.jaas.config"},
		{login, "sasl.jaas.config=", "sasl.jaas.config"},
		{login, "sasl.jaas.config=hunter2", "sasl.jaas.config"},
		{login, `sasl.jaas.config=` + strings.Replace(scramLine, "username", "user", 1), "sasl.jaas.config"},
		{login, `sasl.jaas.config=` + strings.Replace(scramLine, ";", ` tokenauth="true";`, 1), "sasl.jaas.config"},
		{tokens, "sasl.oauthbearer.token.endpoint.url=", "sasl.oauthbearer.token.endpoint.url"},
		{tokens, "sasl.oauthbearer.token.endpoint.url=https://a:hunter2@id.example/token", "sasl.oauthbearer.token.endpoint.url"},
		{tokens, "sasl.oauthbearer.token.endpoint.url=ftp://id.example/token", "sasl.oauthbearer.token.endpoint.url"},
		{tokens, "sasl.login.callback.handler.class=a.B", "sasl.login.callback.handler.class"},
		{tokens, "sasl.login.refresh.window.factor=2", "sasl.login.refresh.window.factor"},
		{tokens, "sasl.login.connect.timeout.ms=0", "sasl.login.connect.timeout.ms"},
		{tokens, "sasl.oauthbearer.header.urlencode=perhaps", "sasl.oauthbearer.header.urlencode"},
		{tokens, `sasl.jaas.config=` + strings.Replace(oauthLine, "clientSecret", "secret", 1), "sasl.jaas.config"},
		{tokens, `sasl.jaas.config=` + strings.Replace(oauthLine, ";", ` extension_auth="hunter2";`, 1), "sasl.jaas.config"},
		{tokens, `sasl.jaas.config=` + strings.Replace(oauthLine, ";", ` ssl.truststore.type="BKS";`, 1), "sasl.jaas.config"},
	} {
		props := maps.Clone(tc.base)
		if props == nil {
			props = map[string]string{}
		}
		maps.Copy(props, with(tc.give))
		_, err := Parse(props)
		var key *tlsconf.KeyError
		if !errors.As(err, &key) || key.Key != tc.key || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s blamed", tc.give, err, tc.key)
		}
	}
}

// What is not used is told by its name alone, and the rest is right as it is.
func TestNotes(t *testing.T) {
	for _, tc := range []struct {
		props map[string]string
		want  []string
	}{
		{nil, nil},
		{with("bootstrap.servers=x:1", "client.id=me"), nil},
		{with("retries=3", "acks=all"), []string{"not used: acks, retries"}},
		{with("sasl.mechanism=PLAIN", "sasl.jaas.config="+plainLine, "ssl.keystore.password=hunter2"), []string{"not used: sasl.jaas.config, sasl.mechanism, ssl.keystore.password"}},
		{with("security.protocol=SSL", "ssl.client.auth=required"), []string{"not used: ssl.client.auth"}},
		{with("security.protocol=sasl_plaintext", "sasl.mechanism=OAUTHBEARER", "sasl.jaas.config="+oauthLine, "sasl.oauthbearer.token.endpoint.url=http://id.example/token",
			"sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler", "hunter=hunter2"),
			[]string{"sasl.oauthbearer.token.endpoint.url is not https: the client's secret and its tokens can be read on the way", "not used: hunter"}},
	} {
		c, err := Parse(tc.props)
		if err != nil || !slices.Equal(c.Notes, tc.want) {
			t.Errorf("%v: %v, %v", tc.props, c, err)
		}
	}
}

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A file is told by its name, and what in it cannot be read is not shown.
func TestFiles(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
	for _, text := range []string{"sasl.jaas.config=hunter2\\u00", "security.protocol=SSL\nssl.truststore.location=hunter2\nssl.truststore.type=X"} {
		file := write(t, "client.properties", []byte(text))
		if _, err := Load(file); err == nil || !strings.HasPrefix(err.Error(), file) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
	c, err := Load(write(t, "client.properties", []byte("security.protocol=SSL\nssl.truststore.location=/no/such.p12\nssl.truststore.password=${hunter2}\n")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Options(); err == nil || err.Error() != "ssl.truststore.location: /no/such.p12: no such file or directory" {
		t.Error(err)
	}
	ca := testcerts.Authority(t, "ca")
	c, err = Parse(with("security.protocol=SSL", "ssl.truststore.type=PEM", "ssl.truststore.certificates="+string(ca.CertPEM())))
	if err != nil {
		t.Fatal(err)
	}
	if opts, err := c.Options(); err != nil || len(opts) != 1 {
		t.Error(len(opts), err)
	}
	if s := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(s, "BEGIN") {
		t.Error("what is printed of it has what is in it")
	}
}

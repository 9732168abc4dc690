package main

import (
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/testcerts"
)

// secured are properties of brokers that are reached by TLS, where who has no certificate says
// who it is by SASL, and a place for the files of clients.
func secured(t *testing.T, listener string) (sets []string, file func(name string, text string) string) {
	t.Helper()
	dir, ca := t.TempDir(), testcerts.Authority(t, "ca")
	file = func(name, text string) string {
		full := filepath.Join(dir, name)
		check(t, os.WriteFile(full, []byte(text), 0o600))
		return full
	}
	file("alice.pem", string(ca.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "alice"}}).PEM(t, "")))
	trust := file("ca.pem", string(ca.CertPEM()))
	return []string{
		"listeners=" + listener + "://127.0.0.1:0", "ssl.keystore.type=PEM", "ssl.keystore.location=" + file("broker.pem", string(ca.Local(t, "broker").PEM(t, ""))),
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + trust,
	}, file
}

func trusting(file func(name, text string) string) string {
	return "ssl.truststore.type=PEM\nssl.truststore.location=" + filepath.Join(filepath.Dir(file("x", "")), "ca.pem") + "\n"
}

// TestLiveSASL asks a broker that is reached by TLS and SASL alone.
func TestLiveSASL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	_, err := runWith("admin-secret", "--dir", dir, "user", "add", "admin")
	check(t, err)
	sets, file := secured(t, "SASL_SSL")
	const module = "org.apache.kafka.common.security.scram.ScramLoginModule required "
	addr := startBroker(t, dir, append(sets, "sasl.enabled.mechanisms=SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config="+module+`username="admin" password="admin-secret";`,
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:admin")...)
	as := func(user, password string) string {
		return file(user+password, "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nretries=3\nsasl.jaas.config="+module+
			`username="`+user+`" password="`+password+`";`+"\n"+trusting(file))
	}
	for _, args := range [][]string{{"dump"}, {"groups"}, {"txns"}} {
		out, err := run(append(args, "--bootstrap-server", addr, "--command-config", as("admin", "admin-secret"))...)
		if err != nil || args[0] == "dump" && !strings.Contains(out, "controller: 3") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	for _, x := range []struct{ file, want string }{
		{as("admin", "wrong"), "invalid credentials with SASL mechanism SCRAM-SHA-512"},
		{file("plaintext", ""), "broker"},
	} {
		if _, err := run("groups", "billing", "--bootstrap-server", addr, "--command-config", x.file); err == nil || !strings.Contains(err.Error(), x.want) ||
			strings.Contains(err.Error(), "secret") || exitCode(err) != exitFailed {
			t.Errorf("%s: %v, want %q", x.file, err, x.want)
		}
	}
}

// TestLiveCertificate asks a broker that knows its clients by their certificates.
func TestLiveCertificate(t *testing.T) {
	sets, file := secured(t, "SSL")
	addr := startBroker(t, t.TempDir(), append(sets, "ssl.client.auth=required")...)
	keys := "ssl.keystore.type=PEM\nssl.keystore.location=" + filepath.Join(filepath.Dir(file("x", "")), "alice.pem") + "\n"
	if _, err := run("dump", "--bootstrap-server", addr, "--command-config", file("with", "security.protocol=SSL\n"+trusting(file)+keys)); err != nil {
		t.Error(err)
	}
	if _, err := run("dump", "--bootstrap-server", addr, "--command-config", file("without", "security.protocol=SSL\n"+trusting(file))); exitCode(err) != exitFailed {
		t.Error(err)
	}
}

// TestCommandConfigRefused is about files that are wrong, or for nothing.
func TestCommandConfigRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	check(t, os.WriteFile(bad, []byte("security.protocol=TLS"), 0o600))
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"dump", "--bootstrap-server", "localhost:1", "--command-config", bad}, "--command-config: " + bad + ": security.protocol: "},
		{[]string{"dump", "--bootstrap-server", "localhost:1", "--command-config", bad + "x"}, "no such file"},
		{[]string{"dump", "--dir", t.TempDir(), "--command-config", bad}, "--command-config needs --bootstrap-server"},
	} {
		if _, err := run(x.args...); err == nil || !strings.Contains(err.Error(), x.want) || exitCode(err) != exitUsage {
			t.Errorf("%v: %v, want %q", x.args, err, x.want)
		}
	}
}

package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/testcerts"
	"kaas.dev/kaas/internal/testport"
)

// keyFiles are files of keys and certificates of a test.
type keyFiles struct {
	t   *testing.T
	dir string
}

func (k keyFiles) path(name string) string { return filepath.Join(k.dir, name) }

func (k keyFiles) put(name string, b []byte) string {
	k.t.Helper()
	if err := os.WriteFile(k.path(name), b, 0o600); err != nil {
		k.t.Fatal(err)
	}
	return k.path(name)
}

// properties writes a Java client's configuration.
func (k keyFiles) properties(name string, pairs ...string) string {
	var b bytes.Buffer
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s=%s\n", pairs[i], pairs[i+1])
	}
	return k.put(name, b.Bytes())
}

// secureBroker has a listener of TLS beside its own.
func secureBroker(t *testing.T, sets ...string) (addr string) {
	t.Helper()
	addr = testport.Addr(t)
	plain := testport.Addr(t)
	b := newBroker(t, filepath.Join(t.TempDir(), "data"), append(sets, "listeners=PLAINTEXT://"+plain+",SSL://"+addr)...)
	b.addr = plain
	b.start()
	return addr
}

// Java's client, librdkafka and franz-go write and read over TLS, with certificates on both
// sides and files of every kind, and each has what the others sent.
func TestClientsOverTLS(t *testing.T) {
	cp := needJava(t)
	need(t, "kcat")
	needKaas(t)
	ca := testcerts.Authority(t, "ca")
	k := keyFiles{t, t.TempDir()}
	caPEM, alice := k.put("ca.pem", ca.CertPEM()), ca.Local(t, "alice")
	addr := secureBroker(t, "ssl.client.auth=required", "ssl.keystore.type=PKCS12", "ssl.keystore.password=broker-pw",
		"ssl.keystore.location="+k.put("broker.p12", ca.Local(t, "broker").PKCS12(t, "broker-pw")), "ssl.truststore.type=PEM", "ssl.truststore.location="+caPEM)
	const lines = 2000
	var want [][]byte
	next := func(who string) []byte {
		var b bytes.Buffer
		for i := range lines {
			line := fmt.Sprintf("%s %d", who, i)
			want = append(want, []byte(line))
			b.WriteString(line + "\n")
		}
		return b.Bytes()
	}
	for name, file := range map[string]string{
		"java-pem": k.properties("pem.properties", "security.protocol", "SSL", "ssl.keystore.type", "PEM",
			"ssl.keystore.location", k.put("alice.pem", alice.PEM(t, "")), "ssl.truststore.type", "PEM", "ssl.truststore.location", caPEM),
		"java-pkcs12-1.2": k.properties("p12.properties", "security.protocol", "SSL", "ssl.enabled.protocols", "TLSv1.2", "ssl.keystore.type", "PKCS12", "ssl.keystore.password", "alice-pw",
			"ssl.keystore.location", k.put("alice.p12", alice.PKCS12(t, "alice-pw")), "ssl.truststore.type", "PKCS12",
			"ssl.truststore.location", k.put("ca.p12", ca.TrustPKCS12(t, "trust-pw")), "ssl.truststore.password", "trust-pw"),
	} {
		cmd := command(t, "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", cp,
			"org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", addr, "--topic", topic, "--command-config", file)
		cmd.Stdin = bytes.NewReader(next(name))
		run(t, cmd)
	}
	kcat := func(args ...string) *exec.Cmd {
		return command(t, "kcat", append([]string{"-b", addr, "-t", topic, "-X", "security.protocol=ssl", "-X", "ssl.ca.location=" + caPEM,
			"-X", "ssl.certificate.location=" + k.put("alice.crt", alice.CertPEM()), "-X", "ssl.key.location=" + k.put("alice.key", alice.KeyPEM(t, ""))}, args...)...)
	}
	run(t, kcat("-P", "-l", k.put("lines", next("librdkafka"))))
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.DialTLSConfig(&tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{alice.TLS()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, line := range split(next("franz")) {
		cl.Produce(t.Context(), &kgo.Record{Value: line}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLines(t, split(run(t, kcat("-C", "-e", "-q", "-o", "beginning"))), want)
	// Without a certificate there is nothing to be had.
	bare := command(t, "kcat", "-L", "-b", addr, "-m", "3", "-X", "security.protocol=ssl", "-X", "ssl.ca.location="+caPEM)
	if out, err := bare.CombinedOutput(); err == nil {
		t.Errorf("let in without a certificate:\n%s", out)
	}
}

// Files that Java's keytool has made are read as Java reads them.
func TestKeytoolsFiles(t *testing.T) {
	need(t, "keytool")
	needKaas(t)
	k := keyFiles{t, t.TempDir()}
	for _, tc := range []struct{ kind, storePW, keyPW string }{{"JKS", "store-pw", "key-pw"}, {"PKCS12", "store-pw", "store-pw"}} {
		file, crt, trust := k.path("broker."+tc.kind), k.path(tc.kind+".crt"), k.path("trust."+tc.kind)
		keytool := func(args ...string) { run(t, command(t, "keytool", args...)) }
		keytool("-genkeypair", "-alias", "broker", "-keyalg", "RSA", "-keysize", "2048", "-validity", "30", "-dname", "CN=localhost,O=Fruit", "-ext", "SAN=DNS:localhost,IP:127.0.0.1",
			"-storetype", tc.kind, "-keystore", file, "-storepass", tc.storePW, "-keypass", tc.keyPW)
		keytool("-exportcert", "-rfc", "-alias", "broker", "-storetype", tc.kind, "-keystore", file, "-storepass", tc.storePW, "-file", crt)
		keytool("-importcert", "-noprompt", "-alias", "ca", "-file", crt, "-storetype", tc.kind, "-keystore", trust, "-storepass", tc.storePW)
		addr := secureBroker(t, "inter.broker.listener.name=SSL", "ssl.keystore.type="+tc.kind, "ssl.keystore.location="+file, "ssl.keystore.password="+tc.storePW,
			"ssl.key.password="+tc.keyPW, "ssl.truststore.type="+tc.kind, "ssl.truststore.location="+trust, "ssl.truststore.password="+tc.storePW)
		nc, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatalf("%s: %v", tc.kind, err)
		}
		if got := nc.ConnectionState().PeerCertificates[0].Subject.CommonName; got != "localhost" {
			t.Errorf("%s: it is %s", tc.kind, got)
		}
		nc.Close()
	}
}

package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/testcerts"
)

// line waits for a line of the log that has all of it.
func line(t *testing.T, log *lockedBuffer, want ...string) string {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		for l := range strings.Lines(log.String()) {
			has := 0
			for _, w := range want {
				if strings.Contains(l, w) {
					has++
				}
			}
			if has == len(want) {
				return l
			}
		}
		if time.Since(began) > patience {
			t.Fatalf("no line has all of %q:\n%s", want, log.String())
		}
	}
}

// A certificate that is not accepted is told of: why, whose it says it is, and from where it
// came. TLS 1.2 and 1.3 are the same.
func TestClientCertificatesRefused(t *testing.T) {
	ca, stranger := testcerts.Authority(t, "ca"), testcerts.Authority(t, "stranger")
	ago, ahead := time.Now().Add(-2*time.Hour), time.Now().Add(2*time.Hour)
	alice := pkix.Name{CommonName: "alice", Organization: []string{"Fruit\n, Inc."}}
	for name, tc := range map[string]struct {
		id    *testcerts.Identity
		cause string
	}{
		"expired":       {ca.Issue(t, testcerts.Spec{Subject: alice, From: ago, To: ago.Add(time.Hour)}), "certificate has expired or is not yet valid: current time"},
		"not yet valid": {ca.Issue(t, testcerts.Spec{Subject: alice, From: ahead, To: ahead.Add(time.Hour)}), "certificate has expired or is not yet valid: current time"},
		"a stranger's":  {stranger.Issue(t, testcerts.Spec{Subject: alice}), "certificate signed by unknown authority"},
		"of servers":    {ca.Issue(t, testcerts.Spec{Subject: alice, Uses: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}), "certificate specifies an incompatible key usage"},
		"of itself":     {testcerts.Authority(t, "alice"), "certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			n, log := loggedNode(t, t.TempDir(), tlsSets(t, ca.Local(t, "broker"), ca, "ssl.client.auth=required")...)
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				// Shown whatever the broker asks for.
				show := tc.id.TLS()
				conf := &tls.Config{RootCAs: ca.Pool(), MaxVersion: version, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &show, nil }}
				if greeted(t, n.Addr(), conf) {
					t.Errorf("%s: let in", tls.VersionName(version))
				}
			}
			l := line(t, log, "TLS handshake failed", "reason=certificate", tc.cause)
			for _, want := range []string{"peer=127.0.0.1:", "listener=SSL", "subject=", "CN=alice", "serial=" + tc.id.Chain[0].SerialNumber.Text(16), "expires=" + tc.id.Chain[0].NotAfter.Format("2006-01-02")} {
				if !strings.Contains(l, want) {
					t.Errorf("the line has no %s: %s", want, l)
				}
			}
			series := `kaas_tls_handshake_failures_total{listener="SSL",reason="certificate"}`
			awaitCluster(t, n, series, func() bool { return count(t, n, series) == 2 })
		})
	}
}

// Who has no certificate is told of by the address.
func TestNoClientCertificate(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	n, log := loggedNode(t, t.TempDir(), tlsSets(t, ca.Local(t, "broker"), ca, "ssl.client.auth=required")...)
	if greeted(t, n.Addr(), &tls.Config{RootCAs: ca.Pool()}) {
		t.Error("let in")
	}
	line(t, log, "TLS handshake failed", "peer=127.0.0.1:", "reason=certificate", "client didn't provide a certificate")
}

// An authority that goes from the truststore takes with it whom it let in: whoever comes new is
// refused and named, and who is there goes on until the connection ends.
func TestAuthorityRevoked(t *testing.T) {
	ca, clients := testcerts.Authority(t, "ca"), testcerts.Authority(t, "clients")
	m := &mounted{t: t, dir: t.TempDir()}
	m.put(map[string][]byte{"keys.pem": ca.Local(t, "broker").PEM(t, ""), "ca.pem": append(ca.CertPEM(), clients.CertPEM()...)})
	n, log := loggedNode(t, t.TempDir(), "listeners=SSL://127.0.0.1:0", "ssl.keystore.type=PEM", "ssl.keystore.location="+m.path("keys.pem"),
		"ssl.truststore.type=PEM", "ssl.truststore.location="+m.path("ca.pem"), "ssl.client.auth=requested", "http.listeners=") // so that showsCert is let in
	alice := clients.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "alice"}})
	there := mustTLS(t, n.Addr(), ca, alice.TLS())
	there.ask(kmsg.NewPtrApiVersionsRequest())
	next := ca.Local(t, "next")
	m.put(map[string][]byte{"keys.pem": next.PEM(t, ""), "ca.pem": ca.CertPEM()})
	showsCert(t, n.Addr(), next)
	show := alice.TLS()
	if greeted(t, n.Addr(), &tls.Config{RootCAs: ca.Pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &show, nil }}) {
		t.Error("who is trusted no more is let in")
	}
	line(t, log, "TLS handshake failed", "peer=127.0.0.1:", "reason=certificate", "signed by unknown authority", "CN=alice", "issuer=", "CN=clients")
	there.ask(kmsg.NewPtrApiVersionsRequest())
}

// A new certificate that has expired, is not valid yet, or will not be for long, is said to be
// so, in the log and by its end in the metrics. Of the brokers' own listener it is not taken,
// for brokers would not come together with it.
func TestOwnCertificateEnds(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	own := func(from, to time.Duration) *testcerts.Identity {
		now := time.Now()
		return ca.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"localhost", "127.0.0.1"}, From: now.Add(from), To: now.Add(to)})
	}
	m := &mounted{t: t, dir: t.TempDir()}
	put := func(id *testcerts.Identity) *testcerts.Identity {
		m.put(map[string][]byte{"keys.pem": id.PEM(t, ""), "ca.pem": ca.CertPEM()})
		return id
	}
	put(own(-time.Hour, 1000*time.Hour))
	n, log := loggedNode(t, t.TempDir(), "listeners=CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0", "listener.security.protocol.map=CLIENTS:SSL,BROKERS:SSL",
		"inter.broker.listener.name=BROKERS", "ssl.keystore.type=PEM", "ssl.keystore.location="+m.path("keys.pem"),
		"ssl.truststore.type=PEM", "ssl.truststore.location="+m.path("ca.pem"), "http.listeners=")
	for _, tc := range []struct {
		id   *testcerts.Identity
		what string
		both bool // listeners take it
	}{
		{own(-time.Hour, time.Hour), "level=WARN msg=\"the certificate expires soon\"", true},
		{own(-2*time.Hour, -time.Hour), "level=ERROR msg=\"the certificate has expired", false},
		{own(time.Hour, 2*time.Hour), "level=ERROR msg=\"the certificate is not valid yet", false},
	} {
		put(tc.id)
		showsCert(t, n.AddrOf("CLIENTS"), tc.id)
		serial := "serial=" + tc.id.Chain[0].SerialNumber.Text(16)
		line(t, log, tc.what, "listener=CLIENTS", "CN=broker", serial)
		if got := count(t, n, `kaas_tls_certificate_not_after_seconds{listener="CLIENTS"}`); got != float64(tc.id.Chain[0].NotAfter.Unix()) {
			t.Errorf("the metrics have the end at %v", got)
		}
		if tc.both {
			line(t, log, tc.what, "listener=BROKERS", serial)
			continue
		}
		line(t, log, "new key files are not taken", "listener=BROKERS", "other brokers would not accept the certificate", "has expired or is not yet valid")
	}
	series := fmt.Sprintf("kaas_tls_reload_failures_total{listener=%q}", "BROKERS")
	awaitCluster(t, n, series, func() bool { return count(t, n, series) == 2 })
}

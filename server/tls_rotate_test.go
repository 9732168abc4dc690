package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/testcerts"
)

// mounted is a directory of files as Kubernetes mounts secrets: names that lead through a
// link to the directory of the newest, which is replaced as a whole.
type mounted struct {
	t    testing.TB
	dir  string
	next int
}

func (m *mounted) put(files map[string][]byte) {
	m.t.Helper()
	m.next++
	data := fmt.Sprintf("..data-%d", m.next)
	check := func(err error) {
		m.t.Helper()
		if err != nil {
			m.t.Fatal(err)
		}
	}
	check(os.Mkdir(filepath.Join(m.dir, data), 0o700))
	for name, b := range files {
		check(os.WriteFile(filepath.Join(m.dir, data, name), b, 0o600))
		if m.next == 1 {
			check(os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	check(os.Symlink(data, filepath.Join(m.dir, "..next")))
	check(os.Rename(filepath.Join(m.dir, "..next"), filepath.Join(m.dir, "..data")))
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, name) }

// showsCert waits until the broker shows this certificate to those who come new.
func showsCert(t testing.TB, addr string, id *testcerts.Identity) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		c, err := dialTLS(t, addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		serial := c.nc.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber
		c.nc.Close()
		if serial.Cmp(id.Chain[0].SerialNumber) == 0 {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("the certificate is still %x", serial)
		}
	}
}

// What the files hold is for the next handshake. A file that is no good changes nothing, and
// is told of once; what is connected goes on.
func TestKeysAreReadAgain(t *testing.T) {
	ca, stranger := testcerts.Authority(t, "ca"), testcerts.Authority(t, "stranger")
	first, second := ca.Local(t, "first"), ca.Local(t, "second")
	m := &mounted{t: t, dir: t.TempDir()}
	m.put(map[string][]byte{"keys.pem": first.PEM(t, "pw"), "ca.pem": ca.CertPEM()})
	n, log := loggedNode(t, t.TempDir(), "listeners=SSL://127.0.0.1:0", "ssl.keystore.type=PEM", "ssl.keystore.location="+m.path("keys.pem"), "ssl.key.password=pw",
		"ssl.truststore.type=PEM", "ssl.truststore.location="+m.path("ca.pem"), "ssl.client.auth=required", "http.listeners=")
	alice := ca.Local(t, "alice").TLS()
	other := stranger.Local(t, "other").TLS()
	there := mustTLS(t, n.Addr(), ca, alice)
	there.ask(kmsg.NewPtrApiVersionsRequest())

	m.put(map[string][]byte{"keys.pem": second.PEM(t, "another"), "ca.pem": ca.CertPEM()}) // not its password
	logged(t, log, "new key files are not taken")
	if text := log.String(); strings.Contains(text, "pw\"") || !strings.Contains(text, m.path("keys.pem")) || !strings.Contains(text, "ssl.key.password") {
		t.Errorf("the log: %s", text)
	}
	if c := mustTLS(t, n.Addr(), ca, alice); c.nc.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName != "first" {
		t.Error("the bad file was taken")
	}
	if err := os.Remove(m.path("..data")); err != nil {
		t.Fatal(err)
	}
	logged(t, log, "no such file")
	m.put(map[string][]byte{"keys.pem": second.PEM(t, "pw"), "ca.pem": append(ca.CertPEM(), stranger.CertPEM()...)})
	showsCert(t, n.Addr(), second)
	if !greeted(t, n.Addr(), &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{other}}) {
		t.Error("who is trusted now is not let in")
	}
	// Who is trusted no more stays out, also with what it has kept of an earlier handshake.
	session := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{other}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	if !greeted(t, n.Addr(), session) {
		t.Error("not let in")
	}
	third := ca.Local(t, "third")
	m.put(map[string][]byte{"keys.pem": third.PEM(t, "pw"), "ca.pem": ca.CertPEM()})
	showsCert(t, n.Addr(), third)
	if greeted(t, n.Addr(), session) {
		t.Error("who is trusted no more is let in")
	}
	there.ask(kmsg.NewPtrApiVersionsRequest())
	// The files are read one after the other, and what is put or removed in between is seen twice.
	awaitTrue(t, "each change is told of", func() bool {
		reads, refusals := count(t, n, `kaas_tls_reloads_total{listener="SSL"}`), count(t, n, `kaas_tls_reload_failures_total{listener="SSL"}`)
		lines := strings.Count(log.String(), "new key files are not taken")
		return reads >= 2 && reads <= 4 && refusals >= 2 && refusals <= 3 && float64(lines) == refusals
	})
}

// Three brokers get new certificates, of a new authority in the end, while clients produce on
// connections old and new: nothing fails, and the brokers go on together.
func TestRotationUnderTraffic(t *testing.T) {
	old, next := testcerts.Authority(t, "old"), testcerts.Authority(t, "next")
	both := append(old.CertPEM(), next.CertPEM()...)
	trust := keyFile(t, "trust.pem", both)
	nodes, keys := threeTLS(t, old, "ssl.truststore.location="+trust)
	roots := old.Pool()
	roots.AddCert(next.Chain[0])
	outside := nodes[0].lns[1].Addr().String()
	c := mustTLS(t, outside, old)
	c.create("t", 6)

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var sent, clients atomic.Int64
	var wg sync.WaitGroup
	produce := func(cl *kgo.Client) bool {
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte("x")}).FirstErr(); err != nil {
			t.Errorf("produce: %v", err)
			return false
		}
		sent.Add(1)
		return true
	}
	running := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	newClient := func() *kgo.Client {
		clients.Add(1)
		cl, err := kgo.NewClient(kgo.SeedBrokers(outside), kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.DefaultProduceTopic("t"), kgo.RecordRetries(2))
		if err != nil {
			t.Error(err)
		}
		return cl
	}
	wg.Go(func() { // one that stays
		cl := newClient()
		defer cl.Close()
		for running() && produce(cl) {
		}
	})
	wg.Go(func() { // and those that come new
		for running() {
			cl := newClient()
			ok := produce(cl)
			cl.Close()
			if !ok {
				return
			}
		}
	})
	for round, by := range []*testcerts.Identity{old, next, next} {
		for i, file := range keys {
			id := by.Local(t, fmt.Sprintf("broker%d-%d", i+1, round))
			tmp := file + ".tmp"
			if err := os.WriteFile(tmp, id.PEM(t, ""), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(tmp, file); err != nil {
				t.Fatal(err)
			}
			showsCert(t, nodes[i].lns[1].Addr().String(), id)
		}
	}
	// Connections between brokers that are made now show the new certificates.
	for i, n := range nodes {
		c := mustTLS(t, n.lns[1].Addr().String(), next)
		c.create(fmt.Sprint("made-by-", i), 1)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d records by %d clients, new certificates 9 times", sent.Load(), clients.Load())
	if sent.Load() < 20 || clients.Load() < 5 {
		t.Error("that was no traffic")
	}
}

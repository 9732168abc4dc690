package server

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"kaas.dev/kaas/internal/testcerts"
)

// tlsSets are the settings of a broker with the identity, which trusts the authority.
func tlsSets(t testing.TB, id, ca *testcerts.Identity, sets ...string) []string {
	t.Helper()
	return append([]string{
		"listeners=SSL://127.0.0.1:0", "ssl.keystore.type=PEM", "ssl.keystore.location=" + keyFile(t, "broker.pem", id.PEM(t, "")),
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + keyFile(t, "ca.pem", ca.CertPEM()),
	}, sets...)
}

// loggedNode is a broker whose log is kept.
func loggedNode(t testing.TB, dir string, sets ...string) (*Node, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	return startLogged(t, testConfig(t, dir, sets...), log), log
}

func startLogged(t testing.TB, cfg *Config, log *lockedBuffer) *Node {
	t.Helper()
	n, err := Open(context.Background(), cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

// dialTLS connects by TLS; the error may come with the first answer only.
func dialTLS(t testing.TB, addr string, conf *tls.Config) (*client, error) {
	t.Helper()
	c := dial(t, addr)
	conf.ServerName = "localhost"
	tc := tls.Client(c.nc, conf)
	if err := tc.Handshake(); err != nil {
		c.nc.Close()
		return nil, err
	}
	c.nc = tc
	return c, nil
}

// mustTLS trusts the authority and shows what it is given.
func mustTLS(t testing.TB, addr string, ca *testcerts.Identity, certs ...tls.Certificate) *client {
	t.Helper()
	c, err := dialTLS(t, addr, &tls.Config{RootCAs: ca.Pool(), Certificates: certs})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// greeted reports whether a connection gets an answer.
func greeted(t testing.TB, addr string, conf *tls.Config) bool {
	t.Helper()
	c, err := dialTLS(t, addr, conf)
	if err != nil {
		return false
	}
	defer c.nc.Close()
	if _, err := c.nc.Write(frame(kmsg.NewPtrApiVersionsRequest(), 1)); err != nil {
		return false
	}
	_, err = io.ReadFull(c.nc, make([]byte, 8))
	return err == nil
}

// logged waits until the log has it.
func logged(t testing.TB, log *lockedBuffer, want string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(log.String(), want); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("the log does not say %s:\n%s", want, log.String())
		}
	}
}

// Who a client is follows from its certificate, where it is asked for one and shows one that
// the broker trusts; who shows none is nobody, if that is enough.
func TestClientCertificates(t *testing.T) {
	ca, stranger := testcerts.Authority(t, "ca"), testcerts.Authority(t, "ca") // of the same name
	subject := pkix.Name{CommonName: "alice", Organization: []string{"Fruit, Inc."}, Country: []string{"DE"}}
	certs := map[string]*testcerts.Identity{
		"none":       nil,
		"good":       ca.Issue(t, testcerts.Spec{Subject: subject}),
		"RSA":        ca.Issue(t, testcerts.Spec{Subject: subject, RSA: true}),
		"stranger's": stranger.Issue(t, testcerts.Spec{Subject: subject}),
		"expired":    ca.Issue(t, testcerts.Spec{Subject: subject, From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(-time.Hour)}),
		"unmapped":   ca.Issue(t, testcerts.Spec{Subject: pkix.Name{Organization: []string{"Fruit"}}}),
	}
	for auth, want := range map[string]map[string]string{
		"none":      {"none": "User:ANONYMOUS", "good": "User:ANONYMOUS", "stranger's": "User:ANONYMOUS"},
		"requested": {"none": "User:ANONYMOUS", "good": "User:alice@FRUIT\\\\, INC.", "RSA": "User:alice@FRUIT\\\\, INC.", "stranger's": "", "expired": "", "unmapped": ""},
		"required":  {"none": "", "good": "User:alice@FRUIT\\\\, INC.", "stranger's": "", "expired": "", "unmapped": ""},
	} {
		n, log := loggedNode(t, t.TempDir(), tlsSets(t, ca.Local(t, "broker"), ca, "ssl.client.auth="+auth,
			`ssl.principal.mapping.rules=RULE:^CN=([a-z]+),O=(.*),C=DE$/$1@$2/,RULE:^CN=.*$/other/`)...)
		for name, principal := range want {
			principal = strings.Replace(principal, "FRUIT\\\\, INC.", `Fruit\\, Inc.`, 1)
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				conf := &tls.Config{RootCAs: ca.Pool(), MaxVersion: version, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					c := tls.Certificate{}
					if certs[name] != nil {
						c = certs[name].TLS()
					}
					return &c, nil
				}}
				if got := greeted(t, n.Addr(), conf); got != (principal != "") {
					t.Errorf("ssl.client.auth=%s, %s, %s: let in: %v", auth, name, tls.VersionName(version), got)
				} else if got {
					logged(t, log, fmt.Sprintf("version=%q principal=", tls.VersionName(version)))
				}
			}
			if principal != "" {
				logged(t, log, principal)
			}
		}
		if got := count(t, n, `kaas_tls_handshake_failures_total{listener="SSL",reason="certificate"}`); auth != "none" && got < 2 {
			t.Errorf("ssl.client.auth=%s: %v failures are counted", auth, got)
		}
	}
}

// count is a series of the broker's metrics.
func count(t testing.TB, n *Node, series string) float64 {
	t.Helper()
	families, err := n.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if f.GetName()+"{"+strings.Join(labels, ",")+"}" == series {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// Who speaks another protocol than the listener, or none, is let go of and keeps nobody
// else waiting; what is logged of it is bounded.
func TestNotTLS(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	cfg := testConfig(t, t.TempDir(), append(tlsSets(t, ca.Local(t, "broker"), ca), "listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0")...)
	cfg.HandshakeTime = 2 * time.Second // of which others need a hundredth
	log := &lockedBuffer{}
	n := startLogged(t, cfg, log)
	secure, plain := n.lns[0].Addr().String(), n.lns[1].Addr().String()
	var silent []*client
	for range 50 {
		silent = append(silent, dial(t, secure))
	}
	mustTLS(t, secure, ca).ask(kmsg.NewPtrApiVersionsRequest())
	for _, hello := range [][]byte{frame(kmsg.NewPtrApiVersionsRequest(), 1), []byte("GET / HTTP/1.1\r\n\r\n"), {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3}} {
		c := dial(t, secure)
		if _, err := c.nc.Write(hello); err != nil {
			t.Fatal(err)
		}
		c.closed()
	}
	for _, c := range silent {
		c.closed()
	}
	c := dial(t, plain)
	if err := tls.Client(c.nc, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}).Handshake(); err == nil {
		t.Error("TLS on a plaintext listener")
	}
	if greeted(t, secure, &tls.Config{RootCAs: testcerts.Authority(t, "another").Pool()}) {
		t.Error("the client trusts the broker without a reason")
	}
	for reason, least := range map[string]float64{"no_tls": 2, "timeout": 51, "refused_by_client": 1} {
		series := fmt.Sprintf("kaas_tls_handshake_failures_total{listener=\"SSL\",reason=%q}", reason)
		awaitCluster(t, n, series, func() bool { return count(t, n, series) >= least })
	}
	if lines := strings.Count(log.String(), "TLS handshake failed"); lines == 0 || lines > 25 {
		t.Errorf("%d lines", lines)
	}
	if got := count(t, n, `kaas_tls_certificate_not_after_seconds{listener="SSL"}`); got < float64(time.Now().Unix()) {
		t.Errorf("the certificate ends at %v", got)
	}
}

func TestSeldom(t *testing.T) {
	var s seldom
	now := time.Unix(1e9, 0)
	for i := range 100 {
		if _, ok := s.allow(now); ok != (i < seldomBurst) {
			t.Errorf("%d at once: %v", i, ok)
		}
	}
	if passed, ok := s.allow(now.Add(seldomEvery)); !ok || passed != 95 {
		t.Errorf("later: %v, %d passed over", ok, passed)
	}
	if _, ok := s.allow(now.Add(seldomEvery + time.Second)); ok {
		t.Error("too soon")
	}
}

// Large answers, which plain connections get from the kernel, come whole through TLS, also
// where the client asks for many and reads late.
func TestFetchOverTLS(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	n := startNode(t, t.TempDir(), tlsSets(t, ca.Local(t, "broker"), ca)...)
	c := mustTLS(t, n.Addr(), ca)
	ids := map[string][16]byte{"large": c.create("large", 1), "larger": c.create("larger", 1)}
	c.fill("large", 3, 200_000)
	c.fill("larger", 9, 400_000)
	req := largeFetch("large", "larger")
	for i := range req.Topics {
		req.Topics[i].TopicID = ids[req.Topics[i].Topic]
	}
	for range 4 {
		c.send(req)
	}
	for range 4 {
		_, b := c.receive()
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = req.Version
		c.decode(resp, b)
		for i, want := range []int{3, 9} {
			if got := checkBatches(t, resp.Topics[i].Partitions[0].RecordBatches); got != want {
				t.Errorf("topic %d: %d batches", i, got)
			}
		}
	}
}

// A client that ends in the middle of an answer is no reason to distrust the file.
func TestClientEndsDuringFetchOverTLS(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	n, log := loggedNode(t, t.TempDir(), tlsSets(t, ca.Local(t, "broker"), ca)...)
	awaitReady(t, n)
	c := mustTLS(t, n.Addr(), ca)
	c.create("large", 1)
	c.fill("large", 9, 900_000)
	for _, abort := range []func(*tls.Conn) error{
		func(tc *tls.Conn) error { return tc.NetConn().Close() },
		func(tc *tls.Conn) error { return errors.Join(tc.CloseWrite(), tc.NetConn().Close()) },
		func(tc *tls.Conn) error { _, err := tc.NetConn().Write([]byte("no record of TLS")); return err },
	} {
		rude := mustTLS(t, n.Addr(), ca)
		for range 8 {
			rude.send(largeFetch("large"))
		}
		if _, err := io.ReadFull(rude.nc, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := abort(rude.nc.(*tls.Conn)); err != nil {
			t.Fatal(err)
		}
		_ = rude.nc.(*tls.Conn).NetConn().Close()
	}
	for began := time.Now(); count(t, n, "kafka_server_socket_server_metrics_connection_count{}") > 1; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the connections are still there")
		}
	}
	if strings.Contains(log.String(), "cannot be sent from their file") {
		t.Error(log.String())
	}
}

// A connection over TLS outlives the deadlines at which the reader only looks around.
func TestIdleOverTLS(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	n := startNode(t, t.TempDir(), tlsSets(t, ca.Local(t, "broker"), ca, "connections.max.idle.ms=1000")...)
	c := mustTLS(t, n.Addr(), ca)
	c.create("t", 1)
	req := largeFetch("t")
	req.MinBytes, req.MaxWaitMillis = 1, 3000
	c.ask(req) // answered after three times the idle time
	c.closed()
}

// Three brokers that have nothing but listeners of TLS work together: each shows its
// certificate to the others, and clients are told of the listener that they use.
func TestBrokersOverTLS(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	nodes, _ := threeTLS(t, ca)
	for i, n := range nodes {
		c := mustTLS(t, n.lns[1].Addr().String(), ca)
		topic := fmt.Sprintf("t%d", i)
		c.create(topic, 3) // through the controller
		if got := len(c.partitions(topic)); got != 3 {
			t.Errorf("%s has %d partitions", topic, got)
		}
		inner := mustTLS(t, n.lns[0].Addr().String(), ca, ca.Local(t, "client").TLS())
		for at, conn := range []*client{inner, c} {
			for what, got := range told(conn) {
				for id, addr := range got {
					if want := nodes[id-1].lns[at].Addr().String(); addr != want {
						t.Errorf("broker %d, listener %d, %s: broker %d is at %s, not %s", i+1, at, what, id, addr, want)
					}
				}
			}
		}
	}
	cl := kgoClient(t, nodes[0].lns[1].Addr().String(), kgo.DialTLSConfig(&tls.Config{RootCAs: ca.Pool()}), kgo.DefaultProduceTopic("t0"))
	for i := range int32(3) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Partition: i, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// Who has no certificate is no broker.
	if greeted(t, nodes[0].lns[0].Addr().String(), &tls.Config{RootCAs: ca.Pool()}) {
		t.Error("let in without a certificate")
	}
}

// threeTLS are three brokers with a listener for themselves that asks for certificates, and
// one for clients; keys are their files.
func threeTLS(t *testing.T, ca *testcerts.Identity, sets ...string) (nodes []*Node, keys []string) {
	t.Helper()
	dir := t.TempDir()
	for id := 1; id <= 3; id++ {
		all := append(tlsSets(t, ca.Local(t, fmt.Sprint("broker", id)), ca), "listeners=BETWEEN://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
			"listener.security.protocol.map=BETWEEN:SSL,OUTSIDE:SSL", "inter.broker.listener.name=BETWEEN", "listener.name.between.ssl.client.auth=required",
			"broker.heartbeat.interval.ms=200", fmt.Sprint("node.id=", id))
		all = append(all, sets...)
		at := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, "ssl.keystore.location=") })
		keys = append(keys, strings.TrimPrefix(all[at], "ssl.keystore.location="))
		nodes = append(nodes, startNode(t, dir, all...))
	}
	for _, n := range nodes {
		awaitCluster(t, n, "three brokers serve", func() bool { return alive(n) == 3 && n.broker.Ready() })
	}
	return nodes, keys
}

// SASL within TLS, for clients and among brokers: who is there is whom SASL names, whatever
// certificate is shown.
func TestSASLOverTLS(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	dir := t.TempDir()
	var nodes []*Node
	for id := 1; id <= 3; id++ {
		nodes = append(nodes, startNode(t, dir, tlsSets(t, ca.Local(t, "broker"), ca, "listeners=SASL_SSL://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN",
			"sasl.mechanism.inter.broker.protocol=PLAIN", "listener.name.sasl_ssl.plain.sasl.jaas.config="+plainJAAS, "listener.name.sasl_ssl.ssl.client.auth=requested",
			"broker.heartbeat.interval.ms=200", fmt.Sprint("node.id=", id))...))
	}
	for _, n := range nodes {
		awaitCluster(t, n, "three brokers serve", func() bool { return alive(n) == 3 && n.broker.Ready() })
	}
	for password, most := range map[string]time.Duration{"alice-secret": patience, "wrong": 5 * time.Second} {
		cl := kgoClient(t, nodes[1].Addr(), kgo.DialTLSConfig(&tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Local(t, "mallory").TLS()}}),
			kgo.SASL(plain.Auth{User: "alice", Pass: password}.AsMechanism()), kgo.DefaultProduceTopic("t"), kgo.RetryTimeout(most))
		err := cl.Ping(t.Context())
		if (err == nil) != (password == "alice-secret") {
			t.Errorf("with %s: %v", password, err)
		}
	}
	c := mustTLS(t, nodes[0].Addr(), ca, ca.Local(t, "mallory").TLS())
	c.send(kmsg.NewPtrMetadataRequest())
	c.closed()
}

// What is built without its TLS is never served in the clear.
func TestNoTLSWhereItIsPromised(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	n := startNode(t, t.TempDir())
	addrs := serveAlso(t, broker{n.broker}, n.server.clusterID, tlsSets(t, ca.Local(t, "broker"), ca)...)
	nc, err := net.Dial("tcp", addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = nc.Write(frame(kmsg.NewPtrApiVersionsRequest(), 1))
	if got, _ := nc.Read(make([]byte, 1)); got > 0 {
		t.Error("an answer in the clear")
	}
}

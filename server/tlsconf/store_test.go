package tlsconf

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/testcerts"
)

// given is a Lookup of what is in the map.
func given(settings map[string]string) Lookup {
	return func(key string) (string, string, bool) {
		if v, ok := settings[key]; ok {
			return v, key, true
		}
		for _, k := range Keys {
			if k.Name == key {
				return k.Default, key, false
			}
		}
		panic(key)
	}
}

func put(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// greet has a server and a client of two stores meet, and returns what each saw.
func greet(t *testing.T, server *Store, client *tls.Config) (state tls.ConnectionState, atServer, atClient error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		defer nc.Close()
		tc := tls.Server(nc, server.Server())
		err = tc.HandshakeContext(t.Context())
		state = tc.ConnectionState()
		done <- err
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	atClient = tls.Client(nc, client).HandshakeContext(t.Context())
	if atClient != nil {
		nc.Close()
	}
	atServer = <-done
	return state, atServer, atClient
}

func open(t *testing.T, settings map[string]string) (*Store, error) {
	t.Helper()
	s, err := Parse("TLS", false, given(settings))
	if err != nil {
		return nil, err
	}
	return Open(s, false)
}

func TestStoresOfEveryKind(t *testing.T) {
	dir := t.TempDir()
	ca := testcerts.Authority(t, "ca")
	middle := ca.Issue(t, testcerts.Spec{Authority: true})
	broker, client := middle.Local(t, "broker"), ca.Local(t, "client")
	trust := map[string]map[string]string{
		"PEM":    {trustType: "PEM", trustLocation: put(t, dir, "ca.pem", append([]byte("a remark\n"), ca.CertPEM()...))},
		"inline": {trustType: "PEM", trustCerts: strings.ReplaceAll(string(ca.CertPEM()), "\n", " ")},
		"PKCS12": {trustType: "PKCS12", trustLocation: put(t, dir, "ca.p12", ca.TrustPKCS12(t, "tp")), trustPassword: "tp"},
		"JKS":    {trustLocation: put(t, dir, "ca.jks", ca.TrustJKS(t, "secret-tp")), trustPassword: "secret-tp"},
		"two":    {trustType: "PEM", trustLocation: put(t, dir, "other.pem", testcerts.Authority(t, "other").CertPEM()) + "," + put(t, dir, "ca2.pem", ca.CertPEM())},
		"told":   {trustType: "JKS", trustLocation: put(t, dir, "told.p12", ca.TrustPKCS12(t, "tp")), trustPassword: "tp"}, // Java looks, too
	}
	keys := map[string]map[string]string{
		"PEM":       {keystoreType: "PEM", keystoreLocation: put(t, dir, "b.pem", broker.PEM(t, ""))},
		"encrypted": {keystoreType: "pem", keystoreLocation: put(t, dir, "e.pem", broker.PEM(t, "kp")), keyPassword: "kp"},
		"two":       {keystoreType: "PEM", keystoreLocation: put(t, dir, "tls.crt", bytes.TrimSpace(broker.CertPEM())) + ", " + put(t, dir, "tls.key", broker.KeyPEM(t, ""))},
		"inline": {keystoreType: "PEM", keystoreKey: strings.ReplaceAll(string(broker.KeyPEM(t, "")), "\n", " "),
			keystoreChain: strings.ReplaceAll(string(broker.CertPEM()), "\n", "")},
		"inline encrypted": {keystoreType: "PEM", keystoreKey: string(broker.KeyPEM(t, "kp")), keystoreChain: string(broker.CertPEM()), keyPassword: "kp"},
		"PKCS12":           {keystoreType: "PKCS12", keystoreLocation: put(t, dir, "b.p12", broker.PKCS12(t, "sp")), keystorePassword: "sp"},
		"PKCS12, told":     {keystoreType: "PKCS12", keystoreLocation: put(t, dir, "b2.p12", broker.PKCS12(t, "sp")), keystorePassword: "sp", keyPassword: "sp"},
		"JKS":              {keystoreLocation: put(t, dir, "b.jks", broker.JKS(t, "store-pw", "key-pw")), keystorePassword: "store-pw", keyPassword: "key-pw"},
		"JKS, one":         {keystoreLocation: put(t, dir, "b2.jks", broker.JKS(t, "store-pw", "store-pw")), keystorePassword: "store-pw"},
	}
	meet := func(name string, settings ...map[string]string) {
		all := map[string]string{clientAuth: "required"}
		for _, s := range settings {
			for k, v := range s {
				all[k] = v
			}
		}
		st, err := open(t, all)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		state, atServer, atClient := greet(t, st, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{client.TLS()}})
		if atServer != nil || atClient != nil {
			t.Errorf("%s: server: %v, client: %v", name, atServer, atClient)
		} else if cn := state.PeerCertificates[0].Subject.CommonName; cn != "client" {
			t.Errorf("%s: client is %s", name, cn)
		}
	}
	for name, k := range keys {
		meet("key "+name, k, trust["PEM"])
	}
	for name, s := range trust {
		meet("trust "+name, keys["PEM"], s)
	}
}

// What cannot be used is told with the setting and the file, and without secrets.
func TestStoresRefused(t *testing.T) {
	dir := t.TempDir()
	ca := testcerts.Authority(t, "ca")
	b := ca.Local(t, "b")
	pem := put(t, dir, "b.pem", b.PEM(t, ""))
	encrypted := put(t, dir, "e.pem", b.PEM(t, "right"))
	p12 := put(t, dir, "b.p12", b.PKCS12(t, "right"))
	jks := put(t, dir, "b.jks", b.JKS(t, "right-one", "right-key"))
	junk := put(t, dir, "junk", []byte("not a store"))
	old := "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
	const wrong = "open-sesame"
	for _, tc := range []struct {
		key  string // to blame
		want string
		set  map[string]string
	}{
		{keystoreLocation, "is needed", map[string]string{}},
		{keystoreType, "not PEM", map[string]string{keystoreType: "BCFKS"}},
		{trustType, "not PEM", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustType: "JCEKS"}},
		{keystorePassword, "is needed", map[string]string{keystoreLocation: jks}},
		{keystorePassword, "not for PEM", map[string]string{keystoreType: "PEM", keystoreLocation: pem, keystorePassword: wrong}},
		{keystorePassword, "needs ssl.keystore.location", map[string]string{keystorePassword: wrong}},
		{keystoreKey, "needs ssl.keystore.type=PEM", map[string]string{keystoreKey: wrong}},
		{keystoreKey, "needs ssl.keystore.certificate.chain", map[string]string{keystoreType: "PEM", keystoreKey: wrong}},
		{keystoreChain, "needs ssl.keystore.key", map[string]string{keystoreType: "PEM", keystoreChain: wrong}},
		{keystoreKey, "only one", map[string]string{keystoreType: "PEM", keystoreKey: wrong, keystoreChain: wrong, keystoreLocation: pem}},
		{keystoreKey, "0 PRIVATE KEY", map[string]string{keystoreType: "PEM", keystoreKey: wrong, keystoreChain: wrong}},
		{keystoreLocation, "no such file", map[string]string{keystoreType: "PEM", keystoreLocation: dir + "/none"}},
		{keystoreLocation, "is a directory", map[string]string{keystoreType: "PEM", keystoreLocation: dir}},
		{keystoreLocation, "0 PRIVATE KEY", map[string]string{keystoreType: "PEM", keystoreLocation: junk}},
		{keystoreLocation, "no CERTIFICATE", map[string]string{keystoreType: "PEM", keystoreLocation: put(t, dir, "key.pem", b.KeyPEM(t, ""))}},
		{keystoreLocation, "2 PRIVATE KEY", map[string]string{keystoreType: "PEM", keystoreLocation: put(t, dir, "two.pem", append(b.PEM(t, ""), b.KeyPEM(t, "")...))}},
		{keystoreLocation, "not that of the key", map[string]string{keystoreType: "PEM", keystoreLocation: put(t, dir, "mixed.pem", append(ca.Local(t, "c").KeyPEM(t, ""), b.CertPEM()...))}},
		{keystoreLocation, "only PKCS#8", map[string]string{keystoreType: "PEM", keystoreLocation: put(t, dir, "old.pem", append([]byte(old), b.CertPEM()...))}},
		{keyPassword, "wrong or missing", map[string]string{keystoreType: "PEM", keystoreLocation: encrypted}},
		{keyPassword, "wrong or missing", map[string]string{keystoreType: "PEM", keystoreLocation: encrypted, keyPassword: wrong}},
		{keystoreLocation, "not encrypted", map[string]string{keystoreType: "PEM", keystoreLocation: pem, keyPassword: wrong}},
		{keystorePassword, "password is wrong", map[string]string{keystoreType: "PKCS12", keystoreLocation: p12, keystorePassword: wrong}},
		{keystoreLocation, "has to be ssl.keystore.password", map[string]string{keystoreType: "PKCS12", keystoreLocation: p12, keystorePassword: "right", keyPassword: wrong}},
		{keystoreLocation, "", map[string]string{keystoreType: "PKCS12", keystoreLocation: junk, keystorePassword: wrong}},
		{keystorePassword, "password is wrong", map[string]string{keystoreLocation: jks, keystorePassword: wrong}},
		{keyPassword, "wrong or missing", map[string]string{keystoreLocation: jks, keystorePassword: "right-one"}},
		{trustPassword, "password is wrong", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustType: "PKCS12",
			trustLocation: put(t, dir, "ca.p12", ca.TrustPKCS12(t, "right")), trustPassword: wrong}},
		{trustPassword, "needs ssl.truststore.location", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustPassword: wrong}},
		{trustPassword, "not for PEM", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustType: "PEM", trustLocation: pem, trustPassword: wrong}},
		{trustCerts, "needs ssl.truststore.type=PEM", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustCerts: "x"}},
		{trustCerts, "only one", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustType: "PEM", trustCerts: "x", trustLocation: pem}},
		{trustLocation, "no CERTIFICATE", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustType: "PEM", trustLocation: junk}},
		{trustLocation, "", map[string]string{keystoreType: "PEM", keystoreLocation: pem, trustType: "PKCS12", trustLocation: p12, trustPassword: "right"}}, // a key store
		{clientAuth, "not none", map[string]string{keystoreType: "PEM", keystoreLocation: pem, clientAuth: "maybe"}},
		{protocolKey, "not TLS", map[string]string{keystoreType: "PEM", keystoreLocation: pem, protocolKey: "SSLv3"}},
		{enabledProtocols, "not safe", map[string]string{keystoreType: "PEM", keystoreLocation: pem, enabledProtocols: "TLSv1.1,TLSv1.2"}},
		{enabledProtocols, "not TLSv1.2", map[string]string{keystoreType: "PEM", keystoreLocation: pem, enabledProtocols: "TLS1.2"}},
		{enabledProtocols, "no version", map[string]string{keystoreType: "PEM", keystoreLocation: pem, enabledProtocols: ","}},
		{cipherSuites, "not safe", map[string]string{keystoreType: "PEM", keystoreLocation: pem, cipherSuites: "TLS_RSA_WITH_RC4_128_SHA"}},
		{cipherSuites, "none that is known", map[string]string{keystoreType: "PEM", keystoreLocation: pem, cipherSuites: "TLS_NO_SUCH"}},
		{cipherSuites, "no suite of the versions", map[string]string{keystoreType: "PEM", keystoreLocation: pem, enabledProtocols: "TLSv1.2", cipherSuites: "TLS_AES_128_GCM_SHA256"}},
		{mappingRules, "DEFAULT", map[string]string{keystoreType: "PEM", keystoreLocation: pem, mappingRules: "RULE:x"}},
		{endpointCheck, "neither", map[string]string{keystoreType: "PEM", keystoreLocation: pem, endpointCheck: "ldaps"}},
	} {
		_, err := open(t, tc.set)
		var blamed *KeyError
		if !errors.As(err, &blamed) {
			t.Errorf("%v: %v", tc.set, err)
			continue
		}
		text := blamed.Err.Error()
		file := tc.set[keystoreLocation]
		if tc.key == trustPassword || tc.key == trustLocation {
			file = tc.set[trustLocation]
		}
		if blamed.Key != tc.key || !strings.Contains(text, tc.want) || strings.ContainsAny(text, "\n") {
			t.Errorf("%v: %s: %s, want %s: %s", tc.set, blamed.Key, text, tc.key, tc.want)
		}
		if strings.Contains(text, wrong) {
			t.Errorf("%s: %s", blamed.Key, text)
		}
		if strings.HasSuffix(tc.want, "wrong") && !strings.Contains(text, file) {
			t.Errorf("%s: %s does not name %s", blamed.Key, text, file)
		}
	}
}

func TestVersionsAndSuites(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	dir := t.TempDir()
	base := map[string]string{keystoreType: "PEM", keystoreLocation: put(t, dir, "b.pem", ca.Local(t, "b").PEM(t, ""))}
	const only, other = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	for _, tc := range []struct {
		enabled, suites string
		max             uint16 // the client's
		want            uint16 // 0: refused
	}{
		{"TLSv1.2,TLSv1.3", "", tls.VersionTLS13, tls.VersionTLS13},
		{"TLSv1.2,TLSv1.3", "", tls.VersionTLS12, tls.VersionTLS12},
		{"TLSv1.2,TLSv1.3", "", tls.VersionTLS11, 0},
		{"TLSv1.3", "", tls.VersionTLS12, 0},
		{"TLSv1.2", "", tls.VersionTLS13, tls.VersionTLS12},
		{"TLSv1.2,TLSv1.3", only, tls.VersionTLS13, tls.VersionTLS12},
		{"TLSv1.2,TLSv1.3", "TLS_AES_256_GCM_SHA384", tls.VersionTLS12, 0},
		{"TLSv1.2,TLSv1.3", "TLS_AES_256_GCM_SHA384," + only, tls.VersionTLS13, tls.VersionTLS13},
		{"TLSv1.2", other, tls.VersionTLS13, 0}, // the client has the first alone
	} {
		settings := map[string]string{enabledProtocols: tc.enabled, cipherSuites: tc.suites}
		for k, v := range base {
			settings[k] = v
		}
		st, err := open(t, settings)
		if err != nil {
			t.Errorf("%+v: %v", tc, err)
			continue
		}
		conf := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tc.max}
		if tc.suites != "" {
			conf.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
		}
		state, atServer, atClient := greet(t, st, conf)
		if tc.want == 0 {
			if atServer == nil || atClient == nil {
				t.Errorf("%+v: let in with %s", tc, tls.VersionName(state.Version))
			}
		} else if atServer != nil || atClient != nil || state.Version != tc.want {
			t.Errorf("%+v: %v, %v, %s", tc, atServer, atClient, tls.VersionName(state.Version))
		}
	}
}

// Where SASL says who is there, certificates are asked for only if that is set for the listener
// alone; as in Kafka the setting of all is passed over, with a warning.
func TestClientAuthWithSASL(t *testing.T) {
	base := map[string]string{keystoreType: "PEM", keystoreLocation: "/x", trustType: "PEM", trustLocation: "/y", clientAuth: "required"}
	own := func(key string) (string, string, bool) {
		v, name, ok := given(base)(key)
		if key == clientAuth {
			name = "listener.name.x." + key
		}
		return v, name, ok
	}
	for _, tc := range []struct {
		sasl, ask, notes bool
		look             Lookup
	}{{true, false, true, given(base)}, {true, true, false, own}, {false, true, false, given(base)}, {false, true, false, own}} {
		s, err := Parse("X", tc.sasl, tc.look)
		if err != nil {
			t.Fatal(err)
		}
		if s.ClientAuth() != tc.ask || (len(s.Notes) > 0) != tc.notes {
			t.Errorf("%+v: asks: %v, %v", tc, s.ClientAuth(), s.Notes)
		}
	}
}

// A broker asks who is there before it says anything.
func TestClientOfOtherBrokers(t *testing.T) {
	ca, stranger := testcerts.Authority(t, "ca"), testcerts.Authority(t, "stranger")
	dir := t.TempDir()
	settings := func(name string, by *testcerts.Identity, hosts ...string) map[string]string {
		id := by.Issue(t, testcerts.Spec{Hosts: hosts})
		return map[string]string{keystoreType: "PEM", keystoreLocation: put(t, dir, name, id.PEM(t, "")), trustType: "PEM",
			trustLocation: put(t, dir, name+".ca", ca.CertPEM()), clientAuth: "required"}
	}
	client, err := open(t, settings("client", ca, "client.example"))
	if err != nil {
		t.Fatal(err)
	}
	careless := settings("careless", ca, "client.example")
	careless[endpointCheck] = ""
	anyHost, err := open(t, careless)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		server map[string]string
		client *Store
		ok     bool
	}{
		{"as it should be", settings("good", ca, "127.0.0.1"), client, true},
		{"another host", settings("host", ca, "elsewhere.example"), client, false},
		{"another host, which is not looked at", settings("host2", ca, "elsewhere.example"), anyHost, true},
		{"a stranger", settings("stranger", stranger, "127.0.0.1"), client, false},
		{"a stranger, whose host is not looked at", settings("stranger2", stranger, "127.0.0.1"), anyHost, false},
	} {
		st, err := open(t, tc.server)
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan []*x509.Certificate, 1)
		go func() {
			defer close(seen)
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			tc := tls.Server(nc, st.Server())
			if tc.HandshakeContext(t.Context()) == nil {
				seen <- tc.ConnectionState().PeerCertificates
			}
		}()
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tc.client.Client(t.Context(), nc, "127.0.0.1")
		certs := <-seen
		nc.Close()
		ln.Close()
		if (err == nil) != tc.ok || tc.ok && (len(certs) == 0 || certs[0].DNSNames[0] != "client.example") {
			t.Errorf("%s: %v, %d certificates", tc.name, err, len(certs))
		}
	}
}

// A peer that never answers is not waited for.
func TestClientGivesUp(t *testing.T) {
	ca := testcerts.Authority(t, "ca")
	st, err := open(t, map[string]string{keystoreType: "PEM", keystoreLocation: put(t, t.TempDir(), "b", ca.Local(t, "b").PEM(t, ""))})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() { _, _ = theirs.Read(make([]byte, 1<<16)) }()
		began := time.Now()
		if _, err := st.Client(t.Context(), ours, "x"); err == nil || time.Since(began) != handshakeTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// What is wrong with a certificate that is shown is said once, and again when that changes, as
// time goes: of the own one, and of one that it rests on.
func TestCertificatesEnd(t *testing.T) {
	const day = 24 * time.Hour
	from := time.Now().Truncate(time.Second)
	ca := testcerts.Authority(t, "ca")
	above := ca.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "above"}, From: from.Add(-2 * time.Hour), To: from.Add(200 * day), Authority: true})
	own := above.Issue(t, testcerts.Spec{Subject: pkix.Name{CommonName: "own"}, From: from, To: from.Add(100 * day)})
	own.Chain = append(own.Chain[:2], above.Chain[0]) // the second twice, and without the authority
	st, err := open(t, map[string]string{keystoreType: "PEM", keystoreLocation: put(t, t.TempDir(), "k.pem", own.PEM(t, ""))})
	if err != nil {
		t.Fatal(err)
	}
	later, err := open(t, map[string]string{keystoreType: "PEM", keystoreLocation: put(t, t.TempDir(), "k.pem", above.Issue(t, testcerts.Spec{To: from.Add(300 * day)}).PEM(t, ""))})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := st.End(), later.End(); !a.Equal(own.Chain[0].NotAfter) || !b.Equal(ca.Chain[0].NotAfter) {
		t.Errorf("the first ends are %v and %v", a, b)
	}
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{
		{-time.Hour, "the certificate is not valid yet"}, {-time.Minute, ""}, {time.Hour, ""}, {86*day - time.Second, ""},
		{86*day + time.Second, "the certificate expires soon"}, {90 * day, ""}, {100*day + time.Second, "the certificate has expired"}, {101 * day, ""},
		{186*day + time.Second, `rests on expires soon" listener=TLS subject="CN=above"`}, {190 * day, ""}, {200*day + time.Second, "rests on has expired"}, {201 * day, ""},
	} {
		var log strings.Builder
		st.tellEnds(from.Add(tc.after), slog.New(slog.NewTextHandler(&log, nil)))
		if got := log.String(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) || strings.Count(got, "\n") > 1 {
			t.Errorf("after %v: %q, want %q", tc.after, got, tc.want)
		}
	}
}

// The files of a client that has no key are watched, too.
func TestClientWithoutKeyIsReadAgain(t *testing.T) {
	ca, next := testcerts.Authority(t, "ca"), testcerts.Authority(t, "next")
	dir := t.TempDir()
	s, err := ParseClient(given(map[string]string{trustType: "PEM", trustLocation: put(t, dir, "ca.pem", ca.CertPEM())}))
	if err != nil {
		t.Fatal(err)
	}
	st, err := Open(s, false)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	put(t, dir, "ca.pem", next.CertPEM())
	refreshAll([]*Store{st}, slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "new key files are in use") || !st.ClientConfig("x").RootCAs.Equal(next.Pool()) {
		t.Errorf("the new file is not in use: %s", log.String())
	}
}

// Who asks for certificates and says nothing of whose trusts the host's authorities, of whom there
// are many: that is said at start.
func TestClientAuthOfAnybody(t *testing.T) {
	for auth, notes := range map[string]int{"none": 0, "requested": 1, "required": 1} {
		for trust, less := range map[string]int{"": 0, "/y": 1} {
			s, err := Parse("X", false, given(map[string]string{keystoreType: "PEM", keystoreLocation: "/x", trustType: "PEM", trustLocation: trust, clientAuth: auth}))
			if err != nil {
				t.Fatal(err)
			}
			if want := max(notes-less, 0); len(s.Notes) != want {
				t.Errorf("%s, truststore %q: %q", auth, trust, s.Notes)
			}
		}
	}
}

// Package testcerts makes keys and certificates for tests: authorities and what they have
// issued, in the forms that brokers and clients read. All is made anew in each run, and
// nothing of it is for use.
package testcerts

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"
)

// Identity is a key with its certificate and those above it.
type Identity struct {
	Key   crypto.Signer
	Chain []*x509.Certificate // the own first
}

// Spec is what to issue. What is not set has a use for both sides of a connection, and 90 days
// to live.
type Spec struct {
	Subject    pkix.Name
	RawSubject []byte   // in the place of Subject
	Hosts      []string // names and addresses
	From, To   time.Time
	Uses       []x509.ExtKeyUsage
	RSA        bool
	Authority  bool // may issue others
}

// Authority makes one that has signed itself.
func Authority(t testing.TB, name string) *Identity {
	t.Helper()
	return issue(t, nil, Spec{Subject: pkix.Name{CommonName: name}, Authority: true})
}

// Issue makes a certificate.
func (a *Identity) Issue(t testing.TB, s Spec) *Identity {
	t.Helper()
	return issue(t, a, s)
}

// Local makes a certificate of a broker on this host, called name.
func (a *Identity) Local(t testing.TB, name string) *Identity {
	t.Helper()
	return a.Issue(t, Spec{Subject: pkix.Name{CommonName: name}, Hosts: []string{"localhost", "127.0.0.1", "::1"}})
}

func issue(t testing.TB, by *Identity, s Spec) *Identity {
	t.Helper()
	key, err := newKey(s.RSA)
	check(t, err)
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	check(t, err)
	c := &x509.Certificate{
		SerialNumber: serial, Subject: s.Subject, RawSubject: s.RawSubject, NotBefore: s.From, NotAfter: s.To,
		ExtKeyUsage: s.Uses, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if s.From.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if s.To.IsZero() {
		c.NotAfter = time.Now().Add(90 * 24 * time.Hour)
	}
	if s.Uses == nil {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	if s.Authority {
		c.IsCA, c.BasicConstraintsValid, c.ExtKeyUsage = true, true, nil
		c.KeyUsage |= x509.KeyUsageCertSign
	}
	for _, h := range s.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	parent, signer, above := c, key, []*x509.Certificate(nil)
	if by != nil {
		parent, signer, above = by.Chain[0], by.Key, by.Chain
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	check(t, err)
	own, err := x509.ParseCertificate(der)
	check(t, err)
	return &Identity{key, append([]*x509.Certificate{own}, above...)}
}

func newKey(useRSA bool) (crypto.Signer, error) {
	if useRSA {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// CertPEM are the certificates, the own first.
func (a *Identity) CertPEM() []byte {
	var b bytes.Buffer
	for _, c := range a.Chain {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a buffer takes all
	}
	return b.Bytes()
}

// KeyPEM is the key, encrypted where there is a password.
func (a *Identity) KeyPEM(t testing.TB, password string) []byte {
	t.Helper()
	kind := "PRIVATE KEY"
	var pass []byte
	if password != "" {
		kind, pass = "ENCRYPTED PRIVATE KEY", []byte(password)
	}
	der, err := pkcs8.MarshalPrivateKey(a.Key, pass, nil)
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// PEM is the key and the certificates in one.
func (a *Identity) PEM(t testing.TB, password string) []byte {
	t.Helper()
	return append(a.KeyPEM(t, password), a.CertPEM()...)
}

// PKCS12 is the same in such a file.
func (a *Identity) PKCS12(t testing.TB, password string) []byte {
	t.Helper()
	b, err := pkcs12.Modern.Encode(a.Key, a.Chain[0], a.Chain[1:], password)
	check(t, err)
	return b
}

// JKS is the same in such a file.
func (a *Identity) JKS(t testing.TB, password, keyPassword string) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.Key)
	check(t, err)
	ks := keystore.New()
	check(t, ks.SetPrivateKeyEntry("broker", keystore.PrivateKeyEntry{CreationTime: time.Now(), PrivateKey: der,
		CertificateChain: jksCerts(a.Chain)}, []byte(keyPassword)))
	return jksBytes(t, ks, password)
}

// TrustPKCS12 is a truststore with the certificate alone.
func (a *Identity) TrustPKCS12(t testing.TB, password string) []byte {
	t.Helper()
	b, err := pkcs12.Modern.EncodeTrustStore(a.Chain[:1], password)
	check(t, err)
	return b
}

// TrustJKS is the same in a JKS file.
func (a *Identity) TrustJKS(t testing.TB, password string) []byte {
	t.Helper()
	ks := keystore.New()
	check(t, ks.SetTrustedCertificateEntry("authority", keystore.TrustedCertificateEntry{CreationTime: time.Now(), Certificate: jksCerts(a.Chain[:1])[0]}))
	return jksBytes(t, ks, password)
}

func jksCerts(chain []*x509.Certificate) (out []keystore.Certificate) {
	for _, c := range chain {
		out = append(out, keystore.Certificate{Type: "X509", Content: c.Raw})
	}
	return out
}

func jksBytes(t testing.TB, ks keystore.KeyStore, password string) []byte {
	t.Helper()
	var b bytes.Buffer
	check(t, ks.Store(&b, []byte(password)))
	return b.Bytes()
}

// TLS is the identity for a client or server of Go.
func (a *Identity) TLS() tls.Certificate {
	c := tls.Certificate{PrivateKey: a.Key, Leaf: a.Chain[0]}
	for _, cert := range a.Chain {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return c
}

// Pool trusts the certificate, and what it has issued.
func (a *Identity) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.Chain[0])
	return p
}

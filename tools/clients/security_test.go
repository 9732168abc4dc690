package clients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// keys makes an authority, and for each name a key, a certificate, and a token that the keys
// of jwks.json prove.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: keys DIR NAME ...")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	a, err := newAuthority(args[0])
	ts.Check(err)
	put := func(name string, b []byte) { ts.Check(os.WriteFile(filepath.Join(dir, name), b, 0o600)) }
	put("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	jwks, err := a.jwks()
	ts.Check(err)
	put("jwks.json", jwks)
	for _, name := range args[1:] {
		key, cert, err := a.issue(name)
		ts.Check(err)
		token, err := a.token(name)
		ts.Check(err)
		put(name+".key", key)
		put(name+".crt", cert)
		put(name+".pem", append(key, cert...))
		put(name+".token", []byte(token))
	}
}

// authority signs certificates, and tokens with the same key.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := template(name + "'s authority")
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{key, cert}, err
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"Clients"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// issue makes a certificate for both sides of a connection on this host.
func (a *authority) issue(name string) (key, cert []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c := template(name)
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, k.Public(), a.key)
	pkcs8, kerr := x509.MarshalPKCS8PrivateKey(k)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), errors.Join(err, kerr)
}

var base64url = base64.RawURLEncoding.EncodeToString

func (a *authority) jwks() ([]byte, error) {
	point, err := a.key.PublicKey.Bytes() // 4, x and y
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "use": "sig", "x": base64url(point[1:33]), "y": base64url(point[33:]),
	}}})
}

// token is one by RFC 7519 that says who somebody is for an hour.
func (a *authority) token(name string) (string, error) {
	now := time.Now().Unix()
	claims, err := json.Marshal(map[string]any{"sub": name, "iss": "provider", "aud": "kaas", "scope": "x", "iat": now, "exp": now + 3600})
	if err != nil {
		return "", err
	}
	signed := base64url([]byte(`{"alg":"ES256","kid":"k","typ":"JWT"}`)) + "." + base64url(claims)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, a.key, sum[:])
	if err != nil {
		return "", err
	}
	var both [64]byte
	r.FillBytes(both[:32])
	s.FillBytes(both[32:])
	return signed + "." + base64url(both[:]), nil
}

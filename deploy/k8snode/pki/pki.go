// Package pki makes the certificates and keys of a node, in a directory.
//
//	ca.crt, ca.key            the authority of everything else; made once
//	service-account.key       what tokens of service accounts are signed with; made once
//	NAME.crt, NAME.key        made anew at every start
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 10 * 365 * 24 * time.Hour

// Authority signs certificates that are kept in its directory.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Open reads the authority of a directory, and makes it where there is none.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir}
	err := a.read()
	if errors.Is(err, fs.ErrNotExist) {
		err = a.make()
	}
	if err != nil {
		return nil, fmt.Errorf("authority in %s: %w", dir, err)
	}
	return a, nil
}

// File is the path of a file of the directory.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

// Read returns what a file of the directory holds.
func (a *Authority) Read(name string) ([]byte, error) { return os.ReadFile(a.File(name)) }

// Server makes NAME.crt and NAME.key of a server with these names and addresses. It is also
// good for a client, which is what an etcd wants.
func (a *Authority) Server(name string, hosts ...string) error {
	t := template(pkix.Name{CommonName: name})
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	return a.issue(name, t)
}

// Client makes NAME.crt and NAME.key of a Kubernetes user, who is in the groups.
func (a *Authority) Client(name, user string, groups ...string) error {
	t := template(pkix.Name{CommonName: user, Organization: groups})
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(name, t)
}

// SigningKey makes the file NAME with a private key, if there is none.
func (a *Authority) SigningKey(name string) error {
	if _, err := os.Stat(a.File(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	return a.writeKey(name, key)
}

func (a *Authority) issue(name string, t *x509.Certificate) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return errors.Join(a.writeKey(name+".key", key), a.write(name+".crt", "CERTIFICATE", der))
}

func (a *Authority) make() error {
	key, err := newKey()
	if err != nil {
		return err
	}
	t := template(pkix.Name{CommonName: "kaas-k8snode"})
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return err
	}
	if err := errors.Join(a.writeKey("ca.key", key), a.write("ca.crt", "CERTIFICATE", der)); err != nil {
		return err
	}
	return a.read()
}

func (a *Authority) read() error {
	cert, err := a.der("ca.crt")
	if err != nil {
		return err
	}
	key, err := a.der("ca.key")
	if err != nil {
		return err
	}
	a.cert, err = x509.ParseCertificate(cert)
	if err != nil {
		return err
	}
	a.key, err = x509.ParseECPrivateKey(key)
	return err
}

func (a *Authority) der(name string) ([]byte, error) {
	b, err := a.Read(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM", name)
	}
	return block.Bytes, nil
}

func (a *Authority) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return a.write(name, "EC PRIVATE KEY", der)
}

func (a *Authority) write(name, kind string, der []byte) error {
	return os.WriteFile(a.File(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// template is a certificate that began an hour ago, for clocks may differ.
func template(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetInt64(now.UnixNano()),
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

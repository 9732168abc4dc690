package tlsconf

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"
)

// jksMagic begins a JKS file. PKCS12 begins with a sequence, as everything in DER.
var jksMagic = []byte{0xFE, 0xED, 0xFE, 0xED}

func isJKS(b []byte) bool { return bytes.HasPrefix(b, jksMagic) }

// errStorePassword is for a store whose password is another one, or that is damaged.
var errStorePassword = errors.New("the password is wrong, or the file is damaged")

// binaryKey is the key of a PKCS12 or JKS file, with the certificates from its own up.
func binaryKey(b []byte, s *source) (crypto.PrivateKey, []*x509.Certificate, error) {
	if isJKS(b) {
		return jksKey(b, s)
	}
	if s.keyPass != nil && s.keyPass.value() != s.password.value() {
		return nil, nil, errors.New("a key with a password of its own in PKCS12 cannot be read: ssl.key.password has to be ssl.keystore.password")
	}
	key, own, others, err := pkcs12.DecodeChain(b, s.password.value())
	if err != nil {
		return nil, nil, pkcs12Error(err)
	}
	return key, chainFrom(own, others), nil
}

func binaryCertificates(b []byte, s *source) ([]*x509.Certificate, error) {
	if isJKS(b) {
		return jksCertificates(b, s)
	}
	certs, err := pkcs12.DecodeTrustStore(b, s.password.value())
	if err != nil {
		return nil, pkcs12Error(err)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return certs, nil
}

func pkcs12Error(err error) error {
	if errors.Is(err, pkcs12.ErrIncorrectPassword) || errors.Is(err, pkcs12.ErrDecryption) {
		return errStorePassword
	}
	return err
}

// chainFrom orders certificates so that each is signed by the next, for PKCS12 has none.
func chainFrom(own *x509.Certificate, others []*x509.Certificate) []*x509.Certificate {
	chain := []*x509.Certificate{own}
	for last := own; !bytes.Equal(last.RawIssuer, last.RawSubject) && len(chain) <= len(others); {
		next := signerOf(last, others)
		if next == nil {
			break
		}
		chain, last = append(chain, next), next
	}
	return chain
}

func signerOf(c *x509.Certificate, among []*x509.Certificate) *x509.Certificate {
	for _, a := range among {
		if bytes.Equal(c.RawIssuer, a.RawSubject) && c.CheckSignatureFrom(a) == nil {
			return a
		}
	}
	return nil
}

func openJKS(b []byte, password secret) (keystore.KeyStore, error) {
	ks := keystore.New(keystore.WithOrderedAliases(), keystore.WithCaseExactAliases())
	if password.value() == "" {
		return ks, errors.New("a JKS file cannot be read without its password")
	}
	if err := ks.Load(bytes.NewReader(b), []byte(password.value())); err != nil {
		return ks, errStorePassword
	}
	return ks, nil
}

func jksKey(b []byte, s *source) (crypto.PrivateKey, []*x509.Certificate, error) {
	ks, err := openJKS(b, s.password)
	if err != nil {
		return nil, nil, err
	}
	var aliases []string
	for _, alias := range ks.Aliases() {
		if ks.IsPrivateKeyEntry(alias) {
			aliases = append(aliases, alias)
		}
	}
	if len(aliases) != 1 {
		return nil, nil, fmt.Errorf("%d keys in it, not one", len(aliases))
	}
	pass := s.keyPass
	if pass == nil {
		pass = s.password
	}
	entry, err := ks.GetPrivateKeyEntry(aliases[0], []byte(pass.value()))
	if err != nil {
		return nil, nil, errKeyPassword
	}
	key, err := orUnreadable(x509.ParsePKCS8PrivateKey(entry.PrivateKey))
	if err != nil {
		return nil, nil, err
	}
	certs, err := jksParsed(entry.CertificateChain)
	return key, certs, err
}

func jksCertificates(b []byte, s *source) (out []*x509.Certificate, err error) {
	ks, err := openJKS(b, s.password)
	if err != nil {
		return nil, err
	}
	var held []keystore.Certificate
	for _, alias := range ks.Aliases() {
		if ks.IsTrustedCertificateEntry(alias) {
			entry, err := ks.GetTrustedCertificateEntry(alias)
			if err != nil {
				return nil, err
			}
			held = append(held, entry.Certificate)
		}
	}
	if len(held) == 0 {
		return nil, errors.New("no trusted certificate in it")
	}
	return jksParsed(held)
}

func jksParsed(held []keystore.Certificate) (out []*x509.Certificate, err error) {
	for _, h := range held {
		c, err := x509.ParseCertificate(h.Content)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

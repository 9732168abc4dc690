package tlsconf

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"

	"kaas.dev/kaas/internal/hostfile"
)

// fileMax is more than any store of keys and certificates has.
const fileMax = 16 << 20

// contents are what the files of a listener held at one time.
type contents struct{ keys, trust []byte }

func (c *contents) sum() [sha256.Size]byte {
	keys, trust := sha256.Sum256(c.keys), sha256.Sum256(c.trust)
	return sha256.Sum256(append(keys[:], trust[:]...))
}

// material is what a handshake takes.
type material struct {
	cert   tls.Certificate
	chain  []*x509.Certificate // of cert, the own one first; none where a client has none
	roots  *x509.CertPool      // nil: the host's
	server *tls.Config
}

// read takes what the settings name.
func (s *Settings) read() (c contents, err error) {
	if c.keys, err = s.readFiles(&s.keys, keystoreLocation); err != nil {
		return c, err
	}
	c.trust, err = s.readFiles(&s.trust, trustLocation)
	return c, err
}

func (s *Settings) readFiles(from *source, key string) ([]byte, error) {
	var parts [][]byte
	for _, file := range from.files() {
		b, err := hostfile.Read(file, fileMax)
		if err != nil {
			return nil, s.fileError(key, file, err)
		}
		parts = append(parts, b)
	}
	return bytes.Join(parts, []byte("\n")), nil
}

func (s *Settings) fileError(key, file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return s.blame(key, fmt.Errorf("%s: %w", file, err))
}

// load makes sense of it. Of a listener that brokers use among themselves the own
// certificate has to be one that they accept.
func (s *Settings) load(c contents, betweenBrokers bool) (*material, error) {
	m := &material{}
	if err := s.loadOwn(m, c.keys); err != nil {
		return nil, err
	}
	var err error
	if m.roots, err = s.loadTrust(c.trust); err != nil {
		return nil, err
	}
	if betweenBrokers {
		if err := s.checkOwn(m.chain, m.roots); err != nil {
			return nil, s.storeError(&s.keys, keystoreLocation, keystoreChain, err)
		}
	}
	m.server = s.serverConfig(m)
	return m, nil
}

// loadOwn takes the own key with its certificates, which a client need not have.
func (s *Settings) loadOwn(m *material, keys []byte) error {
	if s.client && s.keys.location == "" && s.keys.key == nil {
		return nil
	}
	key, chain, err := s.loadKey(keys)
	if err != nil {
		return err
	}
	if err := fits(key, chain[0]); err != nil {
		return s.storeError(&s.keys, keystoreLocation, keystoreKey, err)
	}
	m.cert, m.chain = tls.Certificate{PrivateKey: key, Leaf: chain[0]}, chain
	for _, cert := range chain {
		m.cert.Certificate = append(m.cert.Certificate, cert.Raw)
	}
	return nil
}

// storeError blames the setting that a source was given by: the file, or what stands in
// the place of it.
func (s *Settings) storeError(from *source, location, inline string, err error) error {
	if from.location == "" {
		return s.blame(inline, err)
	}
	return s.fileError(location, from.location, err)
}

func (s *Settings) loadKey(b []byte) (key crypto.PrivateKey, chain []*x509.Certificate, err error) {
	k := &s.keys
	switch {
	case k.key != nil:
		key, err = pemKey([]byte(k.key.value()), k.keyPass)
		if err == nil {
			chain, err = pemCertificates([]byte(k.chain.value()))
		}
	case k.kind == "PEM":
		key, err = pemKey(b, k.keyPass)
		if err == nil {
			chain, err = pemCertificates(b)
		}
	default:
		key, chain, err = binaryKey(b, k)
	}
	switch {
	case err == nil:
		return key, chain, nil
	case errors.Is(err, errKeyPassword):
		return nil, nil, s.storeError(k, keyPassword, keyPassword, err)
	case errors.Is(err, errStorePassword):
		return nil, nil, s.storeError(k, keystorePassword, keystorePassword, err)
	}
	return nil, nil, s.storeError(k, keystoreLocation, keystoreKey, err)
}

func (s *Settings) loadTrust(b []byte) (*x509.CertPool, error) {
	t := &s.trust
	var certs []*x509.Certificate
	var err error
	switch {
	case !t.given():
		return nil, nil
	case t.chain != nil:
		certs, err = pemCertificates([]byte(t.chain.value()))
	case t.kind == "PEM":
		certs, err = pemCertificates(b)
	default:
		certs, err = binaryCertificates(b, t)
	}
	if errors.Is(err, errStorePassword) {
		return nil, s.storeError(t, trustPassword, trustPassword, err)
	}
	if err != nil {
		return nil, s.storeError(t, trustLocation, trustCerts, err)
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}

// fits reports whether the key is the certificate's, and one that signs.
func fits(key crypto.PrivateKey, leaf *x509.Certificate) error {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return errors.New("the key is not one to sign with")
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(leaf.PublicKey) {
		return errors.New("the first certificate is not that of the key")
	}
	return nil
}

// checkOwn verifies the own certificate as another broker with the same settings will.
func (s *Settings) checkOwn(chain []*x509.Certificate, roots *x509.CertPool) error {
	uses := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if s.ClientAuth() {
		uses = append(uses, x509.ExtKeyUsageClientAuth)
	}
	for _, use := range uses {
		if err := verify(chain, roots, use); err != nil {
			return fmt.Errorf("other brokers would not accept the certificate: %w", err)
		}
	}
	return nil
}

func verify(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage) error {
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{use}}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(opts)
	return err
}

package tlsconf

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync/atomic"
	"time"
)

// Store holds what a listener's settings name, as it was read last.
type Store struct {
	s              *Settings
	betweenBrokers bool
	now            atomic.Pointer[material]
	seen           [sha256.Size]byte            // what the files held, good or bad; the watcher's
	complaint      string                       // of the last look that failed; likewise
	told           map[[sha256.Size]byte]string // what was said of the end of each certificate; likewise

	reloads, refusals atomic.Int64
}

// Open reads what the settings name. betweenBrokers says that brokers use the listener among
// themselves.
func Open(s *Settings, betweenBrokers bool) (*Store, error) {
	st := &Store{s: s, betweenBrokers: betweenBrokers}
	c, err := s.read()
	if err != nil {
		return nil, err
	}
	m, err := s.load(c, betweenBrokers)
	if err != nil {
		return nil, err
	}
	st.seen = c.sum()
	st.now.Store(m)
	return st, nil
}

// Settings are those that the store was opened with.
func (st *Store) Settings() *Settings { return st.s }

// Leaf is the own certificate, nil where a client has none.
func (st *Store) Leaf() *x509.Certificate { return st.now.Load().cert.Leaf }

// End is when the first of the certificates ends that the listener shows: its own, or one that
// it rests on.
func (st *Store) End() time.Time {
	var end time.Time
	for _, cert := range st.now.Load().chain {
		if end.IsZero() || cert.NotAfter.Before(end) {
			end = cert.NotAfter
		}
	}
	return end
}

// Counts are how many times new files were taken, and refused.
func (st *Store) Counts() (reloads, refusals int64) { return st.reloads.Load(), st.refusals.Load() }

// Server is the configuration of a listener. Every handshake takes what is there then.
func (st *Store) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return st.now.Load().server, nil
	}}
}

func (s *Settings) serverConfig(m *material) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{m.cert},
		MinVersion:   s.min, MaxVersion: s.max, CipherSuites: s.suites,
		ClientAuth: s.clientAuth, ClientCAs: m.roots,
		// Who has shown a certificate shows it again: it may be trusted no more.
		SessionTicketsDisabled: s.ClientAuth(),
	}
}

// handshakeTime is how long another broker may take for a handshake.
const handshakeTime = 5 * time.Second

// Client makes a connection to a broker's listener, at host, one of TLS. It closes nc if that
// fails.
func (st *Store) Client(ctx context.Context, nc net.Conn, host string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	c := tls.Client(nc, st.ClientConfig(host))
	if err := c.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// ClientConfig is for connections to host, as the store is now.
func (st *Store) ClientConfig(host string) *tls.Config {
	m := st.now.Load()
	conf := &tls.Config{
		ServerName: host, RootCAs: m.roots,
		MinVersion: st.s.min, MaxVersion: st.s.max, CipherSuites: st.s.suites,
		// Shown whatever issuers the other one names: it knows best why it refuses it.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.cert, nil },
	}
	if !st.s.checkHost {
		conf.InsecureSkipVerify = true // all but the name is verified here
		conf.VerifyConnection = func(cs tls.ConnectionState) error {
			return verify(cs.PeerCertificates, m.roots, x509.ExtKeyUsageServerAuth)
		}
	}
	return conf
}

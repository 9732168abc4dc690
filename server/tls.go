package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"kaas.dev/kaas/server/auth"
	"kaas.dev/kaas/server/tlsconf"
)

// handshakeError is why a handshake was the end of a connection.
type handshakeError struct {
	reason string // one of a few, for the metrics
	err    error
}

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// secure does the handshake on a listener with TLS, before anything is read, and learns who
// is there. A client that is asked by SASL says it there.
func (c *conn) secure() error {
	if !c.listener.Secure() {
		return nil
	}
	tc, ok := c.nc.(*tls.Conn)
	if !ok { // never in the clear where TLS is promised
		return fmt.Errorf("a connection to listener %s without TLS", c.listener.Name)
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.s.cfg.HandshakeTime)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		if c.s.draining() {
			return errDraining
		}
		return &handshakeError{reasonOf(err), err}
	}
	if c.listener.SASL() {
		return nil
	}
	p, err := principalOf(c.listener.TLS, tc.ConnectionState().PeerCertificates)
	if err != nil {
		return &handshakeError{"principal", err}
	}
	c.principal = p
	c.log.Debug("TLS handshake done", "listener", c.listener.Name, "version", tls.VersionName(tc.ConnectionState().Version), "principal", p.String())
	return nil
}

// principalOf is who shows these certificates, which were verified.
func principalOf(s *tlsconf.Settings, certs []*x509.Certificate) (auth.Principal, error) {
	if len(certs) == 0 {
		return auth.Anonymous, nil
	}
	subject, err := tlsconf.Name(certs[0].RawSubject)
	if err != nil {
		return auth.Principal{}, err
	}
	name, err := s.Rules.Apply(subject)
	if err != nil {
		return auth.Principal{}, err
	}
	return auth.User(name), nil
}

func reasonOf(err error) string {
	var header tls.RecordHeaderError
	var peers *net.OpError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.As(err, &header):
		return "no_tls"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.As(err, &verify), strings.Contains(err.Error(), "didn't provide a certificate"):
		return "certificate"
	case errors.As(err, &peers) && peers.Op == "remote error": // an alert
		return "refused_by_client"
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return "closed"
	}
	return "protocol"
}

// longestCause is how much of an error is logged that a client has a say in.
const longestCause = 300

// refuse ends a connection whose handshake failed. Anybody can have that happen as often as
// they like: what is logged of it is bounded.
func (c *conn) refuse(err error) {
	c.cancel(err)
	c.hangUp()
	var failed *handshakeError
	if !errors.As(err, &failed) {
		return
	}
	c.s.metrics.handshakes.WithLabelValues(c.listener.Name, failed.reason).Inc()
	if failed.reason == "closed" { // mostly somebody who looks whether the port is open
		return
	}
	if passed, ok := c.s.refusals.allow(time.Now()); ok {
		c.log.With(shownCertificate(failed.err)...).Info("TLS handshake failed", "listener", c.listener.Name, "reason", failed.reason,
			"cause", fmt.Sprintf("%.*s", longestCause, failed.err), "not_logged_before", passed)
	}
}

// shownCertificate tells of a certificate that was not accepted whose it claims to be, so that it
// can be found. Nothing of it is proved.
func shownCertificate(err error) []any {
	var verify *tls.CertificateVerificationError
	if !errors.As(err, &verify) || len(verify.UnverifiedCertificates) == 0 {
		return nil
	}
	leaf := verify.UnverifiedCertificates[0]
	name := func(n pkix.Name) string { return fmt.Sprintf("%.*s", longestCause, n.String()) }
	return []any{"subject", name(leaf.Subject), "issuer", name(leaf.Issuer), "serial", fmt.Sprintf("%.40s", leaf.SerialNumber.Text(16)),
		"from", leaf.NotBefore, "expires", leaf.NotAfter}
}

// hangUp closes the connection. One that a stop keeps from its first answer is reset, so
// that its client tries again: an orderly end there is taken for a listener that speaks
// another protocol.
func (c *conn) hangUp() {
	raw := c.nc
	if tc, ok := c.nc.(*tls.Conn); ok {
		raw = tc.NetConn()
		// TLS says goodbye, for which a client that does not read could keep it waiting.
		late := time.AfterFunc(lastWords, func() { raw.Close() })
		defer late.Stop()
	}
	if tcp, ok := raw.(*net.TCPConn); ok && c.s.draining() && !c.answered.Load() {
		_ = tcp.SetLinger(0)
		raw.Close()
	}
	c.nc.Close()
}

package coordinator

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// missedBy has it known why the controller was not reached: to who asks whether this broker is
// ready while it has not registered, and in the log, once until it is reached, where waiting does
// not mend it. Otherwise only the brokers that refuse it would know.
func (b *Broker) missedBy(err error) {
	b.log.Debug("the controller was not reached", "err", err)
	if b.registered.Load() == 0 {
		b.opt.Waiting(fmt.Errorf("this broker has not registered with the controller: %s", strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	if !notLetIn(err) {
		return
	}
	if !b.agentTold {
		b.log.Error("the controller does not let this broker in", "listener", b.opt.InterBroker, "err", err)
	}
	b.agentTold = true
}

// notLetIn reports whether a login or a certificate was refused, by one side or the other.
func notLetIn(err error) bool {
	var theirs tls.AlertError
	var ours *tls.CertificateVerificationError
	for _, k := range []error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState} {
		if errors.Is(err, k) {
			return true
		}
	}
	return errors.As(err, &theirs) || errors.As(err, &ours)
}

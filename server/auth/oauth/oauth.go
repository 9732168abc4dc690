package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"kaas.dev/kaas/server/auth/sasl"
	"kaas.dev/kaas/server/tlsconf"
)

// Settings are Kafka's sasl.oauthbearer.*, of a listener.
type Settings struct {
	TLS                          *tlsconf.Settings // by which an https provider is trusted
	URL                          string            // of the provider's keys: http, https or file
	Refresh, Backoff, MaxBackoff time.Duration
	Issuer                       string   // empty is any
	Audience                     []string // one of them; none is any
	Skew                         time.Duration
	ScopeClaim, SubClaim         string
}

// Mechanism is OAUTHBEARER.
type Mechanism struct {
	s    Settings
	keys *keys
	log  *slog.Logger
}

// New makes it. Run has to run for it to let anybody in.
func New(s Settings, log *slog.Logger) *Mechanism {
	return &Mechanism{s: s, keys: newKeys(s, log), log: log}
}

// Run keeps the keys fresh until ctx ends.
func (m *Mechanism) Run(ctx context.Context) { m.keys.run(ctx) }

// Begin implements sasl.Mechanism.
func (m *Mechanism) Begin() sasl.Exchange { return &exchange{m: m} }

type exchange struct {
	m      *Mechanism
	failed error // why; the client has been told, and is to say that it knows
	over   bool
}

// first is the client's only message: whom it means to be, if it says so, and its token.
// Behind that there may be further values, which mean nothing here.
var first = regexp.MustCompile(`^n,(?:a=((?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+))?,\x01auth=(\w+) +([-_.a-zA-Z0-9]+)((?:\x01[A-Za-z]+=[\x21-\x7E \t\r\n]+)*)\x01\x01$`)

// maxMessage bounds what is looked at: it is anybody's.
const maxMessage = 64 << 10

const invalidToken = `{"status":"invalid_token"}`

var errOver = errors.New("the exchange is over")

// Step implements sasl.Exchange. As in Kafka, a token that is not good is answered by saying
// so, and only when the client has taken that note is it refused.
func (x *exchange) Step(message []byte) ([]byte, *sasl.User, error) {
	switch {
	case x.over:
		return nil, nil, errOver
	case x.failed != nil:
		x.over = true
		return nil, nil, fmt.Errorf("%w: %w", &sasl.Refused{Text: invalidToken}, x.failed)
	}
	if len(message) > maxMessage {
		x.over = true
		return nil, nil, errors.New("the message of OAUTHBEARER is too long")
	}
	parts := first.FindSubmatch(message)
	if parts == nil || !strings.EqualFold(string(parts[2]), "bearer") {
		x.over = true
		return nil, nil, errors.New("it is no message of OAUTHBEARER")
	}
	t, err := x.m.check(string(parts[3]), time.Now())
	if err != nil {
		x.failed = err
		x.m.log.Debug("a token is refused", "err", err)
		return []byte(invalidToken), nil, nil
	}
	x.over = true
	if id := unescape(string(parts[1])); id != "" && id != t.user {
		return nil, nil, &sasl.Refused{Text: "Authentication failed: Client requested an authorization id that is different from the token's principal name"}
	}
	return []byte{}, &sasl.User{Name: t.user, Expires: t.expires}, nil
}

func unescape(id string) string { return strings.NewReplacer("=2C", ",", "=3D", "=").Replace(id) }

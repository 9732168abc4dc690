package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/auth"
	"kaas.dev/kaas/server/auth/idp"
	"kaas.dev/kaas/server/auth/oauth"
	"kaas.dev/kaas/server/auth/sasl"
)

const (
	// authTimeout is how long a client may take to authenticate.
	authTimeout = 30 * time.Second
	// againAfter is how long after one re-authentication the next may begin, as in Kafka.
	againAfter = time.Second
	// saslWeight is what decoding a byte of a request of SASL may cost in memory.
	saslWeight = 2
)

// saslListener is how the clients of one listener authenticate.
type saslListener struct {
	names      []string // of its mechanisms, as they are told
	mechanisms map[string]sasl.Mechanism
	reauth     map[string]time.Duration // by mechanism; 0 is for ever
	maxReceive int64
	delay      time.Duration // before who fails is told
}

// saslListeners are those of the configuration's listeners that have SASL, by name.
func saslListeners(cfg *Config, view func() *projections.Cluster, log *slog.Logger) map[string]*saslListener {
	out := map[string]*saslListener{}
	for _, ep := range cfg.Listeners {
		if !usesSASL(cfg.protocolOf(ep.Name)) {
			continue
		}
		own := cfg.at(ep.Name, "").SASL
		l := &saslListener{names: own.Mechanisms, mechanisms: map[string]sasl.Mechanism{}, reauth: map[string]time.Duration{},
			maxReceive: own.MaxReceive, delay: own.FailureDelay}
		for _, m := range own.Mechanisms {
			with := cfg.at(ep.Name, m).SASL
			l.reauth[m] = with.Reauth
			l.mechanisms[m] = mechanism(m, &with, view, log.With("listener", ep.Name))
		}
		out[ep.Name] = l
	}
	return out
}

// startSASL has mechanisms do what they do beside their clients, until draining begins.
func (s *Server) startSASL() {
	s.sasl = saslListeners(s.cfg, s.backend.View, s.log)
	for _, l := range s.sasl {
		for _, m := range l.mechanisms {
			if r, ok := m.(interface{ Run(context.Context) }); ok {
				s.wg.Go(func() { r.Run(s.serving) })
			}
		}
	}
}

func mechanism(name string, with *SASL, view func() *projections.Cluster, log *slog.Logger) sasl.Mechanism {
	find := func(user string, m projections.ScramMechanism) *projections.ScramCredential {
		return view().ScramCredential(user, m)
	}
	secret := func() []byte { return view().ScramSecret() }
	switch name {
	case sasl.ScramSHA256:
		return sasl.NewScram(projections.ScramSHA256, find, secret)
	case sasl.ScramSHA512:
		return sasl.NewScram(projections.ScramSHA512, find, secret)
	case sasl.OAuthBearer:
		o := with.OAuth
		o.TLS, _ = idp.ParseTLS(with.Login.Options) // it was judged
		return oauth.New(o, log)
	default:
		return sasl.NewPlain(with.Login.Users())
	}
}

// stage is how far the client of a connection has come in authenticating.
type stage int

const (
	stageFirst     stage = iota // ApiVersions or SaslHandshake may come
	stageHandshake              // ApiVersions is answered: SaslHandshake may come
	stageTokens                 // SaslAuthenticate may come
	stageRaw                    // the mechanism's messages come bare, for the handshake was of version 0
	stageDone
)

// authentication is what a connection with SASL knows of its client. The connection's reader
// owns it.
type authentication struct {
	*saslListener
	stage     stage
	until     time.Time // by when the client is to be done for the first time
	mechanism string
	exchange  sasl.Exchange
	again     bool           // it has been done before
	who       auth.Principal // then
	wrong     error          // why an exchange that has begun cannot end well
	lastAgain time.Time
	expires   time.Time // when it is to be done again; zero if never
}

func (l *saslListener) begin(now time.Time) *authentication {
	return &authentication{saslListener: l, until: now.Add(authTimeout)}
}

// trusted reports that the client has authenticated, once at least.
func (a *authentication) trusted() bool { return a == nil || a.again || a.stage == stageDone }

var (
	errLogin           = errors.New("authentication failed")
	errUnauthenticated = errors.New("a request of a client that has not authenticated")
	errExpired         = errors.New("the authentication has expired")
)

// admit refuses a request that may not come now. It ends the connection, as in Kafka; what
// comes out of order among those of SASL is told so by their handlers.
func (a *authentication) admit(key int16, now time.Time) error {
	if a == nil {
		return nil
	}
	k := kmsg.Key(key)
	switch ofSASL := k == kmsg.SASLHandshake || k == kmsg.SASLAuthenticate; {
	case a.stage == stageDone && !a.expires.IsZero() && now.After(a.expires) && k != kmsg.SASLHandshake:
		return errExpired
	case a.stage == stageDone,
		a.stage == stageTokens && (ofSASL || k == kmsg.ApiVersions),
		a.stage <= stageHandshake && k == kmsg.SASLHandshake,
		a.stage == stageFirst && k == kmsg.ApiVersions:
		return nil
	}
	return fmt.Errorf("%w: %s", errUnauthenticated, kmsg.NameForKey(key))
}

// mayBegin reports whether a handshake may begin an exchange now. A client whose
// authentication never expires has no reason to.
func (a *authentication) mayBegin(now time.Time) bool {
	switch {
	case a == nil:
		return false
	case a.stage == stageDone:
		return !a.expires.IsZero() && (a.lastAgain.IsZero() || now.Sub(a.lastAgain) >= againAfter)
	}
	return a.stage <= stageHandshake
}

// start begins an exchange; mechanism is an enabled one.
func (a *authentication) start(mechanism string, raw bool, who auth.Principal, now time.Time) {
	a.exchange, a.wrong = a.mechanisms[mechanism].Begin(), nil
	if a.stage == stageDone {
		a.again, a.who, a.lastAgain = true, who, now
		if mechanism != a.mechanism {
			a.wrong = &sasl.Refused{Text: fmt.Sprintf("SASL mechanism '%s' requested by client is not supported for re-authentication of mechanism '%s'", mechanism, a.mechanism)}
		}
	}
	if a.stage = stageTokens; raw {
		a.stage = stageRaw
	}
	a.mechanism = mechanism
}

// step takes a message of the exchange. Once the client has proved who it is, it says so, and
// how long that is good, 0 being for ever.
func (a *authentication) step(token []byte, now time.Time) (answer []byte, who *auth.Principal, life time.Duration, err error) {
	if a.wrong != nil {
		return nil, nil, 0, a.wrong
	}
	answer, user, err := a.exchange.Step(token)
	if err != nil || user == nil {
		return answer, nil, 0, err
	}
	p := auth.User(user.Name)
	if a.again && p != a.who {
		return nil, nil, 0, &sasl.Refused{Text: fmt.Sprintf("Cannot change principals during re-authentication from %s.%s: %s.%s", a.who.Type, a.who.Name, p.Type, p.Name)}
	}
	a.stage, a.exchange, a.expires = stageDone, nil, time.Time{}
	life = a.reauth[a.mechanism]
	if left := user.Expires.Sub(now); !user.Expires.IsZero() && (life == 0 || left < life) {
		life = max(left, 0)
		a.expires = now.Add(life)
	}
	if life > 0 {
		a.expires = now.Add(life)
	}
	return answer, &p, life, nil
}

// told is what a client is told that has failed.
func (a *authentication) told(err error) string { return sasl.Told(err, a.mechanism, a.again) }

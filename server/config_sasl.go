package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/auth/idp"
	"kaas.dev/kaas/server/auth/jaas"
	"kaas.dev/kaas/server/auth/login"
	"kaas.dev/kaas/server/auth/oauth"
	"kaas.dev/kaas/server/auth/sasl"
)

// SASL is how clients of a listener authenticate by SASL; see [Config.at].
type SASL struct {
	Mechanisms []string // sasl.enabled.mechanisms
	// InterBroker is the mechanism by which this broker authenticates to others.
	InterBroker string
	Login       jaas.Entry // of one mechanism
	// Peers is as whom this broker logs in to others; nil where their listener has no SASL.
	Peers *login.Settings
	OAuth oauth.Settings
	// MaxReceive bounds a request of who has not authenticated.
	MaxReceive int64
	// Reauth is how long an authentication is good; 0 for ever. FailureDelay is how long who
	// fails waits for the answer.
	Reauth, FailureDelay time.Duration
}

// saslKeys are what listeners with SASL go by.
var saslKeys = []configKey{
	scoped(listed("sasl.enabled.mechanisms", "", "The mechanisms of SASL that clients may use: "+strings.Join(sasl.Names, ", ")+".", setMechanisms), perListener),
	text("sasl.mechanism.inter.broker.protocol", "", "The mechanism by which brokers authenticate to each other, where their listener has SASL.", setInterBrokerMechanism),
	scoped(password("sasl.jaas.config", "The login module of a mechanism of a listener: who may get in with PLAIN, and as whom this broker logs in to others.",
		func(c *Config, s string) (err error) {
			c.SASL.Login, err = jaas.Parse(s)
			return err
		}), onlyMechanism),
	scoped(number("sasl.server.max.receive.size", "524288", 1, math.MaxInt32, "Largest request of a client that has not authenticated.",
		func(c *Config, n int64) { c.SASL.MaxReceive = n }), perListener),
	scoped(millis("connections.max.reauth.ms", "0", 0, "How long an authentication is good: a connection that does not authenticate again is closed after it. 0: for ever.",
		func(c *Config, d time.Duration) { c.SASL.Reauth = d }), perMechanism),
	millis32("connection.failed.authentication.delay.ms", "100", 0, "How long a client that fails to authenticate waits for the answer, and for the end of its connection.",
		func(c *Config, d time.Duration) { c.SASL.FailureDelay = d }),
}

// oauthKeys are what listeners with OAUTHBEARER go by.
var oauthKeys = []configKey{
	scoped(text("sasl.oauthbearer.jwks.endpoint.url", "", "Where the keys are by which tokens are signed, as a JWKS: https, http, or file for a file.", setKeysURL), perMechanism),
	scoped(millis64("sasl.oauthbearer.jwks.endpoint.refresh.ms", "3600000", 1, "How often those keys are loaded again.",
		func(c *Config, d time.Duration) { c.SASL.OAuth.Refresh = d }), perMechanism),
	scoped(millis64("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "100", 1, "How long after a try that failed the next follows; twice as long each time.",
		func(c *Config, d time.Duration) { c.SASL.OAuth.Backoff = d }), perMechanism),
	scoped(millis64("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "10000", 1, "The longest such pause, and how often a key that is missed is looked for.",
		func(c *Config, d time.Duration) { c.SASL.OAuth.MaxBackoff = d }), perMechanism),
	scoped(text("sasl.oauthbearer.expected.issuer", "", "The issuer that tokens must have. Empty: any.", func(c *Config, s string) error {
		c.SASL.OAuth.Issuer = strings.TrimSpace(s)
		return nil
	}), perMechanism),
	scoped(listed("sasl.oauthbearer.expected.audience", "", "Audiences, one of which tokens must have. Empty: any.", func(c *Config, s string) error {
		c.SASL.OAuth.Audience = splitList(s)
		return nil
	}), perMechanism),
	scoped(number("sasl.oauthbearer.clock.skew.seconds", "30", 0, 1<<20, "By how much the clock of the identity provider may differ.",
		func(c *Config, n int64) { c.SASL.OAuth.Skew = time.Duration(n) * time.Second }), perMechanism),
	scoped(text("sasl.oauthbearer.scope.claim.name", "scope", "The claim of tokens that has their scope.", func(c *Config, s string) error {
		c.SASL.OAuth.ScopeClaim = strings.TrimSpace(s)
		return nil
	}), perMechanism),
	scoped(text("sasl.oauthbearer.sub.claim.name", "sub", "The claim of tokens that has the user.", func(c *Config, s string) error {
		c.SASL.OAuth.SubClaim = strings.TrimSpace(s)
		return nil
	}), perMechanism),
	scoped(class("sasl.server.callback.handler.class", "For configurations made for Kafka: OAuthBearerValidatorCallbackHandler, which is what tokens are checked like in any case.", setHandler), perMechanism),
}

// loginKeys are where a broker's tokens come from, to log in to others with. They are judged
// where that is known: see setPeers.
func loginKeys() (keys []configKey) {
	kinds := map[login.Kind]kmsg.ConfigType{login.Text: kmsg.ConfigTypeString, login.Class: kmsg.ConfigTypeClass, login.Password: kmsg.ConfigTypePassword,
		login.Short: kmsg.ConfigTypeShort, login.Int: kmsg.ConfigTypeInt, login.Long: kmsg.ConfigTypeLong, login.Double: kmsg.ConfigTypeDouble, login.Bool: kmsg.ConfigTypeBoolean}
	for _, k := range login.Keys {
		keys = append(keys, configKey{name: k.Name, def: k.Default, kind: kinds[k.Kind], doc: k.Doc, scope: perMechanism,
			set: func(*Config, string) error { return nil }})
	}
	return keys
}

func setKeysURL(c *Config, s string) error {
	s = strings.TrimSpace(s)
	if _, err := idp.ParseURL(s); s != "" && err != nil {
		return err
	}
	c.SASL.OAuth.URL = s
	return nil
}

// validator is Kafka's class that checks signed tokens; its default would take unsigned ones.
const validator = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"

func setHandler(_ *Config, s string) error {
	if s = strings.TrimSpace(s); s != "" && s != validator {
		return fmt.Errorf("%q is not %s: there are no plugins", s, validator)
	}
	return nil
}

// class is a key that Kafka has for a plugin.
func class(name, doc string, set func(*Config, string) error) configKey {
	k := text(name, "", doc, set)
	k.kind = kmsg.ConfigTypeClass
	return k
}

// password is a key whose value nobody is shown.
func password(name, doc string, set func(*Config, string) error) configKey {
	k := text(name, "", doc, func(c *Config, s string) error {
		if s == "" {
			return nil
		}
		return set(c, s)
	})
	k.kind = kmsg.ConfigTypePassword
	return k
}

func setMechanisms(c *Config, s string) error {
	list := splitList(s)
	for i, m := range list {
		if list[i] = strings.ToUpper(m); !slices.Contains(sasl.Names, list[i]) {
			return fmt.Errorf("%q is none of %s", m, strings.Join(sasl.Names, ", "))
		}
	}
	c.SASL.Mechanisms = list
	return nil
}

func setInterBrokerMechanism(c *Config, s string) error {
	c.SASL.InterBroker = strings.ToUpper(strings.TrimSpace(s))
	if c.SASL.InterBroker != "" && !slices.Contains(sasl.Names, c.SASL.InterBroker) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(sasl.Names, ", "))
	}
	return nil
}

// checkSASL judges the keys about SASL together.
func checkSASL(c *Config) (key string, err error) {
	for _, ep := range c.Listeners {
		if !usesSASL(c.protocolOf(ep.Name)) {
			continue
		}
		if c.SASL.FailureDelay >= c.MaxIdle {
			return "connection.failed.authentication.delay.ms", errors.New("must be below connections.max.idle.ms")
		}
		key := c.setAt("sasl.enabled.mechanisms", place{ep.Name, ""})
		enabled := c.at(ep.Name, "").SASL.Mechanisms
		if len(enabled) == 0 {
			return key, fmt.Errorf("listener %s has SASL, and no mechanism is enabled", ep.Name)
		}
		if m := c.SASL.InterBroker; ep.Name == c.InterBroker && !slices.Contains(enabled, m) {
			return "sasl.mechanism.inter.broker.protocol", fmt.Errorf("brokers use listener %s, which has SASL with %s, not %q", ep.Name, strings.Join(enabled, ", "), m)
		}
		for _, m := range enabled {
			if key, err := c.checkMechanism(ep.Name, m); err != nil {
				return key, err
			}
		}
	}
	return "", nil
}

func (c *Config) checkMechanism(listener, mechanism string) (key string, err error) {
	at := place{listener, mechanism}
	key = c.setAt("sasl.jaas.config", at)
	module := c.at(listener, mechanism).SASL.Login
	brokers := listener == c.InterBroker && mechanism == c.SASL.InterBroker
	name := listenerPrefix + strings.ToLower(listener+"."+mechanism) + ".sasl.jaas.config"
	switch {
	case mechanism == sasl.OAuthBearer && c.at(listener, mechanism).SASL.OAuth.URL == "":
		return c.setAt("sasl.oauthbearer.jwks.endpoint.url", at), errors.New("it is to say where the keys are by which tokens are signed")
	case module.Module == "" && brokers && mechanism != sasl.OAuthBearer:
		return key, fmt.Errorf("%s is to say as whom this broker logs in to others", name)
	case module.Module == "" && mechanism == sasl.Plain:
		return key, fmt.Errorf("%s is to say who may get in with PLAIN", name)
	case module.Module != "" && module.Module != login.Modules[mechanism]:
		return key, fmt.Errorf("the login module of %s is %s", mechanism, login.Modules[mechanism])
	}
	if mechanism == sasl.OAuthBearer {
		if _, err := idp.ParseTLS(module.Options); err != nil {
			return key, errors.New("its option " + err.Error())
		}
	}
	if brokers {
		return c.setPeers(at, module)
	}
	return "", nil
}

// setPeers reads as whom this broker logs in to others.
func (c *Config) setPeers(at place, module jaas.Entry) (key string, err error) {
	c.SASL.Peers, err = login.Parse(at.mechanism, module, func(key string) (string, string, bool) { return c.settingAt(at, key) })
	if err == nil {
		return "", nil
	}
	key, err = blamed(err, "sasl.mechanism.inter.broker.protocol")
	if key == "sasl.jaas.config" {
		key = c.setAt(key, at)
	}
	return key, fmt.Errorf("this broker logs in to others: %w", err)
}

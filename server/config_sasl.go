package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/auth/jaas"
	"kaas.dev/kaas/server/auth/sasl"
)

// SASL is how clients of a listener authenticate by SASL; see [Config.at].
type SASL struct {
	Mechanisms []string // sasl.enabled.mechanisms
	// InterBroker is the mechanism by which this broker authenticates to others.
	InterBroker string
	Login       jaas.Entry // of one mechanism
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

// loginModules are the classes that may be named for a mechanism, as in Kafka.
var loginModules = map[string]string{
	sasl.Plain:       "org.apache.kafka.common.security.plain.PlainLoginModule",
	sasl.ScramSHA256: "org.apache.kafka.common.security.scram.ScramLoginModule",
	sasl.ScramSHA512: "org.apache.kafka.common.security.scram.ScramLoginModule",
	sasl.OAuthBearer: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
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
	key = c.setAt("sasl.jaas.config", place{listener, mechanism})
	login := c.at(listener, mechanism).SASL.Login
	brokers := listener == c.InterBroker && mechanism == c.SASL.InterBroker
	name := listenerPrefix + strings.ToLower(listener+"."+mechanism) + ".sasl.jaas.config"
	switch {
	case login.Module == "" && brokers && mechanism != sasl.OAuthBearer:
		return key, fmt.Errorf("%s is to say as whom this broker logs in to others", name)
	case login.Module == "" && mechanism == sasl.Plain:
		return key, fmt.Errorf("%s is to say who may get in with PLAIN", name)
	case login.Module != "" && login.Module != loginModules[mechanism]:
		return key, fmt.Errorf("the login module of %s is %s", mechanism, loginModules[mechanism])
	case brokers && mechanism != sasl.OAuthBearer && (login.Options["username"] == "" || login.Options["password"] == ""):
		return key, errors.New("it has no username and password by which this broker logs in to others")
	case brokers && mechanism == sasl.OAuthBearer:
		return "sasl.mechanism.inter.broker.protocol", errors.New("brokers do not use OAUTHBEARER among themselves: it needs somebody who gives them tokens")
	}
	return "", nil
}

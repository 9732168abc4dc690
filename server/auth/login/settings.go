package login

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strings"

	franz "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kaas.dev/kaas/server/auth/jaas"
	"kaas.dev/kaas/server/auth/sasl"
	"kaas.dev/kaas/server/tlsconf"
)

// Modules are the classes of Kafka's login modules, by mechanism.
var Modules = map[string]string{
	sasl.Plain:       "org.apache.kafka.common.security.plain.PlainLoginModule",
	sasl.ScramSHA256: "org.apache.kafka.common.security.scram.ScramLoginModule",
	sasl.ScramSHA512: "org.apache.kafka.common.security.scram.ScramLoginModule",
	sasl.OAuthBearer: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}

// jaasKey is blamed for what the login module lacks.
const jaasKey = "sasl.jaas.config"

// Settings are as whom somebody logs in, checked.
type Settings struct {
	Mechanism string
	// Notes are what deserves a warning.
	Notes []string

	user, password string
	extensions     map[string]string
	tokens         *tokenSettings // of OAUTHBEARER
}

// String is the mechanism alone.
func (s *Settings) String() string { return s.Mechanism + " with [hidden]" }

// GoString implements fmt.GoStringer.
func (s *Settings) GoString() string { return s.String() }

// Parse reads how to log in with a mechanism: its login module, which may be missing where
// OAUTHBEARER needs nothing from it, and [Keys]. Its errors are of the type tlsconf.KeyError.
func Parse(mechanism string, module jaas.Entry, look tlsconf.Lookup) (*Settings, error) {
	s := &Settings{Mechanism: mechanism}
	want, known := Modules[mechanism]
	switch {
	case !known:
		return nil, blame("sasl.mechanism", fmt.Errorf("%q is none of %s", mechanism, strings.Join(sasl.Names, ", ")))
	case module.Module == "" && mechanism != sasl.OAuthBearer:
		return nil, blame(jaasKey, errors.New("is needed: it is to say as whom to log in"))
	case module.Module != "" && module.Module != want:
		return nil, blame(jaasKey, fmt.Errorf("the login module of %s is %s", mechanism, want))
	case mechanism == sasl.OAuthBearer:
		return s, s.parseTokens(module, look)
	case strings.EqualFold(module.Options["tokenauth"], "true"):
		return nil, blame(jaasKey, errors.New("it has tokenauth, and there are no delegation tokens"))
	}
	if s.user, s.password = module.Options["username"], module.Options["password"]; s.user == "" || s.password == "" {
		return nil, blame(jaasKey, errors.New("it has no username and password to log in with"))
	}
	return s, nil
}

func blame(key string, err error) error { return &tlsconf.KeyError{Key: key, Err: err} }

// The extensions that a client may say (RFC 7628, 3.1); auth is the token's.
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile("^[\x21-\x7e \t\r\n]+$")
)

const extensionPrefix = "extension_"

func (s *Settings) parseTokens(module jaas.Entry, look tlsconf.Lookup) (err error) {
	s.extensions = map[string]string{}
	for option, value := range module.Options {
		name, ok := strings.CutPrefix(option, extensionPrefix)
		if !ok {
			continue
		}
		if !extensionName.MatchString(name) || name == "auth" || !extensionValue.MatchString(value) {
			return blame(jaasKey, fmt.Errorf("%.40q is no extension that can be said, or its value is none", name))
		}
		s.extensions[name] = value
	}
	s.tokens, err = parseTokens(module.Options, look)
	if err == nil {
		s.Notes = s.tokens.notes
	}
	return err
}

// New makes the mechanism. The log is told of tokens.
func New(s *Settings, log *slog.Logger) franz.Mechanism {
	auth := scram.Auth{User: s.user, Pass: s.password}
	switch s.Mechanism {
	case sasl.ScramSHA256:
		return auth.AsSha256Mechanism()
	case sasl.ScramSHA512:
		return auth.AsSha512Mechanism()
	case sasl.OAuthBearer:
		return newBearer(s.tokens, maps.Clone(s.extensions), log)
	default:
		return plain.Auth{User: s.user, Pass: s.password}.AsMechanism()
	}
}

package server

import (
	franz "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kaas.dev/kaas/server/auth/sasl"
)

// login is the mechanism by which this broker authenticates to others, nil where their
// listener has no SASL.
func (c *Config) login() franz.Mechanism {
	if !usesSASL(c.protocolOf(c.InterBroker)) {
		return nil
	}
	as := c.at(c.InterBroker, c.SASL.InterBroker).SASL.Login.Options
	s := scram.Auth{User: as["username"], Pass: as["password"]}
	switch c.SASL.InterBroker {
	case sasl.ScramSHA256:
		return s.AsSha256Mechanism()
	case sasl.ScramSHA512:
		return s.AsSha512Mechanism()
	default:
		return plain.Auth{User: s.User, Pass: s.Pass}.AsMechanism()
	}
}

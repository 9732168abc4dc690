package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kaas.dev/kaas/tools/clients/scenario"
)

func secured(w *scenario.Way) ([]kgo.Opt, error) {
	conf, err := w.TLS()
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{kgo.DialTLSConfig(conf), kgo.RetryTimeout(10 * time.Second)}
	var m sasl.Mechanism
	switch w.Mechanism {
	case "":
		return opts, nil
	case "PLAIN":
		m = plain.Auth{User: w.User, Pass: w.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		m = scram.Auth{User: w.User, Pass: w.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		m = scram.Auth{User: w.User, Pass: w.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		token, err := w.TokenText()
		if err != nil {
			return nil, err
		}
		m = oauth.Auth{Token: token}.AsMechanism()
	default:
		return nil, fmt.Errorf("no mechanism %s", w.Mechanism)
	}
	return append(opts, kgo.SASL(m)), nil
}

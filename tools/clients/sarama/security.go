package main

import (
	"fmt"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"kaas.dev/kaas/tools/clients/scenario"
)

func secured(w *scenario.Way) (func(*sarama.Config), error) {
	conf, err := w.TLS()
	if err != nil {
		return nil, err
	}
	var hash scram.HashGeneratorFcn
	var tokens sarama.AccessTokenProvider
	switch w.Mechanism {
	case "", sarama.SASLTypePlaintext:
	case sarama.SASLTypeSCRAMSHA256:
		hash = scram.SHA256
	case sarama.SASLTypeSCRAMSHA512:
		hash = scram.SHA512
	case sarama.SASLTypeOAuth:
		token, err := w.TokenText()
		if err != nil {
			return nil, err
		}
		tokens = held(token)
	default:
		return nil, fmt.Errorf("no mechanism %s", w.Mechanism)
	}
	return func(c *sarama.Config) {
		c.Net.TLS.Enable, c.Net.TLS.Config = true, conf
		if w.Mechanism == "" {
			return
		}
		c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLMechanism(w.Mechanism)
		c.Net.SASL.User, c.Net.SASL.Password, c.Net.SASL.TokenProvider = w.User, w.Password, tokens
		if hash != nil {
			c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &proof{hash: hash} }
		}
	}, nil
}

// held is a token that there is.
type held string

func (h held) Token() (*sarama.AccessToken, error) { return &sarama.AccessToken{Token: string(h)}, nil }

// proof is SCRAM of another module: Sarama has none.
type proof struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (p *proof) Begin(user, password, authzID string) error {
	c, err := p.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	p.ClientConversation = c.NewConversation()
	return nil
}

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"kaas.dev/kaas/tools/clients/scenario"
)

// way is how all clients get in.
type way struct {
	conf  kafka.ConfigMap
	token string
}

func secured(w *scenario.Way) (way, error) {
	conf := kafka.ConfigMap{"security.protocol": "ssl", "ssl.ca.location": w.CA}
	if w.Cert != "" {
		conf["ssl.certificate.location"], conf["ssl.key.location"] = w.Cert, w.Key
	}
	if w.Mechanism == "" {
		return way{conf: conf}, nil
	}
	conf["security.protocol"], conf["sasl.mechanism"] = "sasl_ssl", w.Mechanism
	if w.Mechanism == "OAUTHBEARER" {
		token, err := w.TokenText()
		return way{conf, token}, err
	}
	conf["sasl.username"], conf["sasl.password"] = w.User, w.Password
	return way{conf: conf}, nil
}

// bring gives a client the token, which it waits for.
func (w way) bring(to interface {
	SetOAuthBearerToken(kafka.OAuthBearerToken) error
}) error {
	if w.token == "" {
		return nil
	}
	return to.SetOAuthBearerToken(kafka.OAuthBearerToken{TokenValue: w.token, Expiration: time.Now().Add(time.Hour), Principal: "app"})
}

// getIn is the error that authentication came to: what the client is then asked for just
// comes to no end.
func (s *client) getIn() error {
	p, err := kafka.NewProducer(s.config(nil))
	if err != nil {
		return err
	}
	defer p.Close()
	if err := s.way.bring(p); err != nil {
		return err
	}
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		if _, err = p.GetMetadata(nil, false, 500); err == nil {
			return nil
		}
		for range len(p.Events()) {
			if e, ok := (<-p.Events()).(kafka.Error); ok && e.Code() == kafka.ErrAuthentication {
				return e
			}
		}
	}
	return fmt.Errorf("no metadata: %w", err)
}

// steady is a producer of one partition that gets in as the way says.
func steady(to scenario.Brokers, topic string, partition int32) (*scenario.Sender, error) {
	w, err := secured(to.Way)
	if err != nil {
		return nil, err
	}
	s := &client{bootstrap: strings.Join(to.Addrs, ","), way: w}
	p, err := kafka.NewProducer(s.config(kafka.ConfigMap{"acks": "all"}))
	if err != nil {
		return nil, err
	}
	return &scenario.Sender{Send: func(context.Context) error {
		return send(p, topic, partition, []scenario.Record{{Value: []byte("x"), Time: time.Now()}})
	}, Close: p.Close}, nil
}

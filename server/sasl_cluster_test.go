package server

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	franzsasl "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	franzscram "github.com/twmb/franz-go/pkg/sasl/scram"
)

// saslCluster are brokers 1 to 3 that use a mechanism among themselves, on a volume.
func saslCluster(t *testing.T, dir, mechanism string, more ...string) (nodes []*Node) {
	t.Helper()
	for id := 1; id <= 3; id++ {
		sets := append(saslSets("broker.heartbeat.interval.ms=200", "sasl.mechanism.inter.broker.protocol="+mechanism,
			"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config="+scramJAAS, fmt.Sprint("node.id=", id)), more...)
		nodes = append(nodes, startNode(t, dir, sets...))
	}
	for _, n := range nodes {
		awaitCluster(t, n, "three brokers serve", func() bool { return alive(n) == 3 && n.broker.Ready() })
	}
	return nodes
}

// Brokers authenticate to one another: with PLAIN at once, with SCRAM where the volume knows
// the user whom they log in as. Clients are served by each, and changes through each are made.
func TestBrokersAuthenticate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	t.Run("PLAIN", func(t *testing.T) {
		nodes := saslCluster(t, dir, "PLAIN")
		cl := kgoClient(t, nodes[2].Addr(), kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism()))
		setPassword(t, cl, "kaas", "kaas-secret")
		setPassword(t, cl, "bob", "bob-secret")
	})
	t.Run("SCRAM", func(t *testing.T) {
		nodes := saslCluster(t, dir, "SCRAM-SHA-512")
		for i, n := range nodes {
			cl := kgoClient(t, n.Addr(), kgo.SASL(franzscram.Auth{User: "bob", Pass: "bob-secret"}.AsSha256Mechanism()))
			topic := fmt.Sprint("by-", i)
			if r, err := kadm.NewClient(cl).CreateTopic(ctx, 3, 1, nil, topic); err != nil || r.Err != nil {
				t.Fatal(err, r.Err)
			}
			for p := range 9 {
				if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: fmt.Append(nil, p), Value: []byte("v")}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A password that is changed under traffic fails no request: connections that there are go on,
// and those that come prove the new one.
func TestPasswordChangedUnderTraffic(t *testing.T) {
	n := served(t, startNode(t, t.TempDir(), saslSets("listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms=2500")...))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	admin := kgoClient(t, n.Addr(), kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism()))
	passwords := make(chan string, 1) // whoever authenticates has it until that is over
	passwords <- "first"
	setPassword(t, admin, "bob", "first")
	cl := kgoClient(t, n.Addr(), kgo.SASL(&passwordHeld{passwords: passwords}))
	if r, err := kadm.NewClient(admin).CreateTopic(ctx, 1, 1, nil, "t"); err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	for i := range 5 {
		next := fmt.Sprint("password-", i)
		<-passwords // who authenticates now waits, and then uses the new one
		setPassword(t, admin, "bob", next)
		passwords <- next
		for began := time.Now(); time.Since(began) < 800*time.Millisecond; {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(next)}).FirstErr(); err != nil {
				t.Fatalf("with %s: %v", next, err)
			}
		}
	}
}

// passwordHeld is SCRAM-SHA-512 that holds the password while it is being proved.
type passwordHeld struct{ passwords chan string }

func (*passwordHeld) Name() string { return "SCRAM-SHA-512" }

func (h *passwordHeld) Authenticate(ctx context.Context, host string) (franzsasl.Session, []byte, error) {
	var p string
	select {
	case p = <-h.passwords:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	s, first, err := franzscram.Auth{User: "bob", Pass: p}.AsSha512Mechanism().Authenticate(ctx, host)
	if err != nil {
		h.passwords <- p
		return nil, nil, err
	}
	return &holding{s, func() { h.passwords <- p }}, first, nil
}

type holding struct {
	franzsasl.Session
	release func()
}

func (h *holding) Challenge(b []byte) (bool, []byte, error) {
	done, next, err := h.Session.Challenge(b)
	if done || err != nil {
		h.release()
	}
	return done, next, err
}

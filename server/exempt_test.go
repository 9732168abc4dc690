package server

import (
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

// verifyOnly is what brokers ask the coordinators of transactions.
func verifyOnly() *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version = 4
	return req
}

func noMarkers() *kmsg.WriteTxnMarkersRequest {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 1
	return req
}

// dialTo is dialAs with an address, if there is nobody in particular.
func dialTo(t *testing.T, user string, addr net.Addr) *client {
	t.Helper()
	if user == "" {
		return dial(t, addr.String())
	}
	return dialAs(t, user, addr.String())
}

// What brokers ask does not count as a client's time. Who is not let through as a broker is no
// broker, whatever he asks.
func TestOnlyBrokersAreExempt(t *testing.T) {
	inner := []string{twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", "inter.broker.listener.name=INSIDE"}
	t.Run("with an authorizer", func(t *testing.T) {
		n := startAuthorized(t, inner...)
		admin := dialAs(t, "admin", n.lns[1].Addr().String())
		admin.grant(allow("bob", acl.ClusterAction, acl.Cluster, acl.ClusterName))
		admin.quota("client-id=test", "request_percentage=0.000001")
		onlyBrokersAreExempt(t, n, map[string][]bool{"alice": {false, false}, "bob": {true, true}})
	})
	t.Run("without one", func(t *testing.T) {
		n := startNode(t, t.TempDir(), inner...)
		dial(t, n.lns[1].Addr().String()).quota("client-id=test", "request_percentage=0.000001")
		onlyBrokersAreExempt(t, n, map[string][]bool{"": {true, false}})
	})
}

// onlyBrokersAreExempt wants of each who asks by the brokers' listener, and by the other one,
// that he is exempt.
func onlyBrokersAreExempt(t *testing.T, n *Node, want map[string][]bool) {
	for user, exempt := range want {
		for i, ln := range n.lns {
			for _, req := range []kmsg.Request{noMarkers(), verifyOnly()} {
				c := dialTo(t, user, ln.Addr())
				resp := c.ask(req)
				if told, ok := resp.(kmsg.ThrottleResponse); ok {
					if ms, _ := told.Throttle(); (ms == 0) != exempt[i] {
						t.Errorf("%q by %s, %s: throttled for %d ms", user, n.server.cfg.Listeners[i].Name, kmsg.NameForKey(req.Key()), ms)
					}
				}
				if !exempt[i] {
					c.muted()
				}
			}
		}
	}
}

// A handshake after authentication is a request like any other; what belongs to
// authenticating, for the first time or again, is not throttled.
func TestSASLAfterItIsDoneIsNotExempt(t *testing.T) {
	n := startNode(t, t.TempDir(), saslSets("connections.max.reauth.ms=3600000")...)
	admin := dial(t, n.Addr())
	admin.login("alice", "alice-secret")
	admin.quota("client-id=test", "request_percentage=0.000001")
	c := dial(t, n.Addr())
	if got := c.login("alice", "alice-secret"); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	counted := func() string {
		_, line, _ := strings.Cut(scrape(n), "\nkafka_server_request_throttle_time_seconds_count ")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	before := counted()
	if got := c.login("alice", "alice-secret"); got.ErrorCode != 0 || counted() != before {
		t.Errorf("again: error %d, throttled %s times, %s before", got.ErrorCode, counted(), before)
	}
	if got := c.authenticate("x"); got.ErrorCode != 34 {
		t.Errorf("out of order: error %d", got.ErrorCode)
	}
	c.muted()
	c = dial(t, n.Addr())
	c.login("alice", "alice-secret")
	c.handshake("PLAIN")
	c.authenticate("\x00alice\x00alice-secret")
	if got := c.handshake("PLAIN"); got.ErrorCode != 34 {
		t.Errorf("too soon: error %d", got.ErrorCode)
	}
	c.muted()
}

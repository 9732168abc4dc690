package server

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// forged are what brokers say to one another besides the protocol, as somebody would who wants
// to pass for one, and for the administrator.
func forged() map[uint32][]byte {
	return map[uint32][]byte{
		forwardTag: origin{auth.User("admin"), netip.MustParseAddr("127.0.0.1")}.bytes(),
		10001:      {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		10002:      []byte("another-session"),
		10003:      {0, 0, 0, 0, 0, 0, 0, 1, 0, 9},
		clientTag:  {0, 1, 'x'}, throttleTag: {0, 0, 0, 1},
	}
}

// A principal without grants forges all tags there are, in every key and version, on the
// listener for clients and on that of the brokers: it is shown nothing, and changes nothing.
func TestForgedTagsAreNotBelieved(t *testing.T) {
	n := startAuthorized(t, "listeners=PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT")
	admin := dialAs(t, "admin", n.Addr())
	s := &sweepTopics{dir: n.cfg.LogDir}
	for _, name := range []string{"sweep-a", "sweep-b", "hidden"} {
		id := admin.create(name, 3)
		if admin.produce(name, newBatch(nil, "secret")); name != "hidden" {
			s.names, s.ids = append(s.names, name), append(s.ids, id)
		}
	}
	for _, group := range []string{"sweep", "hidden-group"} {
		admin.commit(group, "sweep-a", 7)
	}
	for at, ln := range n.lns {
		alice := dialAs(t, "alice", ln.Addr().String())
		for _, a := range apis {
			if a.inner && at == 1 {
				continue // not served there at all, which TestRequestsBetweenBrokers shows
			}
			for v := max(a.min, a.works); v <= a.max; v++ {
				req := kmsg.RequestForKey(int16(a.key))
				if req.SetVersion(v); !req.IsFlexible() {
					continue
				}
				s.fill(t, admin, req)
				fillAlso(req)
				for tag, value := range forged() {
					setTag(req, tag, value)
				}
				what := fmt.Sprintf("listener %d, %s v%d", at, kmsg.NameForKey(int16(a.key)), v)
				before := n.broker.View()
				resp := alice.ask(req)
				if n.broker.View() != before {
					t.Errorf("%s has changed the cluster", what)
				}
				for _, leak := range leaks(reflect.ValueOf(resp).Elem(), "") {
					t.Errorf("%s: %s", what, leak)
				}
			}
		}
	}
	for _, name := range s.names {
		if end := admin.end(name); end != 1 {
			t.Errorf("%s ends at %d, not 1: something was written to it", name, end)
		}
	}
	for _, group := range []string{"sweep", "hidden-group"} {
		if got := admin.committed(group, "sweep-a"); got != 7 {
			t.Errorf("%s has committed %d, not 7", group, got)
		}
	}
}

// What only brokers ask is refused to who has not said who he is and to whoever has no
// ClusterAction, in every version, and taken from who has it. Kafka serves these keys to its
// controllers' listener alone, so that the walk cannot ask it.
func TestRequestsBetweenBrokersAreAuthorized(t *testing.T) {
	settings := walkSettings()
	for i, set := range settings {
		settings[i] = strings.Replace(set, " required ", ` required username="broker" password="broker-secret" user_broker="broker-secret" `, 1)
	}
	n := startNode(t, t.TempDir(), append(settings, "inter.broker.listener.name=SASL_PLAINTEXT", "sasl.mechanism.inter.broker.protocol=PLAIN",
		"listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0")...)
	admin, users := dial(t, n.Addr()), n.lns[1].Addr().String()
	admin.grant(allow("c0", acl.ClusterAction, acl.Cluster, acl.ClusterName), allow("c1", acl.Alter, acl.Cluster, acl.ClusterName),
		allow("c1", acl.Describe, acl.Cluster, acl.ClusterName))
	login := func(user string) *client {
		c := dial(t, users)
		c.plain(user, user+"-secret")
		return c
	}
	for _, a := range apis {
		if !a.inner {
			continue
		}
		for v := a.min; v <= a.max; v++ {
			ask := func(c *client) int16 {
				req := kmsg.RequestForKey(int16(a.key))
				req.SetVersion(v)
				return int16(reflect.ValueOf(c.ask(req)).Elem().FieldByName("ErrorCode").Int())
			}
			unauthenticated := dial(t, users)
			req := kmsg.RequestForKey(int16(a.key))
			req.SetVersion(v)
			unauthenticated.send(req)
			unauthenticated.closed()
			for _, user := range []string{"none", "c1"} {
				if code := ask(login(user)); code != kerr.ClusterAuthorizationFailed.Code {
					t.Errorf("%s v%d by %s: error %d", kmsg.NameForKey(int16(a.key)), v, user, code)
				}
			}
			if code := ask(login("c0")); code == kerr.ClusterAuthorizationFailed.Code {
				t.Errorf("%s v%d with ClusterAction: error %d", kmsg.NameForKey(int16(a.key)), v, code)
			}
		}
	}
}

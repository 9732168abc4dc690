package server

import (
	"net/netip"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

func TestOriginIsReadAsItIsWritten(t *testing.T) {
	for _, o := range []origin{
		{auth.User("alice"), netip.MustParseAddr("10.1.2.3")}, {auth.Principal{}, netip.Addr{}},
		{auth.User("CN=ä, O=y:z"), netip.MustParseAddr("fe80::1")},
	} {
		b := o.bytes()
		if got, err := parseOrigin(b); err != nil || got != o {
			t.Errorf("%+v came back as %+v, %v", o, got, err)
		}
		for n := range b {
			if got, err := parseOrigin(b[:n]); err == nil {
				t.Errorf("the first %d of %d bytes pass for %+v", n, len(b), got)
			}
		}
		if _, err := parseOrigin(append(b, 0)); err == nil {
			t.Error("a byte too many passes")
		}
	}
}

func FuzzParseOrigin(f *testing.F) {
	f.Add(origin{auth.User("alice"), netip.MustParseAddr("10.1.2.3")}.bytes())
	f.Add([]byte{originVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOrigin(b)
		if err != nil {
			return
		}
		if again, err := parseOrigin(o.bytes()); err != nil || again != o {
			t.Errorf("%+v came back as %+v, %v", o, again, err)
		}
	})
}

// What a broker passes on is decided for whoever has sent it, from where he is.
func TestForwardedRequestsAreTheirSenders(t *testing.T) {
	n := startAuthorized(t)
	f := startFollower(t, n, "authorizer.class.name="+standardAuthorizer, "super.users=User:admin")
	admin, alice := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", f.addr)
	create := func(c *client, name string) int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 7, 20_000
		req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
		return c.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
	}
	if code := create(alice, "a"); code != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("without a grant: error %d", code)
	}
	here := allow("alice", acl.Create, acl.Topic, "a")
	here.Host = "127.0.0.2"
	admin.grant(here)
	if code := create(alice, "a"); code != 0 {
		t.Errorf("with one for where she is: error %d", code)
	}
	if code := create(dialAs(t, "bob", f.addr), "b"); code != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("another: error %d", code)
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version = 2
	if got := alice.ask(elect).(*kmsg.ElectLeadersResponse).ErrorCode; got != kerr.ClusterAuthorizationFailed.Code {
		t.Errorf("what is the cluster's: error %d", got)
	}
	// A topic that a Metadata request makes is made by whoever asks for it.
	m := kmsg.NewPtrMetadataRequest()
	m.Version, m.AllowAutoTopicCreation = 12, true
	name := "c"
	m.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	admin.grant(allow("alice", acl.Describe, acl.Topic, "c"))
	f.AwaitShown(t.Context(), n.broker.Shown()) // so that it knows of the grant
	if got := alice.ask(m).(*kmsg.MetadataResponse).Topics[0].ErrorCode; got != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("a topic by the way: error %d", got)
	}
	admin.grant(allow("alice", acl.Create, acl.Topic, "c"))
	f.AwaitShown(t.Context(), n.broker.Shown())
	if got := alice.ask(m).(*kmsg.MetadataResponse).Topics[0].ErrorCode; got != 0 {
		t.Errorf("with a grant: error %d", got)
	}
}

// Whose a forwarded request is is believed of brokers alone.
func TestForwardingIsForBrokers(t *testing.T) {
	n := startAuthorized(t)
	admin, alice := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", n.Addr())
	create := func(c *client, topic string, tag []byte) int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 7, 20_000
		req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}}
		setTag(req, forwardTag, tag)
		c.send(req)
		_, b := c.receive()
		resp := kmsg.NewPtrCreateTopicsResponse()
		resp.Version = 7
		if err := resp.ReadFrom(b[1:]); err != nil {
			t.Fatal(err)
		}
		return resp.Topics[0].ErrorCode
	}
	asAdmin := origin{auth.User("admin"), netip.MustParseAddr("127.0.0.1")}.bytes()
	asAlice := origin{auth.User("alice"), netip.MustParseAddr("127.0.0.2")}.bytes()
	for what, tc := range map[string]struct {
		by   *client
		tag  []byte
		want int16
	}{
		"in the name of another":      {alice, asAdmin, kerr.ClusterAuthorizationFailed.Code},
		"in her own name":             {alice, asAlice, kerr.ClusterAuthorizationFailed.Code},
		"of nobody":                   {admin, []byte{}, kerr.ClusterAuthorizationFailed.Code},
		"of nobody who can be read":   {admin, []byte{9}, kerr.ClusterAuthorizationFailed.Code},
		"by a broker, of who may not": {admin, asAlice, kerr.TopicAuthorizationFailed.Code},
		"by a broker, of who may":     {admin, asAdmin, 0},
	} {
		if got := create(tc.by, "t", tc.tag); got != tc.want {
			t.Errorf("%s: error %d, want %d", what, got, tc.want)
		}
	}
	if n.broker.View().Topic("t") == nil {
		t.Error("who may has made nothing")
	}
	// And of those who may act for the cluster, only on the brokers' own listener.
	admin.grant(allow("alice", acl.ClusterAction, acl.Cluster, acl.ClusterName))
	if got := create(alice, "u", asAdmin); got != 0 {
		t.Errorf("with ClusterAction on the brokers' listener: error %d", got)
	}
	apart := startAuthorized(t, "listeners=PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT")
	if got := create(dialAs(t, "admin", apart.lns[1].Addr().String()), "u", asAdmin); got != kerr.ClusterAuthorizationFailed.Code {
		t.Errorf("on the clients' listener: error %d", got)
	}
}

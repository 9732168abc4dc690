package server

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

const twoListeners = "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"

// told are the brokers as each request that names brokers names them, by ID.
func told(c *client) map[string]map[int32]string {
	out := map[string]map[int32]string{"metadata": {}, "cluster": {}, "coordinator": {}}
	at := func(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
	m := kmsg.NewPtrMetadataRequest()
	m.Version = 12
	for _, b := range c.ask(m).(*kmsg.MetadataResponse).Brokers {
		out["metadata"][b.NodeID] = at(b.Host, b.Port)
	}
	d := kmsg.NewPtrDescribeClusterRequest()
	d.Version = 2
	for _, b := range c.ask(d).(*kmsg.DescribeClusterResponse).Brokers {
		out["cluster"][b.NodeID] = at(b.Host, b.Port)
	}
	f := kmsg.NewPtrFindCoordinatorRequest()
	f.Version, f.CoordinatorKeys = 4, []string{"g"}
	for _, b := range c.ask(f).(*kmsg.FindCoordinatorResponse).Coordinators {
		out["coordinator"][b.NodeID] = at(b.Host, b.Port)
	}
	return out
}

// S-04: whoever came in by a listener is sent to that listener of every broker, and never
// to another.
func TestEachListenerTellsItsOwnAddresses(t *testing.T) {
	sets := []string{twoListeners, "listener.security.protocol.map=inside:plaintext,OUTSIDE:PLAINTEXT", "advertised.listeners=OUTSIDE://kaas.example:19092"}
	n := startNode(t, t.TempDir(), sets...)
	listener := func(name, host string, port int32) projections.Listener {
		return projections.Listener{Name: name, Host: host, Port: port}
	}
	view := withFacts(t, n.broker.View(),
		&projections.BrokerRegistered{ID: 3, Epoch: 1, Listeners: []projections.Listener{listener("INSIDE", "in3", 1), listener("OUTSIDE", "out3", 2)}},
		&projections.BrokerRegistered{ID: 4, Epoch: 1, Listeners: []projections.Listener{listener("INSIDE", "in4", 3)}})
	addrs := serveAlso(t, &another{Backend: broker{n.broker}, view: func() *projections.Cluster { return view }}, n.server.clusterID, sets...)
	for i, want := range []map[int32]string{
		{0: n.lns[0].Addr().String(), 3: "in3:1", 4: "in4:3"},
		{0: "kaas.example:19092", 3: "out3:2"},
	} {
		for what, got := range told(dial(t, addrs[i])) {
			want := want
			if what == "coordinator" {
				want = map[int32]string{0: want[0]}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("listener %d, %s: %v, want %v", i, what, got, want)
			}
		}
	}
}

// A leader that a listener does not reach is none for its clients.
func TestLeaderWithoutTheListener(t *testing.T) {
	sets := []string{twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"}
	n := startNode(t, t.TempDir(), sets...)
	id := projections.TopicID(dial(t, n.Addr()).create("t", 1))
	view := withFacts(t, n.broker.View(),
		&projections.BrokerRegistered{ID: 4, Epoch: 1, Listeners: []projections.Listener{{Name: "INSIDE", Host: "in4", Port: 3}}},
		&projections.PartitionLeaderChanged{TopicID: id, Leader: 4, Epoch: 9})
	addrs := serveAlso(t, &another{Backend: broker{n.broker}, view: func() *projections.Cluster { return view }}, n.server.clusterID, sets...)
	inside, outside := dial(t, addrs[0]), dial(t, addrs[1])
	for _, tc := range []struct {
		c       *client
		version int16
		leader  int32
		code    int16
	}{{inside, 12, 4, 0}, {outside, 12, -1, kerr.ListenerNotFound.Code}, {outside, 5, -1, kerr.LeaderNotAvailable.Code}} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = tc.version
		if p := tc.c.ask(req).(*kmsg.MetadataResponse).Topics[0].Partitions[0]; p.Leader != tc.leader || p.ErrorCode != tc.code {
			t.Errorf("version %d: %+v", tc.version, p)
		}
	}
}

// What brokers ask one another is served where they connect, and nowhere else.
func TestRequestsBetweenBrokers(t *testing.T) {
	n := startNode(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", "inter.broker.listener.name=outside")
	inner := []int16{62, 63, 67}
	for i, served := range []bool{false, true} {
		addr := n.lns[i].Addr().String()
		var keys []int16
		for _, k := range dial(t, addr).ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse).ApiKeys {
			keys = append(keys, k.ApiKey)
		}
		for _, key := range inner {
			if slices.Contains(keys, key) != served {
				t.Errorf("listener %d: told of key %d: %v", i, key, !served)
			}
			c := dial(t, addr)
			if served {
				c.ask(kmsg.RequestForKey(key))
				continue
			}
			c.send(kmsg.RequestForKey(key))
			c.closed()
		}
	}
	self, _ := n.broker.View().Broker(0)
	if len(self.Listeners) != 2 {
		t.Errorf("registered with %v", self.Listeners)
	}
}

// Clients that take every connection there is keep no broker from its controller.
func TestBrokersFindAPlace(t *testing.T) {
	n := startNode(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", "max.connections=2")
	clients, brokers := n.lns[1].Addr().String(), n.lns[0].Addr().String()
	for range 2 {
		dial(t, clients).ask(kmsg.NewPtrMetadataRequest())
	}
	dial(t, clients).closed()
	for range 2 {
		dial(t, brokers).ask(kmsg.NewPtrMetadataRequest())
	}
}

func TestControllerAnswersBrokers(t *testing.T) {
	n := startNode(t, t.TempDir())
	self, _ := n.broker.View().Broker(0)
	f := startFollower(t, n)
	for name, tc := range map[string]struct {
		addr                 string
		cluster              string
		id                   int32
		epoch                int64
		register, beat, take int16
	}{
		"follower": {f.addr, n.server.clusterID, 0, self.Epoch, 41, 41, 41},
		"known":    {n.Addr(), n.server.clusterID, 0, self.Epoch, 0, 0, 0},
		"earlier":  {n.Addr(), n.server.clusterID, 0, self.Epoch - 1, 0, kerr.StaleBrokerEpoch.Code, kerr.StaleBrokerEpoch.Code},
		"stranger": {n.Addr(), "other", 9, 1, kerr.InconsistentClusterID.Code, kerr.BrokerIDNotRegistered.Code, kerr.BrokerIDNotRegistered.Code},
	} {
		c := dial(t, tc.addr)
		r, b, a := kmsg.NewPtrBrokerRegistrationRequest(), kmsg.NewPtrBrokerHeartbeatRequest(), kmsg.NewPtrAllocateProducerIDsRequest()
		r.Version, r.BrokerID, r.ClusterID, r.IncarnationID = 4, tc.id, tc.cluster, uuid.MustParse(self.Incarnation)
		r.UnknownTags.Set(10002, []byte(self.Session))
		b.Version, b.BrokerID, b.BrokerEpoch = 2, tc.id, tc.epoch
		a.BrokerID, a.BrokerEpoch = tc.id, tc.epoch
		registered := c.ask(r).(*kmsg.BrokerRegistrationResponse)
		if registered.ErrorCode != tc.register || tc.register == 0 && registered.BrokerEpoch != self.Epoch {
			t.Errorf("%s: %+v", name, registered)
		}
		if got := c.ask(b).(*kmsg.BrokerHeartbeatResponse); got.ErrorCode != tc.beat {
			t.Errorf("%s: %+v", name, got)
		}
		if got := c.ask(a).(*kmsg.AllocateProducerIDsResponse); got.ErrorCode != tc.take || tc.take == 0 && got.ProducerIDLen != 1000 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

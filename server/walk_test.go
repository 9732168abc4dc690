package server

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// walk visits every key and version that ApiVersions tells on a connection, and returns the
// keys. What is told and does not work (Produce below 3) is left out.
func walk(c *client, visit func(key, version int16)) map[int16]bool {
	c.t.Helper()
	seen := map[int16]bool{}
	for _, k := range c.ask(apiVersionsReq(4, "walk", "1")).(*kmsg.ApiVersionsResponse).ApiKeys {
		seen[k.ApiKey] = true
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			if v >= apiFor(k.ApiKey).works {
				visit(k.ApiKey, v)
			}
		}
	}
	return seen
}

// S-04, its shape: whoever comes from outside walks every key that is advertised there, by
// name and by topic ID, and each is answered in its own words; what is between brokers, and
// all that is not advertised, costs the connection and does nothing.
func TestEveryAdvertisedKeyIsVisited(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT")
	outside := n.lns[1].Addr().String()
	c := dial(t, outside)
	s := &sweepTopics{dir: dir}
	for _, name := range []string{"walk-a", "walk-b"} {
		s.names = append(s.names, name)
		s.ids = append(s.ids, c.create(name, 3))
	}
	// Something is to be found by Fetch, which comes after Produce.
	seen := walk(c, func(key, version int16) {
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		check := s.fill(t, c, req)
		if key == kmsg.ApiVersions.Int16() {
			check = func(kmsg.Response) error { return nil } // it tells less than apis here
		}
		if err := check(c.ask(req)); err != nil {
			t.Errorf("%s v%d: %v", kmsg.NameForKey(key), version, err)
		}
	})
	for i := range apis {
		if a := &apis[i]; seen[int16(a.key)] == a.inner {
			t.Errorf("%s, between brokers %v, is advertised to clients: %v", kmsg.NameForKey(int16(a.key)), a.inner, a.inner)
		}
	}
	before := shows(n.broker.View())
	for key := int16(-1); key <= kmsg.MaxKey+1; key++ {
		if seen[key] {
			continue
		}
		raw := []byte{0, 0, 0, 10, byte(uint16(key) >> 8), byte(key), 0, 0, 0, 0, 0, 1, 0xff, 0xff}
		if req := kmsg.RequestForKey(key); req != nil {
			raw = frame(req, 1)
		}
		stranger := dial(t, outside)
		if _, err := stranger.nc.Write(raw); err != nil {
			t.Fatal(err)
		}
		stranger.closed()
	}
	if after := shows(n.broker.View()); after != before {
		t.Errorf("what is not advertised has changed the cluster: %s, then %s", before, after)
	}
}

// shows is what those who may do nothing could have changed.
func shows(view *projections.Cluster) string {
	var topics []string
	for _, t := range view.Topics() {
		topics = append(topics, t.Name)
	}
	return fmt.Sprint(view.NextProducerID(), view.Brokers(), topics, view.ConfiguredGroups(), view.BrokerConfigs(""))
}

// requests name topics by ID, so that every broker tells the same one, never zero, and
// tells it again after a restart.
func TestTopicIDsAreTheSameEverywhere(t *testing.T) {
	nodes, _ := threeNodes(t)
	want := dial(t, nodes[0].Addr()).create("t", 3)
	for _, n := range nodes {
		c := dial(t, n.Addr())
		awaitCluster(t, n, "the topic is shown", func() bool { return n.broker.View().Topic("t") != nil })
		for v := int16(10); v <= metadataAPI.max; v++ {
			req := metadataReq(v, false, "t")
			if rt := c.ask(req).(*kmsg.MetadataResponse).Topics[0]; rt.TopicID != want || rt.TopicID == [16]byte{} {
				t.Errorf("broker %d, version %d: %x, want %x", n.cfg.NodeID, v, rt.TopicID, want)
			}
		}
	}
}

func TestTopicIDsOutliveABroker(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	want := dial(t, n.Addr()).create("t", 1)
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := dial(t, startNode(t, dir).Addr())
	if rt := again.ask(metadataReq(12, false, "t")).(*kmsg.MetadataResponse).Topics[0]; rt.TopicID != want {
		t.Errorf("%x, then %x", want, rt.TopicID)
	}
}

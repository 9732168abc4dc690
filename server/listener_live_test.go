package server

import (
	"fmt"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/quota"
)

const (
	mostOutside = "listener.name.outside.max.connections"
	rateOutside = "listener.name.outside.max.connection.creation.rate"
)

// What a listener bounds can be changed while its broker runs: for all brokers, for this one,
// and back to what its properties say.
func TestListenersAreBoundedLive(t *testing.T) {
	n := startNode(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", mostOutside+"=100")
	admin, outside := dial(t, n.lns[0].Addr().String()), n.lns[1].Addr().String()
	dial(t, outside).ask(kmsg.NewPtrMetadataRequest())
	bounds := func() string {
		l := n.cfg.in(n.broker.View()).Listeners[1]
		if l.rate == quota.Unlimited {
			l.rate = -1
		}
		return fmt.Sprint(l.most, " ", l.rate)
	}
	for _, step := range []struct{ broker, op, want string }{
		{"", "SET " + mostOutside + "=1", "1 -1"},
		{"0", "SET " + mostOutside + "=2", "2 -1"},
		{"", "SET " + rateOutside + "=7", "2 7"},
		{"0", "SET listener.name.nowhere.max.connections=3", "2 7"},
		{"0", "DELETE " + mostOutside, "1 7"},
	} {
		if code := admin.alter(ofBroker, step.broker, false, step.op); code != 0 || bounds() != step.want {
			t.Errorf("%q %s: error %d, %s, want %s", step.broker, step.op, code, bounds(), step.want)
		}
	}
	dial(t, outside).closed()
	dial(t, n.lns[0].Addr().String()).ask(kmsg.NewPtrMetadataRequest())
	for _, op := range []string{"DELETE " + mostOutside, "DELETE " + rateOutside} {
		if code := admin.alter(ofBroker, "", false, op); code != 0 {
			t.Errorf("%s: error %d", op, code)
		}
	}
	if got := bounds(); got != "100 -1" {
		t.Errorf("taken back: %s", got)
	}
	dial(t, outside).ask(kmsg.NewPtrMetadataRequest())
}

// Apache Kafka 4.4 tells the same of what is set, and that it cannot be changed.
func TestListenersBoundsAreDescribed(t *testing.T) {
	n := startNode(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT", mostOutside+"=100")
	c := dial(t, n.lns[0].Addr().String())
	for broker, op := range map[string]string{"0": "SET " + mostOutside + "=3", "": "SET " + mostOutside + "=4"} {
		if code := c.alter(ofBroker, broker, false, op); code != 0 {
			t.Fatal(code)
		}
	}
	for broker, want := range map[string]string{
		"0": "3: 1 listener.name.outside.max.connections=3, 2 listener.name.outside.max.connections=4, 4 listener.name.outside.max.connections=100, 5 max.connections=2147483647",
		"":  "4: 2 listener.name.outside.max.connections=4",
	} {
		got := ""
		for _, v := range c.describe(ofBroker, broker) {
			if v.Name != mostOutside {
				continue
			}
			got += *v.Value + ":"
			for i, s := range v.ConfigSynonyms {
				source := map[kmsg.ConfigSource]int{kmsg.ConfigSourceDynamicBrokerConfig: 1, kmsg.ConfigSourceDynamicDefaultBrokerConfig: 2, kmsg.ConfigSourceStaticBrokerConfig: 4, kmsg.ConfigSourceDefaultConfig: 5}[s.Source]
				got += fmt.Sprintf("%s %d %s=%s", map[bool]string{true: ","}[i > 0], source, s.Name, *s.Value)
			}
			if !v.ReadOnly {
				t.Error("it is told to be changeable")
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", broker, got, want)
		}
	}
	if got, want := c.set(ofBroker, ""), map[string]string{mostOutside: "4"}; !maps.Equal(got, want) {
		t.Errorf("set for all: %v", got)
	}
}

// What is no number, lets nobody in, or is not to be changed is refused, as by Kafka.
func TestListenersBoundsAreJudged(t *testing.T) {
	n := startNode(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT")
	c := dial(t, n.lns[0].Addr().String())
	for op, want := range map[string]*kerr.Error{
		"SET " + mostOutside + "=x":                                   kerr.InvalidRequest,
		"SET " + mostOutside + "=-1":                                  kerr.InvalidRequest,
		"SET " + mostOutside + "=0":                                   kerr.InvalidRequest,
		"SET " + rateOutside + "=0":                                   kerr.InvalidRequest,
		"SET listener.name.outside.ssl.client.auth=none":              kerr.InvalidRequest,
		"SET listener.name.outside.ssl.keystore.location=/x":          kerr.InvalidRequest,
		"SET listener.name.outside.plain.connections.max.reauth.ms=1": kerr.InvalidRequest,
		"SET listener.name.outside.nonsense=1":                        kerr.InvalidConfig,
		"SET listener.name.out/side.max.connections=1":                kerr.InvalidConfig,
		"SET listener.name.OUTSIDE.max.connections=1":                 kerr.InvalidRequest,
		"SET listener.name.Elsewhere.max.connections=1":               kerr.InvalidRequest,
		"SET listener.name.outside.plain.max.connections=1":           kerr.InvalidRequest,
		"SET listener.name.outside.scram-sha-256.max.connections=1":   kerr.InvalidRequest,
	} {
		if code := c.alter(ofBroker, "0", false, op); code != want.Code {
			t.Errorf("%s: error %d, want %d", op, code, want.Code)
		}
	}
}

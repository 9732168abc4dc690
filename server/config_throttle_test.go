package server

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka's tool for reassignments sets the throttles of followers before it moves anything, and
// gives up if it cannot. As in Kafka they are told only where they are set.
func TestThrottlesOfFollowers(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	const own, all = "leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"
	for _, v := range append(c.describe(ofBroker, "0"), c.describe(ofBroker, "")...) {
		if v.Name == own || v.Name == all {
			t.Errorf("%s is told before it is set", v.Name)
		}
	}
	for _, bad := range []string{"SET " + own + "=x", "SET " + own + "=-1"} {
		if code := c.alter(ofBroker, "0", false, bad); code != 42 {
			t.Errorf("%s: error %d", bad, code)
		}
	}
	if code := c.alter(ofBroker, "0", false, "SET "+own+"=1000"); code != 0 {
		t.Fatal(code)
	}
	if code := c.alter(ofBroker, "", false, "SET "+all+"=2000"); code != 0 {
		t.Fatal(code)
	}
	told := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, v := range c.describe(ofBroker, "0") {
		told[v.Name] = v
	}
	if v := told[own]; v.Value == nil || *v.Value != "1000" || v.ReadOnly || len(v.ConfigSynonyms) != 1 {
		t.Errorf("%s: %+v", own, v)
	}
	if v := told[all]; v.Value == nil || *v.Value != "2000" || v.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig {
		t.Errorf("%s: %+v", all, v)
	}
	if got := c.set(ofBroker, ""); len(got) != 1 || got[all] != "2000" {
		t.Errorf("all brokers have %v", got)
	}
	if code := c.alter(ofBroker, "0", false, "DELETE "+own); code != 0 {
		t.Fatal(code)
	}
	if got := c.set(ofBroker, "0"); len(got) != 0 {
		t.Errorf("the broker has %v", got)
	}
	if _, err := LoadConfig(Sources{Sets: []string{own + "=1"}}); err == nil {
		t.Error("it is taken as a property, where it is none")
	}
}

package server

import (
	"strings"
	"testing"
	"time"
)

// clusterKeyRows are rows of TestConfigEveryKeyReachesSomething.
func clusterKeyRows() map[string]keyRow {
	const ms = time.Millisecond
	return map[string]keyRow{
		"listener.security.protocol.map":       {"A:SSL", func(c *Config) bool { return c.protocols["A"] == "SSL" }},        // TestListenersOfOneBroker
		"inter.broker.listener.name":           {"plaintext", func(c *Config) bool { return c.InterBroker == "PLAINTEXT" }}, // TestRequestsBetweenBrokers
		"broker.heartbeat.interval.ms":         {"31", func(c *Config) bool { return c.HeartbeatInterval == 31*ms }},
		"broker.session.timeout.ms":            {"2032", func(c *Config) bool { return c.SessionTimeout == 2032*ms }},
		"handover.wait.ms":                     {"33", func(c *Config) bool { return c.HandoverWait == 33*ms }},
		"advertised.listeners.wait.ms":         {"39", func(c *Config) bool { return c.AdvertisedWait == 39*ms }},
		"controlled.shutdown.enable":           {"false", func(c *Config) bool { return !c.ControlledShutdown }},
		"controller.election":                  {"Kubernetes", func(c *Config) bool { return c.Election == ElectionKubernetes }},
		"controller.lease.duration.ms":         {"4000", func(c *Config) bool { return c.LeaseDuration == 4000*ms }},
		"controller.lease.renew.deadline.ms":   {"1035", func(c *Config) bool { return c.LeaseRenewDeadline == 1035*ms }},
		"controller.lease.retry.ms":            {"36", func(c *Config) bool { return c.LeaseRetry == 36*ms }},
		"controller.lease.namespace":           {"ns", func(c *Config) bool { return c.LeaseNamespace == "ns" }},
		"controller.lease.name":                {"n", func(c *Config) bool { return c.LeaseName == "n" }},
		"offsets.topic.num.partitions":         {"37", func(c *Config) bool { return c.GroupShards == 37 }},
		"transaction.state.log.num.partitions": {"38", func(c *Config) bool { return c.TxnShards == 38 }},
	}
}

// What does not fit together stops the broker, and the key that was set is named.
func TestConfigTimesTogether(t *testing.T) {
	for _, tc := range []struct {
		sets []string
		want string // empty: fine
	}{
		{nil, ""},
		{[]string{"broker.session.timeout.ms=2001"}, ""},
		{[]string{"broker.session.timeout.ms=2000"}, "config broker.session.timeout.ms (from --set): broker.heartbeat.interval.ms must"},
		{[]string{"broker.heartbeat.interval.ms=9000"}, "config broker.heartbeat.interval.ms (from --set)"},
		{[]string{"controller.lease.renew.deadline.ms=3000"}, "config controller.lease.renew.deadline.ms (from --set)"},
		{[]string{"controller.lease.duration.ms=2000"}, "config controller.lease.duration.ms (from --set)"},
		{[]string{"controller.lease.retry.ms=1700"}, "config controller.lease.retry.ms (from --set)"},
		{[]string{"controller.lease.duration.ms=3500"}, "config controller.lease.duration.ms (from --set)"},
		{[]string{"controller.lease.retry.ms=1100"}, "no less than both others together"},
		{[]string{"controller.election=kubernetes"}, ""},
		{[]string{"controller.election=kubernetes", "controller.lease.duration.ms=4000"}, "config controller.lease.duration.ms (from --set)"},
		{[]string{"controller.election=zookeeper"}, "neither volume nor kubernetes"},
		{[]string{"controller.lease.name="}, "names no Lease"},
	} {
		_, err := LoadConfig(Sources{Sets: tc.sets})
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%v: %v", tc.sets, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%v: %v, want %q", tc.sets, err, tc.want)
		}
	}
}

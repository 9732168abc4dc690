package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/projections"
)

const ofGroup = kmsg.ConfigResourceTypeGroupConfig

// groupKeyRows are rows of TestConfigEveryKeyReachesSomething; the tests of the packages
// that take the configuration see it acting.
func groupKeyRows() map[string]keyRow {
	const ms = time.Millisecond
	of := func(ok func(groupshard.Config) bool) func(*Config) bool {
		return func(c *Config) bool { return ok(c.groupConfig(projections.NewCluster(), "g")) }
	}
	return map[string]keyRow{
		"group.min.session.timeout.ms":             {"41", of(func(c groupshard.Config) bool { return c.Classic.MinSession == 41*ms })},
		"group.max.session.timeout.ms":             {"42", of(func(c groupshard.Config) bool { return c.Classic.MaxSession == 42*ms })},
		"group.initial.rebalance.delay.ms":         {"43", of(func(c groupshard.Config) bool { return c.Classic.InitialDelay == 43*ms })},
		"group.max.size":                           {"44", of(func(c groupshard.Config) bool { return c.Classic.MaxSize == 44 })},
		"group.consumer.session.timeout.ms":        {"45001", of(func(c groupshard.Config) bool { return c.Consumer.SessionTimeout == 45001*ms })},
		"group.consumer.min.session.timeout.ms":    {"44999", func(c *Config) bool { return c.checkGroupConfig(groupSession("44999")) == nil }},
		"group.consumer.max.session.timeout.ms":    {"60001", func(c *Config) bool { return c.checkGroupConfig(groupSession("60001")) == nil }},
		"group.consumer.heartbeat.interval.ms":     {"5001", of(func(c groupshard.Config) bool { return c.Consumer.HeartbeatInterval == 5001*ms })},
		"group.consumer.min.heartbeat.interval.ms": {"4999", func(c *Config) bool { return c.checkGroupConfig(groupHeartbeat("4999")) == nil }},
		"group.consumer.max.heartbeat.interval.ms": {"15001", func(c *Config) bool { return c.checkGroupConfig(groupHeartbeat("15001")) == nil }},
		"group.consumer.max.size":                  {"46", of(func(c groupshard.Config) bool { return c.Consumer.MaxSize == 46 })},
		"group.consumer.assignors": {"range, uniform", of(func(c groupshard.Config) bool {
			return slices.Equal(c.Consumer.Assignors, []string{"range", "uniform"})
		})},
		"group.consumer.migration.policy":     {"Upgrade", of(func(c groupshard.Config) bool { return c.Consumer.Upgrade && !c.Consumer.Downgrade })},
		"offsets.retention.minutes":           {"47", of(func(c groupshard.Config) bool { return c.Retention == 47*time.Minute })},
		"offsets.retention.check.interval.ms": {"48", func(c *Config) bool { return (&Node{cfg: c}).options().Groups.CleanEvery == 48*ms }},
		"offset.metadata.max.bytes":           {"49", func(c *Config) bool { return c.Groups.MetadataMaxBytes == 49 }}, // TestOffsetCommit
	}
}

func groupSession(ms string) map[string]string {
	return map[string]string{projections.GroupSessionTimeout: ms}
}
func groupHeartbeat(ms string) map[string]string {
	return map[string]string{projections.GroupHeartbeatInterval: ms}
}

func TestConfigOfGroupsTogether(t *testing.T) {
	for _, tc := range []struct {
		sets []string
		want string // empty: fine
	}{
		{[]string{"group.consumer.session.timeout.ms=60000"}, ""},
		{[]string{"group.consumer.session.timeout.ms=60001"}, "config group.consumer.session.timeout.ms (from --set)"},
		{[]string{"group.consumer.session.timeout.ms=44999"}, "config group.consumer.session.timeout.ms (from --set)"},
		{[]string{"group.consumer.min.session.timeout.ms=1", "group.consumer.session.timeout.ms=5001"}, ""},
		{[]string{"group.consumer.min.session.timeout.ms=1", "group.consumer.session.timeout.ms=5000"}, "must not be above group.consumer.session.timeout.ms"},
		{[]string{"group.consumer.min.heartbeat.interval.ms=15001"}, "config group.consumer.min.heartbeat.interval.ms (from --set)"},
		{[]string{"group.consumer.max.heartbeat.interval.ms=4999"}, "config group.consumer.max.heartbeat.interval.ms (from --set)"},
		{[]string{"group.consumer.heartbeat.interval.ms=4999"}, "config group.consumer.heartbeat.interval.ms (from --set)"},
		{[]string{"group.consumer.assignors=uniform,uniform"}, "stands twice"},
		{[]string{"group.consumer.assignors="}, "neither uniform nor range"},
		{[]string{"group.consumer.migration.policy=sideways"}, "is none of"},
		{[]string{"group.max.size=0"}, "is not from 1"},
	} {
		_, err := LoadConfig(Sources{Sets: tc.sets})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.sets, err, tc.want)
		}
	}
}

// A group's configuration is set, shown with where it comes from, listed, kept, and what
// a broker's bounds do not allow is refused, or held within them if it was set before.
func TestGroupConfigs(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "group.consumer.heartbeat.interval.ms=6000")
	c := dial(t, n.Addr())
	told := func(name, key string) (s string) {
		t.Helper()
		for _, v := range c.describe(ofGroup, name) {
			if v.Name != key {
				continue
			}
			for _, y := range v.ConfigSynonyms {
				s += fmt.Sprintf("%s=%s from %d; ", y.Name, *y.Value, y.Source)
			}
			if v.ReadOnly || *v.Value != *v.ConfigSynonyms[0].Value || v.Source != v.ConfigSynonyms[0].Source {
				t.Errorf("%s: %+v", key, v)
			}
		}
		return s
	}
	if got := len(c.describe(ofGroup, "g")); got != 21 {
		t.Errorf("%d configurations of a group that is not there", got)
	}
	for _, tc := range []struct {
		op   string
		code int16
	}{
		{"SET consumer.session.timeout.ms=60001", 40}, {"SET consumer.session.timeout.ms=44999", 40},
		{"SET consumer.session.timeout.ms=soon", 40}, {"SET consumer.heartbeat.interval.ms=15001", 40},
		{"SET share.isolation.level=read_committed", 0}, {"SET consumer.session.timeout.ms=50000", 0},
		{"SET consumer.heartbeat.interval.ms=7000", 0}, {"DELETE share.isolation.level", 0},
	} {
		if code := c.alter(ofGroup, "g", true, tc.op); code != tc.code {
			t.Errorf("%s, only validated: error %d, want %d", tc.op, code, tc.code)
		}
		if code := c.alter(ofGroup, "g", false, tc.op); code != tc.code {
			t.Errorf("%s: error %d, want %d", tc.op, code, tc.code)
		}
	}
	rest := "group.consumer.heartbeat.interval.ms=6000 from 4; group.consumer.heartbeat.interval.ms=5000 from 5; "
	if got := told("g", "consumer.heartbeat.interval.ms"); got != "consumer.heartbeat.interval.ms=7000 from 8; "+rest {
		t.Error(got)
	}
	if got := told("h", "consumer.heartbeat.interval.ms"); got != rest {
		t.Error(got)
	}
	if got := told("g", "share.isolation.level"); got != "share.isolation.level=read_uncommitted from 5; " {
		t.Error(got)
	}
	list := kmsg.NewPtrListConfigResourcesRequest()
	list.Version, list.ResourceTypes = 1, []int8{int8(ofGroup)}
	if got := c.ask(list).(*kmsg.ListConfigResourcesResponse).ConfigResources; len(got) != 1 || got[0].Name != "g" || got[0].Type != int8(ofGroup) {
		t.Errorf("listed: %+v", got)
	}
	narrow := testConfig(t, dir, "group.consumer.max.session.timeout.ms=48000")
	view := n.broker.View()
	if got := narrow.groupConfig(view, "g").Consumer; got.SessionTimeout != 48*time.Second || got.HeartbeatInterval != 7*time.Second {
		t.Errorf("within narrower bounds: %+v", got)
	}
	if got := n.cfg.groupConfig(view, "g").Consumer; got.SessionTimeout != 50*time.Second {
		t.Errorf("as it was set: %+v", got)
	}
	if code := c.replace(ofGroup, "g", false); code != 0 || len(n.broker.View().ConfiguredGroups()) != 0 {
		t.Errorf("replaced by nothing: error %d, %v", code, n.broker.View().ConfiguredGroups())
	}
}

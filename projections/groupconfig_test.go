package projections

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
)

func TestGroupSettingTable(t *testing.T) {
	all := GroupSettings()
	if !slices.IsSortedFunc(all, func(a, b GroupSetting) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not in order")
	}
	defaults := map[string]string{}
	for _, s := range all {
		defaults[s.Name] = s.Default
		if err := s.Validate(s.Default); err != nil {
			t.Errorf("%s refuses its own default %q: %v", s.Name, s.Default, err)
		}
		if s.Doc == "" || s.Type == 0 {
			t.Errorf("%s lacks a type or a doc", s.Name)
		}
		if got, ok := LookupGroupSetting(s.Name); !ok || got.Name != s.Name {
			t.Errorf("%s is not found by its name", s.Name)
		}
	}
	if err := ValidateGroupConfig(defaults); err != nil {
		t.Errorf("the defaults together: %v", err)
	}
}

func TestGroupConfigValues(t *testing.T) {
	for _, tc := range []struct {
		set string
		ok  bool
	}{
		{"consumer.session.timeout.ms=1", true},
		{"consumer.session.timeout.ms=0", false},
		{"consumer.heartbeat.interval.ms=x", false},
		{"consumer.assignment.interval.ms=15001", false},
		{"consumer.assignor.offload.enable=no", false},
		{"share.auto.offset.reset=earliest", true},
		{"share.auto.offset.reset=by_duration:P1DT2H3.5S", true},
		{"share.auto.offset.reset=by_duration:P", false},
		{"share.auto.offset.reset=by_duration:PT", false},
		{"share.auto.offset.reset=by_duration:-PT1H", false},
		{"share.auto.offset.reset=none", false},
		{"share.isolation.level=read_committed", true},
		{"share.isolation.level=dirty", false},
		{"share.session.timeout.ms=44999", false},
		{"share.delivery.count.limit=2", true},
		{"streams.num.standby.replicas=3", false},
		{"errors.deadletterqueue.topic.name=dlq.a", true},
		{"errors.deadletterqueue.topic.name=__a", false},
		{"group.consumer.session.timeout.ms=1", false},
		{"no.such=1", false},
	} {
		name, value, _ := strings.Cut(tc.set, "=")
		err := ValidateGroupConfig(map[string]string{name: value})
		if (err == nil) != tc.ok || err != nil && (!errors.Is(err, kerr.InvalidConfig) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v", tc.set, err)
		}
	}
}

// What is set for a group is there whether or not the group is, and gone with its last key.
func TestGroupConfigInTheView(t *testing.T) {
	change := func(c *Cluster, group string, set map[string]string, deleted ...string) *Cluster {
		return fold(t, c, []metalog.Event{mustEvent(t, &ConfigChanged{Resource: ResourceGroup, Name: group, Set: set, Deleted: deleted})})
	}
	one := change(NewCluster(), "g", map[string]string{"a": "1", "b": "2"})
	one = change(one, "f", map[string]string{"a": "3"})
	two := change(one, "g", map[string]string{"a": "4"}, "b")
	if got := one.GroupConfig("g"); !maps.Equal(got, map[string]string{"a": "1", "b": "2"}) {
		t.Errorf("the view before shows %v", got)
	}
	if got := two.GroupConfig("g"); !maps.Equal(got, map[string]string{"a": "4"}) || !slices.Equal(two.ConfiguredGroups(), []string{"f", "g"}) {
		t.Errorf("g has %v, configured are %v", got, two.ConfiguredGroups())
	}
	back, err := Decode(mustEncode(t, two))
	if err != nil || !back.Equal(two) || two.Equal(one) {
		t.Errorf("decoded: %v, equal to the view before: %v", err, two.Equal(one))
	}
	if three := change(two, "g", nil, "a"); three.GroupConfig("g") != nil || !slices.Equal(three.ConfiguredGroups(), []string{"f"}) {
		t.Errorf("without its last key: %v", three.GroupConfig("g"))
	}
	if len(two.BrokerConfigs("g")) != 0 {
		t.Error("a group's configuration is a broker's")
	}
}

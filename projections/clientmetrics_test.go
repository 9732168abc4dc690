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

func TestClientMetricsValues(t *testing.T) {
	for _, s := range ClientMetricsSettings() {
		if err := ValidateClientMetrics(map[string]string{s.Name: s.Default}); err != nil || s.Doc == "" {
			t.Errorf("%s refuses its own default: %v", s.Name, err)
		}
	}
	for _, tc := range []struct {
		name, value string
		want        error
	}{
		{"interval.ms", "100", nil},
		{"interval.ms", "3600000", nil},
		{"interval.ms", "99", kerr.InvalidRequest},
		{"interval.ms", "3600001", kerr.InvalidRequest},
		{"interval.ms", "x", kerr.InvalidConfig},
		{"metrics", "*", nil},
		{"metrics", "org.apache.kafka.producer.,a b", nil},
		{"match", "client_id=a", nil},
		{"match", "client_software_name = java.*, client_source_port=1", nil},
		{"match", "client_instance_id=a,client_instance_id=b", nil},
		{"match", "client_id=[", kerr.InvalidConfig},
		{"match", "client_id=" + strings.Repeat("x{1000}", 30), kerr.InvalidConfig},
		{"match", strings.Repeat("client_id=x{1000},", 30), kerr.InvalidConfig}, // all of them are held to the bound of one
		{"match", "client=a", kerr.InvalidConfig},
		{"match", "client_id", kerr.InvalidConfig},
		{"retention.ms", "1", kerr.InvalidRequest},
	} {
		if err := ValidateClientMetrics(map[string]string{tc.name: tc.value}); !errors.Is(err, tc.want) {
			t.Errorf("%s=%q: %v, want %v", tc.name, tc.value, err, tc.want)
		}
	}
}

func TestClientMetricsInTheView(t *testing.T) {
	change := func(c *Cluster, name string, set map[string]string, deleted ...string) *Cluster {
		return fold(t, c, []metalog.Event{mustEvent(t, &ConfigChanged{Resource: ResourceClientMetrics, Name: name, Set: set, Deleted: deleted})})
	}
	one := change(NewCluster(), "b", map[string]string{"match": "", "metrics": "*"})
	two := change(change(one, "b", nil, "match"), "a", map[string]string{"metrics": "x"})
	if got := one.ClientMetrics("b"); !maps.Equal(got, map[string]string{"match": "", "metrics": "*"}) {
		t.Errorf("an earlier view has changed: %v", got)
	}
	if got := two.ClientMetrics("b"); !maps.Equal(got, map[string]string{"metrics": "*"}) || !slices.Equal(two.ClientMetricsNames(), []string{"a", "b"}) {
		t.Errorf("%v of %v", got, two.ClientMetricsNames())
	}
	raw, err := Encode(two)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode(raw); err != nil || !back.Equal(two) || back.Equal(one) {
		t.Errorf("read back: %v", err)
	}
	if three := change(two, "b", nil, "metrics"); three.ClientMetrics("b") != nil || !slices.Equal(three.ClientMetricsNames(), []string{"a"}) {
		t.Errorf("without its last key: %v", three.ClientMetricsNames())
	}
}

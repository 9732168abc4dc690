package server

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const ofMetrics = kmsg.ConfigResourceTypeClientMetrics

// Subscriptions to clients' metrics are kept and shown, with Kafka's codes for what is wrong.
func TestClientMetrics(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	for _, tc := range []struct {
		name, op string
		want     int16
	}{
		{"m", "SET interval.ms=1000", 0},
		{"m", "SET interval.ms=99", 42},
		{"m", "SET interval.ms=x", 40},
		{"m", "SET metrics=*", 0},
		{"m", "APPEND metrics=a", 40},
		{"m", "SUBTRACT match=a", 40},
		{"m", "SET match=client_id=[", 40},
		{"m", "SET match=client_id=a", 0},
		{"m", "SET nope=1", 42},
		{"m", "DELETE nope", 0},
		{"", "SET interval.ms=1000", 42},
		{"a/b c", "SET interval.ms=1000", 0},
	} {
		if code := c.alter(ofMetrics, tc.name, false, tc.op); code != tc.want {
			t.Errorf("%q %s: error %d, want %d", tc.name, tc.op, code, tc.want)
		}
	}
	want := map[string]string{"interval.ms": "1000", "metrics": "*", "match": "client_id=a"}
	for _, v := range c.describe(ofMetrics, "m") {
		if v.Source != kmsg.ConfigSourceClientMetricsConfig || *v.Value != want[v.Name] || len(v.ConfigSynonyms) != 1 {
			t.Errorf("%+v", v)
		}
		delete(want, v.Name)
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
	for _, v := range c.describe(ofMetrics, "unknown") {
		if v.Source != kmsg.ConfigSourceDefaultConfig || len(v.ConfigSynonyms) != 0 || v.ReadOnly {
			t.Errorf("%+v", v)
		}
	}
	if code := c.replace(ofMetrics, "m", false, "metrics=x"); code != 0 {
		t.Fatal(code)
	}
	if got := n.broker.View().ClientMetrics("m"); !maps.Equal(got, map[string]string{"metrics": "x"}) {
		t.Errorf("replaced: %v", got)
	}
}

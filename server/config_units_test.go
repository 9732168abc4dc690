package server

import (
	"fmt"
	"testing"

	"kaas.dev/kaas/projections"
)

// Hours and minutes act where milliseconds are not given, as in Kafka, and stand among the
// synonyms.
func TestKeysInUnits(t *testing.T) {
	view := projections.NewCluster()
	for _, tc := range []struct {
		sets       []string
		want, roll string
		synonyms   string
	}{
		{nil, "604800000", "604800000", "log.retention.hours=168/5 "},
		{[]string{"log.retention.hours=2"}, "7200000", "604800000", "log.retention.hours=2/4 log.retention.hours=168/5 "},
		{[]string{"log.retention.hours=2", "log.retention.minutes=3"}, "180000", "604800000", "log.retention.minutes=3/4 log.retention.hours=2/4 log.retention.hours=168/5 "},
		{[]string{"log.retention.hours=2", "log.retention.ms=5", "log.retention.minutes=3"}, "5", "604800000", "log.retention.ms=5/4 log.retention.minutes=3/4 log.retention.hours=2/4 log.retention.hours=168/5 "},
		{[]string{"log.retention.hours=-1", "log.roll.hours=1"}, "-1", "3600000", "log.retention.hours=-1/4 log.retention.hours=168/5 "},
		{[]string{"log.roll.hours=1", "log.roll.ms=9"}, "604800000", "9", "log.retention.hours=168/5 "},
	} {
		c, err := LoadConfig(Sources{Sets: tc.sets})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.topicDefaults["retention.ms"]; got != tc.want {
			t.Errorf("%v: topics keep records for %s, want %s", tc.sets, got, tc.want)
		}
		if got := c.topicDefaults["segment.ms"]; got != tc.roll {
			t.Errorf("%v: segments are rolled after %s, want %s", tc.sets, got, tc.roll)
		}
		shown := map[string]configValue{}
		for _, v := range append(c.describeTopic(view, nil), c.describeBroker(view)...) {
			shown[v.name] = v
		}
		synonyms := ""
		for _, s := range shown["retention.ms"].synonyms {
			synonyms += fmt.Sprintf("%s=%s/%d ", s.name, s.value, s.source)
		}
		if synonyms != tc.synonyms || shown["retention.ms"].value != tc.want || shown["log.retention.ms"].value != tc.want || shown["segment.ms"].value != tc.roll {
			t.Errorf("%v: retention is shown as %s and %s by %s, rolling as %s", tc.sets, shown["retention.ms"].value, shown["log.retention.ms"].value, synonyms, shown["segment.ms"].value)
		}
	}
	for _, bad := range []string{"log.retention.hours=0", "log.retention.minutes=x", "log.retention.hours=", "log.roll.hours=0", "log.roll.hours=-1", "log.retention.hours=9999999999"} {
		if _, err := LoadConfig(Sources{Sets: []string{bad}}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

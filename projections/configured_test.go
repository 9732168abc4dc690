package projections

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
)

// What need not be there cannot be configured without end.
func TestConfiguredWithoutEnd(t *testing.T) {
	for resource, tc := range map[string]struct {
		most int
		fits func(*Cluster) error
	}{
		ResourceGroup:         {MaxGroupConfigs, (*Cluster).GroupConfigFits},
		ResourceClientMetrics: {MaxClientMetrics, (*Cluster).ClientMetricsFit},
	} {
		events := make([]metalog.Event, tc.most)
		for i := range events {
			var err error
			if events[i], err = NewEvent(&ConfigChanged{Resource: resource, Name: fmt.Sprint(i), Set: map[string]string{"a": "1"}}); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Apply(NewCluster(), events[1:])
		if err != nil {
			t.Fatal(err)
		}
		if err := tc.fits(c); err != nil {
			t.Errorf("%s: the last that there may be: %v", resource, err)
		}
		if c, err = Apply(c, events[:1]); err != nil {
			t.Fatal(err)
		}
		if err := tc.fits(c); !errors.Is(err, kerr.PolicyViolation) {
			t.Errorf("%s: one more: %v", resource, err)
		}
	}
}

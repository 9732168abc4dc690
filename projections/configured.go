package projections

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// MaxGroupConfigs bounds for how many consumer groups something is set: they need not be there.
	MaxGroupConfigs = 100_000
	// MaxClientMetrics bounds the subscriptions to clients' metrics, which every client's are
	// matched against.
	MaxClientMetrics = 1_000
)

// GroupConfigFits is an error where no more groups may be configured. It wraps kerr.PolicyViolation.
func (c *Cluster) GroupConfigFits() error {
	return fits(c.groupConfigs, MaxGroupConfigs, "consumer groups with a configuration")
}

// ClientMetricsFit is the same of subscriptions to clients' metrics.
func (c *Cluster) ClientMetricsFit() error {
	return fits(c.clientMetrics, MaxClientMetrics, "subscriptions to clients' metrics")
}

func fits(all map[string]map[string]string, most int, what string) error {
	if len(all) < most {
		return nil
	}
	return fmt.Errorf("%w: there would be more than %d %s", kerr.PolicyViolation, most, what)
}

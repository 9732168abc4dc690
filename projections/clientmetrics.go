package projections

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/pattern"
)

// ClientMetricsSetting is a configuration name that subscriptions to clients' metrics have
// (KIP-714).
type ClientMetricsSetting struct {
	Name, Default string
	Type          kmsg.ConfigType
	Doc           string
	check         func(string) error
}

const (
	shortestPush = 100
	longestPush  = 3_600_000
)

// clientMetricsSettings is every name that Kafka 4.4 knows, in order.
var clientMetricsSettings = []ClientMetricsSetting{
	{"interval.ms", "300000", kmsg.ConfigTypeInt, "How often clients are to send their metrics, in milliseconds. Without effect: they are not asked to.", pushInterval},
	{"match", "", kmsg.ConfigTypeList, "Which clients are meant: SELECTOR=PATTERN, several with commas between them; all if empty.", matches},
	{"metrics", "", kmsg.ConfigTypeList, "Prefixes of the metrics that are asked for; * for all.", func(string) error { return nil }},
}

// ClientMetricsSettings returns every configuration of subscriptions, by name.
func ClientMetricsSettings() []ClientMetricsSetting { return slices.Clone(clientMetricsSettings) }

// ValidateClientMetrics tells what is wrong with the first of a subscription's settings, by
// name. As in Kafka a name that is unknown, and an interval that is out of bounds, are
// kerr.InvalidRequest; anything else is kerr.InvalidConfig.
func ValidateClientMetrics(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := slices.IndexFunc(clientMetricsSettings, func(s ClientMetricsSetting) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: unknown configuration of client metrics %.200q", kerr.InvalidRequest, name)
		}
		err := clientMetricsSettings[i].check(set[name])
		if err == nil {
			continue
		}
		code := kerr.InvalidConfig
		if errors.Is(err, errInterval) {
			code = kerr.InvalidRequest
		}
		return fmt.Errorf("%w: %s=%.200q: %w", code, name, set[name], err)
	}
	return nil
}

var errInterval = fmt.Errorf("must be from %d to %d", shortestPush, longestPush)

func pushInterval(s string) error {
	n, err := parseInt(s, 32)
	if err == nil && (n < shortestPush || n > longestPush) {
		err = errInterval
	}
	return err
}

var selectors = []string{
	"client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
}

// matches accepts SELECTOR=PATTERN pairs.
func matches(s string) error {
	var exprs []string
	for _, pair := range list(s) {
		name, expr, ok := strings.Cut(pair, "=")
		if name, expr = trim(name), trim(expr); !ok || !slices.Contains(selectors, name) {
			return fmt.Errorf("must be SELECTOR=PATTERN with a selector of %s", strings.Join(selectors, ", "))
		}
		exprs = append(exprs, expr)
	}
	if pattern.Check(exprs...) != nil {
		return errors.New("has a pattern that is no regular expression, or patterns that are too large")
	}
	return nil
}

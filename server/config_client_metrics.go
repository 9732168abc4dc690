package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// describeClientMetrics shows every configuration of a subscription to clients' metrics for
// which set is set, whether or not there is such a one.
func describeClientMetrics(set map[string]string) (out []configValue) {
	for _, s := range projections.ClientMetricsSettings() {
		v := configValue{name: s.Name, value: s.Default, kind: s.Type, doc: s.Doc}
		if value, ok := set[s.Name]; ok {
			v.synonyms = []configValue{{name: s.Name, value: value, source: kmsg.ConfigSourceClientMetricsConfig}}
		}
		out = append(out, shownConfig(v))
	}
	return out
}

package reconcile

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
)

var changes = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kaas_operator_changes_total", Help: "What was done to the cluster, by the resource's kind and what it was.",
}, []string{"kind", "change"})

func init() { metrics.Registry.MustRegister(changes) }

var resourcesDesc = prometheus.NewDesc("kaas_operator_resources", "Resources by kind and the reason of their condition Ready.", []string{"kind", "reason"}, nil)

// counts is a collector of how many resources there are, as they are cached.
type counts struct{ c client.Reader }

// Count has the metrics tell how many resources there are.
func Count(c client.Reader) error { return metrics.Registry.Register(counts{c}) }

func (c counts) Describe(ch chan<- *prometheus.Desc) { ch <- resourcesDesc }

func (c counts) Collect(ch chan<- prometheus.Metric) {
	var topics v1alpha1.KafkaTopicList
	var users v1alpha1.KafkaUserList
	ctx := context.Background() // the cache answers at once
	if c.c.List(ctx, &topics) != nil || c.c.List(ctx, &users) != nil {
		return // it is not filled yet
	}
	n := map[[2]string]float64{}
	for i := range topics.Items {
		n[[2]string{"KafkaTopic", reasonOf(&topics.Items[i])}]++
	}
	for i := range users.Items {
		n[[2]string{"KafkaUser", reasonOf(&users.Items[i])}]++
	}
	for k, v := range n {
		ch <- prometheus.MustNewConstMetric(resourcesDesc, prometheus.GaugeValue, v, k[0], k[1])
	}
}

func reasonOf(r resource) string {
	if c := meta.FindStatusCondition(*r.Conditions(), ConditionReady); c != nil {
		return c.Reason
	}
	return "New"
}

package reconcile

import (
	"maps"
	"slices"
	"strings"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// topicPlan is what is to be done about a topic that is there.
type topicPlan struct {
	grow     int32 // to so many partitions; 0 is no
	shrinks  bool  // fewer partitions are wanted than there are
	set      map[string]string
	reset    []string
	settings []string // their names, of set and reset
}

func planTopic(spec *v1alpha1.KafkaTopicSpec, managed []string, have *kafka.Topic) topicPlan {
	p := topicPlan{set: map[string]string{}}
	if want := spec.Partitions; want != nil && *want > have.Partitions {
		p.grow = *want
	} else {
		p.shrinks = want != nil && *want < have.Partitions
	}
	for name, want := range spec.Configs {
		if now, is := have.Configs[name]; !is || !now.Means(want) {
			p.set[name] = want
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have.Configs)) {
		if _, wanted := spec.Configs[name]; !wanted && isOurs(spec, managed, name) {
			p.reset = append(p.reset, name)
		}
	}
	p.settings = slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(p.set)), p.reset...)))
	return p
}

// isOurs is whether a setting that the resource does not list is the operator's to take away.
func isOurs(spec *v1alpha1.KafkaTopicSpec, managed []string, name string) bool {
	if strings.HasSuffix(name, ".replication.throttled.replicas") {
		return false // set by Kafka's tool while it moves replicas, and taken away by it
	}
	return spec.OtherConfigs != v1alpha1.KeepOthers || slices.Contains(managed, name)
}

// names are the settings that are, or are about to be, the operator's.
func names(managed []string, configs map[string]string) []string {
	all := slices.Sorted(maps.Keys(configs))
	for _, name := range managed {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

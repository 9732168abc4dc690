package projections

import (
	"fmt"
	"maps"
	"slices"
)

// Resources whose configuration the cluster stream keeps.
const (
	ResourceTopic         = "topic"
	ResourceBroker        = "broker"
	ResourceGroup         = "group"
	ResourceClientMetrics = "client-metrics"
)

// ConfigChanged says which keys of a resource were set and which went back to
// their default. A topic is meant by its ID; a broker by its ID in decimal, all
// brokers by the empty name; a consumer group by its ID, whether or not it is there; a
// subscription to clients' metrics by its name.
type ConfigChanged struct {
	Resource string            `msgpack:"resource" json:"resource"`
	Name     string            `msgpack:"name" json:"name"`
	TopicID  TopicID           `msgpack:"topic_id" json:"topic_id,omitzero"`
	Set      map[string]string `msgpack:"set,omitempty" json:"set,omitempty"`
	Deleted  []string          `msgpack:"deleted,omitempty" json:"deleted,omitempty"`
}

func init() { register(func() Fact { return new(ConfigChanged) }) }

// EventName implements Fact.
func (*ConfigChanged) EventName() string { return "ConfigChanged" }

func (e *ConfigChanged) String() string {
	return fmt.Sprintf("configuration of %s %q changed%s", e.Resource, e.Name, settings(e.Set, e.Deleted))
}

func (e *ConfigChanged) apply(d *draft) {
	switch e.Resource {
	case ResourceTopic:
		if t := d.editTopic(e.TopicID); t != nil {
			t.Configs = edited(t.Configs, e.Set, e.Deleted)
		}
	case ResourceBroker:
		d.setBrokerConfigs(e.Name, edited(d.brokerConfigs[e.Name], e.Set, e.Deleted))
	case ResourceGroup:
		d.setGroupConfigs(e.Name, edited(d.groupConfigs[e.Name], e.Set, e.Deleted))
	case ResourceClientMetrics:
		d.setClientMetrics(e.Name, edited(d.clientMetrics[e.Name], e.Set, e.Deleted))
	}
}

// settings says what was set and deleted, in order.
func settings(set map[string]string, deleted []string) string {
	s := ""
	for _, k := range slices.Sorted(maps.Keys(set)) {
		s += fmt.Sprintf(", %s=%s", k, set[k])
	}
	for _, k := range deleted {
		s += fmt.Sprintf(", %s back to default", k)
	}
	return s
}

package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// liveKeys are the broker's own keys that can be changed while it runs, through
// AlterConfigs. The defaults of topics can, too. A key may stand here only if
// whatever acts on it takes it from a configuration that came from [Config.in].
var liveKeys = map[string]bool{
	"log.cleaner.backoff.ms":              true,
	"log.cleaner.dedupe.buffer.size":      true,
	"log.cleaner.io.max.bytes.per.second": true,
	"log.cleaner.threads":                 true,
	"log.flush.interval.messages":         true,
	"max.connection.creation.rate":        true,
	"max.connections":                     true,
	"max.connections.per.ip":              true,
	"max.connections.per.ip.overrides":    true,
	"producer.id.expiration.ms":           true,
}

func (k *configKey) live() bool { return k.topic != "" || k.throttle || liveKeys[k.name] }

// in is the configuration as the view changes it: what is set for this broker over
// what is set for all, over its own. Without changes it is c itself.
func (c *Config) in(view *projections.Cluster) *Config {
	set := maps.Clone(view.BrokerConfigs(""))
	for k, v := range view.BrokerConfigs(c.id()) {
		if set == nil {
			set = map[string]string{}
		}
		set[k] = v
	}
	if len(set) == 0 {
		return c
	}
	live := *c
	live.topicDefaults = maps.Clone(c.topicDefaults)
	for name, value := range set {
		if k := keyNamed(name); k != nil && k.live() {
			_ = k.set(&live, value) // checked when it was set; a name that went away acts no more
		}
	}
	live.inListeners(set)
	return &live
}

// id is this broker's resource name.
func (c *Config) id() string { return strconv.Itoa(int(c.NodeID)) }

// livePartitionConfig is how a topic's partitions are configured in a view.
func (c *Config) livePartitionConfig(view *projections.Cluster, t *projections.Topic) partition.Config {
	return c.in(view).partitionConfig(t)
}

// checkBrokerConfigs judges what is to be set for this broker, or for all. Kafka
// answers INVALID_REQUEST for what it knows and cannot change or take, and here a
// name that is unknown is INVALID_CONFIG.
func (c *Config) checkBrokerConfigs(view *projections.Cluster, set map[string]string) error {
	scratch := *c.in(view)
	scratch.topicDefaults = maps.Clone(scratch.topicDefaults)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		k, set := alterableKey(name), set[name]
		_, _, ofListener := splitScoped(name)
		switch {
		case k == nil && !ofListener:
			return fmt.Errorf("%w: unknown broker configuration %.200q", kerr.InvalidConfig, name)
		case k == nil:
			if err := checkLiveScoped(&scratch, name, set); err != nil {
				return err
			}
			continue
		case !k.live():
			return notLive(name)
		}
		if err := k.set(&scratch, set); err != nil {
			return fmt.Errorf("%w: %s: %w", kerr.InvalidRequest, name, err)
		}
	}
	if key, err := checkPerIP(&scratch); err != nil && set[key] != "" {
		return fmt.Errorf("%w: %s: %w", kerr.InvalidRequest, key, err)
	}
	return nil
}

func notLive(name string) error {
	if strings.HasSuffix(name, "store.location") {
		return fmt.Errorf("%w: %s cannot be changed while the broker runs: replace the file, which is read again by itself", kerr.InvalidRequest, name)
	}
	return fmt.Errorf("%w: %s cannot be changed while the broker runs", kerr.InvalidRequest, name)
}

// inherited is what a key of a resource would be if it were not set for it.
func (c *Config) inherited(view *projections.Cluster, kind kmsg.ConfigResourceType, resource, key string) string {
	if kind == kmsg.ConfigResourceTypeTopic {
		if v, ok := c.in(view).topicDefaults[key]; ok {
			return v
		}
		if tc, ok := projections.LookupTopicConfig(key); ok {
			return tc.Default
		}
		return ""
	}
	if kind != kmsg.ConfigResourceTypeBroker {
		return "" // the others have nothing that could be added to
	}
	if v, ok := view.BrokerConfigs("")[key]; ok && resource != "" {
		return v
	}
	if s := c.settings[key]; s.source != "" {
		return s.value
	}
	if k := keyNamed(key); k != nil {
		return c.defaultOf(k)
	}
	return ""
}

// checkTopicConfigs judges what is to be set for a topic, together with the
// defaults that it leaves in force.
func (c *Config) checkTopicConfigs(view *projections.Cluster, set map[string]string) error {
	if err := projections.ValidateTopicConfigs(set); err != nil {
		return err
	}
	all := maps.Clone(c.in(view).topicDefaults)
	maps.Copy(all, set)
	return projections.ValidateTopicConfigs(all)
}

// isList reports whether a key of a resource is a list, which can be added to. As in Kafka
// those of groups and of client metrics cannot.
func isList(kind kmsg.ConfigResourceType, key string) bool {
	if kind == kmsg.ConfigResourceTypeTopic {
		tc, ok := projections.LookupTopicConfig(key)
		return ok && tc.Type == kmsg.ConfigTypeList
	}
	k := keyNamed(key)
	return kind == kmsg.ConfigResourceTypeBroker && k != nil && k.kind == kmsg.ConfigTypeList
}

// splitList is a list's items in order, each once.
func splitList(s string) (items []string) {
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" && !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

// configOp is a change of one key.
type configOp struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// checkOps refuses what no resource could be asked for.
func checkOps(ops []configOp) error {
	seen := map[string]bool{}
	for _, o := range ops {
		switch {
		case seen[o.name]:
			return fmt.Errorf("%w: %.200q stands twice", kerr.InvalidRequest, o.name)
		case o.op < kmsg.IncrementalAlterConfigOpSet || o.op > kmsg.IncrementalAlterConfigOpSubtract:
			return fmt.Errorf("%w: operation %d of %.200q is unknown", kerr.InvalidRequest, o.op, o.name)
		case o.op != kmsg.IncrementalAlterConfigOpDelete && o.value == nil:
			return fmt.Errorf("%w: %.200q has no value", kerr.InvalidRequest, o.name)
		}
		seen[o.name] = true
	}
	return nil
}

var errNotList = errors.New("is not a list: it can be neither added to nor taken from")

// applyOps is what is set after the changes, each of its own key. A key without a
// value of its own is added to, or taken from, as it is inherited.
func applyOps(kind kmsg.ConfigResourceType, set map[string]string, ops []configOp, inherited func(string) string) (map[string]string, error) {
	next := maps.Clone(set)
	if next == nil {
		next = map[string]string{}
	}
	for _, o := range ops {
		switch o.op {
		case kmsg.IncrementalAlterConfigOpSet:
			next[o.name] = strings.TrimSpace(*o.value)
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(next, o.name)
		default:
			if !isList(kind, o.name) {
				return nil, fmt.Errorf("%w: %.200q %w", kerr.InvalidConfig, o.name, errNotList)
			}
			now, ok := next[o.name]
			if !ok {
				now = inherited(o.name)
			}
			next[o.name] = strings.Join(editList(splitList(now), splitList(*o.value), o.op), ",")
		}
	}
	return next, nil
}

func editList(items, change []string, op kmsg.IncrementalAlterConfigOp) []string {
	for _, item := range change {
		i := slices.Index(items, item)
		switch {
		case op == kmsg.IncrementalAlterConfigOpAppend && i < 0:
			items = append(items, item)
		case op == kmsg.IncrementalAlterConfigOpSubtract && i >= 0:
			items = slices.Delete(items, i, i+1)
		}
	}
	return items
}

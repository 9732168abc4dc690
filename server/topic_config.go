package server

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// acted are the topic configurations that this build acts on. Others are checked,
// stored and shown; a broker whose properties set one of those says so at start.
var acted = map[string]bool{
	"segment.bytes": true, "segment.ms": true, "index.interval.bytes": true, "max.message.bytes": true, "max.decompressed.message.bytes": true,
	"message.timestamp.type": true, "message.timestamp.after.max.ms": true, "message.timestamp.before.max.ms": true,
	"cleanup.policy": true, "retention.ms": true, "retention.bytes": true, "file.delete.delay.ms": true,
	"min.cleanable.dirty.ratio": true, "min.compaction.lag.ms": true, "max.compaction.lag.ms": true, "delete.retention.ms": true,
	"compression.type": true, "compression.gzip.level": true, "compression.lz4.level": true, "compression.zstd.level": true,
}

// partitionConfig is the configuration of a topic's partitions: what is set for the
// topic over the broker's defaults.
func (c *Config) partitionConfig(t *projections.Topic) partition.Config {
	value := func(name string) string {
		if v, ok := t.Configs[name]; ok {
			return v
		}
		return c.topicDefaults[name]
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(strings.TrimSpace(value(name)), 10, 64) // checked when it was set
		return n
	}
	pc := partition.Config{
		FlushMessages:      c.FlushMessages,
		ProducerExpiry:     c.ProducerExpiry,
		StallAfter:         c.StallAfter,
		SegmentBytes:       number("segment.bytes"),
		SegmentAge:         durationMs(number("segment.ms")),
		IndexIntervalBytes: int(max(1, number("index.interval.bytes"))), // 0 would mean the default
		MaxMessageBytes:    int(max(1, number("max.message.bytes"))),
		MaxInflated:        int(number("max.decompressed.message.bytes")),
		LogAppendTime:      value("message.timestamp.type") == "LogAppendTime",
		TimestampAfterMax:  boundMs(number("message.timestamp.after.max.ms")),
		TimestampBeforeMax: boundMs(number("message.timestamp.before.max.ms")),
		Cleanup:            cleanup(value, number),
		Compression:        compression(value, number),
	}
	return pc
}

// boundMs is a bound of n milliseconds; what a Duration cannot hold is no bound. Zero
// is less than any millisecond, for a configuration's zero is its default.
func boundMs(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return -1
	}
	return max(1, durationMs(n))
}

// durationMs is n milliseconds; what a Duration cannot hold is its longest.
func durationMs(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// notActed are the set keys whose value is shown to clients without effect yet.
func (c *Config) notActed() (keys []string) {
	for _, k := range configKeys {
		if k.topic != "" && !acted[k.topic] && c.settings[k.name].source != "" {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// configValue is one configuration as clients are shown it. Where anything is set for it, it is
// its own first synonym. As in Kafka a default that no broker can be given has none.
type configValue struct {
	name     string
	value    string
	millis   string // of a synonym in other units: what it comes to
	source   kmsg.ConfigSource
	kind     kmsg.ConfigType
	doc      string
	readOnly bool
	synonyms []configValue
}

// describeTopic shows every configuration of a topic for which set is set, with
// where it comes from in Kafka's order: the topic, this broker, all brokers, this
// broker's own properties, the default.
func (c *Config) describeTopic(view *projections.Cluster, set map[string]string) (out []configValue) {
	for _, tc := range projections.TopicConfigs() {
		var syn []configValue
		if v, ok := set[tc.Name]; ok {
			syn = append(syn, configValue{name: tc.Name, value: parsedConfig(tc.Type, v), source: kmsg.ConfigSourceDynamicTopicConfig})
		}
		if k := keyNamed(tc.Broker); k != nil {
			syn = append(syn, c.brokerSynonyms(view, k)...)
		} else if tc.Broker != "" {
			syn = append(syn, configValue{name: tc.Broker, value: tc.Default, source: kmsg.ConfigSourceDefaultConfig})
		}
		out = append(out, shownConfig(configValue{name: tc.Name, value: tc.Default, kind: tc.Type, doc: tc.Doc, synonyms: syn}))
	}
	return out
}

// shownConfig is v with the value of its strongest synonym or, without any, its default.
func shownConfig(v configValue) configValue {
	v.source = kmsg.ConfigSourceDefaultConfig
	if len(v.synonyms) > 0 {
		v.value, v.source = cmp.Or(v.synonyms[0].millis, v.synonyms[0].value), v.synonyms[0].source
	}
	v.value = parsedConfig(v.kind, v.value)
	return v
}

// parsedConfig is a value that was taken, written as Kafka writes what it has parsed: whoever
// compares what is described with what was meant does not trip over blanks, signs and capitals.
func parsedConfig(kind kmsg.ConfigType, value string) string {
	trimmed := strings.TrimSpace(value)
	switch kind {
	case kmsg.ConfigTypeBoolean:
		return strings.ToLower(trimmed)
	case kmsg.ConfigTypeInt, kmsg.ConfigTypeLong, kmsg.ConfigTypeShort:
		if n, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	case kmsg.ConfigTypeList:
		parts := strings.Split(trimmed, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return strings.Join(parts, ",")
	}
	return value
}

// brokerSynonyms is all that is set for a broker's key, strongest first.
func (c *Config) brokerSynonyms(view *projections.Cluster, k *configKey) (syn []configValue) {
	syn = c.dynamicSynonyms(view, k.name, k)
	if s := c.settings[k.name]; s.source != "" {
		syn = append(syn, configValue{name: k.name, value: strings.TrimSpace(s.value), source: kmsg.ConfigSourceStaticBrokerConfig})
	}
	if units := c.unitSynonyms(k.name); len(units) > 0 {
		return append(syn, units...)
	}
	if k.throttle {
		return syn // which as in Kafka has no default
	}
	return append(syn, configValue{name: k.name, value: c.defaultOf(k), source: kmsg.ConfigSourceDefaultConfig})
}

// dynamicSynonyms is what is set while the broker runs, for it and for all.
func (c *Config) dynamicSynonyms(view *projections.Cluster, name string, k *configKey) (syn []configValue) {
	if v, ok := view.BrokerConfigs(c.id())[name]; ok && k.live() {
		syn = append(syn, configValue{name: name, value: v, source: kmsg.ConfigSourceDynamicBrokerConfig})
	}
	if v, ok := view.BrokerConfigs("")[name]; ok && k.live() {
		syn = append(syn, configValue{name: name, value: v, source: kmsg.ConfigSourceDynamicDefaultBrokerConfig})
	}
	return syn
}

// describeBroker shows every key of this broker.
func (c *Config) describeBroker(view *projections.Cluster) (out []configValue) {
	keys := alterableKeys()
	for i := range keys {
		k := &keys[i]
		syn := c.brokerSynonyms(view, k)
		if len(syn) == 0 {
			continue
		}
		out = append(out, shownConfig(configValue{name: k.name, kind: k.kind, doc: k.doc, readOnly: !k.live(), synonyms: syn}))
	}
	for _, name := range c.scopedNames(view) {
		if v, ok := c.scopedValue(view, name); ok {
			out = append(out, v)
		}
	}
	return out
}

// describeAllBrokers shows what is set for all brokers, and nothing else.
func describeAllBrokers(view *projections.Cluster) (out []configValue) {
	show := func(name string, k *configKey, readOnly bool) {
		if v, ok := view.BrokerConfigs("")[name]; ok && k.live() {
			syn := []configValue{{name: name, value: v, source: kmsg.ConfigSourceDynamicDefaultBrokerConfig}}
			out = append(out, configValue{name: name, value: v, source: syn[0].source, kind: k.kind, doc: k.doc, readOnly: readOnly, synonyms: syn})
		}
	}
	keys := alterableKeys()
	for i := range keys {
		show(keys[i].name, &keys[i], false)
	}
	for _, name := range slices.Sorted(maps.Keys(view.BrokerConfigs(""))) {
		if k, _, ok := splitScoped(name); ok && keyNamed(name) == nil {
			show(name, k, true)
		}
	}
	return out
}

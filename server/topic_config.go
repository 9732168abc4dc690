package server

import (
	"math"
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
	"segment.bytes": true, "segment.ms": true, "index.interval.bytes": true, "max.message.bytes": true,
	"message.timestamp.type": true, "message.timestamp.after.max.ms": true,
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
		LogAppendTime:      value("message.timestamp.type") == "LogAppendTime",
	}
	switch after := number("message.timestamp.after.max.ms"); {
	case after > math.MaxInt64/int64(time.Millisecond):
		pc.TimestampAfterMax = -1
	default:
		pc.TimestampAfterMax = max(1, durationMs(after))
	}
	return pc
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

// configValue is one configuration as clients are shown it. It is its own first synonym.
type configValue struct {
	name     string
	value    string
	source   kmsg.ConfigSource
	kind     kmsg.ConfigType
	doc      string
	readOnly bool
	synonyms []configValue
}

// describeTopic shows every configuration of a topic for which set is set.
func (c *Config) describeTopic(set map[string]string) (out []configValue) {
	for _, tc := range projections.TopicConfigs() {
		var syn []configValue
		if v, ok := set[tc.Name]; ok {
			syn = append(syn, configValue{name: tc.Name, value: v, source: kmsg.ConfigSourceDynamicTopicConfig})
		}
		fallback := tc.Name
		if k := keyNamed(tc.Broker); k != nil {
			fallback = tc.Broker
			if s := c.settings[tc.Broker]; s.source != "" {
				syn = append(syn, configValue{name: tc.Broker, value: c.topicDefaults[tc.Name], source: kmsg.ConfigSourceStaticBrokerConfig})
			}
		}
		syn = append(syn, configValue{name: fallback, value: tc.Default, source: kmsg.ConfigSourceDefaultConfig})
		out = append(out, configValue{name: tc.Name, value: syn[0].value, source: syn[0].source, kind: tc.Type, doc: tc.Doc, synonyms: syn})
	}
	return out
}

// describeBroker shows every key of this broker. None can be changed while it runs.
func (c *Config) describeBroker() (out []configValue) {
	for _, k := range configKeys {
		var syn []configValue
		s := c.settings[k.name]
		if s.source != "" {
			syn = append(syn, configValue{name: k.name, value: s.value, source: kmsg.ConfigSourceStaticBrokerConfig})
		}
		syn = append(syn, configValue{name: k.name, value: k.def, source: kmsg.ConfigSourceDefaultConfig})
		out = append(out, configValue{name: k.name, value: syn[0].value, source: syn[0].source, kind: k.kind, doc: k.doc, readOnly: true, synonyms: syn})
	}
	return out
}

package projections

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestTopicConfigTable(t *testing.T) {
	all := TopicConfigs()
	if !slices.IsSortedFunc(all, func(a, b TopicConfig) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not in order")
	}
	for _, c := range all {
		if err := c.Validate(c.Default); err != nil {
			t.Errorf("%s refuses its own default %q: %v", c.Name, c.Default, err)
		}
		if c.Doc == "" || c.Type == 0 {
			t.Errorf("%s lacks a type or a doc", c.Name)
		}
		if got, ok := LookupTopicConfig(c.Name); !ok || got.Name != c.Name {
			t.Errorf("%s is not found by its name", c.Name)
		}
	}
}

func TestTopicConfigValues(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		ok          bool
	}{
		{"cleanup.policy", "compact,delete", true},
		{"cleanup.policy", "", true},
		{"cleanup.policy", "delete, compact", true},
		{"cleanup.policy", "compact,compact", false},
		{"cleanup.policy", "shred", false},
		{"retention.ms", "-1", true},
		{"retention.ms", "-2", false},
		{"retention.ms", " 5 ", true},
		{"retention.bytes", "-5", true},
		{"retention.ms", "1e3", false},
		{"retention.ms", "9223372036854775808", false},
		{"segment.bytes", "1048576", true},
		{"segment.bytes", "1048575", false},
		{"segment.bytes", "2147483648", false},
		{"min.cleanable.dirty.ratio", "0.25", true},
		{"min.cleanable.dirty.ratio", "1.01", false},
		{"min.cleanable.dirty.ratio", "NaN", false},
		{"preallocate", "TRUE", true},
		{"preallocate", "yes", false},
		{"message.timestamp.type", "LogAppendTime", true},
		{"message.timestamp.type", "logappendtime", false},
		{"compression.type", "zstd", true},
		{"compression.type", "brotli", false},
		{"compression.gzip.level", "0", false},
		{"compression.gzip.level", "-1", true},
		{"remote.storage.enable", "false", true},
		{"remote.storage.enable", "true", false},
		{"leader.replication.throttled.replicas", "*", true},
		{"leader.replication.throttled.replicas", "0:1,2:3", true},
		{"leader.replication.throttled.replicas", "0", false},
		{"message.downconversion.enable", "true", false},
		{"message.format.version", "2.8", false},
		{"no.such.name", "1", false},
		{"max.message.bytes", "", false},
	} {
		err := ValidateTopicConfigs(map[string]string{tc.name: tc.value})
		if (err == nil) != tc.ok {
			t.Errorf("%s=%q: %v, want ok %v", tc.name, tc.value, err, tc.ok)
		}
		if err != nil && (!errors.Is(err, kerr.InvalidConfig) || !strings.Contains(err.Error(), tc.name)) {
			t.Errorf("%s=%q: error %v does not say what it should", tc.name, tc.value, err)
		}
	}
}

func TestTopicConfigsThatDisagree(t *testing.T) {
	err := ValidateTopicConfigs(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
	if !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("minimum above maximum: %v", err)
	}
	if err := ValidateTopicConfigs(map[string]string{"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "9"}); err != nil {
		t.Error(err)
	}
}

func TestTopicConfigLookup(t *testing.T) {
	topic := &Topic{Configs: map[string]string{"retention.ms": "5"}}
	if v, set := topic.Config("retention.ms"); v != "5" || !set || topic.ConfigInt("retention.ms", 7) != 5 {
		t.Errorf("retention.ms is %s, %v", v, set)
	}
	if v, set := topic.Config("segment.ms"); v != "604800000" || set || topic.ConfigInt("segment.ms", 7) != 7 {
		t.Errorf("segment.ms is %s, %v", v, set)
	}
}

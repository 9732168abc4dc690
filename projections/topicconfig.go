package projections

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicConfig is a configuration name that topics have.
type TopicConfig struct {
	Name    string
	Default string // unless the broker's property says otherwise
	Type    kmsg.ConfigType
	// Broker is Kafka's property for the default of all topics, "" if it has none.
	Broker string
	// Honoured is false for what is stored and shown without effect.
	Honoured bool
	Doc      string
	check    func(string) error
}

// Validate tells what is wrong with a value of this name, or returns nil. The
// error does not name the configuration.
func (c *TopicConfig) Validate(value string) error { return c.check(value) }

var topicConfigIndex = func() map[string]*TopicConfig {
	m := make(map[string]*TopicConfig, len(topicConfigs))
	for i := range topicConfigs {
		m[topicConfigs[i].Name] = &topicConfigs[i]
	}
	return m
}()

// TopicConfigs returns every configuration of topics, by name.
func TopicConfigs() []TopicConfig { return slices.Clone(topicConfigs) }

// LookupTopicConfig returns the configuration of that name.
func LookupTopicConfig(name string) (*TopicConfig, bool) {
	c, ok := topicConfigIndex[name]
	return c, ok
}

// ValidateTopicConfigs returns an error wrapping kerr.InvalidConfig that names the
// first of the settings, by name, that a topic cannot have. set is all that is set
// for the topic, so that settings that depend on each other are compared too.
func ValidateTopicConfigs(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		c, ok := topicConfigIndex[name]
		if !ok {
			return fmt.Errorf("%w: unknown topic configuration %.200q", kerr.InvalidConfig, name)
		}
		if err := c.check(set[name]); err != nil {
			return fmt.Errorf("%w: %s=%.200q: %w", kerr.InvalidConfig, name, set[name], err)
		}
	}
	return validateTogether(set)
}

func validateTogether(set map[string]string) error {
	effective := func(name string) int64 {
		v, ok := set[name]
		if !ok {
			v = topicConfigIndex[name].Default
		}
		n, _ := parseInt(v, 64) // checked before
		return n
	}
	least, most := effective("min.compaction.lag.ms"), effective("max.compaction.lag.ms")
	if least > most {
		return fmt.Errorf("%w: min.compaction.lag.ms=%d is above max.compaction.lag.ms=%d", kerr.InvalidConfig, least, most)
	}
	return nil
}

// Config returns the value of a configuration of the topic, and whether it was set
// for it. If not, the value is the default of a broker without properties.
func (t *Topic) Config(name string) (value string, set bool) {
	if v, ok := t.Configs[name]; ok {
		return v, true
	}
	if c := topicConfigIndex[name]; c != nil {
		return c.Default, false
	}
	return "", false
}

// ConfigInt returns a numeric configuration that was set for the topic, or def.
func (t *Topic) ConfigInt(name string, def int64) int64 {
	v, set := t.Config(name)
	n, err := parseInt(v, 64)
	if !set || err != nil {
		return def
	}
	return n
}

func parseInt(s string, bits int) (int64, error) {
	n, err := strconv.ParseInt(trim(s), 10, bits)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("is not a number of %d bits", bits)
	}
	if err != nil {
		return 0, errors.New("is not a whole number")
	}
	return n, nil
}

package projections

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// GroupSetting is a configuration name that consumer groups have (KIP-848, and the
// kinds of groups that came after it).
type GroupSetting struct {
	Name    string
	Default string // unless the broker's property says otherwise
	Type    kmsg.ConfigType
	// Broker is Kafka's property for the default of all groups, "" if it has none.
	Broker string
	// Honoured is false for what is stored and shown without effect.
	Honoured bool
	Doc      string
	check    func(string) error
}

// Names that the coordinator of groups goes by.
const (
	GroupSessionTimeout    = "consumer.session.timeout.ms"
	GroupHeartbeatInterval = "consumer.heartbeat.interval.ms"
)

// Validate tells what is wrong with a value of this name, or returns nil. The error
// does not name the configuration.
func (s *GroupSetting) Validate(value string) error { return s.check(value) }

// Hidden reports whether Kafka takes this name and does not show it.
func (s *GroupSetting) Hidden() bool { return hiddenSettings[s.Name] }

// GroupSettings returns every configuration of groups, by name.
func GroupSettings() []GroupSetting { return slices.Clone(groupSettings) }

// LookupGroupSetting returns the configuration of that name.
func LookupGroupSetting(name string) (*GroupSetting, bool) {
	i, ok := slices.BinarySearchFunc(groupSettings, name, func(s GroupSetting, name string) int {
		switch {
		case s.Name < name:
			return -1
		case s.Name > name:
			return 1
		}
		return 0
	})
	if !ok {
		return nil, false
	}
	return &groupSettings[i], true
}

// ValidateGroupConfig returns an error wrapping kerr.InvalidConfig that names the first
// of the settings, by name, that a group cannot have. What they must be to the broker's
// own settings is not judged here.
func ValidateGroupConfig(set map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		s, ok := LookupGroupSetting(name)
		if !ok {
			return fmt.Errorf("%w: unknown group configuration %.200q", kerr.InvalidConfig, name)
		}
		if err := s.check(set[name]); err != nil {
			return fmt.Errorf("%w: %s=%.200q: %w", kerr.InvalidConfig, name, set[name], err)
		}
	}
	for _, kind := range []string{"share", "streams"} { // consumer.* is measured against the broker's
		if err := sessionOutlasts(set, kind+".session.timeout.ms", kind+".heartbeat.interval.ms"); err != nil {
			return err
		}
	}
	return nil
}

// sessionOutlasts judges that a session is longer than what lies between two heartbeats.
func sessionOutlasts(set map[string]string, session, heartbeat string) error {
	value := func(name string) int64 {
		v, ok := set[name]
		if !ok {
			s, _ := LookupGroupSetting(name)
			v = s.Default
		}
		n, _ := strconv.ParseInt(trim(v), 10, 64) // checked before
		return n
	}
	if value(session) <= value(heartbeat) {
		return fmt.Errorf("%w: %s must be above %s", kerr.InvalidConfig, session, heartbeat)
	}
	return nil
}

package server

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// GroupConfig is what consumer groups go by unless something is set for them.
type GroupConfig struct {
	MinSession   time.Duration // under the classic protocol, as are the next three
	MaxSession   time.Duration
	InitialDelay time.Duration // before a new group's first rebalance
	MaxSize      int

	Session      bounded // under the next-generation protocol, as all that follows
	Heartbeat    bounded
	ConsumerSize int
	Assignors    []string // the first is the default
	Upgrade      bool     // a group with members may go over to it
	Downgrade    bool     // and from it

	Retention        time.Duration // of the offsets of a group without members
	RetentionCheck   time.Duration
	MetadataMaxBytes int // of an offset's metadata
}

// bounded is a time that may be set for a single group, within bounds.
type bounded struct{ value, least, most time.Duration }

// groupKeys are what the coordinators of groups go by.
var groupKeys = []configKey{
	millis32("group.min.session.timeout.ms", "6000", 0, "Shortest session timeout that a member may ask for (classic protocol).",
		func(c *Config, d time.Duration) { c.Groups.MinSession = d }),
	millis32("group.max.session.timeout.ms", "1800000", 0, "Longest session timeout that a member may ask for (classic protocol).",
		func(c *Config, d time.Duration) { c.Groups.MaxSession = d }),
	millis32("group.initial.rebalance.delay.ms", "3000", 0, "How long a new group waits for more members before its first rebalance (classic protocol).",
		func(c *Config, d time.Duration) { c.Groups.InitialDelay = d }),
	number("group.max.size", "2147483647", 1, math.MaxInt32, "Most members of a group (classic protocol).",
		func(c *Config, n int64) { c.Groups.MaxSize = int(n) }),

	millis32("group.consumer.session.timeout.ms", "45000", 1, "A member that sends no heartbeat for so long is taken for dead.",
		func(c *Config, d time.Duration) { c.Groups.Session.value = d }),
	millis32("group.consumer.min.session.timeout.ms", "45000", 1, "Least consumer.session.timeout.ms that may be set for a group.",
		func(c *Config, d time.Duration) { c.Groups.Session.least = d }),
	millis32("group.consumer.max.session.timeout.ms", "60000", 1, "Most consumer.session.timeout.ms that may be set for a group.",
		func(c *Config, d time.Duration) { c.Groups.Session.most = d }),
	millis32("group.consumer.heartbeat.interval.ms", "5000", 1, "How often members are to send a heartbeat.",
		func(c *Config, d time.Duration) { c.Groups.Heartbeat.value = d }),
	millis32("group.consumer.min.heartbeat.interval.ms", "5000", 1, "Least consumer.heartbeat.interval.ms that may be set for a group.",
		func(c *Config, d time.Duration) { c.Groups.Heartbeat.least = d }),
	millis32("group.consumer.max.heartbeat.interval.ms", "15000", 1, "Most consumer.heartbeat.interval.ms that may be set for a group.",
		func(c *Config, d time.Duration) { c.Groups.Heartbeat.most = d }),
	number("group.consumer.max.size", "2147483647", 1, math.MaxInt32, "Most members of a group.",
		func(c *Config, n int64) { c.Groups.ConsumerSize = int(n) }),
	listed("group.consumer.assignors", "uniform,range", "How partitions may be assigned: uniform, range. The first is for members that name none.", setAssignors),
	text("group.consumer.migration.policy", "bidirectional",
		"Whether a group with members may go over from the classic protocol (upgrade), to it (downgrade), both (bidirectional) or neither (disabled).", setMigration),

	number("offsets.retention.minutes", "10080", 1, math.MaxInt32, "How long offsets are kept of a group that has no members.",
		func(c *Config, n int64) { c.Groups.Retention = time.Duration(n) * time.Minute }),
	millis("offsets.retention.check.interval.ms", "600000", 1, "How often offsets are looked for that are kept no longer.",
		func(c *Config, d time.Duration) { c.Groups.RetentionCheck = d }),
	number("offset.metadata.max.bytes", "4096", 0, math.MaxInt32, "Longest text that may be committed with an offset.",
		func(c *Config, n int64) { c.Groups.MetadataMaxBytes = int(n) }),
}

// millis32 is a number of milliseconds for which Kafka has 32 bits.
func millis32(name, def string, lo int64, doc string, set func(*Config, time.Duration)) configKey {
	return number(name, def, lo, math.MaxInt32, doc, func(c *Config, n int64) { set(c, time.Duration(n)*time.Millisecond) })
}

// millis64 is a number of milliseconds for which Kafka has 64 bits, and kaas has use for 32.
func millis64(name, def string, lo int64, doc string, set func(*Config, time.Duration)) configKey {
	k := millis32(name, def, lo, doc, set)
	k.kind = kmsg.ConfigTypeLong
	return k
}

func listed(name, def, doc string, set func(*Config, string) error) configKey {
	return configKey{name: name, def: def, kind: kmsg.ConfigTypeList, doc: doc, set: set}
}

func setAssignors(c *Config, s string) error {
	names := strings.Split(s, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if names[i] != "uniform" && names[i] != "range" {
			return fmt.Errorf("%q is neither uniform nor range", names[i])
		}
		if slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("%q stands twice", names[i])
		}
	}
	c.Groups.Assignors = names
	return nil
}

func setMigration(c *Config, s string) error {
	policy := strings.ToLower(strings.TrimSpace(s))
	if !slices.Contains([]string{"bidirectional", "upgrade", "downgrade", "disabled"}, policy) {
		return fmt.Errorf("%q is none of bidirectional, upgrade, downgrade, disabled", s)
	}
	c.Groups.Upgrade = policy == "bidirectional" || policy == "upgrade"
	c.Groups.Downgrade = policy == "bidirectional" || policy == "downgrade"
	return nil
}

// checkGroups judges what only makes sense together, and names the key to blame.
func checkGroups(c *Config) (key string, err error) {
	const prefix = "group.consumer."
	for _, pair := range []struct {
		smaller, larger string
		a, b            time.Duration
		equal           bool // is fine too
	}{
		{"min.heartbeat.interval.ms", "max.heartbeat.interval.ms", c.Groups.Heartbeat.least, c.Groups.Heartbeat.most, true},
		{"min.heartbeat.interval.ms", "heartbeat.interval.ms", c.Groups.Heartbeat.least, c.Groups.Heartbeat.value, true},
		{"heartbeat.interval.ms", "max.heartbeat.interval.ms", c.Groups.Heartbeat.value, c.Groups.Heartbeat.most, true},
		{"min.session.timeout.ms", "max.session.timeout.ms", c.Groups.Session.least, c.Groups.Session.most, true},
		{"min.session.timeout.ms", "session.timeout.ms", c.Groups.Session.least, c.Groups.Session.value, true},
		{"session.timeout.ms", "max.session.timeout.ms", c.Groups.Session.value, c.Groups.Session.most, true},
		{"heartbeat.interval.ms", "session.timeout.ms", c.Groups.Heartbeat.value, c.Groups.Session.value, false},
	} {
		if pair.a < pair.b || pair.equal && pair.a == pair.b {
			continue
		}
		key = prefix + pair.smaller
		if c.settings[key].source == "" {
			key = prefix + pair.larger
		}
		return key, fmt.Errorf("%s%s must not be above %s%s", prefix, pair.smaller, prefix, pair.larger)
	}
	return "", nil
}

// checkGroupConfig judges what is to be set for a group, together with this broker's
// settings that it leaves in force.
func (c *Config) checkGroupConfig(set map[string]string) error {
	if err := projections.ValidateGroupConfig(set); err != nil {
		return err
	}
	session, err1 := c.Groups.Session.of(set, projections.GroupSessionTimeout)
	heartbeat, err2 := c.Groups.Heartbeat.of(set, projections.GroupHeartbeatInterval)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%w: %w", kerr.InvalidConfig, err)
	}
	if session <= heartbeat {
		return fmt.Errorf("%w: %s must be above %s", kerr.InvalidConfig, projections.GroupSessionTimeout, projections.GroupHeartbeatInterval)
	}
	return nil
}

// of is what a group has where that is set for it, and what is wrong with it.
func (b bounded) of(set map[string]string, name string) (time.Duration, error) {
	v, ok := set[name]
	if !ok {
		return b.value, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
	if err != nil {
		return b.value, fmt.Errorf("%s=%.200q is not a whole number", name, v)
	}
	d := time.Duration(n) * time.Millisecond
	if d < b.least || d > b.most {
		return min(max(d, b.least), b.most), fmt.Errorf("%s=%d is not from %d to %d", name, n, b.least.Milliseconds(), b.most.Milliseconds())
	}
	return d, nil
}

// describeGroup shows every configuration of a group for which set is set, whether or not
// there is such a group.
func (c *Config) describeGroup(view *projections.Cluster, set map[string]string) (out []configValue) {
	for _, s := range projections.GroupSettings() {
		if s.Hidden() {
			continue
		}
		var syn []configValue
		if v, ok := set[s.Name]; ok {
			syn = append(syn, configValue{name: s.Name, value: v, source: kmsg.ConfigSourceGroupConfig})
		}
		if k := keyNamed(s.Broker); k != nil {
			syn = append(syn, c.brokerSynonyms(view, k)...)
		} else {
			syn = append(syn, configValue{name: cmp.Or(s.Broker, s.Name), value: s.Default, source: kmsg.ConfigSourceDefaultConfig})
		}
		out = append(out, shownConfig(configValue{name: s.Name, kind: s.Type, doc: s.Doc, synonyms: syn}))
	}
	return out
}

// groupConfigs is groupConfig for coordinators: with an authorizer, members that subscribe by
// pattern have the topics that they may describe.
func (c *Config) groupConfigs() func(*projections.Cluster, string) groupshard.Config {
	if !c.Authorizer {
		return c.groupConfig
	}
	a := &authorizer{opt: &c.ACL} // what a member is not assigned is no denial: there is no audit
	return func(view *projections.Cluster, group string) groupshard.Config {
		out := c.groupConfig(view, group)
		out.Consumer.Describer = func(m *groups.ConsumerMember) consumer.Describer {
			p, _ := auth.Parse(m.Principal) // nobody may do anything that is said of none
			host, _ := netip.ParseAddr(strings.TrimPrefix(m.Host, "/"))
			return describer{a.of(view.ACLs()).Of(p, host)}
		}
		return out
	}
}

// describer is a member of a group as its coordinator knows it.
type describer struct{ *acl.Subject }

func (d describer) Describes(topic string) bool { return d.Allows(acl.Describe, acl.Topic, topic) }

// groupConfig is what a group goes by in a view: what is set for it over this broker's
// settings. What is out of their bounds, because they were others when it was set, is
// brought back to them.
func (c *Config) groupConfig(view *projections.Cluster, group string) groupshard.Config {
	set := view.GroupConfig(group)
	session, _ := c.Groups.Session.of(set, projections.GroupSessionTimeout)
	heartbeat, _ := c.Groups.Heartbeat.of(set, projections.GroupHeartbeatInterval)
	return groupshard.Config{
		Classic: classic.Config{MinSession: c.Groups.MinSession, MaxSession: c.Groups.MaxSession, InitialDelay: c.Groups.InitialDelay,
			MaxSize: c.Groups.MaxSize, NewID: uuid.NewString},
		Consumer: consumer.Config{SessionTimeout: session, HeartbeatInterval: heartbeat, MaxSize: c.Groups.ConsumerSize,
			Assignors: c.Groups.Assignors, Upgrade: c.Groups.Upgrade, Downgrade: c.Groups.Downgrade, ClassicMaxSize: c.Groups.MaxSize},
		Retention: c.Groups.Retention,
	}
}

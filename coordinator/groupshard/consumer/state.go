package consumer

import (
	"slices"
	"time"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// The states of a group, as ListGroups and ConsumerGroupDescribe name them.
const (
	Empty       = "Empty"
	Assigning   = "Assigning"   // has yet to make a target for its epoch
	Reconciling = "Reconciling" // has members that do not have their target yet
	Stable      = "Stable"
)

// State names the state of a membership.
func State(c *groups.Consumer) string {
	switch {
	case len(c.Members) == 0:
		return Empty
	case c.Epoch > c.TargetEpoch:
		return Assigning
	}
	for _, m := range c.Members {
		if m.State != groups.Stable || m.Epoch != c.TargetEpoch {
			return Reconciling
		}
	}
	return Stable
}

// Subscribed reports whether any member subscribes to the topic, by name or by pattern.
func Subscribed(g *groups.Group, t Topics, cfg Config, name string) bool {
	if g == nil || g.Consumer == nil {
		return false
	}
	for _, m := range g.Consumer.Members {
		if slices.ContainsFunc(subscribed(t, &cfg, m), func(t *projections.Topic) bool { return t.Name == name }) {
			return true
		}
	}
	return false
}

// SessionTimeout is how long a member may be silent.
func SessionTimeout(m *groups.ConsumerMember, cfg Config) time.Duration {
	if m.Classic != nil {
		return m.Classic.SessionTimeout
	}
	return cfg.SessionTimeout
}

package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/projections"
)

// clusterKeys are what brokers do with one another.
var clusterKeys = []configKey{
	millis32("broker.heartbeat.interval.ms", "2000", 1, "How often a broker tells the controller that it lives.",
		func(c *Config, d time.Duration) { c.HeartbeatInterval = d }),
	millis32("broker.session.timeout.ms", "9000", 1, "A broker that says nothing for so long is taken for dead, and others lead what it led.",
		func(c *Config, d time.Duration) { c.SessionTimeout = d }),
	millis("handover.wait.ms", "5000", 1, "How long a broker that is to take a partition over waits for the one that leads it, before the move is given up.",
		func(c *Config, d time.Duration) { c.HandoverWait = d }),
	millis("advertised.listeners.wait.ms", "0", 0, "How long a broker that starts waits at most until it can connect to itself by what it advertises, before it takes part: a new pod is found by its name and ports a while after it runs. 0: not at all.",
		func(c *Config, d time.Duration) { c.AdvertisedWait = d }),
	boolean("controlled.shutdown.enable", "true", "Whether a broker that stops hands over what it leads first.",
		func(c *Config, b bool) { c.ControlledShutdown = b }),

	text("controller.election", "volume", "How brokers elect a controller: volume (by files on it) or kubernetes (by a Lease).", setElection),
	byLease(election.LeaseDuration, millis("controller.lease.duration.ms", "3000", 1, "How long the others wait for a controller that does not renew, before they elect another: whole seconds. By a Lease 8000.",
		func(c *Config, d time.Duration) { c.LeaseDuration = d })),
	byLease(election.LeaseRenewDeadline, millis("controller.lease.renew.deadline.ms", "2000", 1, "A controller that could not renew for so long gives up. By a Lease 6000; a call to the API server may take half of it.",
		func(c *Config, d time.Duration) { c.LeaseRenewDeadline = d })),
	byLease(election.LeaseRetry, millis("controller.lease.retry.ms", "500", 1, "How often the controller renews, and the others try. By a Lease 1000.",
		func(c *Config, d time.Duration) { c.LeaseRetry = d })),
	text("controller.lease.namespace", "", "The namespace of the Lease. Empty: the one the broker runs in.",
		func(c *Config, s string) error { c.LeaseNamespace = strings.TrimSpace(s); return nil }),
	text("controller.lease.name", "kaas-controller", "The name of the Lease.", func(c *Config, s string) error {
		c.LeaseName = strings.TrimSpace(s)
		if c.LeaseName == "" {
			return fmt.Errorf("%q names no Lease", s)
		}
		return nil
	}),

	number("offsets.topic.num.partitions", "16", 1, projections.MaxShards, "Shards that groups are spread over. Fixed when a cluster first makes them.",
		func(c *Config, n int64) { c.GroupShards = int32(n) }),
	number("transaction.state.log.num.partitions", "16", 1, projections.MaxShards, "Shards that transactional IDs are spread over. Fixed when a cluster first makes them.",
		func(c *Config, n int64) { c.TxnShards = int32(n) }),
}

// byLease gives a key another default where the controller is elected by a Lease.
func byLease(d time.Duration, k configKey) configKey {
	k.lease = strconv.FormatInt(d.Milliseconds(), 10)
	return k
}

// The ways to elect a controller.
const (
	ElectionVolume     = "volume"
	ElectionKubernetes = "kubernetes"
)

func setElection(c *Config, s string) error {
	c.Election = strings.ToLower(strings.TrimSpace(s))
	if c.Election != ElectionVolume && c.Election != ElectionKubernetes {
		return fmt.Errorf("%q is neither volume nor kubernetes", s)
	}
	return nil
}

// checkTimes judges times that only make sense together, and names the one to blame.
func checkTimes(c *Config) (key string, err error) {
	for _, pair := range []struct {
		shorter, longer string
		a, b            time.Duration
	}{
		{"broker.heartbeat.interval.ms", "broker.session.timeout.ms", c.HeartbeatInterval, c.SessionTimeout},
		{"controller.lease.renew.deadline.ms", "controller.lease.duration.ms", c.LeaseRenewDeadline, c.LeaseDuration},
		{"controller.lease.retry.ms", "controller.lease.renew.deadline.ms", c.LeaseRetry * 6 / 5, c.LeaseRenewDeadline}, // retries are spread over a fifth more
	} {
		if pair.a < pair.b {
			continue
		}
		key = pair.shorter
		if c.settings[key].source == "" {
			key = pair.longer
		}
		return key, fmt.Errorf("%s must be well below %s", pair.shorter, pair.longer)
	}
	return "controller.lease.duration.ms", election.CheckTimes(c.LeaseDuration, c.LeaseRenewDeadline, c.LeaseRetry)
}

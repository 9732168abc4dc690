package server

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// configKey is one row of the broker's configuration.
type configKey struct {
	name  string
	def   string
	lease string // the default where the controller is elected by a Lease, if it is another
	kind  kmsg.ConfigType
	topic string // the topic config it is the default of, if any
	// unit and unitOf are of a key that says in other units what another says in milliseconds.
	unit     time.Duration
	unitOf   string
	doc      string
	set      func(*Config, string) error
	scope    scope
	throttle bool // one of throttleKeys
}

// configKeys is every key there is: the broker's own, and the defaults of topics.
var configKeys = slices.Concat(brokerKeys, tlsKeys(), saslKeys, oauthKeys, loginKeys(), clusterKeys, groupKeys, aclKeys, quotaKeys, topicDefaultKeys(), unitKeys)

// A key that is not connected to anything does not belong here: an unknown name
// stops the broker, a dead one would lie.
var brokerKeys = []configKey{
	number("node.id", "0", 0, math.MaxInt32, "This broker's ID. A newcomer with the same ID takes over at once.",
		func(c *Config, n int64) { c.NodeID = int32(n) }),
	text("broker.rack", "", "Rack told to clients in metadata.", func(c *Config, s string) error { c.Rack = s; return nil }),
	listed("listeners", "PLAINTEXT://:9092", "Where clients connect: NAME://HOST:PORT, several with commas between them.", setListeners),
	listed("advertised.listeners", "", "Where the clients of each listener are told to connect. A listener that is not named: its own host, or the address the client used. A port may be a sum, such as 31090+2.", setAdvertised),
	listed("advertised.services", "", "Services of Kubernetes that listeners are reached by, NAME://SERVICE:PORT: clients are told the address of its load balancer, which the start waits for.", setServices),
	text("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL", "The protocol of each listener, NAME:PROTOCOL with commas between them: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.", setProtocols),
	text("inter.broker.listener.name", "", "The listener that brokers use among themselves. Empty: that of security.inter.broker.protocol, or the first.", setInterBroker),
	text("security.inter.broker.protocol", plaintext, "If given, and inter.broker.listener.name is not: brokers use the listener of this name among themselves.", setBetweenProtocol),
	listed("log.dirs", "./kaas-data", "The shared volume: exactly one directory.", setLogDir),
	text("http.listeners", ":8080", "HOST:PORT of /healthz, /readyz, /metrics and /debug/pprof. Empty: none.", setHTTP),
	text("cluster.id", "", "The cluster the directory must belong to; a new directory takes it. Empty: any.", func(c *Config, s string) error {
		c.ClusterID = s
		return nil
	}),
	text("log.level", "info", "debug, info, warn or error.", setLogLevel),

	boolean("auto.create.topics.enable", "true", "Whether asking for the metadata of a missing topic makes it.",
		func(c *Config, b bool) { c.AutoCreateTopics = b }),
	number("num.partitions", "1", 1, 100_000, "Partitions of a topic whose creator names no number.",
		func(c *Config, n int64) { c.NumPartitions = int32(n) }),

	number("log.flush.interval.messages", "1", 1, math.MaxInt64,
		"1: every acknowledgement waits for the disk. Above 1 nothing is synced before it is acknowledged, and can be lost.",
		func(c *Config, n int64) { c.FlushMessages = n }),
	millis32("producer.id.expiration.ms", "86400000", 1, "An idempotent producer that sends nothing to a partition for so long is forgotten there.",
		func(c *Config, d time.Duration) { c.ProducerExpiry = d }),
	millis32("transactional.id.expiration.ms", "604800000", 1, "A transactional ID that is not used for so long is forgotten, and the fences of its producers fall.",
		func(c *Config, d time.Duration) { c.TxnIDExpiry = d }),
	millis32("transaction.max.timeout.ms", "900000", 1, "Longest timeout that a transactional producer may ask for.",
		func(c *Config, d time.Duration) { c.TxnMaxTimeout = d }),
	millis32("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10000", 1, "How often transactions that have timed out are looked for, to be aborted.",
		func(c *Config, d time.Duration) { c.TxnAbortEvery = d }),
	millis32("transaction.remove.expired.transaction.cleanup.interval.ms", "3600000", 1, "How often transactional IDs are looked for that are to be forgotten.",
		func(c *Config, d time.Duration) { c.TxnForgetEvery = d }),

	millis("log.retention.check.interval.ms", "300000", 1, "How often retention looks for what is to go.",
		func(c *Config, d time.Duration) { c.Cleaner.RetentionInterval = d }),
	boolean("log.cleaner.enable", "true", "Whether compacted topics are compacted.",
		func(c *Config, b bool) { c.Cleaner.NoCompaction = !b }),
	number("log.cleaner.threads", "1", 1, 100, "Partitions compacted at once.",
		func(c *Config, n int64) { c.Cleaner.Threads = int(n) }),
	number("log.cleaner.dedupe.buffer.size", "134217728", 1<<20, math.MaxInt64, "Bytes of memory for keys while compacting, of all threads together.",
		func(c *Config, n int64) { c.Cleaner.Memory = n }),
	double("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", "Bytes that compaction reads and writes a second, at most.",
		func(c *Config, f float64) { c.Cleaner.BytesPerSecond = f }),
	millis("log.cleaner.backoff.ms", "15000", 1, "How long the cleaner waits when nothing is to be compacted.",
		func(c *Config, d time.Duration) { c.Cleaner.Backoff = d }),
	number("storage.min.free.bytes", "67108864", 0, math.MaxInt64,
		"Free bytes of the volume below which records are refused, so that deletion and metadata go on. 0: never.",
		func(c *Config, n int64) { c.MinFree = n }),
	number("storage.ballast.bytes", "16777216", 0, 1<<40,
		"Size of a file that is given up when the volume is full all the same, and made again when it has room. 0: none.",
		func(c *Config, n int64) { c.Ballast = n }),
	millis("storage.hang.timeout.ms", "15000", 100,
		"How long the volume may leave a commit or a read without an answer before the partition fails, or the read.",
		func(c *Config, d time.Duration) { c.StallAfter = d }),
	millis("storage.stall.timeout.ms", "10000", 100,
		"How long the volume may leave a probe write without an answer before this broker asks for its fence and gives up being controller.",
		func(c *Config, d time.Duration) { c.ProbeStall = d }),
	number("log.recovery.bytes.total", "1073741824", 1<<20, math.MaxInt64,
		"Bytes that all partitions together may have past their recovery points: what is read and copied after a crash.",
		func(c *Config, n int64) { c.RecoveryBytes = n }),

	millis("metadata.poll.interval.ms", "200", 1, "How often the cluster's state is looked at for news.",
		func(c *Config, d time.Duration) { c.MetadataPoll = d }),
	millis("metadata.history.retention.ms", "604800000", 1, "Age at which history of the cluster's state is pruned.",
		func(c *Config, d time.Duration) { c.HistoryRetention = d }),
	number("metadata.history.retention.entries", "10000", 1, math.MaxInt32, "Entries of history kept of the cluster's state.",
		func(c *Config, n int64) { c.HistoryEntries = n }),

	number("queued.max.request.bytes", "67108864", 1, math.MaxInt64, "Bytes of requests held in memory at once.",
		func(c *Config, n int64) { c.QueuedMaxBytes = n }),
	number("queued.max.response.bytes", "67108864", 1, math.MaxInt64, "Bytes of records held in memory at once on their way to consumers: what does not fit is sent from its file. As much again for other long answers: what does not fit waits.",
		func(c *Config, n int64) { c.AnswersMaxBytes = n }),
	number("socket.request.max.bytes", "104857600", 1, math.MaxInt32, "Largest request.",
		func(c *Config, n int64) { c.RequestMaxBytes = n }),
	number("fetch.max.bytes", "57671680", 1024, math.MaxInt32, "Largest answer to a fetch, but for its first batch.",
		func(c *Config, n int64) { c.FetchMaxBytes = n }),
	number("max.incremental.fetch.session.cache.slots", "1000", 0, math.MaxInt32, "Fetch sessions held at once; consumers beyond it name all partitions in each request.",
		func(c *Config, n int64) { c.FetchSessions = n }),
	millis("min.incremental.fetch.session.eviction.ms", "120000", 0, "Age from which a fetch session may be evicted for another.",
		func(c *Config, d time.Duration) { c.FetchSessionAge = d }),
	millis("connections.max.idle.ms", "600000", 1, "A connection without a request for so long is closed.",
		func(c *Config, d time.Duration) { c.MaxIdle = d }),
	number("max.connections.per.ip", "2147483647", 0, math.MaxInt32, "Connections held at once from one address; further ones are closed.",
		func(c *Config, n int64) { c.MaxPerIP = n }),
	text("max.connections.per.ip.overrides", "", "The same for single addresses: ADDRESS:NUMBER, several with commas between them.", setPerIP),
	scoped(number("max.connections", "2147483647", 1, math.MaxInt32, "Connections held at once; further ones are closed. For a listener: of those, its own.",
		func(c *Config, n int64) { c.MaxConnections = n }), perListener),
}

func text(name, def, doc string, set func(*Config, string) error) configKey {
	return configKey{name: name, def: def, kind: kmsg.ConfigTypeString, doc: doc, set: set}
}

func number(name, def string, lo, hi int64, doc string, set func(*Config, int64)) configKey {
	kind := kmsg.ConfigTypeLong
	if hi <= math.MaxInt32 {
		kind = kmsg.ConfigTypeInt
	}
	return configKey{name: name, def: def, kind: kind, doc: doc, set: func(c *Config, s string) error {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", s)
		}
		if n < lo || n > hi {
			return fmt.Errorf("%d is not from %d to %d", n, lo, hi)
		}
		set(c, n)
		return nil
	}}
}

func double(name, def, doc string, set func(*Config, float64)) configKey {
	return configKey{name: name, def: def, kind: kmsg.ConfigTypeDouble, doc: doc, set: func(c *Config, s string) error {
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || math.IsNaN(f) || f <= 0 {
			return fmt.Errorf("%q is not a number above 0", s)
		}
		set(c, f)
		return nil
	}}
}

// millis is a number of milliseconds; what a Duration cannot hold is for ever.
func millis(name, def string, lo int64, doc string, set func(*Config, time.Duration)) configKey {
	return number(name, def, lo, math.MaxInt64, doc, func(c *Config, n int64) {
		set(c, time.Duration(min(n, int64(math.MaxInt64/time.Millisecond)))*time.Millisecond)
	})
}

func boolean(name, def, doc string, set func(*Config, bool)) configKey {
	return configKey{name: name, def: def, kind: kmsg.ConfigTypeBoolean, doc: doc, set: func(c *Config, s string) error {
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "true":
			set(c, true)
		case "false":
			set(c, false)
		default:
			return fmt.Errorf("%q is neither true nor false", s)
		}
		return nil
	}}
}

// topicDefaultKeys are the properties that give topics their defaults. Those that
// nothing acts on for any topic are no keys.
func topicDefaultKeys() (keys []configKey) {
	for _, tc := range projections.TopicConfigs() {
		if tc.Broker == "" || !tc.Honoured && !acted[tc.Name] {
			continue
		}
		keys = append(keys, configKey{name: tc.Broker, def: tc.Default, kind: tc.Type, topic: tc.Name, doc: tc.Doc, set: func(c *Config, s string) error {
			c.topicDefaults[tc.Name] = strings.TrimSpace(s)
			if err := tc.Validate(s); err != nil {
				return fmt.Errorf("%q %w", s, err)
			}
			return nil
		}})
	}
	return keys
}

func setLogDir(c *Config, s string) error {
	s = strings.TrimSpace(s)
	if s == "" || strings.Contains(s, ",") {
		return fmt.Errorf("%q is not exactly one directory", s)
	}
	c.LogDir = s
	return nil
}

func setHTTP(c *Config, s string) error {
	c.HTTP = strings.TrimSpace(s)
	if c.HTTP == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.HTTP)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: port %q is not a number from 0 to 65535", s, port)
	}
	return nil
}

func setLogLevel(c *Config, s string) error {
	for name, level := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError} {
		if strings.EqualFold(strings.TrimSpace(s), name) {
			c.LogLevel = level
			return nil
		}
	}
	return fmt.Errorf("%q is not debug, info, warn or error", s)
}

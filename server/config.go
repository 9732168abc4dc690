package server

import (
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
	"kaas.dev/kaas/server/quota"
	"kaas.dev/kaas/server/tlsconf"
)

// Endpoint is one listener: its name and where it listens, or where clients are
// told to connect. Host may be empty (all addresses) for a bind, never advertised.
type Endpoint struct {
	Name string
	Host string
	Port int32

	Protocol string            // one of protocols; of a listener, not of an advertised one
	TLS      *tlsconf.Settings // nil where TLS is not spoken

	most int64 // connections, where that is set for the listener itself
	rate int64 // new connections a second, likewise
}

// Secure reports whether TLS is spoken.
func (e *Endpoint) Secure() bool { return strings.HasSuffix(e.Protocol, "SSL") }

// SASL reports whether clients say by SASL who they are.
func (e *Endpoint) SASL() bool { return strings.HasPrefix(e.Protocol, "SASL_") }

func (e Endpoint) address() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// Config is a broker's configuration. Its fields are set by [LoadConfig] from the
// table in config_keys.go, which says each one's name, default and meaning.
type Config struct {
	NodeID     int32
	Rack       string
	Listeners  []Endpoint
	Advertised []Endpoint // by the listener's name; of one that is missing see advertisesUsed
	Services   []Endpoint // whose load balancers are advertised; the host is the Service's name
	// InterBroker is the name of the listener that brokers use among themselves.
	InterBroker string
	betweenSec  string            // security.inter.broker.protocol, if it is given
	protocols   map[string]string // security protocol by listener name
	LogDir      string
	HTTP        string // empty: no http listener
	ClusterID   string
	LogLevel    slog.Level // at the start
	// Logging is the level from then on; whoever logs is to go by it.
	Logging *slog.LevelVar

	HeartbeatInterval  time.Duration
	SessionTimeout     time.Duration // without a heartbeat
	HandoverWait       time.Duration
	AdvertisedWait     time.Duration
	ControlledShutdown bool
	Election           string // ElectionVolume or ElectionKubernetes
	LeaseDuration      time.Duration
	LeaseRenewDeadline time.Duration
	LeaseRetry         time.Duration
	LeaseNamespace     string // of the Lease; empty: where the broker runs
	LeaseName          string
	GroupShards        int32 // of a new cluster
	TxnShards          int32 // of a new cluster
	Groups             GroupConfig

	AutoCreateTopics bool
	NumPartitions    int32

	FlushMessages int64
	// ProducerExpiry is producer.id.expiration.ms.
	ProducerExpiry time.Duration
	// TxnIDExpiry is transactional.id.expiration.ms.
	TxnIDExpiry time.Duration
	// The others of transactions: transaction.max.timeout.ms, and how often their coordinators
	// look for those that have timed out, and for IDs to be forgotten.
	TxnMaxTimeout, TxnAbortEvery, TxnForgetEvery time.Duration

	Cleaner       partition.CleanerOptions
	MinFree       int64         // free bytes of the volume below which records are refused
	Ballast       int64         // bytes of the file that is given up when the volume is full
	RecoveryBytes int64         // bytes past recovery points, of all partitions together
	StallAfter    time.Duration // how long the volume may leave a call without an answer
	ProbeStall    time.Duration // how long it may leave a probe write without one

	MetadataPoll     time.Duration
	HistoryRetention time.Duration
	HistoryEntries   int64

	QueuedMaxBytes  int64 // bytes of requests held at once
	AnswersMaxBytes int64 // bytes of records in answers held at once
	RequestMaxBytes int64 // bytes of one request
	FetchMaxBytes   int64 // bytes of one fetch answer
	FetchSessions   int64 // sessions held at once
	FetchSessionAge time.Duration
	MaxIdle         time.Duration
	HandshakeTime   time.Duration // how long a client may take for the handshake of TLS
	MaxConnections  int64
	Authorizer      bool        // whether there is one
	ACL             acl.Options // of the authorizer
	MaxPerIP        int64       // connections of one address, unless PerIP has it
	PerIP           map[netip.Addr]int64

	MaxConnectionRate int64 // new connections a second
	// Quota is how use is measured.
	Quota quota.Config
	SASL  SASL

	identify      func(net.Conn) auth.Principal // of tests: who is on a connection
	topicDefaults map[string]string             // by the topic's name for it
	settings      map[string]setting            // by key
	placed        []placed                      // what is set for listeners, by name
}

// setting is one key's value as it was given, and by whom.
type setting struct {
	value  string
	source string // empty: the default
}

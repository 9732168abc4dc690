package server

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/partition"
)

// Endpoint is one listener: its name and where it listens, or where clients are
// told to connect. Host may be empty (all addresses) for a bind, never advertised.
type Endpoint struct {
	Name string
	Host string
	Port int32
}

func (e Endpoint) address() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// Config is a broker's configuration. Its fields are set by [LoadConfig] from the
// table in config_keys.go, which says each one's name, default and meaning.
type Config struct {
	NodeID     int32
	Rack       string
	Listeners  []Endpoint
	Advertised []Endpoint // empty: the address a client connected to
	LogDir     string
	HTTP       string // empty: no http listener
	ClusterID  string
	LogLevel   slog.Level

	AutoCreateTopics bool
	NumPartitions    int32

	FlushMessages int64
	// ProducerExpiry is producer.id.expiration.ms.
	ProducerExpiry time.Duration

	Cleaner       partition.CleanerOptions
	MinFree       int64         // free bytes of the volume below which records are refused
	Ballast       int64         // bytes of the file that is given up when the volume is full
	RecoveryBytes int64         // bytes past recovery points, of all partitions together
	StallAfter    time.Duration // how long the volume may leave a call without an answer

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
	MaxConnections  int64

	topicDefaults map[string]string  // by the topic's name for it
	settings      map[string]setting // by key
}

// setting is one key's value as it was given, and by whom.
type setting struct {
	value  string
	source string // empty: the default
}

// endpoints parses a listener list such as PLAINTEXT://:9092.
func endpoints(s string, needHost bool) ([]Endpoint, error) {
	var out []Endpoint
	for _, part := range strings.Split(s, ",") {
		ep, err := endpoint(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if needHost && (ep.Host == "" || ep.Host == "0.0.0.0" || ep.Host == "::") {
			return nil, fmt.Errorf("%q names no host that a client could connect to", part)
		}
		if needHost && ep.Port == 0 {
			return nil, fmt.Errorf("%q names no port that a client could connect to", part)
		}
		out = append(out, ep)
	}
	if len(out) != 1 {
		return nil, fmt.Errorf("exactly one listener is supported, not %d", len(out))
	}
	return out, nil
}

func endpoint(s string) (Endpoint, error) {
	name, addr, ok := strings.Cut(s, "://")
	if !ok {
		return Endpoint{}, fmt.Errorf("%q is not NAME://HOST:PORT", s)
	}
	if name != "PLAINTEXT" {
		return Endpoint{}, fmt.Errorf("listener %q: only PLAINTEXT is supported", name)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%q is not NAME://HOST:PORT", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Endpoint{}, fmt.Errorf("%q: port %q is not a number from 0 to 65535", s, port)
	}
	return Endpoint{name, host, int32(n)}, nil
}

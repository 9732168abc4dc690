package kafka

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is one that the operator works on.
type Cluster struct {
	conf *Config
	log  *slog.Logger
	now  atomic.Pointer[connection]
}

// connection is a client, as the files had it.
type connection struct {
	setup *setup
	cl    *kgo.Client
	admin *kadm.Client
}

// How long things may take. A broker that hangs is given up, and another one asked.
const (
	requestTime = 5 * time.Second
	// changeTime is how long a broker may take for a change.
	changeTime = 10 * time.Second
	// tries are few: whoever asks comes again.
	tries = 4
)

// Dial makes a cluster. It connects when there is something to ask. Close ends it.
func Dial(conf *Config, log *slog.Logger) (*Cluster, error) {
	first, err := conf.connect()
	if err != nil {
		return nil, err
	}
	first.setup.tell(log, conf.file)
	c := &Cluster{conf: conf, log: log}
	c.now.Store(first)
	return c, nil
}

func (c *Config) connect() (*connection, error) {
	s, err := c.read()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(slices.Concat([]kgo.Opt{
		kgo.SeedBrokers(s.seeds...), kgo.ClientID("kaas-operator"), kgo.RequestTimeoutOverhead(requestTime),
		kgo.RetryTimeout(changeTime + requestTime), kgo.RequestRetries(tries), kgo.MetadataMinAge(100 * time.Millisecond),
	}, s.opts)...)
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(cl)
	admin.SetTimeoutMillis(int32(changeTime.Milliseconds()))
	return &connection{s, cl, admin}, nil
}

func (c *Cluster) client() *kgo.Client { return c.now.Load().cl }
func (c *Cluster) admin() *kadm.Client { return c.now.Load().admin }

// Seeds are the brokers to begin with.
func (c *Cluster) Seeds() []string { return c.now.Load().setup.seeds }

// User is as whom the operator logs in, or empty where that is not known.
func (c *Cluster) User() string { return c.now.Load().setup.user }

// Close closes all connections.
func (c *Cluster) Close() { c.client().Close() }

package projections

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"

	"kaas.dev/kaas/projections/internal/ordered"
)

// Cluster is the view of the cluster stream. It never changes; all that its
// methods return is shared and only to be read.
type Cluster struct {
	topics  map[TopicID]*Topic
	names   map[string]*Topic
	brokers map[int32]Broker
	shards  map[ShardKind][]Partition
	// removing holds deleted topics, by ID, whose directory may still be there.
	removing map[TopicID]string
	// brokerConfigs holds what was set for a broker by ID in decimal, or for all by "".
	brokerConfigs map[string]map[string]string
	// groupConfigs holds what was set for a consumer group by ID.
	groupConfigs map[string]map[string]string
	// clientMetrics holds what was set for a subscription to clients' metrics by name.
	clientMetrics map[string]map[string]string
	acls          *ACLs
	// scram holds users' credentials for SCRAM.
	scram          map[scramKey]*ScramCredential
	scramSecret    Secret // see ScramSecret
	nextProducerID int64
	// quotas are all that were set; nil if none.
	quotas      *Quotas
	controller  int32
	brokerEpoch int64 // the highest that a broker ever registered with
	// fences are of producers by ID; what is older than fencesExpired is gone for good.
	fences        ordered.Map[int64, fence]
	fencesExpired int64 // milliseconds since 1970

	sorted func() []*Topic // made at the first use
}

// NewCluster is the view of a stream without events.
func NewCluster() *Cluster {
	return (&Cluster{
		topics: map[TopicID]*Topic{}, names: map[string]*Topic{}, brokers: map[int32]Broker{},
		shards: map[ShardKind][]Partition{}, removing: map[TopicID]string{},
		brokerConfigs: map[string]map[string]string{}, groupConfigs: map[string]map[string]string{},
		clientMetrics: map[string]map[string]string{}, acls: noACLs, scram: map[scramKey]*ScramCredential{}, controller: NoLeader,
	}).seal()
}

// seal readies a view that is complete.
func (c *Cluster) seal() *Cluster {
	c.sorted = sync.OnceValue(func() []*Topic {
		return slices.SortedFunc(maps.Values(c.topics), func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) })
	})
	return c
}

// Topic returns the living topic of that name, or nil.
func (c *Cluster) Topic(name string) *Topic { return c.names[name] }

// TopicByID returns the living topic with that ID, or nil.
func (c *Cluster) TopicByID(id TopicID) *Topic { return c.topics[id] }

// Topics returns the living topics by name.
func (c *Cluster) Topics() []*Topic { return c.sorted() }

// Broker returns a registered broker.
func (c *Cluster) Broker(id int32) (Broker, bool) {
	b, ok := c.brokers[id]
	return b, ok
}

// Alive reports whether a broker is registered and not fenced.
func (c *Cluster) Alive(id int32) bool {
	b, ok := c.brokers[id]
	return ok && !b.Fenced
}

// Controller returns the ID of the broker that owns the cluster stream, NoLeader
// before there was one.
func (c *Cluster) Controller() int32 { return c.controller }

// NextBrokerEpoch is above the epoch of every registration there ever was, of
// brokers that are gone too.
func (c *Cluster) NextBrokerEpoch() int64 { return c.brokerEpoch + 1 }

// Brokers returns the registered brokers by ID, fenced ones too.
func (c *Cluster) Brokers() []Broker {
	return slices.SortedFunc(maps.Values(c.brokers), func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
}

// BrokerConfigs returns what was set for a broker, by its ID in decimal, or for
// every broker, by "".
func (c *Cluster) BrokerConfigs(name string) map[string]string { return c.brokerConfigs[name] }

// GroupConfig returns what was set for a consumer group, which need not be there.
func (c *Cluster) GroupConfig(group string) map[string]string { return c.groupConfigs[group] }

// ConfiguredGroups returns the consumer groups that something is set for, by ID.
func (c *Cluster) ConfiguredGroups() []string { return slices.Sorted(maps.Keys(c.groupConfigs)) }

// ClientMetrics is what was set for a subscription to clients' metrics, nil if nothing was.
func (c *Cluster) ClientMetrics(name string) map[string]string { return c.clientMetrics[name] }

// ClientMetricsNames are the subscriptions for which something was set, in order.
func (c *Cluster) ClientMetricsNames() []string { return slices.Sorted(maps.Keys(c.clientMetrics)) }

// NextProducerID is the lowest producer ID that was never handed out.
func (c *Cluster) NextProducerID() int64 { return c.nextProducerID }

// Removing returns the deleted topics whose directory may still be there, by ID,
// with the name they had.
func (c *Cluster) Removing() map[TopicID]string { return c.removing }

// PartitionCount counts the partitions of all living topics.
func (c *Cluster) PartitionCount() int {
	n := 0
	for _, t := range c.topics {
		n += len(t.Partitions)
	}
	return n
}

// Equal reports whether two views show the same.
func (c *Cluster) Equal(d *Cluster) bool {
	return c.nextProducerID == d.nextProducerID && c.controller == d.controller && c.brokerEpoch == d.brokerEpoch &&
		maps.EqualFunc(c.topics, d.topics, (*Topic).equal) &&
		maps.EqualFunc(c.names, d.names, (*Topic).equal) &&
		maps.EqualFunc(c.brokers, d.brokers, Broker.equal) &&
		maps.EqualFunc(c.shards, d.shards, slices.Equal) &&
		maps.Equal(c.removing, d.removing) &&
		maps.EqualFunc(c.brokerConfigs, d.brokerConfigs, maps.Equal) &&
		maps.EqualFunc(c.groupConfigs, d.groupConfigs, maps.Equal) &&
		maps.EqualFunc(c.clientMetrics, d.clientMetrics, maps.Equal) &&
		slices.Equal(c.acls.all, d.acls.all) &&
		maps.EqualFunc(c.scram, d.scram, (*ScramCredential).equal) && bytes.Equal(c.scramSecret, d.scramSecret) &&
		c.quotas.equal(d.quotas) &&
		c.fencesExpired == d.fencesExpired && c.fences.Equal(d.fences, func(a, b fence) bool { return a == b })
}

package projections

import (
	"maps"
	"slices"

	"kaas.dev/kaas/projections/internal/ordered"
)

// draft is a view under way: a batch of events is applied to it. Maps and topics
// are the old view's until something in them changes, and are cloned only once.
type draft struct {
	Cluster
	fenced map[int64]ordered.Change[fence] // not in fences yet
	acl    map[ACL]bool                    // not in acls yet: whether it is there
	own    struct {
		topics, brokers, shards, removing, configs, groupConfigs, clientMetrics, scram, quotas bool
		topic                                                                                  map[TopicID]bool
		shard                                                                                  map[ShardKind]bool
	}
}

func newDraft(c *Cluster) *draft { return &draft{Cluster: *c} }

// view ends the draft.
func (d *draft) view() *Cluster {
	d.settleFences()
	d.settleACLs()
	d.settleQuotas()
	c := d.Cluster
	if !d.own.topics {
		return &c // and the old view's order holds for it
	}
	return c.seal()
}

func (d *draft) ownTopics() {
	if d.own.topics {
		return
	}
	d.own.topics = true
	d.own.topic = map[TopicID]bool{}
	d.topics, d.names = maps.Clone(d.topics), maps.Clone(d.names)
}

// addTopic puts a topic that the caller made into the view.
func (d *draft) addTopic(t *Topic) {
	d.ownTopics()
	d.own.topic[t.ID] = true
	d.topics[t.ID], d.names[t.Name] = t, t
}

func (d *draft) dropTopic(t *Topic) {
	d.ownTopics()
	delete(d.topics, t.ID)
	delete(d.names, t.Name)
}

// editTopic returns a topic that may be changed, nil if it is unknown.
func (d *draft) editTopic(id TopicID) *Topic {
	t := d.topics[id]
	if t == nil {
		return nil
	}
	if d.own.topics && d.own.topic[id] {
		return t
	}
	t = t.clone()
	d.addTopic(t)
	return t
}

func (d *draft) ownBrokers() {
	if !d.own.brokers {
		d.own.brokers = true
		d.brokers = maps.Clone(d.brokers)
	}
}

func (d *draft) setBroker(b Broker) {
	d.ownBrokers()
	d.brokers[b.ID] = b
}

func (d *draft) dropBroker(id int32) {
	d.ownBrokers()
	delete(d.brokers, id)
}

// fence sets whether that registration of a broker is fenced.
func (d *draft) fence(id int32, epoch int64, fenced bool) {
	b, ok := d.brokers[id]
	if !ok || b.Epoch != epoch || b.Fenced == fenced {
		return
	}
	b.Fenced = fenced
	d.setBroker(b)
}

// setShards puts shards that the caller made into the view.
func (d *draft) setShards(kind ShardKind, shards []Partition) {
	if !d.own.shards {
		d.own.shards = true
		d.own.shard = map[ShardKind]bool{}
		d.shards = maps.Clone(d.shards)
	}
	d.own.shard[kind] = true
	d.shards[kind] = shards
}

// editShards returns the shards of a kind, which may be changed.
func (d *draft) editShards(kind ShardKind) []Partition {
	if !d.own.shards || !d.own.shard[kind] {
		d.setShards(kind, slices.Clone(d.shards[kind]))
	}
	return d.shards[kind]
}

func (d *draft) ownRemoving() {
	if !d.own.removing {
		d.own.removing = true
		d.removing = maps.Clone(d.removing)
	}
}

func (d *draft) setBrokerConfigs(name string, configs map[string]string) {
	setConfigs(&d.brokerConfigs, &d.own.configs, name, configs)
}

func (d *draft) setGroupConfigs(name string, configs map[string]string) {
	setConfigs(&d.groupConfigs, &d.own.groupConfigs, name, configs)
}

func (d *draft) setClientMetrics(name string, configs map[string]string) {
	setConfigs(&d.clientMetrics, &d.own.clientMetrics, name, configs)
}

// setConfigs changes a map that is the old view's until it is owned.
func setConfigs(by *map[string]map[string]string, own *bool, name string, configs map[string]string) {
	if !*own {
		*own = true
		*by = maps.Clone(*by)
	}
	if len(configs) == 0 {
		delete(*by, name)
	} else {
		(*by)[name] = configs
	}
}

// edited is configs with set put in and deleted taken out, a new map.
func edited(configs, set map[string]string, deleted []string) map[string]string {
	out := maps.Clone(configs)
	if out == nil {
		out = make(map[string]string, len(set))
	}
	maps.Copy(out, set)
	for _, k := range deleted {
		delete(out, k)
	}
	return out
}

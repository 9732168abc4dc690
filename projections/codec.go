package projections

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// stateBody is the encoded view: everything in one order, so that equal views have
// equal bytes. Partitions and shards are flattened, see flatten; fences likewise.
type stateBody struct {
	Topics         []topicBody    `msgpack:"topics"`
	Brokers        []Broker       `msgpack:"brokers"`
	BrokerEpoch    int64          `msgpack:"broker_epoch"`
	Controller     int32          `msgpack:"controller"`
	Shards         []shardsBody   `msgpack:"shards"`
	Removing       []removingBody `msgpack:"removing"`
	BrokerConfigs  []configBody   `msgpack:"broker_configs"`
	GroupConfigs   []configBody   `msgpack:"group_configs"`
	ClientMetrics  []configBody   `msgpack:"client_metrics,omitempty"`
	Scram          []scramBody    `msgpack:"scram,omitempty"`
	ScramSecret    []byte         `msgpack:"scram_secret,omitempty"`
	Quotas         []quotaBody    `msgpack:"quotas,omitempty"`
	ACLs           []ACL          `msgpack:"acls,omitempty"`
	NextProducerID int64          `msgpack:"next_producer_id"`
	Fences         []int64        `msgpack:"fences"`
	FencesExpired  int64          `msgpack:"fences_expired"`
}

type topicBody struct {
	ID         TopicID           `msgpack:"id"`
	Name       string            `msgpack:"name"`
	CreatedAt  int64             `msgpack:"created_ms"`
	Configs    map[string]string `msgpack:"configs"`
	Partitions []int32           `msgpack:"partitions"`
}

type shardsBody struct {
	Kind   ShardKind `msgpack:"kind"`
	Shards []int32   `msgpack:"shards"`
}

type removingBody struct {
	ID   TopicID `msgpack:"id"`
	Name string  `msgpack:"name"`
}

type configBody struct {
	Name    string            `msgpack:"name"`
	Configs map[string]string `msgpack:"configs"`
}

// Encode returns the view as one msgpack value.
func Encode(c *Cluster) ([]byte, error) {
	s := stateBody{Brokers: c.Brokers(), BrokerEpoch: c.brokerEpoch, Controller: c.controller, NextProducerID: c.nextProducerID,
		Fences: encodeFences(c), FencesExpired: c.fencesExpired}
	for _, t := range c.Topics() {
		s.Topics = append(s.Topics, topicBody{ID: t.ID, Name: t.Name, CreatedAt: t.CreatedAt.UnixMilli(),
			Configs: t.Configs, Partitions: flatten(t.Partitions)})
	}
	for _, kind := range slices.Sorted(maps.Keys(c.shards)) {
		s.Shards = append(s.Shards, shardsBody{kind, flatten(c.shards[kind])})
	}
	for id, name := range c.removing {
		s.Removing = append(s.Removing, removingBody{id, name})
	}
	slices.SortFunc(s.Removing, func(a, b removingBody) int { return slices.Compare(a.ID[:], b.ID[:]) })
	s.BrokerConfigs, s.GroupConfigs = configBodies(c.brokerConfigs), configBodies(c.groupConfigs)
	s.ClientMetrics, s.Scram = configBodies(c.clientMetrics), encodeScram(c)
	s.ScramSecret = c.scramSecret
	s.Quotas, s.ACLs = encodeQuotas(c), c.acls.all
	return encode(&s)
}

func configBodies(by map[string]map[string]string) (out []configBody) {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, configBody{name, by[name]})
	}
	return out
}

// Decode is the inverse of Encode. It refuses what no fold gives.
func Decode(raw []byte) (*Cluster, error) {
	var s stateBody
	if err := msgpack.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("cluster view: %w", err)
	}
	c := NewCluster()
	for _, b := range s.Topics {
		if err := c.decodeTopic(b); err != nil {
			return nil, fmt.Errorf("cluster view: topic %q: %w", b.Name, err)
		}
	}
	for _, b := range s.Brokers {
		c.brokers[b.ID] = b
	}
	for _, b := range s.Shards {
		if err := c.decodeShards(b); err != nil {
			return nil, fmt.Errorf("cluster view: shards of %q: %w", b.Kind, err)
		}
	}
	for _, r := range s.Removing {
		c.removing[r.ID] = r.Name
	}
	for _, b := range s.BrokerConfigs {
		c.brokerConfigs[b.Name] = b.Configs
	}
	for _, b := range s.GroupConfigs {
		c.groupConfigs[b.Name] = b.Configs
	}
	for _, b := range s.ClientMetrics {
		c.clientMetrics[b.Name] = b.Configs
	}
	if c.acls = newACLs(s.ACLs); !slices.IsSortedFunc(s.ACLs, ACL.compare) {
		return nil, errors.New("cluster view: ACLs are not in order")
	}
	if err := errors.Join(c.decodeScram(s.Scram), c.decodeQuotas(s.Quotas), c.decodeFences(s.Fences, s.FencesExpired)); err != nil {
		return nil, fmt.Errorf("cluster view: %w", err)
	}
	c.scramSecret = s.ScramSecret
	if len(c.scramSecret) == 0 && len(c.scram) > 0 { // it was written by a build that had none
		c.scramSecret = c.ScramCredentials()[0].secret()
	}
	c.nextProducerID, c.brokerEpoch, c.controller = s.NextProducerID, s.BrokerEpoch, s.Controller
	if !slices.IsSortedFunc(s.Topics, func(a, b topicBody) int { return cmp.Compare(a.Name, b.Name) }) {
		return nil, errors.New("cluster view: topics are not in order")
	}
	return c, nil
}

func (c *Cluster) decodeTopic(b topicBody) error {
	switch {
	case b.ID.IsZero():
		return errors.New("has no ID")
	case c.topics[b.ID] != nil:
		return fmt.Errorf("ID %s stands twice", b.ID)
	case c.names[b.Name] != nil:
		return errors.New("stands twice")
	}
	ps, err := unflatten(b.Partitions, MaxPartitions)
	if err != nil {
		return err
	}
	t := &Topic{ID: b.ID, Name: b.Name, Partitions: ps, Configs: b.Configs, CreatedAt: time.UnixMilli(b.CreatedAt).UTC()}
	c.topics[t.ID], c.names[t.Name] = t, t
	return nil
}

func (c *Cluster) decodeShards(b shardsBody) error {
	if b.Kind == "" || c.shards[b.Kind] != nil {
		return errors.New("the kind has no name or stands twice")
	}
	ps, err := unflatten(b.Shards, MaxShards)
	if err == nil && len(ps) == 0 {
		err = errors.New("there are none")
	}
	c.shards[b.Kind] = ps
	return err
}

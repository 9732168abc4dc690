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
// equal bytes. Partitions are flattened to leader, epoch, leader, epoch, …
type stateBody struct {
	Topics         []topicBody    `msgpack:"topics"`
	Brokers        []Broker       `msgpack:"brokers"`
	Removing       []removingBody `msgpack:"removing"`
	BrokerConfigs  []configBody   `msgpack:"broker_configs"`
	NextProducerID int64          `msgpack:"next_producer_id"`
}

type topicBody struct {
	ID         TopicID           `msgpack:"id"`
	Name       string            `msgpack:"name"`
	CreatedAt  int64             `msgpack:"created_ms"`
	Configs    map[string]string `msgpack:"configs"`
	Partitions []int32           `msgpack:"partitions"`
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
	s := stateBody{Brokers: c.Brokers(), NextProducerID: c.nextProducerID}
	for _, t := range c.Topics() {
		b := topicBody{ID: t.ID, Name: t.Name, CreatedAt: t.CreatedAt.UnixMilli(), Configs: t.Configs}
		b.Partitions = make([]int32, 0, 2*len(t.Partitions))
		for _, p := range t.Partitions {
			b.Partitions = append(b.Partitions, p.Leader, p.Epoch)
		}
		s.Topics = append(s.Topics, b)
	}
	for id, name := range c.removing {
		s.Removing = append(s.Removing, removingBody{id, name})
	}
	slices.SortFunc(s.Removing, func(a, b removingBody) int { return slices.Compare(a.ID[:], b.ID[:]) })
	for _, name := range slices.Sorted(maps.Keys(c.brokerConfigs)) {
		s.BrokerConfigs = append(s.BrokerConfigs, configBody{name, c.brokerConfigs[name]})
	}
	return encode(&s)
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
	for _, r := range s.Removing {
		c.removing[r.ID] = r.Name
	}
	for _, b := range s.BrokerConfigs {
		c.brokerConfigs[b.Name] = b.Configs
	}
	c.nextProducerID = s.NextProducerID
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
	case len(b.Partitions)%2 != 0 || len(b.Partitions) > 2*MaxPartitions:
		return fmt.Errorf("%d numbers for its partitions", len(b.Partitions))
	}
	t := &Topic{ID: b.ID, Name: b.Name, Configs: b.Configs, CreatedAt: time.UnixMilli(b.CreatedAt).UTC()}
	t.Partitions = make([]Partition, 0, len(b.Partitions)/2)
	for i := 0; i < len(b.Partitions); i += 2 {
		t.Partitions = append(t.Partitions, Partition{Leader: b.Partitions[i], Epoch: b.Partitions[i+1]})
	}
	c.topics[t.ID], c.names[t.Name] = t, t
	return nil
}

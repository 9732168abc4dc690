package main

import "kaas.dev/kaas/projections"

// clusterState is the folded cluster stream as dump shows it.
type clusterState struct {
	ClusterID      string                  `json:"cluster_id"`
	Controller     int32                   `json:"controller"`
	Brokers        []brokerState           `json:"brokers"`
	Topics         []topicState            `json:"topics"`
	Shards         map[string][]shardState `json:"shards,omitempty"`
	NextProducerID *int64                  `json:"next_producer_id,omitempty"`
	BrokerConfigs  map[string]string       `json:"broker_default_configs,omitempty"`
	Credentials    []credentialState       `json:"scram_credentials,omitempty"`
	Removing       map[string]string       `json:"deleted_not_yet_removed,omitempty"`
}

type brokerState struct {
	ID          int32                  `json:"id"`
	Epoch       *int64                 `json:"epoch,omitempty"`
	Incarnation string                 `json:"incarnation,omitempty"`
	Fenced      bool                   `json:"fenced"`
	Rack        string                 `json:"rack,omitempty"`
	Listeners   []projections.Listener `json:"listeners"`
}

type topicState struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions []partitionState  `json:"partitions"`
	Configs    map[string]string `json:"configs,omitempty"`
}

type partitionState struct {
	Partition int   `json:"partition"`
	Leader    int32 `json:"leader"`
	Epoch     int32 `json:"leader_epoch"`
	Handover  bool  `json:"handover,omitempty"`
}

type shardState struct {
	Shard    int   `json:"shard"`
	Owner    int32 `json:"owner"`
	Epoch    int32 `json:"epoch"`
	Handover bool  `json:"handover,omitempty"`
}

func showCluster(id string, c *projections.Cluster, secrets bool) clusterState {
	s := clusterState{ClusterID: id, Controller: c.Controller(), NextProducerID: new(c.NextProducerID()), BrokerConfigs: c.BrokerConfigs(""),
		Brokers: []brokerState{}, Topics: []topicState{}, Shards: showShards(c), Credentials: shownCredentials(c, secrets)}
	for _, b := range c.Brokers() {
		s.Brokers = append(s.Brokers, brokerState{b.ID, &b.Epoch, b.Incarnation, b.Fenced, b.Rack, b.Listeners})
	}
	for _, t := range c.Topics() {
		ts := topicState{Name: t.Name, ID: t.ID.String(), Configs: t.Configs}
		for i, p := range t.Partitions {
			ts.Partitions = append(ts.Partitions, partitionState{i, p.Leader, p.Epoch, p.Handover})
		}
		s.Topics = append(s.Topics, ts)
	}
	for id, name := range c.Removing() {
		if s.Removing == nil {
			s.Removing = map[string]string{}
		}
		s.Removing[id.String()] = name
	}
	return s
}

func showShards(c *projections.Cluster) map[string][]shardState {
	out := map[string][]shardState{}
	for _, kind := range []projections.ShardKind{projections.ShardGroups, projections.ShardTxns} {
		for i, p := range c.Shards(kind) {
			out[string(kind)] = append(out[string(kind)], shardState{i, p.Leader, p.Epoch, p.Handover})
		}
	}
	return out
}

package main

import "kaas.dev/kaas/projections"

// clusterState is the folded cluster stream as dump shows it.
type clusterState struct {
	ClusterID      string            `json:"cluster_id"`
	Brokers        []brokerState     `json:"brokers"`
	Topics         []topicState      `json:"topics"`
	NextProducerID int64             `json:"next_producer_id"`
	BrokerConfigs  map[string]string `json:"broker_default_configs,omitempty"`
	Removing       map[string]string `json:"deleted_not_yet_removed,omitempty"`
}

type brokerState struct {
	ID        int32                  `json:"id"`
	Epoch     int64                  `json:"epoch"`
	Fenced    bool                   `json:"fenced"`
	Rack      string                 `json:"rack,omitempty"`
	Listeners []projections.Listener `json:"listeners"`
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
}

func showCluster(id string, c *projections.Cluster) clusterState {
	s := clusterState{ClusterID: id, NextProducerID: c.NextProducerID(), BrokerConfigs: c.BrokerConfigs(""), Brokers: []brokerState{}, Topics: []topicState{}}
	for _, b := range c.Brokers() {
		s.Brokers = append(s.Brokers, brokerState{b.ID, b.Epoch, b.Fenced, b.Rack, b.Listeners})
	}
	for _, t := range c.Topics() {
		ts := topicState{Name: t.Name, ID: t.ID.String(), Configs: t.Configs}
		for i, p := range t.Partitions {
			ts.Partitions = append(ts.Partitions, partitionState{i, p.Leader, p.Epoch})
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

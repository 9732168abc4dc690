package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// shardTxns is a folded shard stream as dump shows it.
type shardTxns struct {
	Txns []txnState `json:"transactional_ids"`
}

type txnState struct {
	place
	ID         string `json:"id"`
	State      string `json:"state"`
	ProducerID int64  `json:"producer_id"`
	Epoch      int16  `json:"producer_epoch"`
	// Last, Previous and Next are as in txns.Txn; absent where there is none.
	LastEpoch  *int16             `json:"last_producer_epoch,omitempty"`
	Previous   *int64             `json:"previous_producer_id,omitempty"`
	Next       *int64             `json:"next_producer_id,omitempty"`
	Version    *int8              `json:"transaction_version,omitempty"`
	TimeoutMs  int32              `json:"timeout_ms"`
	Fencing    bool               `json:"fencing,omitempty"`
	Started    *time.Time         `json:"started,omitempty"`
	Updated    *time.Time         `json:"updated,omitempty"`
	Partitions map[string][]int32 `json:"partitions,omitempty"`
	Groups     []string           `json:"group_shards,omitempty"`
}

func showTxns(s *txns.Shard, shard int32, names history.Namer) shardTxns {
	out := shardTxns{Txns: []txnState{}}
	for t := range s.Txns() {
		out.Txns = append(out.Txns, showTransaction(t, shard, names))
	}
	return out
}

func showTransaction(t *txns.Txn, shard int32, names history.Namer) txnState {
	s := txnState{place: place{Shard: &shard}, ID: t.ID, State: t.State.String(), ProducerID: t.ProducerID, Epoch: t.Epoch, Version: &t.Version,
		TimeoutMs: t.Timeout, Fencing: t.Fencing, Updated: new(at(t.Updated))}
	if t.LastEpoch != txns.NoEpoch {
		s.LastEpoch = &t.LastEpoch
	}
	if t.PrevProducerID != txns.NoProducer {
		s.Previous = &t.PrevProducerID
	}
	if t.NextProducerID != txns.NoProducer {
		s.Next = &t.NextProducerID
	}
	if t.Started != txns.NotStarted {
		s.Started = new(at(t.Started))
	}
	for _, p := range t.Partitions {
		if s.Partitions == nil {
			s.Partitions = map[string][]int32{}
		}
		s.Partitions[names(p.Topic)] = append(s.Partitions[names(p.Topic)], p.Index)
	}
	for _, g := range t.Groups {
		s.Groups = append(s.Groups, groups.StreamsDir+"/"+projections.ShardName(g))
	}
	return s
}

func txnsTable(w io.Writer, sc screen, all []txnState) error {
	lines := [][]string{{"TRANSACTIONAL ID", "SHARD", "PRODUCER", "EPOCH", "STATE", "PARTITIONS", "GROUP SHARDS", "STARTED", "UPDATED"}}
	for _, t := range all {
		n := 0
		for _, ps := range t.Partitions {
			n += len(ps)
		}
		lines = append(lines, []string{shown(t.ID), t.shardName(), strconv.FormatInt(t.ProducerID, 10), strconv.Itoa(int(t.Epoch)), t.State,
			strconv.Itoa(n), strconv.Itoa(len(t.Groups)), when(t.Started), when(t.Updated)})
	}
	return rows(w, sc, lines...)
}

func txnTable(w io.Writer, sc screen, t txnState) error {
	fmt.Fprintf(w, "transactional ID %s %s: %s\n", shown(t.ID), t.text(txns.StreamsDir), t.summary())
	if len(t.Partitions) == 0 && len(t.Groups) == 0 {
		return nil
	}
	return rows(w, sc, []string{"PARTITIONS", "GROUP SHARDS"}, []string{partitionsText(t.Partitions), shown(strings.Join(t.Groups, ","))})
}

func (t *txnState) summary() string {
	parts := []string{t.State, fmt.Sprintf("producer %d in epoch %d", t.ProducerID, t.Epoch)}
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(t.LastEpoch != nil, "before that in epoch %d", orZero(t.LastEpoch))
	add(t.Previous != nil, "after producer %d", orZero(t.Previous))
	add(t.Next != nil, "followed by producer %d", orZero(t.Next))
	add(t.Fencing, "being fenced")
	add(true, "timeout %v", time.Duration(t.TimeoutMs)*time.Millisecond)
	add(t.Started != nil, "started %s", when(t.Started))
	add(t.Updated != nil, "updated %s", when(t.Updated))
	return strings.Join(parts, ", ")
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

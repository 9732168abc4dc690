package coordinator

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// OffsetsTopic stands, between brokers, for the shards of groups: each is a partition of it.
const OffsetsTopic = "__consumer_offsets"

// TxnShard is the shard that a transactional ID falls into, with the errors of GroupShard.
func (b *Broker) TxnShard(id string) (*txnshard.Shard, error) {
	return shardFor[*txnshard.Shard](b, projections.ShardTxns, id)
}

// TxnShards are the shards of transactions that this broker serves. all is false while some
// that it is to serve are not open.
func (b *Broker) TxnShards() (out []*txnshard.Shard, all bool) {
	return shardsOf[*txnshard.Shard](b, projections.ShardTxns)
}

// JoinTxn has the coordinator of a transaction, wherever it is, make partitions and shards
// of groups part of it, or say whether they are. It returns an error or nil for each, the
// partitions first, or one for all.
func (b *Broker) JoinTxn(ctx context.Context, a txnshard.Add, verifyOnly bool) ([]error, error) {
	view := b.View()
	index, ok := view.ShardOf(projections.ShardTxns, a.ID)
	if !ok {
		return nil, fmt.Errorf("%w: the shards are not made yet", kerr.CoordinatorNotAvailable)
	}
	if view.Shards(projections.ShardTxns)[index].Leader == b.opt.NodeID {
		return b.joinHere(ctx, a, verifyOnly)
	}
	return b.joinThere(ctx, view.Shards(projections.ShardTxns)[index].Leader, a, verifyOnly)
}

func (b *Broker) joinHere(ctx context.Context, a txnshard.Add, verifyOnly bool) ([]error, error) {
	s, err := b.TxnShard(a.ID)
	switch {
	case err != nil:
		return nil, err
	case verifyOnly:
		return s.Verify(ctx, a)
	}
	return make([]error, len(a.Partitions)+len(a.Groups)), s.Add(ctx, a)
}

// joinThere asks by AddPartitionsToTxn, as brokers do (KIP-890).
func (b *Broker) joinThere(ctx context.Context, owner int32, a txnshard.Add, verifyOnly bool) ([]error, error) {
	to, err := b.listenerOf(owner)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version = 5
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch, t.VerifyOnly = a.ID, a.Producer.ID, a.Producer.Epoch, verifyOnly
	topics, where := b.partsByTopic(a.Partitions, a.Groups)
	for _, p := range topics {
		rt := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		rt.Topic, rt.Partitions = p.name, p.partitions
		t.Topics = append(t.Topics, rt)
	}
	req.Transactions = append(req.Transactions, t)
	r, err := b.peers.Ask(ctx, to, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, err)
	}
	resp, ok := r.(*kmsg.AddPartitionsToTxnResponse)
	if !ok || len(resp.Transactions) != 1 {
		return nil, fmt.Errorf("%w: broker %d answered %T", kerr.UnknownServerError, owner, r)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	codes := map[part]int16{}
	for _, rt := range resp.Transactions[0].Topics {
		for _, p := range rt.Partitions {
			codes[part{rt.Topic, p.Partition}] = p.ErrorCode
		}
	}
	return errorsOf(where, codes), nil
}

// part is a partition by name, as the wire has it.
type part struct {
	topic string
	index int32
}

type topicParts struct {
	name       string
	partitions []int32
}

// partsByTopic are partitions, and shards of groups, as the wire has them, and each by name
// in order; a topic that is gone has none.
func (b *Broker) partsByTopic(ps []txns.Partition, groups []int32) (out []topicParts, where []part) {
	view := b.View()
	at := map[string]int{}
	add := func(name string, index int32) {
		where = append(where, part{name, index})
		if name == "" {
			return
		}
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, topicParts{name: name})
		}
		out[i].partitions = append(out[i].partitions, index)
	}
	for _, p := range ps {
		name := ""
		if t := view.TopicByID(p.Topic); t != nil {
			name = t.Name
		}
		add(name, p.Index)
	}
	for _, g := range groups {
		add(OffsetsTopic, g)
	}
	return out, where
}

// errorsOf is what codes say of each part; what they do not name is unknown.
func errorsOf(where []part, codes map[part]int16) []error {
	errs := make([]error, len(where))
	for i, p := range where {
		code, ok := codes[p]
		if !ok {
			errs[i] = kerr.UnknownTopicOrPartition
		} else {
			errs[i] = kerr.ErrorForCode(code)
		}
	}
	return errs
}

func (b *Broker) listenerOf(node int32) (projections.Listener, error) {
	r, ok := b.View().Broker(node)
	if ok && !r.Fenced {
		if to, ok := r.Listener(b.opt.InterBroker); ok {
			return to, nil
		}
	}
	return projections.Listener{}, fmt.Errorf("%w: broker %d is not there", kerr.CoordinatorNotAvailable, node)
}

// markers sends the ends of transactions by WriteTxnMarkers, to this broker too.
type markers struct{ b *Broker }

func (m markers) Write(ctx context.Context, to projections.Broker, reqs []txnshard.MarkerRequest) ([]txnshard.MarkerResult, error) {
	at, ok := to.Listener(m.b.opt.InterBroker)
	if !ok {
		return nil, fmt.Errorf("%w: broker %d has no listener %s", kerr.BrokerNotAvailable, to.ID, m.b.opt.InterBroker)
	}
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 2
	where := make([][]part, len(reqs))
	for i, r := range reqs {
		rm := kmsg.NewWriteTxnMarkersRequestMarker()
		rm.ProducerID, rm.ProducerEpoch, rm.Committed = r.Producer.ID, r.Producer.Epoch, r.Commit
		rm.CoordinatorEpoch, rm.TransactionVersion = r.CoordinatorEpoch, r.Version
		var topics []topicParts
		topics, where[i] = m.b.partsByTopic(r.Partitions, r.Groups)
		for _, t := range topics {
			rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			rt.Topic, rt.Partitions = t.name, t.partitions
			rm.Topics = append(rm.Topics, rt)
		}
		req.Markers = append(req.Markers, rm)
	}
	r, err := m.b.peers.Ask(ctx, at, req)
	if err != nil {
		return nil, err
	}
	resp, ok := r.(*kmsg.WriteTxnMarkersResponse)
	if !ok || len(resp.Markers) != len(reqs) {
		return nil, fmt.Errorf("broker %d answered %T to %d markers", to.ID, r, len(reqs))
	}
	out := make([]txnshard.MarkerResult, len(reqs))
	for i, rm := range resp.Markers {
		codes := map[part]int16{}
		for _, rt := range rm.Topics {
			for _, p := range rt.Partitions {
				codes[part{rt.Topic, p.Partition}] = p.ErrorCode
			}
		}
		errs := errorsOf(where[i], codes)
		n := len(reqs[i].Partitions)
		out[i] = txnshard.MarkerResult{Partitions: errs[:n], Groups: errs[n:]}
	}
	return out, nil
}

// deleted reports whether a topic that the view lacks is deleted for certain. Its directory
// was there before any transaction could have a part of it, and goes only after the deletion
// is committed; a listing shows the newest state (guarantee c).
func (b *Broker) deleted(_ context.Context, id projections.TopicID) (bool, error) {
	view := b.View()
	if _, removing := view.Removing()[id]; removing {
		return true, nil
	}
	there, err := exists(b.v, topicsDir, id.String())
	return !there && b.View().TopicByID(id) == nil, err
}

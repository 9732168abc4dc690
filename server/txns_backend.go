package server

import (
	"context"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/projections/txns"
)

// txnShard is what the handlers need of a shard of the transactions that this broker owns;
// *txnshard.Shard is one. Errors are *kerr.Error, wrapped.
type txnShard interface {
	InitProducerID(ctx context.Context, id string, timeoutMs int32, who txnshard.Producer) (txnshard.Producer, error)
	Add(ctx context.Context, a txnshard.Add) error
	// Verify returns nil or kerr.TransactionAbortable for each partition, then each shard of
	// groups, or one error for all.
	Verify(ctx context.Context, a txnshard.Add) ([]error, error)
	// End returns who begins the next transaction.
	End(ctx context.Context, id string, who txnshard.Producer, commit bool, version int8) (txnshard.Producer, error)
	Describe(ctx context.Context, id string) (*txns.Txn, error)
	List(ctx context.Context, f txnshard.Filter) ([]*txns.Txn, error)
}

var _ txnShard = (*txnshard.Shard)(nil)

func (b broker) TxnShard(id string) (txnShard, error) {
	s, err := b.Broker.TxnShard(id)
	if err != nil {
		return nil, err // and not a nil pointer in an interface
	}
	return s, nil
}

func (b broker) TxnShards() (out []txnShard, all bool) {
	shards, all := b.Broker.TxnShards()
	for _, s := range shards {
		out = append(out, s)
	}
	return out, all
}

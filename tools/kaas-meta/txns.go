package main

import (
	"github.com/spf13/cobra"

	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

func (a *app) txnsCommand() *cobra.Command {
	return shardsCommand(a, shardView[*txns.Shard, txnState]{
		kind: history.TxnShards, use: "txns", arg: "TRANSACTIONAL-ID",
		short: "The transactional IDs of all shards, or one of them with its producer and the parts of its transaction",
		long: "The transactional IDs of all shards, or one of them with its producer and the parts of its transaction, as they are on the volume, or with\n" +
			"--bootstrap-server as the brokers tell.\n" +
			"A transaction that is prepared is decided; some of its partitions and groups may not have its end yet.",
		all: func(s *txns.Shard, shard int32, names history.Namer) []txnState {
			return showTxns(s, shard, names).Txns
		},
		one: func(s *txns.Shard, id string, shard int32, names history.Namer) (txnState, bool) {
			t := s.Txn(id)
			if t == nil {
				return txnState{}, false
			}
			return showTransaction(t, shard, names), true
		},
		id:       func(t txnState) string { return t.ID },
		place:    func(x *txnState) *place { return &x.place },
		allTable: txnsTable,
		oneTable: txnTable,
		live:     liveTxns,
	})
}

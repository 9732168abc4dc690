package main

import (
	"context"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// atHelp says what --at takes.
const atHelp = "a position that log shows, such as 6-43; a time, such as 2026-11-29T12:00:00Z or 2h for two hours ago; or latest"

// stateAt folds a stream up to what --at names.
func stateAt(ctx context.Context, s *history.Stream, at string) (history.State, error) {
	sts, err := s.StatesAt(ctx, time.Now(), at)
	if err != nil {
		return history.State{}, err
	}
	return sts[0], nil
}

// shownState is a state as dump shows it.
func shownState(ctx context.Context, v *substrate.Volume, st history.State, secrets bool) any {
	switch s := st.Fold.(type) {
	case *projections.Cluster:
		return showCluster(v.ID, s, secrets)
	case *groups.Shard:
		return showShard(s, st.Stream.Shard, history.Names(ctx, v))
	case *txns.Shard:
		return showTxns(s, st.Stream.Shard, history.Names(ctx, v))
	}
	return st.Fold
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/txns"
)

func (a *app) txnsCommand() *cobra.Command {
	at := "latest"
	cmd := &cobra.Command{
		Use:   "txns [TRANSACTIONAL-ID]",
		Short: "The transactional IDs of all shards, or one of them with its producer and the parts of its transaction",
		Long: "The transactional IDs of all shards, or one of them with its producer and the parts of its transaction, as they are on the volume.\n" +
			"A transaction that is prepared is decided; some of its partitions and groups may not have its end yet.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := a.open()
			if err != nil {
				return err
			}
			p, err := position(at)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.showTxn(cmd.Context(), v, args[0], p)
			}
			if !p.IsZero() {
				return errors.New("--at: a position is one of a transactional ID's shard: name the ID")
			}
			return a.showAllTxns(cmd.Context(), v)
		},
	}
	cmd.Flags().StringVar(&at, "at", at, "a position of the ID's shard that log shows, such as 6-43, or latest")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// showAllTxns tells of every shard that can be read, and fails if one cannot.
func (a *app) showAllTxns(ctx context.Context, v *substrate.Volume) error {
	shards, err := txnKind.list(v)
	if err != nil {
		return err
	}
	names := topicNames(ctx, v)
	all := []txnState{} // an empty list, not none, in JSON
	var errs []error
	for _, n := range shards {
		snap, err := readTxns(ctx, v, n, substrate.Position{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, showTxns(snap.State, n, names).Txns...)
	}
	slices.SortFunc(all, func(a, b txnState) int { return cmp.Compare(a.ID, b.ID) })
	if a.output == "table" {
		err = txnsTable(a.out, all)
	} else {
		err = a.print(all)
	}
	return errors.Join(append(errs, err)...)
}

// showTxn tells of one transactional ID.
func (a *app) showTxn(ctx context.Context, v *substrate.Volume, id string, at substrate.Position) error {
	shard, s, err := txnKind.shardOf(ctx, v, id)
	if err != nil {
		return err
	}
	snap, err := readTxns(ctx, v, shard, at)
	if err != nil {
		return err
	}
	t := snap.State.Txn(id)
	if t == nil {
		return fmt.Errorf("there is no transactional ID %q at %s of %s", id, snap.Pos, s.label)
	}
	state := showTransaction(t, shard, topicNames(ctx, v))
	if a.output == "table" {
		return txnTable(a.out, state, snap.Pos)
	}
	return a.print(struct {
		Position string `json:"position"`
		txnState
	}{snap.Pos.String(), state})
}

// readTxns reads a shard at a position, zero being the newest.
func readTxns(ctx context.Context, v *substrate.Volume, shard int32, p substrate.Position) (snap metalog.Snapshot[*txns.Shard], err error) {
	stream := txns.Stream(v.MetaDir(), shard)
	if p.IsZero() {
		snap, _, err = metalog.ReadState(ctx, v, stream, txns.Schema())
		return snap, err
	}
	return metalog.ReadStateAt(ctx, v, stream, p, txns.Schema())
}

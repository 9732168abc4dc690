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
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

func (a *app) groupsCommand() *cobra.Command {
	at := "latest"
	cmd := &cobra.Command{
		Use:   "groups [GROUP]",
		Short: "The consumer groups of all shards, or one of them with its members and offsets",
		Long: "The consumer groups of all shards, or one of them with its members and offsets, as they are on the volume.\n" +
			"A rebalance of a classic group under way is known to its broker only: here the group is as it was before.",
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
				return a.showGroup(cmd.Context(), v, args[0], p)
			}
			if !p.IsZero() {
				return errors.New("--at: a position is one of a group's shard: name the group")
			}
			return a.showGroups(cmd.Context(), v)
		},
	}
	cmd.Flags().StringVar(&at, "at", at, "a position of the group's shard that log shows, such as 6-43, or latest")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// showGroups tells of every shard that can be read, and fails if one cannot.
func (a *app) showGroups(ctx context.Context, v *substrate.Volume) error {
	shards, err := groupKind.list(v)
	if err != nil {
		return err
	}
	names := topicNames(ctx, v)
	all := []groupState{} // an empty list, not none, in JSON
	var errs []error
	for _, n := range shards {
		snap, err := readGroups(ctx, v, n, substrate.Position{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, showShard(snap.State, n, names).Groups...)
	}
	slices.SortFunc(all, func(a, b groupState) int { return cmp.Compare(a.ID, b.ID) })
	if a.output == "table" {
		err = groupsTable(a.out, all)
	} else {
		err = a.print(all)
	}
	return errors.Join(append(errs, err)...)
}

// showGroup tells of one group.
func (a *app) showGroup(ctx context.Context, v *substrate.Volume, id string, at substrate.Position) error {
	shard, s, err := groupKind.shardOf(ctx, v, id)
	if err != nil {
		return err
	}
	snap, err := readGroups(ctx, v, shard, at)
	if err != nil {
		return err
	}
	g := snap.State.Group(id)
	if g == nil {
		return fmt.Errorf("there is no group %q at %s of %s", id, snap.Pos, s.label)
	}
	state := showGroup(g, shard, topicNames(ctx, v))
	if a.output == "table" {
		return groupTable(a.out, state, snap.Pos)
	}
	return a.print(struct {
		Position string `json:"position"`
		groupState
	}{snap.Pos.String(), state})
}

// readGroups reads a shard at a position, zero being the newest.
func readGroups(ctx context.Context, v *substrate.Volume, shard int32, p substrate.Position) (snap metalog.Snapshot[*groups.Shard], err error) {
	stream := groups.Stream(v.MetaDir(), shard)
	if p.IsZero() {
		snap, _, err = metalog.ReadState(ctx, v, stream, groups.Schema())
		return snap, err
	}
	return metalog.ReadStateAt(ctx, v, stream, p, groups.Schema())
}

// topicNames returns how topics are called: by name as far as the cluster stream has
// them, else by ID.
func topicNames(ctx context.Context, v *substrate.Volume) func(projections.TopicID) string {
	view, err := readCluster(ctx, v)
	if err != nil {
		view = projections.NewCluster() // verify tells of one that cannot be read
	}
	return func(id projections.TopicID) string {
		if t := view.TopicByID(id); t != nil {
			return t.Name
		}
		return id.String()
	}
}

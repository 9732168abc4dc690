package main

import (
	"github.com/spf13/cobra"

	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

func (a *app) groupsCommand() *cobra.Command {
	return shardsCommand(a, shardView[*groups.Shard, groupState]{
		kind: history.GroupShards, use: "groups", arg: "GROUP",
		short: "The consumer groups of all shards, or one of them with its members and offsets",
		long: "The consumer groups of all shards, or one of them with its members and offsets, as they are on the volume, or with\n" +
			"--bootstrap-server as the brokers tell.\n" +
			"A rebalance of a classic group under way is known to its broker only: on the volume the group is as it was before.",
		all: func(s *groups.Shard, shard int32, names history.Namer) []groupState {
			return showShard(s, shard, names).Groups
		},
		one: func(s *groups.Shard, id string, shard int32, names history.Namer) (groupState, bool) {
			g := s.Group(id)
			if g == nil {
				return groupState{}, false
			}
			return showGroup(g, shard, names), true
		},
		id:       func(g groupState) string { return g.ID },
		place:    func(x *groupState) *place { return &x.place },
		allTable: groupsTable,
		oneTable: groupTable,
		live:     liveGroups,
	})
}

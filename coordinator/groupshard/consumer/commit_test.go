package consumer

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

func TestWhoMayCommit(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(join("A", "a"), 1, "a:0,1")
	w.want(join("B", "a"), 2, "")
	w.want(beatAt("A", 1), 1, "a:0")
	w.want(w.holding("A", 1, "a:0"), 2, "-")
	of := func(ps ...int32) []groups.TopicOffsets {
		out := groups.TopicOffsets{Topic: w.topics.Topic("a").ID}
		for _, p := range ps {
			out.Partitions = append(out.Partitions, groups.PartitionOffset{Partition: p})
		}
		return []groups.TopicOffsets{out}
	}
	for name, c := range map[string]struct {
		member string
		epoch  int32
		txn    bool
		topics []groups.TopicOffsets
		want   *kerr.Error
	}{
		"its epoch":                                {"A", 2, false, of(0), nil},
		"its epoch, in a transaction":              {"A", 2, true, of(0), nil},
		"the epoch before":                         {"A", 1, false, of(0), nil},
		"the epoch before, what it gave up":        {"A", 1, false, of(0, 1), kerr.StaleMemberEpoch},
		"the epoch before, another's":              {"B", 1, false, of(1), kerr.StaleMemberEpoch},
		"epoch 0":                                  {"B", 0, false, of(), kerr.StaleMemberEpoch},
		"too high":                                 {"A", 3, false, of(0), kerr.StaleMemberEpoch},
		"a member with no epoch":                   {"A", -1, false, of(0), kerr.StaleMemberEpoch},
		"unknown":                                  {"C", 2, false, of(0), kerr.UnknownMemberID},
		"an outsider":                              {"", -1, false, of(0), kerr.UnknownMemberID},
		"an outsider in a transaction":             {"", -1, true, of(0), nil},
		"a member with no epoch, in a transaction": {"A", -1, true, of(0), kerr.StaleMemberEpoch},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, MayCommit(w.g, c.member, nil, c.epoch, c.txn, c.topics), c.want)
		})
	}
	w.fence("A")
	w.fence("B")
	wantCode(t, MayCommit(w.g, "", nil, -1, false, of(0)), nil)
	wantCode(t, MayCommit(w.g, "A", nil, 2, false, of(0)), kerr.UnknownMemberID)
}

func TestWhoMayFetch(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(join("A", "a"), 1, "a:0,1")
	for name, c := range map[string]struct {
		member *string
		epoch  int32
		want   *kerr.Error
	}{
		"anybody":          {nil, -1, nil},
		"its epoch":        {ptr("A"), 1, nil},
		"too high":         {ptr("A"), 2, kerr.StaleMemberEpoch},
		"too low":          {ptr("A"), 0, kerr.StaleMemberEpoch},
		"unknown":          {ptr("B"), 1, kerr.UnknownMemberID},
		"an epoch of none": {nil, 1, kerr.UnknownMemberID},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, MayFetch(w.g, c.member, c.epoch), c.want) })
	}
}

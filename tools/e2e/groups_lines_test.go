package e2e

import (
	"testing"
	"time"

	"kaas.dev/kaas/tools/kaas-check/history"
	"kaas.dev/kaas/tools/kaas-check/traffic"
)

// The lines of members that are processes become what they tell, at their own times.
func TestLinesOfMembers(t *testing.T) {
	log := history.NewRecorder(1, nil)
	c := &crowd{env: &traffic.Env{Log: log}, parts: []int32{log.Part(history.Part{Topic: "records"}), log.Part(history.Part{Topic: "records", Index: 1})}}
	m := &memberProcess{c: c, since: map[int32]int64{}, commits: map[int64]history.Op{}}
	for _, line := range []string{
		"%4|1796013344.842|CGRP|rdkafka#consumer-1| [thrd:app]: a word of the library",
		"assigned 1000000000 0 1", "processed 2000000000 1 5 3", "committing 3000000000 1 8", "committed 4000000000 1",
		"committing 5000000000 1 9", "uncertain 6000000000 1", "uncertain 6000000000 1", "revoked 7000000000 0", "lost 8000000000 1",
	} {
		c.told(m, line)
	}
	at := func(s int64) int64 { return log.At(time.Unix(s, 0)) }
	c.heardJava(m, "2026-11-30T04:29:02.276Z [main] INFO org.x - [Consumer groupId=g] Adding newly assigned partitions: [records-0, records-1]")
	c.heardJava(m, "2026-11-30T04:29:05.758Z [main] INFO org.x - Setting offset for partition records-1 to the committed offset FetchPosition{offset=20, offsetEpoch=Optional[0]}")
	c.heardJava(m, "2026-11-30T04:29:05.758Z [main] INFO org.x - [Consumer groupId=g] Found no committed offset for partition records-0")
	c.heardJava(m, "Partition:1\tOffset:77")
	c.heardJava(m, "2026-11-30T04:29:06.000Z [b] DEBUG org.x - Enqueuing OffsetCommit request for offsets: {records-0=OffsetAndMetadata{offset=3, leaderEpoch=0, metadata=''}, records-1=OffsetAndMetadata{offset=8, leaderEpoch=0, metadata=''}}")
	c.heardJava(m, "2026-11-30T04:29:07.000Z [b] DEBUG org.x - OffsetCommit completed successfully for offset 8 partition records-1")
	c.heardJava(m, "2026-11-30T04:29:08.000Z [b] DEBUG org.x - Sending OffsetCommit request with {records-0=OffsetAndMetadata{offset=4, leaderEpoch=null, metadata=''}} to coordinator x")
	c.heardJava(m, "2026-11-30T04:29:09.000Z [b] DEBUG org.x - Committed offset 4 for partition records-0")
	given := log.At(time.Date(2026, 11, 30, 4, 29, 2, 276e6, time.UTC))
	want := []history.Op{
		{Kind: history.Process, Outcome: history.OK, Part: 1, Offset: 5, Count: 3, Invoke: at(2)},
		{Kind: history.Commit, Outcome: history.OK, Part: 1, Offset: 8, Invoke: at(3)},
		{Kind: history.Commit, Outcome: history.Unknown, Part: 1, Offset: 9, Invoke: at(5)},
		{Kind: history.Own, Outcome: history.OK, Part: 0, Offset: -1, Invoke: at(1)},
		{Kind: history.Own, Outcome: history.Unknown, Part: 1, Offset: -1, Invoke: at(1)},
		{Kind: history.Observe, Outcome: history.OK, Part: 1, Offset: 20, Count: 1, Invoke: given},
		{Kind: history.Observe, Outcome: history.OK, Part: 0, Offset: -1, Count: 1, Invoke: given},
		{Kind: history.Process, Outcome: history.OK, Part: 1, Offset: 77, Count: 1},
		{Kind: history.Commit, Outcome: history.OK, Part: 1, Offset: 8, Invoke: given + 3724e6},
		{Kind: history.Commit, Outcome: history.Unknown, Part: 0, Offset: 3, Invoke: given + 3724e6},
		{Kind: history.Commit, Outcome: history.OK, Part: 0, Offset: 4, Invoke: given + 5724e6},
	}
	got := log.History().Ops
	if len(got) != len(want) {
		t.Fatalf("%d operations, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := got[i]; g.Kind != w.Kind || g.Outcome != w.Outcome || g.Part != w.Part || g.Offset != w.Offset || g.Count != w.Count || w.Invoke != 0 && g.Invoke != w.Invoke {
			t.Errorf("operation %d: %+v, want %+v", i, g, w)
		}
	}
}

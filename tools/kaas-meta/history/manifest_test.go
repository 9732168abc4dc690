package history_test

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// TestManifest: a partition's stream in words, and what its log was at a moment.
func TestManifest(t *testing.T) {
	ctx := context.Background()
	c := life(t)
	s, err := c.v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 4})
	check(t, err)
	check(t, partition.BuildTopic(c.v, s.ID(), orders, "orders", 2, start))
	p, err := partition.Open(ctx, s, orders, "orders", 1, 1, partition.Config{Node: 4})
	check(t, err)
	a, err := p.Append(ctx, batchOf("hello"))
	check(t, err)
	check(t, a.Wait(ctx))
	check(t, p.Relinquish(ctx))
	check(t, s.Close(ctx))

	m, err := history.Find(ctx, c.v, "topics/orders/1")
	check(t, err)
	var text strings.Builder
	for r, err := range m.Records(ctx, history.Filter{}) {
		check(t, err)
		for _, ev := range r.Events {
			text.WriteString(ev.Text + "\n")
		}
	}
	for _, want := range []string{"orders-1", "leader epoch 1 begins at offset 0\n", "segment 00000000000000000000.0000000001.0000000000.log begins\n", "the newest segment ends at offset 1 with "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "{") {
		t.Errorf("an event is not in words:\n%s", text.String())
	}
	sts, err := m.StatesAt(ctx, start, "0-1", history.Latest)
	check(t, err)
	kinds := map[string]history.Change{}
	for _, ch := range history.Diff(sts[0], sts[1]) {
		kinds[ch.Kind] = ch
	}
	if kinds["log"].Action != history.Changed || kinds["segment"].Action != history.Added || kinds["leader_epoch"].Name != "1" || kinds["log"].Name != "orders/1" {
		t.Errorf("changes are %+v", kinds)
	}
}

func batchOf(value string) []byte {
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1}
	r := kmsg.Record{Value: []byte(value)}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b.Records = r.AppendTo(nil)
	b.Length = int32(49 + len(b.Records))
	b.CRC = int32(substrate.CRC32C(b.AppendTo(nil)[21:]))
	return b.AppendTo(nil)
}

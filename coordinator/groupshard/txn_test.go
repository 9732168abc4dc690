package groupshard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Offsets of a transaction count when it commits, whoever owns the shard then.
func TestTransactionsOffsets(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     Producer // after staging under epoch 3
		version int8
		commit  bool
		want    int64
		open    bool
	}{
		{"committed", Producer{7, 3}, 0, true, 5, false},
		{"committed under the next epoch", Producer{7, 4}, 2, true, 5, false},
		{"aborted", Producer{7, 3}, 1, false, 1, false},
		{"another producer's end", Producer{8, 3}, 0, true, 1, true},
		{"an end of an earlier epoch", Producer{7, 2}, 0, true, 1, true},
		{"the end of the transaction before", Producer{7, 3}, 2, true, 1, true},
	} {
		for _, moved := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					topic := b.topic("t", 1)
					ctx := context.Background()
					sh := b.owner(1)
					b.commit(sh, "g", topic, 1, 0)
					b.stage(sh, Producer{7, 3}, 5)
					b.expect(sh, "g", topic, 0, 1)
					if moved {
						sh = b.owner(2)
					}
					for range 2 { // the second time nothing is left to do
						if err := sh.EndTxn(ctx, c.end, c.commit, c.version); err != nil {
							t.Fatal(err)
						}
					}
					b.expect(sh, "g", topic, 0, c.want)
					g, err := sh.Fetch(ctx, "g", nil, -1)
					if err != nil || len(g.Pending) > 0 != c.open || len(sh.mu.staged[7]) > 0 != c.open {
						t.Errorf("%d open, %v, noted %v", len(g.Pending), err, sh.mu.staged)
					}
				})
			})
		}
	}
}

// stage stages an offset of partition 0 of the first topic in group g.
func (b *bench) stage(sh *Shard, p Producer, offset int64) {
	b.tb.Helper()
	c := Commit{Group: "g", Generation: -1, Topics: offsets(b.view.Topics()[0].ID, offset, 0)}
	guard, release := sh.Guard(p)
	defer release()
	if err := sh.CommitTxn(context.Background(), c, p, guard); err != nil {
		b.tb.Fatalf("stage: %v", err)
	}
}

// CASES T-05: a producer of an earlier epoch stages nothing.
func TestZombieStagesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 1)
		sh := b.owner(1)
		b.stage(sh, Producer{7, 3}, 5)
		c := Commit{Group: "g", Generation: -1, Topics: offsets(topic, 4, 0)}
		if err := sh.CommitTxn(context.Background(), c, Producer{7, 2}, new(TxnGuard)); !errors.Is(err, kerr.InvalidProducerEpoch) {
			t.Errorf("an earlier epoch: %v", err)
		}
		if err := sh.EndTxn(context.Background(), Producer{7, 3}, true, 0); err != nil {
			t.Fatal(err)
		}
		b.expect(sh, "g", topic, 0, 5)
	})
}

// CASES T-08: what comes after the end of its transaction is not staged.
func TestStagingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 1)
		sh := b.owner(1)
		c := Commit{Group: "g", Generation: -1, Topics: offsets(topic, 4, 0)}
		for _, end := range []struct {
			epoch   int16
			version int8
			breaks  bool
		}{
			{3, 0, true},
			{4, 2, true},
			// The coordinator had the next transaction wait until all knew of the last one's end.
			{3, 2, false},
			{2, 0, false},
		} {
			guard, release := sh.Guard(Producer{7, 3})
			if err := sh.EndTxn(context.Background(), Producer{7, end.epoch}, false, end.version); err != nil {
				t.Fatal(err)
			}
			if err := sh.CommitTxn(context.Background(), c, Producer{7, 3}, guard); errors.Is(err, kerr.InvalidTxnState) != end.breaks || !end.breaks && err != nil {
				t.Errorf("%+v: staged after the end: %v", end, err)
			}
			release()
		}
		if len(sh.mu.guards) != 0 {
			t.Errorf("guards are left: %v", sh.mu.guards)
		}
	})
}

// CASES G-06: what an open transaction is about to commit does not expire.
func TestStagedOffsetsDoNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.conf.Retention = 1
		topic := b.topic("t", 1)
		sh := b.owner(1)
		b.commit(sh, "g", topic, 1, 0)
		b.stage(sh, Producer{7, 3}, 5)
		sh.clean(context.Background())
		b.expect(sh, "g", topic, 0, 1)
		if err := sh.EndTxn(context.Background(), Producer{7, 3}, true, 0); err != nil {
			t.Fatal(err)
		}
		b.expect(sh, "g", topic, 0, 5)
	})
}

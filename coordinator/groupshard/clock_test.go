package groupshard

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// K-03: a clock that steps, and an owner whose clock is off, end no session and expire no
// offset.
func TestClockStepsEndNothing(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			topic := b.topic("t", 1)
			var off atomic.Int64
			b.opt.CleanEvery = time.Second
			b.opt.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
			sh := b.owner(1)
			b.commit(sh, "offsets", topic, 7, 0)
			member, generation := b.join(sh, "classic")
			epoch := b.mustBeat(sh, "m", 0, nil).MemberEpoch
			alive := func(sh *Shard) {
				t.Helper()
				time.Sleep(5 * time.Second) // of sessions of 10 s and more
				synctest.Wait()
				if err := sh.Heartbeat(context.Background(), "classic", member, nil, generation); err != nil {
					t.Errorf("a step of %v ended a classic member: %v", step, err)
				}
				if got := b.mustBeat(sh, "m", epoch, nil).MemberEpoch; got != epoch {
					t.Errorf("a step of %v has the member's epoch be %d, was %d", step, got, epoch)
				}
				b.expect(sh, "offsets", topic, 0, 7)
			}
			off.Store(int64(step))
			alive(sh)
			off.Store(-int64(step)) // back, and further
			alive(sh)
			off.Store(int64(step))
			alive(b.owner(2))
		})
	}
}

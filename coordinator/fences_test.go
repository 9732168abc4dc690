package coordinator

import (
	"testing"
	"time"
)

// A producer's fence is in the view of who asked for it when that is answered, and in every
// other broker's one interval of looking later, though nothing wakes them.
func TestProducerFenceIsEverywhere(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		const interval = time.Second
		var ms []*member
		for id := int32(1); id <= 3; id++ {
			ms = append(ms, c.join(id, func(o *Options) { o.FollowInterval, o.HeartbeatInterval = interval, 5*time.Second }))
		}
		c.settled(ms...)
		late := 0
		for n, m := range []*member{ms[2], ms[1], ms[0], ms[2]} {
			epoch := int16(n + 1)
			if err := m.fenceProducer(ctx(t, time.Minute), 7, epoch); err != nil {
				t.Fatal(err)
			}
			answered := time.Now()
			if e, ok := m.View().FencedEpoch(7); !ok || e != epoch {
				t.Fatalf("broker %d has epoch %d, %v in its view when it is told", m.opt.NodeID, e, ok)
			}
			for _, other := range ms {
				if e, _ := other.View().FencedEpoch(7); e != epoch {
					late++
				}
			}
			eventually(t, "the fence is everywhere", func() bool {
				for _, other := range ms {
					if e, _ := other.View().FencedEpoch(7); e != epoch {
						return false
					}
				}
				return true
			})
			if took := time.Since(answered); took > interval+50*time.Millisecond { // looking at it takes some, too
				t.Errorf("the fence was everywhere after %v, which is more than %v", took, interval)
			}
		}
		if late == 0 {
			t.Error("nobody had to wait for his interval, so nothing is shown")
		}
		for _, m := range ms {
			if w := m.fencesWanted(); len(w) > 0 {
				t.Errorf("broker %d still asks for %x", m.opt.NodeID, w)
			}
		}
	})
}

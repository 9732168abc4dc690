package coordinator

import (
	"slices"
	"testing"
	"time"
)

// What cannot be moved at the moment, for its last move was given up, is moved later: the
// controller goes on wanting things even.
func TestWhatWasStuckIsMovedLater(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a := c.join(1)
		topic := create(t, a.Broker, "a", 4)
		ctl := a.ctl.Load()
		stuck := func(since time.Time) {
			ctl.mu.Lock()
			defer ctl.mu.Unlock()
			for i := range int32(4) {
				ctl.mu.stuck[place{topic: topic.ID, index: i}] = since
			}
		}
		stuck(time.Now())
		b := c.join(2)
		eventually(t, "the second serves", func() bool { return b.NotReady() == nil })
		before := a.View().Topic("a").Partitions
		time.Sleep(5 * lookEvery) // looks, in which nothing may be moved
		if now := a.View().Topic("a").Partitions; !slices.Equal(now, before) {
			t.Fatalf("it was moved: %v", now)
		}
		stuck(time.Now().Add(-stuckTime))
		c.settled(a, b)
	})
}

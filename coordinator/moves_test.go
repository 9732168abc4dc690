package coordinator

import (
	"testing"
	"time"
)

// Leaders that somebody has asked for stay where they are when all else is made even.
func TestAskedLeadersStay(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a, b := c.join(1), c.join(2)
		topic := create(t, a.Broker, "a", 4)
		c.settled(a, b)
		ctl := a.ctl.Load()
		ctl.unsettle() // as when a broker has come
		var moves []LeaderMove
		for i := range int32(4) {
			moves = append(moves, LeaderMove{TopicID: topic.ID, Partition: i, To: 2})
		}
		for i, err := range a.MoveLeaders(ctx(t, time.Minute), moves) {
			if err != nil {
				t.Fatalf("move %d: %v", i, err)
			}
		}
		eventually(t, "all is where it was asked to be, and nothing is left to do", func() bool {
			ctl.mu.Lock()
			done := ctl.mu.even == ctl.mu.uneven
			ctl.mu.Unlock()
			return done && leaders(b.Broker)[2] == 4 && len(a.Moving()) == 0
		})
	})
}

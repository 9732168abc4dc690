package coordinator

import (
	"context"
	"math/rand/v2"
	"time"
)

// pace spreads tries out: 20 ms, doubling, to 5 s, each up to a half longer, so
// that many who failed together do not try together.
type pace struct{ tries int }

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
)

// wait waits for the next try's turn, or for ctx, which it reports as false.
func (p *pace) wait(ctx context.Context) bool {
	d := min(firstPause<<min(p.tries, 10), lastPause)
	p.tries++
	t := time.NewTimer(d + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pace) reset() { p.tries = 0 }

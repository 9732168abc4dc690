package coordinator

import (
	"context"
	"errors"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// pace spreads tries out: 20 ms, doubling, to 5 s.
type pace struct{ tries int }

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
	// damagePause is for what no waiting mends, but a person may: every try leaves a
	// claim behind.
	damagePause = 5 * time.Minute
)

// wait waits for the next try's turn, or for ctx, which it reports as false.
func (p *pace) wait(ctx context.Context) bool {
	d := min(firstPause<<min(p.tries, 10), lastPause)
	p.tries++
	return sleep(ctx, d)
}

// waitAfter is wait, longer where err is damage.
func (p *pace) waitAfter(ctx context.Context, err error) bool {
	var damage *substrate.DamageError
	var name *substrate.NameError
	if errors.As(err, &damage) || errors.As(err, &name) {
		return sleep(ctx, damagePause)
	}
	return p.wait(ctx)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pace) reset() { p.tries = 0 }

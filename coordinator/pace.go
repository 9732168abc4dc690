package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
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
	return sleep.For(ctx, d)
}

// waitAfter is wait, longer where err is damage.
func (p *pace) waitAfter(ctx context.Context, err error) bool {
	if isDamage(err) {
		return sleep.For(ctx, damagePause)
	}
	return p.wait(ctx)
}

func (p *pace) reset() { p.tries = 0 }

// attempts drives an idempotent step that somebody waits for past passing errors
// of the volume (rule 2), a few times.
func attempts(ctx context.Context, step func() error) error {
	var p pace
	for {
		err := step()
		if err == nil || p.tries == 4 || lasting(err) || !p.wait(ctx) {
			return err
		}
	}
}

// lasting reports an error that the next try would only meet again.
func lasting(err error) bool {
	if isClient(err) || isDamage(err) || substrate.IsFull(err) {
		return true
	}
	for _, e := range []error{errStopped, errReplaced, errDeposed, substrate.ErrFenced, substrate.ErrEpochTaken, substrate.ErrStillLeading,
		substrate.ErrNotDurable, substrate.ErrUnknown, metalog.ErrClosed, fs.ErrPermission, syscall.EROFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Package sleep waits for a time that a context may cut short.
package sleep

import (
	"context"
	"time"
)

// For waits for d and reports true, or false as soon as ctx has ended.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Before waits, as [For] does, before a thing is tried again: a millisecond before try 0, twice
// as long before each one after it, and most at the most.
func Before(ctx context.Context, try int, most time.Duration) bool {
	return For(ctx, min(time.Millisecond<<min(try, 20), most))
}

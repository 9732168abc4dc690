package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/sleep"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !sleep.For(t.Context(), time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("an hour took %v", time.Since(began))
		}
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if sleep.For(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("a minute took %v", time.Since(began))
		}
	})
}

func TestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for try, want := range map[int]time.Duration{0: 1, 1: 2, 6: 64, 7: 100, 8: 100, 1 << 40: 100} {
			began := time.Now()
			if sleep.Before(t.Context(), try, 100*time.Millisecond); time.Since(began) != want*time.Millisecond {
				t.Errorf("before try %d it takes %v", try, time.Since(began))
			}
		}
	})
}

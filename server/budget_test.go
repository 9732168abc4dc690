package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		whole := b.begin()
		if err := whole.take(t.Context(), 80, false); err != nil {
			t.Fatal(err)
		}
		whole.complete()
		second := b.begin()
		ctx, cancel := context.WithTimeout(t.Context(), pressAfter/2)
		defer cancel()
		if err := second.take(ctx, 30, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("took more than there is: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- second.take(t.Context(), 30, false) }()
		synctest.Wait()
		whole.release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		second.release()
		second.release()
		if b.mu.used != 0 || b.mu.whole != 0 || b.mu.reading.Len() != 0 {
			t.Errorf("%d used, %d whole, %d reading", b.mu.used, b.mu.whole, b.mu.reading.Len())
		}
	})
}

// Half-read requests that hold everything among them come to their end, oldest first.
func TestBudgetHalfReadRequestsDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		peak := int64(0)
		done := make(chan struct{})
		claims := make([]*claim, 10)
		for i := range claims {
			claims[i] = b.begin()
			if err := claims[i].take(t.Context(), 5, false); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range claims {
			go func() {
				for range 6 {
					if err := c.take(t.Context(), 10, false); err != nil {
						t.Error(err)
					}
				}
				b.mu.Lock()
				peak = max(peak, b.mu.used)
				b.mu.Unlock()
				c.complete()
				time.Sleep(time.Second)
				c.release()
				done <- struct{}{}
			}()
		}
		for range claims {
			<-done
		}
		if peak > 220 || b.mu.used != 0 || b.mu.whole != 0 {
			t.Errorf("peak %d of 100, half of it, and one request of 70; %d used after", peak, b.mu.used)
		}
	})
}

// Peers that stop in the middle hold at most half: what has arrived whole goes on.
func TestBudgetHalfReadRequestsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		stop, cancel := context.WithCancel(t.Context())
		for range 20 {
			c := b.begin()
			go func() { _ = c.take(stop, 10, false) }()
			synctest.Wait()
		}
		for range 100 {
			c := b.begin()
			if err := c.take(t.Context(), 50, true); err != nil {
				t.Fatal(err)
			}
			c.complete()
			c.release()
		}
		cancel()
		synctest.Wait()
	})
}

func TestBudgetLargeRequestIsAdmittedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		big := b.begin()
		if err := big.take(t.Context(), 1000, false); err != nil {
			t.Fatal(err)
		}
		big.complete()
		small := b.begin()
		got := make(chan error, 1)
		go func() { got <- small.take(t.Context(), 1, false) }()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("admitted beside a request that takes all")
		default:
		}
		held := big.pass()
		big.release()
		synctest.Wait()
		if b.mu.used != 1000 {
			t.Fatalf("%d used, the bytes were passed on", b.mu.used)
		}
		held.release()
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		small.release()
	})
}

// Whatever the oldest half-read request holds, it is in nobody's way, and whatever half-read
// requests hold is in no whole one's.
func TestBudgetKindsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		try := func(c *claim, n int64, whole bool) bool {
			_, ok := c.tryTake(n, whole)
			return ok
		}
		oldest, second, third := b.begin(), b.begin(), b.begin()
		if !try(oldest, 300, false) || !try(second, 40, false) || try(third, 20, false) || !try(third, 10, false) {
			t.Errorf("half-read requests hold %d, %d and %d", oldest.n, second.n, third.n)
		}
		whole, last := b.begin(), b.begin()
		if !try(whole, 90, true) || try(last, 20, true) || !try(last, 10, true) {
			t.Errorf("whole requests hold %d and %d beside half-read ones", whole.n, last.n)
		}
		if b.mu.used != 450 || b.mu.whole != 100 {
			t.Errorf("%d used, %d whole", b.mu.used, b.mu.whole)
		}
		if try(oldest, 10, false) || try(second, 1, false) {
			t.Error("half-read requests go on beside whole ones that have all")
		}
		for _, c := range []*claim{oldest, second, third, whole, last} {
			c.release()
		}
		if b.mu.used != 0 || b.mu.whole != 0 || b.mu.reading.Len() != 0 {
			t.Errorf("%d used, %d whole, %d reading", b.mu.used, b.mu.whole, b.mu.reading.Len())
		}
	})
}

// A request that is larger than what whole ones leave comes in the end, though they never end all
// at once.
func TestBudgetPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		small := b.begin()
		if err := small.take(t.Context(), 1, true); err != nil {
			t.Fatal(err)
		}
		began, large := time.Now(), b.begin()
		if err := large.take(t.Context(), 1000, false); err != nil || time.Since(began) != pressAfter {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		large.release()
		small.release()
	})
}

// Half-read requests that are slow are cut off once others wait for their room, and not before,
// and no more than have to be; those that wait themselves are not.
func TestBudgetCutsSlowSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		began := time.Now()
		var claims []*claim
		cut := make([]time.Duration, 3)
		for i, n := range []int64{200, 50, 10} {
			c := b.begin()
			c.cut = func() {
				cut[i] = time.Since(began)
				go c.release()
			}
			claims = append(claims, c)
			if i == 2 {
				time.Sleep(5 * slowSender)
			}
			if err := c.take(t.Context(), n, false); err != nil {
				t.Fatal(err)
			}
		}
		if want := 5*slowSender + pressAfter; cut[0] != want || cut[1] != 0 || cut[2] != 0 || time.Since(began) != want {
			t.Errorf("cut off after %v, and what waited has its room after %v", cut, time.Since(began))
		}
		if claims[2].since.Sub(began) != 5*slowSender+pressAfter || !claims[2].waited {
			t.Errorf("what has waited counts as slow since %v", claims[2].since.Sub(began))
		}
		claims[2].release()
	})
}

// A half-read request of which next to nothing comes is cut off soon once another waits, and one
// that comes as fast as it should is not.
func TestBudgetCutsWhatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		began := time.Now()
		cut := make([]time.Duration, 3)
		var claims []*claim
		for i, n := range []int64{200, 30, 20} {
			c := b.begin()
			c.cut = func() {
				cut[i] = time.Since(began)
				go c.release()
			}
			if err := c.take(t.Context(), n, false); err != nil {
				t.Fatal(err)
			}
			claims = append(claims, c)
		}
		comes, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ; comes.Err() == nil; time.Sleep(time.Second / 10) {
				claims[1].came.Add(leastRate / 11)
				claims[2].came.Add(leastRate / 9)
			}
		})
		last := b.begin()
		if err := last.take(t.Context(), 10, false); err != nil {
			t.Fatal(err)
		}
		if want := pressAfter + standStill; cut[0] != want || cut[1] != want || cut[2] != 0 || time.Since(began) != want {
			t.Errorf("cut off after %v, and what waited has its room after %v", cut, time.Since(began))
		}
		last.release()
		claims[2].release()
		stop()
		wg.Wait()
		synctest.Wait()
		if b.mu.used != 0 || b.mu.reading.Len() != 0 {
			t.Errorf("%d used, %d reading", b.mu.used, b.mu.reading.Len())
		}
	})
}

// Large half-read requests leave room to small ones.
func TestBudgetSizesAreApart(t *testing.T) {
	b := newBudget(800)
	try := func(size, n int64) bool {
		c := b.begin()
		c.size = size
		_, ok := c.tryTake(n, false)
		return ok
	}
	try(0, 1) // the oldest
	for _, step := range []struct {
		size, n int64
		ok      bool
	}{{2 << 20, 200, true}, {2 << 20, 1, false}, {1 << 20, 100, true}, {1 << 20, 1, false}, {128 << 10, 50, true}, {128 << 10, 1, false}, {16 << 10, 50, true}, {16 << 10, 1, false}} {
		if try(step.size, step.n) != step.ok {
			t.Errorf("one of %d bytes takes %d: %v", step.size, step.n, !step.ok)
		}
	}
}

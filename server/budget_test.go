package server

import (
	"context"
	"errors"
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
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
		if peak > 170 || b.mu.used != 0 || b.mu.whole != 0 {
			t.Errorf("peak %d of 100 and one request of 70; %d used after", peak, b.mu.used)
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

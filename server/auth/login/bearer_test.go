package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/sleep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is one that gives tokens of a minute, unless it is out of order.
type provider struct {
	mu    sync.Mutex
	given int
	asked int
	takes time.Duration
	err   error
}

func (p *provider) grant(ctx context.Context) (token, error) {
	p.mu.Lock()
	p.asked++
	takes := p.takes
	p.mu.Unlock()
	if !sleep.For(ctx, takes) {
		return token{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return token{}, p.err
	}
	p.given++
	return token{fmt.Sprint("token-", p.given), time.Now(), time.Now().Add(time.Minute)}, nil
}

func (p *provider) now(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *provider) counts() (asked, given int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.given
}

func newTestBearer(p *provider, log *slog.Logger) *bearer {
	s := &tokenSettings{url: &url.URL{Scheme: "https", Host: "id.example"}, backoff: 100 * time.Millisecond, maxBackoff: 10 * time.Second, factor: 0.8, minPeriod: time.Minute, buffer: 5 * time.Minute}
	b := newBearer(s, nil, log)
	b.fetch = p.grant
	return b
}

var (
	errDown    = &fetchError{from: "here", status: 503, passes: true}
	errRefused = &fetchError{from: "here", status: 401, code: "invalid_client"}
)

func want(t *testing.T, b *bearer, text string, fails error) {
	t.Helper()
	if got, err := b.get(t.Context()); got != text || !errors.Is(err, fails) {
		t.Errorf("got %q, %v, want %q, %v", got, err, text, fails)
	}
}

// A token is kept until most of its time is over. Then there is another, or the old one as long
// as there is none.
func TestTokenIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: time.Second}
		b := newTestBearer(p, slog.New(slog.DiscardHandler))
		want(t, b, "token-1", nil)
		time.Sleep(47 * time.Second)
		want(t, b, "token-1", nil)
		time.Sleep(2 * time.Second) // more than 48 s
		want(t, b, "token-2", nil)
		p.now(errRefused)
		time.Sleep(50 * time.Second)
		want(t, b, "token-2", nil) // it is tried, and the old one is good
		if asked, _ := p.counts(); asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
		time.Sleep(10 * time.Second)
		want(t, b, "", errRefused)
		p.now(nil)
		want(t, b, "token-3", nil)
	})
}

// What may pass is tried again for a while; what may not is told at once.
func TestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{err: errDown}
		b := newTestBearer(p, slog.New(slog.DiscardHandler))
		began := time.Now()
		want(t, b, "", errDown)
		if asked, _ := p.counts(); asked != 7 || time.Since(began) != 6300*time.Millisecond { // pauses of 0.1, 0.2, … 3.2 s
			t.Errorf("asked %d times in %v", asked, time.Since(began))
		}
		began = time.Now()
		p.now(errRefused)
		want(t, b, "", errRefused)
		if time.Since(began) != 0 {
			t.Errorf("a refusal took %v", time.Since(began))
		}
		p.now(errDown)
		time.AfterFunc(time.Second, func() { p.now(nil) })
		want(t, b, "token-1", nil)
	})
}

// Many who log in at once have one token fetched, or one failure told. Who stops waiting
// fails nobody else.
func TestOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{takes: time.Second}
		b := newTestBearer(p, slog.New(slog.DiscardHandler))
		impatient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.get(impatient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who waits for half a second: %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			wg.Go(func() { want(t, b, "token-1", nil) })
		}
		wg.Wait()
		if asked, given := p.counts(); asked != 2 || given != 1 {
			t.Errorf("asked %d times, %d tokens", asked, given)
		}
		time.Sleep(2 * time.Minute)
		p.now(errRefused)
		for range 20 {
			wg.Go(func() { want(t, b, "", errRefused) })
		}
		wg.Wait()
		if asked, _ := p.counts(); asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
	})
}

// While Run runs there is a good token at any time, and nobody waits for one. A provider that is
// out of order is said to be, and how long it may be so is what is left of the token.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := &provider{takes: time.Second}
		b := newTestBearer(p, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { b.Run(ctx) })
		time.Sleep(2 * time.Second)
		for i := range 600 {
			began := time.Now()
			if i == 336 {
				p.now(errDown) // for 10 s of the 12 that are left of a token when the next one is due
			}
			if i == 346 {
				p.now(nil)
			}
			got, err := b.get(ctx)
			if last, _ := b.last(); err != nil || got != last.raw || time.Now().After(last.expires) {
				t.Fatalf("after %d s: %q, %v", i, got, err)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("after %d s somebody waits for %v", i, took)
			}
			time.Sleep(time.Second)
		}
		if _, given := p.counts(); given < 12 || given > 14 {
			t.Errorf("%d tokens in ten minutes", given)
		}
		p.now(errRefused)
		time.Sleep(2 * time.Minute)
		cancel()
		wg.Wait()
		if got := log.String(); !strings.Contains(got, "no new token") || !strings.Contains(got, "invalid_client") || strings.Contains(got, "token-1") {
			t.Errorf("the log says %s", got)
		}
	})
}

func TestDue(t *testing.T) {
	s := &tokenSettings{factor: 0.8, jitter: 0.05, minPeriod: time.Minute, buffer: 5 * time.Minute}
	got := time.Unix(1_000_000, 0)
	for _, tc := range []struct {
		life   time.Duration
		random float64
		want   time.Duration
	}{
		{time.Hour, 0, 48 * time.Minute},
		{time.Hour, 1, 51 * time.Minute},
		{6 * time.Minute, 0, 288 * time.Second}, // too short for room
		{7 * time.Minute, 0, 2 * time.Minute},   // room behind it
		{10 * time.Second, 0, 8 * time.Second},  // likewise too short
		{0, 0, 0},
	} {
		if d := s.due(token{"", got, got.Add(tc.life)}, tc.random).Sub(got); d != tc.want {
			t.Errorf("%v, %v: %v, want %v", tc.life, tc.random, d, tc.want)
		}
	}
}

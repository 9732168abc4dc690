package login

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	franz "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/server/auth/idp"
)

// token is one that was got, and until when it is good.
type token struct {
	raw          string
	got, expires time.Time
}

// good reports that the token can be shown now, and a moment later.
func (t token) good(now time.Time) bool { return now.Add(time.Second).Before(t.expires) }

// bearer is OAUTHBEARER.
type bearer struct {
	franz.Mechanism
	s     *tokenSettings
	log   *slog.Logger
	fetch func(ctx context.Context) (token, error)
	// turn is taken by who fetches.
	turn chan struct{}
	// ahead says that Run fetches tokens, and who logs in need not while there is a good one.
	ahead atomic.Bool

	// mu guards what was fetched last: the token, when the next one is due, and why there was
	// none when it was tried last, and when.
	mu struct {
		sync.Mutex
		held   token
		due    time.Time
		failed error
		at     time.Time
	}
}

func newBearer(s *tokenSettings, extensions map[string]string, log *slog.Logger) *bearer {
	b := &bearer{s: s, log: log, turn: make(chan struct{}, 1)}
	b.fetch = s.grant
	b.Mechanism = oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		raw, err := b.get(ctx)
		return oauth.Auth{Token: raw, Extensions: extensions}, err
	})
	return b
}

// get is a token to log in with.
func (b *bearer) get(ctx context.Context) (string, error) {
	if b.s.url.Scheme == "file" {
		t, err := b.s.readFile(time.Now())
		return t.raw, err
	}
	began := time.Now()
	if t, due := b.last(); began.Before(due) || b.ahead.Load() && t.good(began) {
		return t.raw, nil
	}
	err := b.renew(ctx, began)
	if t, _ := b.last(); err == nil || t.good(time.Now()) {
		return t.raw, nil
	}
	return "", err
}

// last is the token that there is, and when the next one is due.
func (b *bearer) last() (token, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.held, b.mu.due
}

// renew fetches a token, unless somebody else has done so, or has failed to, since.
func (b *bearer) renew(ctx context.Context, since time.Time) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	b.mu.Lock()
	due, failed, at := b.mu.due, b.mu.failed, b.mu.at
	b.mu.Unlock()
	switch {
	case time.Now().Before(due):
		return nil
	case failed != nil && at.After(since):
		return failed
	}
	t, err := b.try(ctx)
	if err != nil && ctx.Err() != nil {
		return err // this one's time was over: it says nothing of the provider
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.failed, b.mu.at = err, time.Now(); err == nil {
		b.mu.held, b.mu.due = t, b.s.due(t, rand.Float64())
	}
	return err
}

// try fetches a token. What may go better the next time is tried again, after pauses, until the
// longest pause is over.
func (b *bearer) try(ctx context.Context) (token, error) {
	began := time.Now()
	for pause := b.s.backoff; ; pause *= 2 {
		t, err := b.fetch(ctx)
		if err == nil || !mayPass(err) || time.Since(began)+pause > b.s.maxBackoff {
			return t, err
		}
		if !sleep.For(ctx, pause) {
			return t, err
		}
	}
}

// due is when the token after t is fetched, as in Kafka: when the window's part of its time is
// over, with a random part of the jitter besides, and with room before and after it where its
// time is long enough for that.
func (s *tokenSettings) due(t token, random float64) time.Time {
	life := t.expires.Sub(t.got)
	after := time.Duration(float64(life) * min(maxFactor, s.factor+s.jitter*random))
	if life > s.minPeriod+s.buffer {
		after = min(max(after, s.minPeriod), life-s.buffer)
	}
	return t.got.Add(after)
}

// Run fetches tokens before they are needed, until ctx ends.
func (b *bearer) Run(ctx context.Context) {
	if b.s.url.Scheme == "file" {
		return
	}
	b.ahead.Store(true)
	defer b.ahead.Store(false)
	for ctx.Err() == nil {
		pause := b.s.maxBackoff
		if err := b.renew(ctx, time.Now()); err == nil {
			t, due := b.last()
			b.log.Debug("there is a token to log in to other brokers with", "from", idp.Name(b.s.url), "expires", t.expires)
			pause = max(time.Until(due), b.s.backoff)
		} else if ctx.Err() == nil {
			b.log.Error("there is no new token to log in to other brokers with", "err", err)
		}
		sleep.For(ctx, pause)
	}
}

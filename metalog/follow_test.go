package metalog_test

import (
	"context"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// TestFollowWakesEarly: what this host sees happen in the epoch's directory wakes a
// follower long before its poll, and a follower ends with its context.
func TestFollowWakesEarly(t *testing.T) {
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{Followed: true})
	publish(t, w, "a")
	wake, stop, err := v.FS.(*substrate.DirFS).Watch(stream + "/" + substrate.EpochName(1))
	if err != nil {
		t.Skipf("this system cannot watch directories: %v", err)
	}
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	seen, done := make(chan metalog.Snapshot[journal], 16), make(chan struct{})
	go func() {
		defer close(done)
		r := metalog.NewReader(v, stream, &journalSchema)
		r.Follow(ctx, time.Hour, wake, func(s metalog.Snapshot[journal]) { seen <- s }, func(err error) { t.Error(err) })
	}()
	want(t, "first state", (<-seen).State, "a")
	publish(t, w, "b")
	select {
	case s := <-seen:
		want(t, "state after the wake-up", s.State, "a", "b")
	case <-time.After(time.Minute):
		t.Error("nothing woke the follower")
	}
	cancel()
	<-done
}

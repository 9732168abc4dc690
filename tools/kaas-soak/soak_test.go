package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func newSoak(t *testing.T, parts ...*part) *soak {
	s := &soak{out: io.Discard, parts: parts, began: time.Now()}
	s.ctx, s.cancel = context.WithCancelCause(t.Context())
	t.Cleanup(func() { s.cancel(nil) })
	return s
}

// The checker is of use only if it objects to what is wrong.
func TestCheckerObjects(t *testing.T) {
	logs, keys := newPart(logTopic, 0), newPart(keysTopic, 1)
	for name, wrong := range map[string]func(*soak){
		"again": func(s *soak) { s.checkNext(s.ctx, logs, "x", 6, recordOf(logs, 5)) },
		"not written there: key": func(s *soak) {
			r := recordOf(logs, 5)
			r.Value[500]++
			s.checkNext(s.ctx, logs, "x", 5, r)
		},
		"got offset 8 after 8": func(s *soak) { s.checkKept(keys, 9, recordOf(keys, 8)) },
		"what was not written": func(s *soak) {
			r := recordOf(keys, 8)
			r.Offset = 9
			s.checkKept(keys, 9, r)
		},
	} {
		s := newSoak(t, logs, keys)
		wrong(s)
		if err := context.Cause(s.ctx); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newSoak(t, logs, keys)
	s.checkNext(s.ctx, logs, "x", 5, recordOf(logs, 5))
	s.checkKept(keys, 5, recordOf(keys, 7)) // a tombstone
	s.checkKept(keys, 8, recordOf(keys, 11))
	if err := context.Cause(s.ctx); err != nil {
		t.Error(err)
	}
}

func recordOf(p *part, offset int64) *kgo.Record {
	r := recordAt(p.topic, p.index, offset)
	r.Offset = offset
	return r
}

func TestFirstMissing(t *testing.T) {
	p, now := newPart(keysTopic, 0), time.Now()
	long := now.Add(-time.Minute)
	for _, tc := range []struct {
		name       string
		last, seen int64
		began      time.Time
		missing    bool
	}{
		{"never written", -1, -1, now, false},
		{"there", 5, 5, now, false},
		{"a later one", 5, 90, now, false},
		{"lost", 5, -1, now, true},
		{"an older one alone", 5, 3, now, true},
		{"an older one alone, slowly", 5, 3, long, true},
		{"a tombstone is gone, with all before it", 30, -1, now, false},
		{"a tombstone is gone, what it deleted is not", 30, 3, now, true},
		{"the tombstone may have gone while reading", 30, 3, long, false},
	} {
		if got := firstMissing(p, []int64{tc.last}, []int64{tc.seen}, tc.began) == 0; got != tc.missing {
			t.Errorf("%s: missing %v", tc.name, got)
		}
	}
}

func TestAcknowledgementsAreCounted(t *testing.T) {
	p := newPart(keysTopic, 0)
	for n := range int64(10_000) {
		if want := p.ack(n); want != n {
			t.Fatalf("acknowledgement %d had to name %d", n, want)
		}
		if p.mu.last[keyAt(n)] != n {
			t.Fatalf("offset %d is not the last one of its key", n)
		}
	}
}

// A short run with kills of a whole broker finds nothing.
func TestSoakShortly(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a broker and loads it for seconds")
	}
	var out strings.Builder
	if err := run(t.Context(), plan{duration: 4 * time.Second, kill: time.Second, dir: t.TempDir(), partitions: 1}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), " kills; an answer") || strings.Contains(out.String(), ": 0 acknowledged") {
		t.Errorf("the summary:\n%s", out.String())
	}
	t.Log(out.String())
}

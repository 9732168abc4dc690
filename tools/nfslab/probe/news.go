package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

const (
	newsFile = "file"
	// pace is the usual time between two changes. It is in no step with any poll.
	pace = 150 * time.Millisecond
)

// newsDir is where the file of one run is.
func newsDir(p plan) string { return "news-" + p.who }

// change is one change, as its maker or a follower tells of it.
type change struct {
	N     int   `json:"n"`
	Began int64 `json:"began,omitempty"` // the maker began
	At    int64 `json:"at"`              // the maker was done, or the follower saw it
}

// replace replaces a file, which a first line tells is there, again and again.
func replace(ctx context.Context, v *substrate.Volume, p plan) error {
	if err := v.EnsureDir(newsDir(p)); err != nil {
		return err
	}
	between := p.every
	if between == 0 {
		between = pace
	}
	for i := range p.n + 1 {
		c := change{N: i, Began: now()}
		if err := v.ReplaceFile(newsDir(p), newsFile, "probe", []byte(strconv.Itoa(i))); err != nil {
			return err
		}
		c.At = now()
		if err := errors.Join(say(c), wait(ctx, around(between))); err != nil {
			return err
		}
		if i == 0 {
			if err := wait(ctx, time.Second); err != nil { // the follower starts
				return err
			}
		}
	}
	return nil
}

// reopen looks at the file by opening it anew.
func reopen(ctx context.Context, v *substrate.Volume, p plan) error {
	for last := -1; last < p.n; {
		b, err := v.ReadFile(path.Join(newsDir(p), newsFile))
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(b))
		if err != nil || n < last {
			return fmt.Errorf("read %q after %d: %w", b, last, err)
		}
		if n > last {
			if err := say(change{N: n, At: now()}); err != nil {
				return err
			}
		}
		last = n
		if err := wait(ctx, p.every); err != nil {
			return err
		}
	}
	return nil
}

// silly is what removing an open file did.
type silly struct {
	Removed []string `json:"removed"` // the directory's names after the removal, while the file was open
	Read    string   `json:"read"`    // what the open file then held
	Closed  []string `json:"closed"`  // the names after the close
	GoneMS  int64    `json:"gone_ms"` // from the close until they were so
}

// held removes a file that it has open, and looks what is in the directory.
func held(ctx context.Context, v *substrate.Volume, _ plan) error {
	const dir, content = "held", "still here"
	if err := errors.Join(v.EnsureDir(dir), v.WriteFile(dir+"/file", []byte(content))); err != nil {
		return err
	}
	f, err := v.Open(dir + "/file")
	if err != nil {
		return err
	}
	if err := v.Remove(dir + "/file"); err != nil {
		return err
	}
	var s silly
	if s.Removed, err = names(v, dir); err != nil {
		return err
	}
	b := make([]byte, len(content))
	_, err = f.ReadAt(b, 0)
	s.Read = string(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		s.Closed, err = names(v, dir)
		s.GoneMS = time.Since(began).Milliseconds()
		if err != nil || len(s.Closed) == 0 {
			break
		}
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return errors.Join(err, say(s))
}

func names(v *substrate.Volume, dir string) (out []string, err error) {
	es, err := v.ListFresh(dir)
	for _, e := range es {
		out = append(out, e.Name)
	}
	return out, err
}

// counts is a stream whose state is the number of its events.
var counts = metalog.Schema[int]{
	New: func() int { return 0 },
	Apply: func(n int, evs []metalog.Event) (int, error) {
		return n + len(evs), nil
	},
	Encode: func(n int) ([]byte, error) { return msgpack.Marshal(n) },
	Decode: func(b []byte) (n int, err error) { err = msgpack.Unmarshal(b, &n); return n, err },
	Known:  func(metalog.Event) bool { return true },
}

func stream(v *substrate.Volume, p plan) string { return path.Join(v.MetaDir(), "news-"+p.who) }

// publish makes the stream, and publishes an event at a time.
func publish(ctx context.Context, v *substrate.Volume, p plan) error {
	s, err := open(v)
	if err != nil {
		return err
	}
	if err := errors.Join(v.EnsureDir("meta"), v.EnsureDir(v.MetaDir()), metalog.Ensure(v, stream(v, p), &counts, "born", time.Now())); err != nil {
		return err
	}
	epoch, err := metalog.NextEpoch(v, stream(v, p))
	if err != nil {
		return err
	}
	w, err := metalog.Claim(ctx, s, stream(v, p), epoch, &counts, metalog.Options{Followed: true})
	if err != nil {
		return err
	}
	for i := range p.n + 1 {
		c := change{N: i + 1, Began: now()}
		_, err := w.Publish(ctx, "test", func(int) ([]metalog.Event, error) {
			ev, err := metalog.NewEvent("News", strings.Repeat("x", 200))
			return []metalog.Event{ev}, err
		})
		if err != nil {
			return err
		}
		c.At = now()
		if err := errors.Join(say(c), wait(ctx, around(pace))); err != nil {
			return err
		}
		if i == 0 {
			if err := wait(ctx, time.Second); err != nil { // the follower starts
				return err
			}
		}
	}
	return errors.Join(w.Close(ctx), s.Close(ctx))
}

// follow follows the stream as a broker does.
func follow(ctx context.Context, v *substrate.Volume, p plan) error {
	if err := v.Init(""); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	r := metalog.NewReader(v, stream(v, p), &counts)
	r.Follow(ctx, p.every, nil, func(s metalog.Snapshot[int]) {
		failed = errors.Join(failed, say(change{N: s.State, At: now()}))
		if failed != nil || s.State > p.n {
			cancel()
		}
	}, func(err error) { failed = err; cancel() })
	return failed
}

package simlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
)

// Case is something that the tool does to a volume.
type Case struct {
	Prepare func(substrate.FS) error // makes the volume
	Work    func(context.Context, *substrate.Volume) error
	// Judge looks at the volume. Done says that the work came to its end, err is that of work
	// that was not killed.
	Judge func(sim *nfssim.Sim, done bool, err error) error
}

// Crash has the tool killed at a call, unless it ends before, and what it leaves judged. No entry
// of before may have changed.
func Crash(t *testing.T, cfg nfssim.Config, killAt int, c Case) (done bool, err error) {
	synctest.Test(t, func(t *testing.T) {
		sim := nfssim.New(cfg)
		defer sim.Stop()
		if err = c.Prepare(sim.Server()); err != nil {
			return
		}
		was := entries(sim.Server(), "meta")
		p := sim.Host("a").Process()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var over atomic.Bool
		var ended error
		go func() {
			defer over.Store(true)
			ended = c.Work(ctx, &substrate.Volume{FS: p, NewID: sweep.IDs("tool"), ID: Volume})
		}()
		end := sim.Ops() + killAt
		if err = sim.Run(func() bool { return over.Load() || sim.Ops() >= end }); err != nil {
			return
		}
		var werr error
		if over.Load() {
			done, werr = ended == nil, ended
		} else {
			p.Kill()
			cancel()
		}
		if err = c.Judge(sim, done, werr); err == nil {
			err = unchanged(sim.Server(), was)
		}
		if err != nil {
			err = fmt.Errorf("it ended with %v: %w\n%s", werr, err, strings.Join(sim.Trace(), "\n"))
			return
		}
		sleep.For(context.Background(), time.Minute) // for what waits for calls that came back late
	})
	return done, err
}

// entries are those of all streams, with their bytes.
func entries(files substrate.FS, dir string) map[string][]byte {
	out := map[string][]byte{}
	es, _ := files.List(dir)
	for _, e := range es {
		name := path.Join(dir, e.Name)
		if e.Dir {
			maps.Copy(out, entries(files, name))
		} else if b, err := (&substrate.Volume{FS: files}).ReadFile(name); err == nil && !strings.HasSuffix(name, substrate.HeadName) {
			out[name] = b
		}
	}
	return out
}

func unchanged(files substrate.FS, was map[string][]byte) error {
	for name, b := range was {
		now, err := (&substrate.Volume{FS: files}).ReadFile(name)
		if err != nil || !bytes.Equal(now, b) {
			return fmt.Errorf("%s has changed, or is gone: %v", name, err)
		}
	}
	return nil
}

// On runs f beside the simulation.
func On(sim *nfssim.Sim, f func(context.Context) error) (verdict error) {
	var over atomic.Bool
	go func() {
		defer over.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		verdict = f(ctx)
	}()
	if err := sim.Run(over.Load); err != nil {
		return err
	}
	return verdict
}

// Retry goes on where the volume only fails now and then: until f succeeds, or fails for good.
func Retry(ctx context.Context, forGood func(error) bool, f func() error) (err error) {
	for range 20 {
		if err = f(); err == nil || forGood(err) {
			return err
		}
		sleep.For(ctx, time.Second)
	}
	return err
}

// TakeOver takes a stream over as a broker does, and returns what it holds.
func TakeOver[S any](ctx context.Context, s *substrate.Session, stream string, sc *metalog.Schema[S], now func() time.Time) (state S, err error) {
	at := path.Join(s.Volume().MetaDir(), stream)
	for e := substrate.Epoch(0); ; {
		next, err := metalog.NextEpoch(s.Volume(), at)
		if err != nil {
			return state, err
		}
		e = max(e+1, next)
		w, err := metalog.Claim(ctx, s, at, e, sc, metalog.Options{Node: 2, Now: now})
		if errors.Is(err, substrate.ErrEpochTaken) {
			continue
		}
		if err != nil {
			return state, err
		}
		_, err = w.Publish(ctx, "taken over", func(S) ([]metalog.Event, error) { return nil, nil })
		return w.Committed().State, errors.Join(err, w.Abandon(ctx))
	}
}

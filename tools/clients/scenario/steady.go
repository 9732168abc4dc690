package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Sender is a producer of one partition.
type Sender struct {
	// Send returns when a record is acknowledged.
	Send  func(ctx context.Context) error
	Close func()
}

// Steady makes a producer, for programs that can be asked for steady.
var Steady func(to Brokers, topic string, partition int32) (*Sender, error)

const (
	steadyPause = 20 * time.Millisecond  // of a producer that stays, between two records
	freshPause  = 200 * time.Millisecond // between two producers that come new
	tellPause   = 50 * time.Millisecond
)

// steadyRun writes in every way of a file at once, a partition of the topic for each.
type steadyRun struct {
	file, dir, name, topic string
	stop                   chan struct{} // closed when there is a file called stop in dir
	stayed, came           []atomic.Int64
}

// steady has two producers for each way of a file: one that stays, and one that comes new for
// each record, and goes by what the file says then. Until there is a file stop in the directory
// it keeps a file there, by the program's name, with a line for each way: how many records of
// both are acknowledged. The first one that is not ends it, and is told there.
func steady(file, dir string) error {
	ways, err := readWays(file)
	if err != nil {
		return err
	}
	r := &steadyRun{file: file, dir: dir, name: filepath.Base(os.Args[0]), topic: os.Getenv("T") + "-steady", stop: make(chan struct{}),
		stayed: make([]atomic.Int64, len(ways)), came: make([]atomic.Int64, len(ways))}
	g, ctx := errgroup.WithContext(context.Background())
	for i, w := range ways {
		g.Go(func() error { return r.stays(ctx, w, i) })
		g.Go(func() error { return r.comes(ctx, i) })
	}
	g.Go(func() error { return r.tell(ctx) })
	if err := g.Wait(); err != nil {
		return First(fmt.Errorf("failed: %w", err), r.put([]byte("failed: "+err.Error()+"\n")))
	}
	return nil
}

func readWays(file string) (ways []*Way, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ways, json.Unmarshal(b, &ways)
}

// wait is a pause, and whether to go on after it.
func (r *steadyRun) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-r.stop:
	case <-ctx.Done():
	case <-time.After(d):
		return true
	}
	return false
}

func (r *steadyRun) stays(ctx context.Context, w *Way, i int) error {
	s, err := Steady(Brokers{w.Brokers, w}, r.topic, int32(i))
	if err != nil {
		return err
	}
	defer s.Close()
	for r.wait(ctx, steadyPause) {
		if err := s.Send(ctx); err != nil {
			return fmt.Errorf("%s, who stays: %w", w.Name, err)
		}
		r.stayed[i].Add(1)
	}
	return nil
}

func (r *steadyRun) comes(ctx context.Context, i int) error {
	for r.wait(ctx, freshPause) {
		ways, err := readWays(r.file)
		if err != nil {
			return err
		}
		w := ways[i]
		s, err := Steady(Brokers{w.Brokers, w}, r.topic, int32(i))
		if err != nil {
			return err
		}
		err = s.Send(ctx)
		s.Close()
		if err != nil {
			return fmt.Errorf("%s, who comes new: %w", w.Name, err)
		}
		r.came[i].Add(1)
	}
	return nil
}

// tell keeps the file, and looks for the one that says stop.
func (r *steadyRun) tell(ctx context.Context) error {
	for r.wait(ctx, tellPause) {
		var b bytes.Buffer
		for i := range r.stayed {
			fmt.Fprintln(&b, r.stayed[i].Load(), r.came[i].Load())
		}
		if err := r.put(b.Bytes()); err != nil {
			return err
		}
		if _, err := os.ReadFile(filepath.Join(r.dir, "stop")); err == nil {
			close(r.stop)
			return nil
		}
	}
	return nil
}

func (r *steadyRun) put(b []byte) error {
	name := filepath.Join(r.dir, r.name)
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

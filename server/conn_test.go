package server

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// noCluster is a cluster in which nothing is, and that can do nothing.
type noCluster struct{ Backend }

func (noCluster) View() *projections.Cluster { return projections.NewCluster() }

// pipeServer is a server without a cluster, for what happens before a handler.
func pipeServer(t *testing.T, sets ...string) *Server {
	s := Start(testConfig(t, "unused", sets...), "cluster", noCluster{}, nil, newMetrics(), testLog(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
	})
	return s
}

// A peer that begins a request and goes on too slowly is cut off, wherever it stops.
func TestSlowRequests(t *testing.T) {
	whole := frame(kmsg.NewPtrMetadataRequest(), 1)
	for _, n := range []int{1, 3, 4, 7, 12, len(whole) - 1} {
		synctest.Test(t, func(t *testing.T) {
			s := pipeServer(t)
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			began := time.Now()
			if _, err := mine.Write(whole[:n]); err != nil {
				t.Fatal(err)
			}
			if _, err := mine.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes: %v", n, err)
			}
			if d := time.Since(began); d != pieceTimeout {
				t.Errorf("%d bytes: cut off after %v", n, d)
			}
			mine.Close()
		})
	}
}

// A connection that waits for an answer does not idle; afterwards it does.
func TestIdleCountsFromTheAnswer(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(api{key: kmsg.ListGroups, max: 5, start: func(*Server, context.Context, *request) (reply, error) {
		return later(func(context.Context) (kmsg.Response, error) {
			time.Sleep(time.Hour)
			return kmsg.NewPtrListGroupsResponse(), nil
		})
	}})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t, "connections.max.idle.ms=1000")
		mine, theirs := net.Pipe()
		s.take(0, theirs)
		c := &client{t: t, nc: mine}
		began := time.Now()
		c.ask(kmsg.NewPtrListGroupsRequest())
		if d := time.Since(began); d != time.Hour {
			t.Errorf("answered after %v", d)
		}
		if _, err := mine.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if d := time.Since(began); d > time.Hour+2*time.Second {
			t.Errorf("idle since the answer, closed after %v", d-time.Hour)
		}
		mine.Close()
	})
}

// Replies that take different times are answered in the order of the wire, and
// nobody waits for another's work.
func TestAnswersKeepTheOrder(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	started := 0
	apis = before(api{key: kmsg.ListGroups, max: 5, start: func(*Server, context.Context, *request) (reply, error) {
		started++
		takes := time.Duration(10-started) * time.Second
		return later(func(context.Context) (kmsg.Response, error) {
			time.Sleep(takes)
			return kmsg.NewPtrListGroupsResponse(), nil
		})
	}})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t)
		mine, theirs := net.Pipe()
		s.take(0, theirs)
		c := &client{t: t, nc: mine}
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 9 {
				c.send(kmsg.NewPtrListGroupsRequest())
			}
		})
		for i := range int32(9) {
			if corr, _ := c.receive(); corr != i+1 {
				t.Errorf("answer %d is to request %d", i+1, corr)
			}
		}
		wg.Wait()
		if d := time.Since(began); d != 9*time.Second {
			t.Errorf("nine requests of 9 to 1 s took %v side by side", d)
		}
		mine.Close()
	})
}

// A stop answers what was started and takes nothing new.
func TestShutdownAnswersWhatWasStarted(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(api{key: kmsg.ListGroups, max: 5, start: func(*Server, context.Context, *request) (reply, error) {
		return later(func(ctx context.Context) (kmsg.Response, error) {
			select {
			case <-time.After(500 * time.Millisecond):
				return kmsg.NewPtrListGroupsResponse(), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}})
	for _, tc := range []struct {
		limit    time.Duration
		answered bool
	}{{time.Second, true}, {100 * time.Millisecond, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := pipeServer(t)
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			idle, idleTheirs := net.Pipe()
			s.take(0, idleTheirs)
			if _, err := mine.Write(frame(kmsg.NewPtrListGroupsRequest(), 1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := make(chan int, 1)
			go func() {
				b, _ := io.ReadAll(mine)
				got <- len(b)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			s.Shutdown(ctx)
			if n := <-got; n > 0 != tc.answered {
				t.Errorf("limit %v: %d bytes of answer", tc.limit, n)
			}
			if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("the idle connection: %v", err)
			}
			mine.Close()
			idle.Close()
		})
	}
}

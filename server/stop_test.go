package server

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is under way when a stop has no more time is answered, with what its handler
// knows, and so is what was sent before its sender could know of the stop.
func TestStopAnswersBeforeItCuts(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(api{key: kmsg.ListGroups, max: 5, start: func(*Server, context.Context, *request) (reply, error) {
		return later(func(ctx context.Context) (kmsg.Response, error) {
			<-ctx.Done()
			return kmsg.NewPtrListGroupsResponse(), nil
		})
	}})
	for _, limit := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := pipeServer(t)
			early, earlyTheirs := net.Pipe()
			late, lateTheirs := net.Pipe()
			s.take(0, earlyTheirs)
			s.take(0, lateTheirs)
			a, b := &client{t: t, nc: early}, &client{t: t, nc: late}
			a.send(kmsg.NewPtrListGroupsRequest())
			synctest.Wait()
			began := time.Now()
			ended := make(chan time.Duration)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				s.Shutdown(ctx)
				ended <- time.Since(began)
			}()
			time.Sleep(lastReads / 2)
			b.send(kmsg.NewPtrListGroupsRequest())
			for _, c := range []*client{a, b} {
				if corr, _ := c.receive(); corr != 1 {
					t.Errorf("limit %v: answer to request %d", limit, corr)
				}
				if _, err := c.nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("limit %v: %v", limit, err)
				}
				c.nc.Close()
			}
			if d := <-ended; d > limit+lastWords {
				t.Errorf("limit %v: stopped after %v", limit, d)
			}
		})
	}
}

// A handler that does not end and a peer that does not read hold a stop up no longer.
func TestStopCutsWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t)
		mine, theirs := net.Pipe()
		s.take(0, theirs)
		req := kmsg.NewPtrApiVersionsRequest()
		(&client{t: t, nc: mine}).send(req)
		synctest.Wait() // the answer waits to be read
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Shutdown(ctx)
		if d := time.Since(began); d != time.Second+lastWords {
			t.Errorf("stopped after %v", d)
		}
		mine.Close()
	})
}

// A broker that another has fenced tells so, on every connection, before it closes them:
// to a long poll, and to what is sent afterwards. For what is sent while it stops there is
// TestStopAnswersBeforeItCuts, where time stands still.
func TestFencedBrokerAnswers(t *testing.T) {
	dir := t.TempDir()
	old, err := Open(t.Context(), testConfig(t, dir), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, old.Addr())
	c.create("t", 1)
	c.produceTo("t", 0, "v")
	poll := dial(t, old.Addr())
	poll.send(fetchReq("t", 1, 10*time.Minute))
	silent := dial(t, old.Addr())
	time.Sleep(50 * time.Millisecond)
	startNode(t, dir)
	select {
	case <-old.Done():
	case <-time.After(patience):
		t.Fatal("not fenced")
	}
	if code, _ := c.produce("t", newBatch(nil, "v")); code != 6 {
		t.Errorf("produce: error %d, want 6", code)
	}
	if got := c.fetch("t", 0); got.ErrorCode != 6 {
		t.Errorf("fetch: error %d, want 6", got.ErrorCode)
	}
	stopped := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		stopped <- old.Stop(ctx)
	}()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	_, b := poll.receive()
	if poll.decode(resp, b); resp.Topics[0].Partitions[0].ErrorCode != 6 {
		t.Errorf("poll: error %d, want 6", resp.Topics[0].Partitions[0].ErrorCode)
	}
	if _, err := silent.nc.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection without an answer: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

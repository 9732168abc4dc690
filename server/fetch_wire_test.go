package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// F-01 and R-02: in one request, by a session and without one, offsets inside of
// batches, at both ends and beyond them: the batch that has the offset comes whole, both
// ends are no errors, and what is out of range is an error of its partition alone.
func TestFetchEveryOffset(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.segment.bytes=1048576")
	w := dial(t, n.Addr())
	w.create("a", 6)
	w.create("healthy", 1)
	w.produceTo("healthy", 0, "v")
	pad := strings.Repeat("x", 700<<10) // a batch a segment
	for p := range int32(6) {
		for range 2 {
			w.produceTo("a", p, pad, "b", "c")
		}
	}
	c := &sessionClient{client: dial(t, n.Addr()), version: 12}
	wants := []at{{"healthy", 0, 0}, {"a", 0, -1}, {"a", 1, 0}, {"a", 2, 2}, {"a", 3, 4}, {"a", 4, 6}, {"a", 5, 7}}
	check := func(what string, resp *kmsg.FetchResponse) {
		t.Helper()
		seen := 0
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				seen++
				if rt.Topic == "healthy" {
					if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
						t.Errorf("%s: healthy: error %d, %d bytes", what, p.ErrorCode, len(p.RecordBatches))
					}
					continue
				}
				want := []struct {
					code int16
					base int64 // -1: no records
				}{{1, -1}, {0, 0}, {0, 0}, {0, 3}, {0, -1}, {1, -1}}[p.Partition]
				base := int64(-1)
				if len(p.RecordBatches) > 0 {
					base = baseOffset(p.RecordBatches)
				}
				if p.ErrorCode != want.code || base != want.base || p.RecordBatches == nil || p.HighWatermark != 6 || p.LogStartOffset != 0 {
					t.Errorf("%s: partition %d: error %d, from %d, high watermark %d", what, p.Partition, p.ErrorCode, base, p.HighWatermark)
				}
			}
		}
		if seen != len(wants) {
			t.Errorf("%s: %d partitions", what, seen)
		}
	}
	check("no session", c.fetch(0, -1, time.Second, wants))
	full := c.fetch(0, 0, time.Second, wants)
	check("new session", full)
	wants = append(wants[:5:5], wants[6]) // what has no news is left out
	check("session", c.fetch(full.SessionID, 1, time.Second, nil))
}

// F-06 with a session: what was acknowledged is in the next answer, in both modes.
func TestFetchSessionWhatWasAcknowledged(t *testing.T) {
	for _, flush := range []string{"1", "1000000"} {
		n := startNode(t, t.TempDir(), "log.flush.interval.messages="+flush)
		w := dial(t, n.Addr())
		c := &sessionClient{client: dial(t, n.Addr()), version: 12}
		w.create("a", 2)
		id := c.fetch(0, 0, 0, []at{{"a", 0, 0}, {"a", 1, 0}}).SessionID
		for i := range int32(30) {
			p := i % 2
			w.produceTo("a", p, "v")
			next := []at(nil)
			if i > 1 {
				next = []at{{"a", p, int64(i / 2)}}
			}
			if i == 1 {
				next = []at{{"a", 0, 1}}
			}
			if got := c.told(c.fetch(id, i+1, 0, next)); !strings.Contains(got, fmt.Sprintf("a%d+", p)) {
				t.Fatalf("flush %s, record %d: %q", flush, i, got)
			}
		}
	}
}

// Waiting costs one goroutine a request, however many partitions it is about, and
// waits for as many bytes as were asked for.
func TestFetchWaitsForBytes(t *testing.T) {
	n := startNode(t, t.TempDir())
	w := dial(t, n.Addr())
	const partitions = 60
	w.create("a", partitions)
	c := &sessionClient{client: dial(t, n.Addr()), version: 12}
	var all []at
	for p := range int32(partitions) {
		all = append(all, at{"a", p, 0})
	}
	id := c.fetch(0, 0, 0, all).SessionID
	time.Sleep(50 * time.Millisecond)
	before := runtime.NumGoroutine()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch, req.MaxBytes, req.MaxWaitMillis = 12, id, 1, 50<<20, 600_000
	size := len(newBatch(nil, strings.Repeat("x", 1000)))
	req.MinBytes = int32(10 * size)
	c.send(req)
	time.Sleep(50 * time.Millisecond)
	if grown := runtime.NumGoroutine() - before; grown > partitions/4 {
		t.Errorf("waiting for %d partitions takes %d goroutines", partitions, grown)
	}
	for p := range int32(10) {
		_ = c.nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.nc.Read(make([]byte, 1)); err == nil {
			t.Fatalf("answered after %d of 10 batches", p)
		}
		w.produceTo("a", p*5, strings.Repeat("x", 1000))
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(patience))
	_, b := c.receive()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	c.decode(resp, b)
	if got := strings.Count(c.told(resp), "+"); got != 10 {
		t.Errorf("%d partitions with records, want 10", got)
	}
}

// A topic that is not there is told with the others, and does not make them hurry; one
// that goes while the request waits is told at once. Nothing at all is answered at once.
func TestFetchWaitAndErrors(t *testing.T) {
	n := startNode(t, t.TempDir())
	w := dial(t, n.Addr())
	c := &sessionClient{client: dial(t, n.Addr()), version: 12}
	w.create("a", 1)
	w.create("b", 1)
	began := time.Now()
	if got := c.told(c.fetch(0, -1, 200*time.Millisecond, []at{{"none", 0, 0}, {"a", 0, 0}})); got != "none0!3 a0" || time.Since(began) < 190*time.Millisecond {
		t.Errorf("%q after %v", got, time.Since(began))
	}
	const forever = 10 * time.Minute
	if got := c.told(c.fetch(0, -1, forever, []at{{"none", 0, 0}})); got != "none0!3" {
		t.Errorf("%q", got)
	}
	if got := c.told(c.fetch(0, -1, forever, nil)); got != "" {
		t.Errorf("%q", got)
	}
	gone := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { defer close(gone); deleteTopic(t, w, "b") })
	if got := c.told(c.fetch(0, -1, forever, []at{{"a", 0, 0}, {"b", 0, 0}})); !strings.HasPrefix(got, "a0 b0!") {
		t.Errorf("%q", got)
	}
	<-gone
}

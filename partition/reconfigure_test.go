package partition

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func segmentCount(p *Partition) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.segs)
}

// P-01: what is changed acts at once, on the running partition.
func TestReconfigureActsLive(t *testing.T) {
	cfg := testConfig()
	now := testTime
	cfg.Now = func() time.Time { return now }
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	at := now.UnixMilli()
	appendN(t, p, 10)
	if n := segmentCount(p); n != 1 {
		t.Fatalf("%d segments before the change", n)
	}

	cfg.SegmentBytes = 100
	p.Reconfigure(cfg)
	appendN(t, p, 3)
	if n := segmentCount(p); n != 4 {
		t.Errorf("segment.bytes: %d segments, want one for each append", n)
	}
	cfg.SegmentBytes = 0
	p.Reconfigure(cfg)
	appendN(t, p, 3)
	if n := segmentCount(p); n != 4 {
		t.Errorf("segment.bytes back to its default: %d segments", n)
	}

	cfg.SegmentAge = time.Second
	p.Reconfigure(cfg)
	now = now.Add(time.Second + time.Millisecond)
	appendOne(t, p, rec(now.UnixMilli(), "v"))
	if n := segmentCount(p); n != 5 {
		t.Errorf("segment.ms: %d segments", n)
	}

	big := strings.Repeat("x", 2000)
	for _, tc := range []struct {
		limit int
		want  *kerr.Error
	}{{1000, kerr.MessageTooLarge}, {4000, nil}, {1000, kerr.MessageTooLarge}, {0, nil}} {
		cfg.MaxMessageBytes = tc.limit
		p.Reconfigure(cfg)
		a, err := p.Append(context.Background(), rec(at, big))
		if tc.want == nil {
			ok(t, err)
			ok(t, a.Wait(context.Background()))
		} else {
			wantCode(t, err, tc.want)
		}
	}

	cfg.LogAppendTime = true
	p.Reconfigure(cfg)
	off := appendOne(t, p, rec(5, "v"))
	if b := read(t, p, off)[0]; b.maxTime() != now.UnixMilli() || b.attrs()&attrLogAppendTime == 0 {
		t.Errorf("LogAppendTime: time %d, attributes %x", b.maxTime(), b.attrs())
	}
	cfg.LogAppendTime, cfg.TimestampAfterMax, cfg.TimestampBeforeMax = false, time.Hour, time.Hour
	p.Reconfigure(cfg)
	for _, ts := range []int64{5, now.Add(2 * time.Hour).UnixMilli()} {
		_, err := p.Append(context.Background(), rec(ts, "v"))
		wantCode(t, err, kerr.InvalidTimestamp)
	}

	cfg.IndexIntervalBytes = 1
	p.Reconfigure(cfg)
	entries := func() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.active.index.entries) }
	before := entries()
	appendOne(t, p, rec(now.UnixMilli(), "v"))
	appendOne(t, p, rec(now.UnixMilli(), "v"))
	if got := entries() - before; got != 2 {
		t.Errorf("index.interval.bytes: %d new index entries, want 2", got)
	}
}

// A change of the durability switch acts on the next commit.
func TestReconfigureFlush(t *testing.T) {
	l, v := logged(t)
	cfg := testConfig()
	p := open(t, newSession(t, v), 1, cfg)
	abandon(t, p)
	appendN(t, p, 1)
	for _, flush := range []int64{1 << 40, 1} {
		cfg.FlushMessages = flush
		p.Reconfigure(cfg)
		l.take()
		appendN(t, p, 1)
		if got := strings.Join(l.take(), ", "); strings.Contains(got, "sync log") != (flush == 1) {
			t.Errorf("log.flush.interval.messages %d: %s", flush, got)
		}
	}
}

// Changes while appends and reads go on are not torn: each batch was judged and
// stamped by one configuration.
func TestReconfigureWhileBusy(t *testing.T) {
	strict := testConfig()
	strict.TimestampBeforeMax = time.Hour
	p := open(t, newSession(t, dirVolume(t)), 1, strict)
	abandon(t, p)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			cfg := strict
			cfg.LogAppendTime = i%2 == 0
			cfg.SegmentBytes, cfg.IndexIntervalBytes = int64(100+i%3000), 1+i%500
			p.Reconfigure(cfg)
		}
	})
	stored := 0
	for i := range 300 {
		a, err := p.Append(context.Background(), rec(5, fmt.Sprint(i)))
		if err != nil {
			wantCode(t, err, kerr.InvalidTimestamp)
			continue
		}
		ok(t, a.Wait(context.Background()))
		stored++
		if b := read(t, p, a.BaseOffset)[0]; b.attrs()&attrLogAppendTime == 0 || b.maxTime() == 5 {
			t.Fatalf("batch %d was stored with a time that no configuration allows", a.BaseOffset)
		}
	}
	close(stop)
	wg.Wait()
	if got := values(t, p); len(got) != stored {
		t.Fatalf("%d of %d batches are there", len(got), stored)
	}
}

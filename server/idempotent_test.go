package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/testport"
)

func idempotent(id int64, epoch int16, seq int32, values ...string) []byte {
	return newBatch(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = id, epoch, seq }, values...)
}

// P-04, the produce half of P-05, and what a repeated batch is answered, as a client
// sees it, also after a restart.
func TestProduceSequences(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	c.create("t", 1)
	ten := make([]string, 10)
	for _, x := range []struct {
		id     int64
		epoch  int16
		seq    int32
		values []string
		code   int16
		offset int64
	}{
		{1, 0, 7, []string{"a"}, 0, 0},
		{2, 0, 2147483640, ten, 0, 1},
		{2, 0, 2, ten[:1], 0, 11},
		{2, 0, 4, ten[:1], 45, -1},
		{2, 1, 5, ten[:1], 45, -1},
		{2, 1, 0, ten[:1], 0, 12},
		{2, 0, 3, ten[:1], 47, -1},
		{2, 1, 0, ten[:1], 0, 12},
		{1, 0, 7, []string{"a"}, 0, 0},
		{1, 0, 7, []string{"a", "b"}, 45, -1},
	} {
		if code, off := c.produce("t", idempotent(x.id, x.epoch, x.seq, x.values...)); code != x.code || off != x.offset {
			t.Errorf("%+v: error %d at offset %d", x, code, off)
		}
	}
	if end := c.end("t"); end != 13 {
		t.Errorf("end %d, want 13", end)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, dir)
	c = dial(t, n.Addr())
	code, off := c.produceOnceOpen("t", idempotent(2, 1, 0, ""))
	if code != 0 || off != 12 {
		t.Errorf("sent again after the restart: error %d at offset %d", code, off)
	}
}

// A batch that stands twice in what one connection sends is stored once; both are
// answered with its offset, in the order of the wire.
func TestProducePipelinedAgain(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	const count = 100
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range count {
			c.send(produceReq(-1, "t", idempotent(1, 0, int32(i/2), fmt.Sprint(i/2))))
		}
	})
	for i := range count {
		_, b := c.receive()
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		c.decode(resp, b)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i/2) {
			t.Fatalf("answer %d: error %d, offset %d", i, p.ErrorCode, p.BaseOffset)
		}
	}
	wg.Wait()
	if end := c.end("t"); end != count/2 {
		t.Errorf("end %d, want %d", end, count/2)
	}
}

// lossy passes connections on to a broker and cuts some of them while the broker answers,
// so that the client does not learn what became of its requests.
type lossy struct {
	net.Listener
	to string
	wg sync.WaitGroup
	mu struct {
		sync.Mutex
		open map[net.Conn]bool
		cuts int
		calm bool // cut no more
	}
}

func newLossy(t *testing.T, to string) *lossy {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lossy{Listener: ln, to: to}
	l.mu.open = map[net.Conn]bool{}
	l.wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			l.wg.Go(func() { l.pass(in) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		l.mu.Lock()
		for c := range l.mu.open {
			c.Close()
		}
		l.mu.Unlock()
		l.wg.Wait()
	})
	return l
}

func (l *lossy) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer out.Close()
	l.mu.Lock()
	l.mu.open[in], l.mu.open[out] = true, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.mu.open, in)
		delete(l.mu.open, out)
	}()
	l.wg.Go(func() {
		defer out.Close()
		_, _ = io.Copy(out, in) // ends with either connection
	})
	_, _ = io.CopyN(in, out, 200+rand.Int64N(3000)) // likewise
	l.mu.Lock()
	calm := l.mu.calm
	if !calm {
		l.mu.cuts++
	}
	l.mu.Unlock()
	if calm {
		_, _ = io.Copy(in, out)
		return
	}
	// What the client still sends arrives; the answers do not.
	_ = out.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, _ = io.Copy(io.Discard, out)
}

// V-02: answers are lost and the broker is killed, again and again. What an idempotent
// producer sent is in the log once, in order, and it never meets an error.
func TestExactlyOnceOverKills(t *testing.T) {
	dir, addr := t.TempDir(), testport.Addr(t)
	l := newLossy(t, addr)
	// Small segments: the log rolls on the way.
	sets := []string{"advertised.listeners=PLAINTEXT://" + l.Addr().String(), "log.segment.bytes=1048576"}
	p := spawn(t, dir, addr, sets...)
	p.awaitServing()
	cl := kgoClient(t, l.Addr().String(), kgo.DefaultProduceTopic("lines"), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(300),
		kgo.ProducerBatchMaxBytes(1000), kgo.MetadataMinAge(20*time.Millisecond), kgo.AlwaysRetryEOF(), // new connections are cut, too
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
	const lines, kills = 30_000, 6
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	for i := range lines {
		wg.Add(1)
		cl.Produce(context.Background(), &kgo.Record{Value: fmt.Appendf(nil, "%d", i)}, func(_ *kgo.Record, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if failed++; failed < 10 {
					t.Errorf("line %d: %v", i, err)
				}
			}
		})
		if i%(lines/(kills+1)) == lines/(kills+2) && i > 100 {
			p.signal(syscall.SIGKILL)
			<-p.done
			p = spawn(t, dir, addr, sets...)
		}
	}
	wg.Wait()
	l.mu.Lock()
	l.mu.calm = true
	cuts := l.mu.cuts
	l.mu.Unlock()
	end := dial(t, addr).end("lines")
	t.Logf("%d lines, %d records, %d connections cut", lines, end, cuts)
	if end != lines {
		t.Errorf("%d lines were sent, the log has %d records", lines, end)
	}
	for i, v := range consumeAll(t, l.Addr().String(), "lines", end) {
		if want := fmt.Appendf(nil, "%d", i); !bytes.Equal(v, want) {
			t.Fatalf("record %d is %q", i, v)
		}
	}
	if cuts < 10 {
		t.Errorf("only %d connections were cut", cuts)
	}
}

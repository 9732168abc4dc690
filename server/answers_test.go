package server

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
)

// allOf asks for everything of a topic's partitions.
func allOf(topic string, partitions int32) *kmsg.FetchRequest {
	req := largeFetch(topic)
	ps := make([]kmsg.FetchRequestTopicPartition, partitions)
	for i := range ps {
		ps[i] = req.Topics[0].Partitions[0]
		ps[i].Partition = int32(i)
	}
	req.Topics[0].Partitions = ps
	return req
}

// plainConn is a connection whose files the kernel does not send.
type plainConn struct{ net.Conn }

// connect serves one end of a connection, and returns the other.
func connect(t *testing.T, n *Node, plain, slow bool) *client {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := dial(t, ln.Addr().String())
	if slow {
		_ = c.nc.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	theirs, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if plain {
		theirs = plainConn{theirs}
	}
	n.server.take(0, theirs)
	return c
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Whatever is asked for and not read, by however many, takes little memory, and others
// get their answers meanwhile: where regions are just too small to be sent from their
// files, where files cannot be sent or are not trusted, and where requests are pipelined.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const partitions, slow, limit = 64, 30, 4 << 20
	for name, tc := range map[string]struct{ plain, distrusted bool }{
		"sent": {}, "copied": {plain: true}, "distrusted": {distrusted: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, t.TempDir(), "queued.max.response.bytes=4194304")
			c := dial(t, n.Addr())
			id := c.create("t", partitions)
			pad := strings.Repeat("x", streamed-1000)
			for p := range int32(partitions) {
				c.produceTo("t", p, pad)
				if part, err := n.broker.Partition(id, p); err != nil {
					t.Fatal(err)
				} else if tc.distrusted {
					f, err := part.Cut(t.Context(), partition.At(0), 1, true)
					if err != nil {
						t.Fatal(err)
					}
					f.Region.Distrust()
					f.Region.Release()
				}
			}
			before := heapBytes()
			for range slow {
				s := connect(t, n, tc.plain, true)
				for range 4 {
					s.send(allOf("t", partitions))
				}
			}
			time.Sleep(500 * time.Millisecond)
			grown := heapBytes() - before
			t.Logf("%d connections with answers of %d bytes each hold %d bytes", slow, partitions*len(pad), grown)
			if grown > 3*limit {
				t.Errorf("%d unread answers hold %d bytes", slow, grown)
			}
			began := time.Now()
			for _, p := range connect(t, n, tc.plain, false).ask(allOf("t", partitions)).(*kmsg.FetchResponse).Topics[0].Partitions {
				if p.ErrorCode != 0 || len(p.RecordBatches) < len(pad) {
					t.Fatalf("another consumer gets error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
				}
			}
			if d := time.Since(began); d > slowReader {
				t.Errorf("another consumer waits %v", d)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			n.server.Shutdown(ctx)
			if used := n.server.answers.used.Load(); used != 0 {
				t.Errorf("%d bytes are held after the last connection's end", used)
			}
		})
	}
}

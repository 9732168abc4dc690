package server

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// hostileFrames are requests that claim what they do not hold.
func hostileFrames() [][]byte {
	sized := func(body ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	return [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: kaas\r\n\r\n"),
		{0x7f, 0xff, 0xff, 0xff},
		{0xff, 0xff, 0xff, 0xff},
		{0x06, 0x40, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1},                 // 100 MiB of Produce, and nothing comes
		{0, 0x3f, 0xff, 0xff, 0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff}, // 4 MiB of Metadata, likewise
		sized(0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff), // array of 2^31-1
		sized(0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f), // compact 2^32-1
		sized(0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		sized(0, 1, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f),
		{},
	}
}

// a thousand connections that send nonsense, or nothing, cost little, and a
// normal client is served meanwhile.
func TestHostileFrames(t *testing.T) {
	n := startNode(t, t.TempDir())
	normal := dial(t, n.Addr())
	normal.create("normal", 1)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	frames := hostileFrames()
	conns := make([]net.Conn, 1000)
	var wg sync.WaitGroup
	for i := range conns {
		nc, err := net.Dial("tcp", n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = nc
		wg.Go(func() { _, _ = nc.Write(frames[i%len(frames)]) })
	}
	wg.Wait()
	for range 20 {
		if code, _ := normal.produce("normal", newBatch(nil, "v")); code != 0 {
			t.Errorf("a normal client gets error %d", code)
		}
	}
	if got := dial(t, n.Addr()).end("normal"); got != 20 {
		t.Errorf("end %d, want 20", got)
	}
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	t.Logf("heap and stacks grew by %d KiB under 1000 hostile connections", grown>>10)
	if grown > 50<<20 {
		t.Errorf("heap and stacks grew by %d MiB", grown>>20)
	}
	for i, nc := range conns {
		waits := len(frames[i%len(frames)]) == 0 || i%len(frames) == 3 || i%len(frames) == 4
		if !waits { // refused at once
			_ = nc.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, nc); isTimeout(err) {
				t.Fatalf("the connection that sent %q stays open", frames[i%len(frames)])
			}
		}
		nc.Close()
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// Requests whose bytes are there but whose arrays are of the smallest elements are
// what makes a decoder spend most.
func TestHostileArrays(t *testing.T) {
	n := startNode(t, t.TempDir())
	body := []byte{0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0}
	body = binary.AppendUvarint(body, 1_000_000)
	body = append(body, make([]byte, 3<<20)...)
	raw := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	var wg sync.WaitGroup
	for range 4 {
		c := dial(t, n.Addr())
		wg.Go(func() {
			_, _ = c.nc.Write(raw)
			_, _ = io.Copy(io.Discard, c.nc)
		})
	}
	wg.Wait()
	dial(t, n.Addr()).ask(kmsg.NewPtrMetadataRequest())
}

func TestRequestMaxBytes(t *testing.T) {
	n := startNode(t, t.TempDir(), "socket.request.max.bytes=1000")
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.send(produceReq(1, "t", newBatch(nil, string(make([]byte, 2000)))))
	c.closed()
}

// A queue smaller than the request: it is served alone, and others after it.
func TestRequestLargerThanTheQueue(t *testing.T) {
	n := startNode(t, t.TempDir(), "queued.max.request.bytes=1000")
	dial(t, n.Addr()).create("t", 1)
	var wg sync.WaitGroup
	for range 8 {
		c := dial(t, n.Addr())
		wg.Go(func() {
			for range 5 {
				if code, _ := c.produce("t", newBatch(nil, string(make([]byte, 100_000)))); code != 0 {
					t.Errorf("error %d", code)
				}
			}
		})
	}
	wg.Wait()
}

func TestIdleConnectionIsClosed(t *testing.T) {
	n := startNode(t, t.TempDir(), "connections.max.idle.ms=50")
	began := time.Now()
	c := dial(t, n.Addr())
	c.closed()
	if d := time.Since(began); d < 40*time.Millisecond {
		t.Errorf("closed after %v", d)
	}
}

func TestMaxConnections(t *testing.T) {
	n := startNode(t, t.TempDir(), "max.connections=1")
	first := dial(t, n.Addr())
	first.ask(kmsg.NewPtrMetadataRequest())
	dial(t, n.Addr()).closed()
	first.ask(kmsg.NewPtrMetadataRequest())
}

// A listener has its own number of connections, within that of the broker.
func TestMaxConnectionsOfAListener(t *testing.T) {
	n := startNode(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
		"listener.name.outside.max.connections=1", "listener.name.inside.max.connections=2")
	inside, outside := n.lns[0].Addr().String(), n.lns[1].Addr().String()
	first := dial(t, outside)
	first.ask(kmsg.NewPtrMetadataRequest())
	dial(t, outside).closed()
	for range 2 {
		dial(t, inside).ask(kmsg.NewPtrMetadataRequest())
	}
	dial(t, inside).closed() // it is that of the brokers, too
	first.nc.Close()
	awaitCluster(t, n, "the listener has a place again", func() bool {
		n.server.mu.Lock()
		defer n.server.mu.Unlock()
		return n.server.mu.at[1] == 0
	})
	dial(t, outside).ask(kmsg.NewPtrMetadataRequest())
}

// A panic costs its connection and nothing else, in either part of a handler.
func TestPanicClosesTheConnection(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(panicAPI(kmsg.ListGroups, false), panicAPI(kmsg.DeleteGroups, true))
	n := startNode(t, t.TempDir())
	other := dial(t, n.Addr())
	for _, req := range []kmsg.Request{kmsg.NewPtrListGroupsRequest(), kmsg.NewPtrDeleteGroupsRequest()} {
		c := dial(t, n.Addr())
		c.send(req)
		c.closed()
		other.ask(kmsg.NewPtrMetadataRequest())
	}
	n.server.Shutdown(t.Context()) // before the table is put back
}

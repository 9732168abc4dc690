package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStalledSendersStarveNobody: hundreds of peers that claim requests of all sizes
// and send a few bytes do not keep another's Metadata waiting.
func TestStalledSendersStarveNobody(t *testing.T) {
	addr := startNode(t, t.TempDir()).Addr()
	for _, claimed := range []uint32{4 << 20, 5300, 3000, 100, 30, 12} {
		for range 60 {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			frame := binary.BigEndian.AppendUint32(nil, claimed)
			frame = append(frame, 0, 3, 0, 9, 0, 0, 0, 1) // Metadata 9 and no more of it
			if _, err := nc.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := dial(t, addr)
	_ = c.nc.SetDeadline(time.Now().Add(pieceTimeout / 2))
	for range 20 {
		req := kmsg.NewPtrMetadataRequest()
		req.SetVersion(12)
		c.ask(req)
	}
}

// headOf is the head of a request of so many bytes in all.
func headOf(key kmsg.Key, version int16, size uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, size)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, 0, 0, 0, 1)
}

// half sends the head of a request and so many bytes of its rest, and no more; it ends with the
// connection.
func half(s *Server, key kmsg.Key, version int16, size uint32, sent int) net.Conn {
	mine, theirs := net.Pipe()
	s.take(0, theirs)
	go func() {
		_, err := mine.Write(headOf(key, version, size))
		for at := 0; at < sent && err == nil; at += 4 << 10 {
			_, err = mine.Write(make([]byte, 4<<10))
		}
	}()
	synctest.Wait()
	return mine
}

// answered reports how long a request on a connection of its own takes.
func answered(t *testing.T, s *Server, req kmsg.Request) time.Duration {
	t.Helper()
	mine, theirs := net.Pipe()
	defer mine.Close()
	s.take(0, theirs)
	began := time.Now()
	(&client{t: t, nc: mine}).ask(req)
	return time.Since(began)
}

// A request of which a part has come, however large, keeps no other waiting: not those that come
// whole, nor other large ones.
func TestHalfRequestsHoldUpNobody(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	at := func(_ *Server, _ context.Context, r *request) (reply, error) { return now(r.msg.ResponseKind()) }
	apis = before(api{key: kmsg.BrokerHeartbeat, max: 1, start: at}, api{key: kmsg.Heartbeat, max: 4, start: at},
		api{key: kmsg.Produce, max: 13, records: true, start: at}, api{key: kmsg.OffsetCommit, max: 8, start: at})
	produce := produceReq(-1, "t", newBatch(nil, string(make([]byte, 1<<20))))
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group = 8, string(make([]byte, 30_000))
	for name, tc := range map[string]struct {
		key     kmsg.Key
		version int16
		size    uint32
		sent    int
	}{
		"Metadata":           {kmsg.Metadata, 9, 4 << 20, 2 << 20},
		"Produce":            {kmsg.Produce, 9, 60 << 20, 16 << 20},
		"a very large one":   {kmsg.Produce, 9, 100 << 20, 16 << 20},
		"all but its end":    {kmsg.Produce, 9, 60 << 20, 60<<20 - 4<<10},
		"Metadata's all but": {kmsg.Metadata, 9, 4 << 20, 4<<20 - 4<<10},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := pipeServer(t)
			mine := half(s, tc.key, tc.version, tc.size, tc.sent)
			if held := s.queued.mu.used + s.large.mu.used; held < int64(tc.sent) || held > 4*int64(tc.sent)+2*writePiece {
				t.Errorf("%s: %d bytes are held for %d", name, held, tc.sent)
			}
			for _, req := range []kmsg.Request{kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrBrokerHeartbeatRequest(), commit, produce} {
				if took := answered(t, s, req); took != 0 {
					t.Errorf("%s: %s of another waits %v", name, kmsg.NameForKey(req.Key()), took)
				}
			}
			mine.Close()
		})
	}
}

// Many that stop in the middle have most of the memory that is for such. They are cut off when
// another has waited for a while, and not before.
func TestManySlowSendersAreCut(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(api{key: kmsg.Produce, max: 13, records: true, start: func(_ *Server, _ context.Context, r *request) (reply, error) {
		return now(r.msg.ResponseKind())
	}})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t, "queued.max.request.bytes=1000000")
		var slow []net.Conn
		for range 9 {
			slow = append(slow, half(s, kmsg.Produce, 9, 50_000, 40_000))
		}
		if held := s.queued.mu.used; held < 400_000 || held > 500_000 {
			t.Errorf("%d bytes are held by half-read requests", held)
		}
		time.Sleep(5 * time.Second)
		produce := produceReq(-1, "t", newBatch(nil, string(make([]byte, 40_000))))
		if took := answered(t, s, produce); took != pressAfter+standStill {
			t.Errorf("another waits %v", took)
		}
		synctest.Wait()
		ended := 0
		for _, nc := range slow {
			_ = nc.SetReadDeadline(time.Now())
			if _, err := nc.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
				ended++
			}
			nc.Close()
		}
		if ended != len(slow) {
			t.Errorf("%d of %d slow senders were cut off", ended, len(slow))
		}
	})
}

// What comes a little at a time has its 30 s for each MiB, and not for each little.
func TestTimeForAPiece(t *testing.T) {
	for name, tc := range map[string]struct {
		key     kmsg.Key
		version int16
		at      int // bytes each time
		ends    time.Duration
	}{
		"Metadata, 4 KiB":   {kmsg.Metadata, 9, 4 << 10, pieceTimeout},
		"Produce, 4 KiB":    {kmsg.Produce, 9, 4 << 10, pieceTimeout},
		"Metadata, 600 KiB": {kmsg.Metadata, 9, 600 << 10, 2*pieceTimeout - time.Second},
		"Produce, more":     {kmsg.Produce, 9, 1 << 20, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := pipeServer(t)
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			began := time.Now()
			_, err := mine.Write(headOf(tc.key, tc.version, 4<<20))
			for sent := 0; sent < 3<<20 && err == nil; sent += tc.at {
				if _, err = mine.Write(make([]byte, tc.at)); err == nil {
					time.Sleep(pieceTimeout - time.Second)
				}
			}
			if took := time.Since(began); tc.ends > 0 && (err == nil || took < tc.ends-time.Second || took >= tc.ends+pieceTimeout) || tc.ends == 0 && err != nil {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			mine.Close()
		})
	}
}

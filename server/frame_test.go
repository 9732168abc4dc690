package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// feed runs one connection's bytes through the framing as a connection does.
func feed(raw []byte, each func(head, kmsg.Request)) error {
	br := bufio.NewReader(bytes.NewReader(raw))
	b := newBudget(1 << 20)
	for {
		h, err := readHead(br, 1<<20)
		if err != nil {
			return err
		}
		c := b.begin()
		rest, err := readRest(context.Background(), br, int(h.size)-headBytes, c, 1, func() {})
		c.release()
		if err != nil {
			return err
		}
		if a := apiFor(h.key); !a.serves(h.version) {
			return errHeader
		}
		msg := kmsg.RequestForKey(h.key)
		msg.SetVersion(h.version)
		if _, err := decodeRest(rest, msg); err != nil {
			return err
		}
		each(h, msg)
	}
}

func TestFrameRoundTrip(t *testing.T) {
	var raw []byte
	want := 0
	for _, a := range apis {
		for v := max(a.min, a.works); v <= a.max; v++ {
			req := kmsg.RequestForKey(int16(a.key))
			req.SetVersion(v)
			raw = append(raw, frame(req, int32(want))...)
			want++
		}
	}
	got := 0
	err := feed(raw, func(h head, msg kmsg.Request) {
		if h.correlationID != int32(got) || msg.Key() != h.key {
			t.Errorf("request %d: %+v", got, h)
		}
		got++
	})
	if err != io.EOF || got != want {
		t.Errorf("%d of %d requests, then %v", got, want, err)
	}
}

func TestFrameRefusals(t *testing.T) {
	sized := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	meta := []byte{0, 3, 0, 12, 0, 0, 0, 1}
	for name, raw := range map[string][]byte{
		"http":              []byte("GET / HTTP/1.1\r\nHost: kaas\r\n\r\n"),
		"huge":              sized(math.MaxInt32),
		"negative":          sized(math.MaxUint32),
		"least":             sized(0x80000000),
		"empty":             sized(0),
		"short":             sized(7, meta...),
		"no client ID":      sized(8, meta...),
		"client ID too far": sized(10, append(meta[:8:8], 0x7f, 0xff)...),
		"client ID -2":      sized(10, append(meta[:8:8], 0xff, 0xfe)...),
		"no tags":           sized(10, append(meta[:8:8], 0xff, 0xff)...),
		"tag count":         sized(15, append(meta[:8:8], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f)...),
		"tag size":          sized(17, append(meta[:8:8], 0xff, 0xff, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f)...),
		"array length":      sized(16, append(meta[:8:8], 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x0f)...),
	} {
		if err := feed(raw, func(head, kmsg.Request) { t.Errorf("%s: accepted", name) }); err == nil || err == io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A claimed size costs nothing before bytes come.
func TestFrameClaimsCostNothing(t *testing.T) {
	b := newBudget(64 << 20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		c := b.begin()
		_, err := readRest(context.Background(), bufio.NewReader(bytes.NewReader(make([]byte, 100))), 100<<20, c, 1, func() {})
		if err == nil {
			t.Fatal("a request cut short was read")
		}
		c.release()
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("%d bytes were allocated for claims", got)
	}
	if b.mu.used != 0 || b.mu.whole != 0 || b.mu.reading.Len() != 0 {
		t.Errorf("budget: %d used, %d whole, %d reading", b.mu.used, b.mu.whole, b.mu.reading.Len())
	}
}

// header is what decodeRest finds before a body.
func header(msg kmsg.Request) []byte {
	if msg.IsFlexible() {
		return []byte{0xff, 0xff, 0}
	}
	return []byte{0xff, 0xff}
}

// The decoders hold lengths against what is there. Under -race an array is
// allocated twice.
func TestDecodersAllocateNoClaims(t *testing.T) {
	for _, a := range apis {
		for v := max(a.min, a.works); v <= a.max && !testing.Short(); v++ {
			msg := kmsg.RequestForKey(int16(a.key))
			msg.SetVersion(v)
			for _, length := range [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0xff, 0x07}} {
				for at := range 24 {
					body := append(bytes.Repeat([]byte{0}, at), length...)
					body = append(body, bytes.Repeat([]byte{1}, 1000)...)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					_, _ = decodeRest(append(header(msg), body...), msg)
					runtime.ReadMemStats(&after)
					if got := after.TotalAlloc - before.TotalAlloc; got > 2*controlWeight*uint64(len(body))+4096 {
						t.Errorf("%s v%d: %d bytes allocated for %d", kmsg.NameForKey(msg.Key()), v, got, len(body))
					}
				}
			}
		}
	}
}

func FuzzFrame(f *testing.F) {
	for _, a := range apis {
		for _, v := range []int16{max(a.min, a.works), a.max} {
			req := kmsg.RequestForKey(int16(a.key))
			req.SetVersion(v)
			f.Add(frame(req, 1))
		}
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(frame(produceReq(-1, "t", newBatch(nil, "v")), 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = feed(raw, func(h head, msg kmsg.Request) {
			// What was understood can be said again.
			if b := msg.AppendTo(nil); len(b) > 64*len(raw)+1024 {
				t.Errorf("%d bytes became %d", len(raw), len(b))
			}
		})
	})
}

func TestWalkProduce(t *testing.T) {
	for v := int16(3); v <= 13; v++ {
		req := produceReq(-1, "a", newBatch(nil, "v"), "b", newBatch(nil, "w", "x"))
		req.Version, req.TransactionID = v, kmsg.StringPtr("tx")
		body := req.AppendTo(nil)
		if err := walkProduce(body, v); err != nil {
			t.Errorf("v%d: %v", v, err)
		}
		for n := range body {
			if err := walkProduce(body[:n], v); err == nil {
				t.Errorf("v%d cut at %d of %d: accepted", v, n, len(body))
			}
		}
	}
	many := kmsg.NewPtrProduceRequest()
	many.Version = 9
	many.Topics = make([]kmsg.ProduceRequestTopic, maxProduced+1)
	if err := walkProduce(many.AppendTo(nil), 9); err == nil {
		t.Error("more topics than allowed were accepted")
	}
}

// A client that begins with TLS where the listener has none is told from nonsense.
func TestHeadOfTLS(t *testing.T) {
	for raw, tls := range map[string]bool{
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00": true,
		"\x16\x03\x03\x02\x00\x01\x00\x01\xfc\x03\x03\x00": true,
		"\x16\x05\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00": false,
		"GET / HTTP/1.1\r\n": false,
	} {
		_, err := readHead(strings.NewReader(raw), 1<<20)
		if !errors.Is(err, errSize) || strings.Contains(err.Error(), "TLS") != tls {
			t.Errorf("%q: %v", raw, err)
		}
	}
	if _, err := readHead(strings.NewReader("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00"), math.MaxInt32); err != nil {
		t.Errorf("a request that may be so large: %v", err)
	}
}

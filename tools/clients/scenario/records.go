package scenario

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Record is a record as it is written and read. Nil is null.
type Record struct {
	Key, Value []byte
	Headers    []Header
	Time       time.Time

	Partition int32 // set in what is read
	Offset    int64
}

// Header is one of a record's.
type Header struct {
	Key   string
	Value []byte
}

// SampleSize is how many records a Sample has.
const SampleSize = 10

// sampleTime is that of the first record of a sample; each is a second after the one before.
const sampleTime = 1_700_000_000_000

// Sample is what each client writes with each codec: every reader can tell what it must be.
// The programs in other languages make the same.
func Sample(client, codec string) []Record {
	var out []Record
	for i := range SampleSize {
		name := fmt.Sprintf("%s/%s/%d", client, codec, i)
		r := Record{
			Key:   []byte(name),
			Value: []byte(strings.Repeat(name+";", i*40)),
			Headers: []Header{
				{"client", []byte(client)},
				{"codec", []byte(codec)},
				{"bytes", []byte{0, 0xff, 0xfe, 0x80}},
				{"empty", []byte{}},
			},
			Time: time.UnixMilli(sampleTime + int64(i)*1000),
		}
		switch i {
		case 0:
			r.Value = nil // a tombstone
		case 1:
			r.Value = []byte{}
		case 2:
			r.Value = allBytes()
		case 3:
			r.Key = nil
		case 4:
			r.Key = []byte{}
		case 5:
			r.Headers = slices.Insert(r.Headers, 1, Header{"client", []byte("again")})
		case 6:
			r.Headers = nil
		}
		if client == "rskafka" {
			r.Headers = asMap(r.Headers)
		}
		out = append(out, r)
	}
	return out
}

// asMap is the headers as a client writes them to which they are a map in order.
func asMap(headers []Header) (out []Header) {
	for _, h := range headers {
		out = slices.DeleteFunc(out, func(had Header) bool { return had.Key == h.Key })
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Header) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// plain makes records without ornament, numbered from first on.
func plain(name string, first, n int) []Record {
	var out []Record
	for i := first; i < first+n; i++ {
		out = append(out, Record{Key: fmt.Appendf(nil, "%d", i), Value: fmt.Appendf(nil, "%s %d", name, i), Time: time.UnixMilli(sampleTime + int64(i))})
	}
	return out
}

// noise is a value that no codec makes smaller.
func noise(n int) []byte {
	b := make([]byte, n)
	chacha := rand.NewChaCha8([32]byte{})
	_, _ = chacha.Read(b) // never fails
	return b
}

// same says how records differ from those that were written.
func (c *Client) same(got, want []Record) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if err := c.sameRecord(got[i], want[i]); err != nil {
			return fmt.Errorf("record %d at offset %d: %w", i, got[i].Offset, err)
		}
	}
	return nil
}

func (c *Client) sameRecord(got, want Record) error {
	sameBytes := func(a, b []byte) bool {
		return bytes.Equal(a, b) && (c.NullIsEmpty || (a == nil) == (b == nil))
	}
	if !sameBytes(got.Key, want.Key) {
		return fmt.Errorf("key %s, want %s", short(got.Key), short(want.Key))
	}
	if !sameBytes(got.Value, want.Value) {
		return fmt.Errorf("value %s, want %s", short(got.Value), short(want.Value))
	}
	if !slices.EqualFunc(got.Headers, want.Headers, func(a, b Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }) {
		return fmt.Errorf("headers %v, want %v", got.Headers, want.Headers)
	}
	if !got.Time.Equal(want.Time) {
		return fmt.Errorf("time %d, want %d", got.Time.UnixMilli(), want.Time.UnixMilli())
	}
	return nil
}

func short(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > 40 {
		return fmt.Sprintf("%q… of %d bytes", b[:40], len(b))
	}
	return fmt.Sprintf("%q", b)
}

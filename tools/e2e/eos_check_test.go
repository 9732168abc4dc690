package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const eosParts = 4

// copied is what a reader of a copy has seen. In each partition are to be the numbers from 0 on,
// in order, each once.
type copied struct {
	mu    sync.Mutex
	next  [eosParts]int
	wrong []string
	last  [eosParts]string // who wrote the last record
}

func (c *copied) saw(r *kgo.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := r.Partition
	by := fmt.Sprintf("producer %d, epoch %d, %s", r.ProducerID, r.ProducerEpoch, r.Timestamp.Format("15:04:05.000"))
	if want := strconv.Itoa(c.next[p]); string(r.Value) != want {
		c.wrong = append(c.wrong, fmt.Sprintf("partition %d has %q at offset %d (%s) where %q is next (after %s)", p, r.Value, r.Offset, by, want, c.last[p]))
	}
	c.next[p]++
	c.last[p] = by
}

func (c *copied) progress() [eosParts]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// past reports that every partition has more than that.
func (c *copied) past(than [eosParts]int) bool {
	for p, n := range c.progress() {
		if n <= than[p] {
			return false
		}
	}
	return true
}

// tell fails the test with what was wrong.
func (c *copied) tell(t *testing.T, what string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.wrong {
		if i == 5 {
			t.Errorf("%s: and %d more", what, len(c.wrong)-i)
			return
		}
		t.Errorf("%s: %s", what, w)
	}
}

// follow reads a topic as far as it is committed, until ctx ends or something is wrong.
func (c *copied) follow(ctx context.Context, t *testing.T, cl *kgo.Client, what string) {
	for ctx.Err() == nil && !c.isWrong() {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { c.saw(r) })
	}
	c.tell(t, what)
}

func (c *copied) isWrong() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.wrong) > 0
}

// A check that finds nothing proves nothing unless it would.
func TestCopiedNotices(t *testing.T) {
	for _, tt := range []struct {
		what   string
		values []string
		wrong  int
	}{
		{"as it is to be", []string{"0", "1", "2"}, 0},
		{"twice", []string{"0", "1", "1"}, 1},
		{"a gap", []string{"0", "2"}, 1},
		{"not in order", []string{"1", "0"}, 2},
		{"aborted", []string{"0", mustNotBeSeen + "1"}, 1},
		{"counted wrongly", []string{"0", "1 is number 3"}, 1},
	} {
		var c copied
		for i, v := range tt.values {
			c.saw(&kgo.Record{Partition: 1, Offset: int64(i), Value: []byte(v)})
		}
		if len(c.wrong) != tt.wrong {
			t.Errorf("%s: %q, want %d of them", tt.what, c.wrong, tt.wrong)
		}
	}
	var c copied
	c.saw(&kgo.Record{Value: []byte("0")})
	if c.past([eosParts]int{}) {
		t.Error("three partitions have nothing new")
	}
}

// logged is what a topic has in the end, besides what is read of it.
type logged struct {
	records, seen      int // all, and those of committed transactions
	notToBeSeen        int // that were aborted on purpose
	committed, aborted int // transactions; at least, where a client does not take a new epoch for each
}

// wantNumbers wants a topic that nobody writes in transactions to have what was sent.
func wantNumbers(t *testing.T, ctx context.Context, client func(...kgo.Opt) *kgo.Client, topic string, sent [eosParts]int) {
	t.Helper()
	var c copied
	cl := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	readTo(t, ctx, cl, closedEnds(t, ctx, kadm.NewClient(cl), topic), func(r *kgo.Record) { c.saw(r) })
	c.tell(t, topic)
	if got := c.progress(); got != sent {
		t.Errorf("%s has %v records, want %v", topic, got, sent)
	}
}

// finally reads a topic to its end, where no transaction may be open, and wants the numbers up
// to what was sent in it, and nothing else.
func finally(t *testing.T, ctx context.Context, client func(...kgo.Opt) *kgo.Client, topic string, sent [eosParts]int) (l logged) {
	t.Helper()
	ends := closedEnds(t, ctx, kadm.NewClient(client()), topic)
	reader := func(opts ...kgo.Opt) *kgo.Client {
		return client(append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())...)
	}
	var c copied
	readTo(t, ctx, reader(kgo.FetchIsolationLevel(kgo.ReadCommitted())), ends, func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			l.seen++
			c.saw(r)
		}
	})
	c.tell(t, topic+" in the end")
	if got := c.progress(); got != sent {
		t.Errorf("%s has %v records in the end, want %v", topic, got, sent)
	}
	m := markers{}
	readTo(t, ctx, reader(), ends, func(r *kgo.Record) {
		switch {
		case r.Attrs.IsControl():
			m.saw(r)
		case strings.HasPrefix(string(r.Value), mustNotBeSeen):
			l.notToBeSeen++
			fallthrough
		default:
			l.records++
		}
	})
	l.committed, l.aborted = m.count(1), m.count(0)
	return l
}

// closedEnds are the ends of the partitions, once no transaction is open on them.
func closedEnds(t *testing.T, ctx context.Context, adm *kadm.Client, topic string) kadm.ListedOffsets {
	t.Helper()
	for open := "it cannot be told"; ; {
		ends, err := adm.ListEndOffsets(ctx, topic)
		stable, err2 := adm.ListCommittedOffsets(ctx, topic)
		if err == nil && err2 == nil && ends.Error() == nil && stable.Error() == nil {
			open = ""
			ends.Each(func(o kadm.ListedOffset) {
				if s, _ := stable.Lookup(topic, o.Partition); s.Offset < o.Offset {
					open += fmt.Sprintf(" partition %d is stable to %d of %d", o.Partition, s.Offset, o.Offset)
				}
			})
			if open == "" {
				return ends
			}
		}
		if !wait(ctx, 100*time.Millisecond) {
			t.Fatalf("a transaction of %s does not end:%s", topic, open)
		}
	}
}

// readTo reads to the ends, of which the last records are markers.
func readTo(t *testing.T, ctx context.Context, cl *kgo.Client, ends kadm.ListedOffsets, each func(*kgo.Record)) {
	t.Helper()
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left++
		}
	})
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d partitions are not read to their ends", left)
		}
		fs.EachRecord(func(r *kgo.Record) {
			each(r)
			if end, _ := ends.Lookup(r.Topic, r.Partition); r.Offset == end.Offset-1 {
				left--
			}
		})
	}
}

// markers counts the ends of transactions, by who wrote them, the outcome, and the partition.
type markers map[txnEnd]map[int32]int

type txnEnd struct {
	id      int64
	epoch   int16
	outcome int16 // 0 is an abort, 1 a commit
}

func (m markers) saw(r *kgo.Record) {
	k := txnEnd{r.ProducerID, r.ProducerEpoch, int16(binary.BigEndian.Uint16(r.Key[2:]))}
	if m[k] == nil {
		m[k] = map[int32]int{}
	}
	m[k][r.Partition]++
}

// count is how many transactions had an outcome. One has at most one marker in a partition.
func (m markers) count(outcome int16) (n int) {
	for k, parts := range m {
		most := 0
		for _, of := range parts {
			most = max(most, of)
		}
		if k.outcome == outcome {
			n += most
		}
	}
	return n
}

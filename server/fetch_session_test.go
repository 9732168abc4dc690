package server

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// sessionClient is a consumer's half of a session over the wire.
type sessionClient struct {
	*client
	version int16
	ids     map[string][16]byte
	max     int32 // of an answer
}

type at struct {
	topic     string
	partition int32
	offset    int64
}

func (c *sessionClient) fetch(id, epoch int32, wait time.Duration, want []at, forget ...at) *kmsg.FetchResponse {
	c.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.SessionID, req.SessionEpoch, req.MinBytes, req.MaxBytes = c.version, id, epoch, 1, 50<<20
	req.MaxWaitMillis = int32(wait.Milliseconds())
	if c.max > 0 {
		req.MaxBytes = c.max
	}
	for _, a := range want {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = a.topic, c.ids[a.topic]
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = a.partition, a.offset, 1<<20, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	for _, a := range forget {
		req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: a.topic, TopicID: c.ids[a.topic], Partitions: []int32{a.partition}})
	}
	return c.ask(req).(*kmsg.FetchResponse)
}

// told lists an answer's partitions: topic, partition, error, records.
func (c *sessionClient) told(resp *kmsg.FetchResponse) (out string) {
	for _, t := range resp.Topics {
		name := t.Topic
		for n, id := range c.ids {
			if c.version >= 13 && id == t.TopicID {
				name = n
			}
		}
		for _, p := range t.Partitions {
			out += fmt.Sprintf("%s%d", name, p.Partition)
			if p.ErrorCode != 0 {
				out += fmt.Sprintf("!%d", p.ErrorCode)
			}
			if len(p.RecordBatches) > 0 {
				out += "+"
			}
			out += " "
		}
	}
	return strings.TrimSpace(out)
}

func (c *client) produceTo(topic string, partition int32, values ...string) {
	c.t.Helper()
	req := produceReq(-1, topic, newBatch(nil, values...))
	req.Topics[0].Partitions[0].Partition = partition
	if code := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		c.t.Fatalf("produce to %s-%d: error %d", topic, partition, code)
	}
}

// F-04: a session is really kept: new data is never left out, what has no news is, what
// is forgotten stays out, and every way to be out of step has its error.
func TestFetchSession(t *testing.T) {
	for _, version := range []int16{7, 11, 12, 13, 18} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			n := startNode(t, t.TempDir())
			w := dial(t, n.Addr())
			c := &sessionClient{client: dial(t, n.Addr()), version: version, ids: map[string][16]byte{}}
			for _, topic := range []string{"a", "b"} {
				c.ids[topic] = w.create(topic, 3)
			}
			check := func(what string, resp *kmsg.FetchResponse, code int16, want string) {
				t.Helper()
				if got := c.told(resp); resp.ErrorCode != code || got != want {
					t.Errorf("%s: error %d, %q; want error %d, %q", what, resp.ErrorCode, got, code, want)
				}
			}
			w.produceTo("b", 0, "v")
			first := c.fetch(0, 0, 0, []at{{"a", 0, 0}, {"a", 1, 0}, {"b", 0, 0}})
			check("full", first, 0, "a0 a1 b0+")
			id := first.SessionID
			if id <= 0 {
				t.Fatalf("session %d", id)
			}
			for _, rt := range first.Topics {
				for _, p := range rt.Partitions {
					if p.HighWatermark < 0 || p.LastStableOffset != p.HighWatermark || version >= 5 && p.LogStartOffset != 0 {
						t.Errorf("a full fetch has high watermark %d, stable offset %d, log start %d", p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
					}
				}
			}
			check("new position of one", c.fetch(id, 1, 0, []at{{"b", 0, 1}}), 0, "")
			w.produceTo("a", 1, "v")
			check("news of one", c.fetch(id, 2, time.Second, nil), 0, "a1+")
			check("not fetched on: the same records again", c.fetch(id, 3, 0, nil), 0, "a1+")
			check("fetched on", c.fetch(id, 4, 0, []at{{"a", 1, 1}}), 0, "")
			check("wrong epoch", c.fetch(id, 8, 0, nil), 71, "")
			check("old epoch", c.fetch(id, 4, 0, nil), 71, "")
			check("unknown session", c.fetch(12345, 1, 0, nil), 70, "")
			check("no session", c.fetch(0, 3, 0, nil), 70, "")

			check("forgotten", c.fetch(id, 5, 0, []at{{"a", 2, 0}}, at{"a", 1, 0}), 0, "a2")
			w.produceTo("a", 1, "forgotten")
			w.produceTo("a", 0, "v")
			check("stays out", c.fetch(id, 6, 0, nil), 0, "a0+")
			check("asked for again", c.fetch(id, 7, 0, []at{{"a", 0, 1}, {"a", 1, 1}}), 0, "a1+")

			check("out of range", c.fetch(id, 8, 0, []at{{"a", 1, 99}}), 0, "a1!1")
			check("still out of range", c.fetch(id, 9, 0, nil), 0, "a1!1")
			check("in range: told again without records", c.fetch(id, 10, 0, []at{{"a", 1, 2}}), 0, "a1")
			check("and no more", c.fetch(id, 11, 0, nil), 0, "")

			deleteTopic(t, w, "b")
			want, wrong := "b0!3", int16(13)
			if version >= 13 {
				want, wrong = "b0!100", 12
			}
			check("topic deleted", c.fetch(id, 12, 0, nil), 0, want)
			w.create("b", 3)
			if version >= 13 { // the ID asked for stays the old one's
				check("topic made anew", c.fetch(id, 13, 0, nil), 0, "b0!100")
			} else {
				check("topic made anew", c.fetch(id, 13, 0, []at{{"b", 0, 0}}), 0, "b0")
			}
			c.version, version = wrong, wrong
			check("named in the other way", c.fetch(id, 14, 0, nil), 106, "")
			c.version = 25 - wrong
			check("all forgotten ends it", c.fetch(id, 14, 0, nil, at{"a", 0, 0}, at{"a", 1, 0}, at{"a", 2, 0}, at{"b", 0, 0}), 0, "")
			check("ended", c.fetch(id, 15, 0, nil), 70, "")

			second := c.fetch(0, 0, 0, []at{{"a", 0, 0}})
			third := c.fetch(second.SessionID, 0, 0, []at{{"a", 0, 0}}) // replaces the second
			check("replaced", c.fetch(second.SessionID, 1, 0, nil), 70, "")
			last := c.fetch(third.SessionID, -1, 0, []at{{"a", 0, 0}})
			check("final", last, 0, "a0+")
			if last.SessionID != 0 {
				t.Errorf("a final fetch has session %d", last.SessionID)
			}
			check("ended by the final", c.fetch(third.SessionID, 1, 0, nil), 70, "")
			if none := c.fetch(0, 0, 0, nil); none.SessionID != 0 || none.ErrorCode != 0 {
				t.Errorf("a session of nothing: %d, error %d", none.SessionID, none.ErrorCode)
			}
		})
	}
}

func deleteTopic(t *testing.T, c *client, name string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 5000, []string{name}
	if code := c.ask(req).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("delete %s: error %d", name, code)
	}
}

// A long poll inside a session is woken by a partition that only the session names,
// and requests that are sent ahead are taken one after another.
func TestFetchSessionPollAndPipeline(t *testing.T) {
	n := startNode(t, t.TempDir())
	w := dial(t, n.Addr())
	c := &sessionClient{client: dial(t, n.Addr()), version: 12}
	w.create("a", 2)
	id := c.fetch(0, 0, 0, []at{{"a", 0, 0}, {"a", 1, 0}}).SessionID
	ahead := func(epoch int32) {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.SessionID, req.SessionEpoch, req.MinBytes, req.MaxBytes, req.MaxWaitMillis = 12, id, epoch, 1, 1<<20, 600_000
		c.send(req)
	}
	ahead(1)
	ahead(2)
	time.Sleep(20 * time.Millisecond)
	w.produceTo("a", 1, "v")
	for range 2 {
		_, b := c.receive()
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 12
		c.decode(resp, b)
		if got := c.told(resp); got != "a1+" || resp.ErrorCode != 0 {
			t.Errorf("error %d, %q", resp.ErrorCode, got)
		}
	}
}

// Under a limit that lets one partition through at a time, each has its turn.
func TestFetchSessionStarvesNobody(t *testing.T) {
	n := startNode(t, t.TempDir())
	w := dial(t, n.Addr())
	c := &sessionClient{client: dial(t, n.Addr()), version: 12, max: 1}
	w.create("a", 5)
	var all []at
	for p := range int32(5) {
		w.produceTo("a", p, "one")
		w.produceTo("a", p, "two")
		all = append(all, at{"a", p, 0})
	}
	resp := c.fetch(0, 0, 0, all)
	id, seen, next := resp.SessionID, map[int32]int{}, all[:0:0]
	for epoch := int32(1); epoch <= 10; epoch++ {
		resp = c.fetch(id, epoch, 0, next)
		next = nil
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				if len(p.RecordBatches) > 0 {
					seen[p.Partition]++ // at the same offset again: somebody else's turn comes all the same
				}
			}
		}
	}
	for p := range int32(5) {
		if seen[p] != 2 {
			t.Fatalf("served in ten rounds: %v", seen)
		}
	}
}

// F-04: 2,000 sessions evict one another by Kafka's rule. Who has none is served all
// the same, and one in use that has lived short is not taken away.
func TestFetchSessionsEvict(t *testing.T) {
	n := startNode(t, t.TempDir(), "max.incremental.fetch.session.cache.slots=1000", "min.incremental.fetch.session.eviction.ms=300")
	c := &sessionClient{client: dial(t, n.Addr()), version: 12}
	c.create("a", 1)
	var ids []int32
	got, without := 0, 0
	for i := range 2000 {
		resp := c.fetch(0, 0, 0, []at{{"a", 0, 0}})
		if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].HighWatermark != 0 {
			t.Fatalf("fetch %d: %+v", i, resp)
		}
		if resp.SessionID == 0 {
			without++
		} else {
			got++
			ids = append(ids, resp.SessionID)
		}
	}
	if n := len(n.server.fetches.mu.sessions); n != 1000 || got < 1000 {
		t.Errorf("%d sessions are kept; %d were given, %d not", n, got, without)
	}
	time.Sleep(310 * time.Millisecond) // now all of them are stale
	resp := c.fetch(0, 0, 0, []at{{"a", 0, 0}})
	if resp.SessionID == 0 {
		t.Error("no session although others are stale")
	}
	if code := c.fetch(resp.SessionID, 1, 0, nil).ErrorCode; code != 0 {
		t.Errorf("error %d in the newest session", code)
	}
	oldest := ids[len(ids)-1000]
	if code := c.fetch(oldest, 1, 0, nil).ErrorCode; code != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("error %d in the evicted session", code)
	}
}

// The rule itself, against a clock.
func TestFetchCacheEviction(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newFetchCache(2, time.Minute)
	c.now = func() time.Time { return now }
	offer := func(size int, privileged bool) *fetchSession {
		s := newSession(false, privileged, fakeFetches(size))
		c.offer(s)
		return s
	}
	used := func(s *fetchSession) {
		t.Helper()
		req := &kmsg.FetchRequest{Version: 12, SessionID: s.id, SessionEpoch: s.mu.epoch}
		if _, _, err := c.next(req); err != nil {
			t.Fatal(err)
		}
	}
	a, b := offer(5, false), offer(3, false)
	if a.id == 0 || b.id == 0 || offer(100, false).id != 0 {
		t.Fatal("two slots take two sessions, young ones are not evicted")
	}
	now = now.Add(61 * time.Second)
	used(a)
	used(b) // both are old and in use now
	if offer(3, false).id != 0 {
		t.Error("a newcomer that is worth as much evicts nobody")
	}
	d := offer(4, false)
	if d.id == 0 || c.mu.sessions[b.id] != nil || c.mu.sessions[a.id] == nil {
		t.Error("the smallest is evicted for a larger one")
	}
	p := offer(1, true)
	if p.id == 0 || c.mu.sessions[d.id] != nil {
		t.Error("a broker's evicts the smallest consumer's, however young")
	}
	if offer(1000, false).id == 0 || c.mu.sessions[a.id] != nil || c.mu.sessions[p.id] == nil {
		t.Error("a consumer's evicts the old consumer's")
	}
	now = now.Add(61 * time.Second)
	if offer(1, false).id == 0 || c.mu.sessions[p.id] != nil {
		t.Error("whoever is stale goes first")
	}
	if c.mu.evictions != 4 || c.mu.partitions != 1001 || c.mu.used.Len() != 2 || len(c.mu.evictable[byPrivileged].all) != 2 {
		t.Errorf("%d evictions, %d partitions, %d used, %d evictable", c.mu.evictions, c.mu.partitions, c.mu.used.Len(), len(c.mu.evictable[byPrivileged].all))
	}
	if newFetchCache(0, 0); offerTo(newFetchCache(0, 0), 1) != 0 {
		t.Error("no slots, no sessions")
	}
	if offerTo(newFetchCache(9, 0), maxCachedPartitions+1) != 0 {
		t.Error("more than the cache may hold")
	}
}

func offerTo(c *fetchCache, size int) int32 {
	s := newSession(false, false, fakeFetches(size))
	c.offer(s)
	return s.id
}

func fakeFetches(n int) []fetchFrom {
	from := make([]fetchFrom, n)
	for i := range from {
		from[i].fetchKey = fetchKey{name: "topic", partition: int32(i)}
	}
	return from
}

func TestFetchSessionEpochs(t *testing.T) {
	for from, want := range map[int32]int32{0: 1, 1: 2, math.MaxInt32 - 1: math.MaxInt32, math.MaxInt32: 1, -1: -1} {
		if got := nextEpoch(from); got != want {
			t.Errorf("after %d comes %d, want %d", from, got, want)
		}
	}
	c := newFetchCache(1, time.Minute)
	s := newSession(true, false, fakeFetches(1))
	c.offer(s)
	s.mu.epoch = math.MaxInt32
	req := &kmsg.FetchRequest{Version: 13, SessionID: s.id, SessionEpoch: math.MaxInt32}
	got, from, err := c.next(req)
	if err != nil || s.mu.epoch != 1 {
		t.Fatalf("%v, epoch %d", err, s.mu.epoch)
	}
	if err := got.answered(math.MaxInt32, from); err != nil {
		t.Error(err)
	}
	if err := got.answered(7, from); !errors.Is(err, kerr.InvalidFetchSessionEpoch) {
		t.Errorf("an answer after another request: %v", err)
	}
}

// A session takes about 200 bytes a partition.
func TestFetchSessionMemory(t *testing.T) {
	const sessions, partitions = 200, 100
	c := newFetchCache(sessions, time.Minute)
	from := fakeFetches(partitions)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range sessions {
		c.offer(newSession(true, false, from))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int64(after.HeapAlloc-before.HeapAlloc) / sessions
	t.Logf("a session of %d partitions takes %d bytes", partitions, each)
	if each > 350*partitions {
		t.Errorf("a session of %d partitions takes %d bytes", partitions, each)
	}
	runtime.KeepAlive(c)
}

// A session against a model that remembers everything: whatever a client adds, changes,
// forgets, and whatever happens to partitions, it knows as much as by full fetches.
func TestFetchSessionAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type state struct{ high, start int64 }
		world := map[int32]state{}
		cache := newFetchCache(1, time.Minute)
		model := map[int32]fetchParams{} // what the client believes the session has
		known := map[int32]state{}
		serve := func(from []fetchFrom) {
			for i := range from {
				w := world[from[i].partition]
				from[i].out.HighWatermark, from[i].out.LogStartOffset = w.high, w.start
				from[i].out.RecordBatches = make([]byte, max(0, min(10, w.high-from[i].offset)))
			}
		}
		var s *fetchSession
		for range 30 {
			for p := range int32(4) {
				if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
					w := world[p]
					world[p] = state{w.high + rapid.Int64Range(0, 2).Draw(t, "high"), w.start + rapid.Int64Range(0, 1).Draw(t, "start")}
				}
			}
			req := &kmsg.FetchRequest{Version: 12}
			topic := kmsg.FetchRequestTopic{Topic: "t"}
			ask := func(p int32) {
				f := fetchParams{rapid.Int64Range(0, 60).Draw(t, "offset"), 1, -1}
				model[p] = f
				topic.Partitions = append(topic.Partitions, kmsg.FetchRequestTopicPartition{Partition: p, FetchOffset: f.offset, PartitionMaxBytes: 1, CurrentLeaderEpoch: -1})
			}
			for p := range int32(4) {
				switch rapid.IntRange(0, 5).Draw(t, "do") {
				case 0, 1:
					ask(p)
				case 2:
					if _, ok := model[p]; ok && s != nil {
						req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: "t", Partitions: []int32{p}})
						delete(model, p)
						delete(known, p)
					}
				}
			}
			if len(model) == 0 {
				ask(9) // one that is not forgotten by the same request
			}
			req.Topics = append(req.Topics, topic)
			var from []fetchFrom
			if s == nil {
				eachAsked(req, func(k fetchKey, p fetchParams) { from = append(from, fetchFrom{fetchKey: k, fetchParams: p}) })
				serve(from)
				s = newSession(false, false, from)
				cache.offer(s)
			} else {
				req.SessionID, req.SessionEpoch = s.id, s.mu.epoch
				var err error
				if _, from, err = cache.next(req); err != nil {
					t.Fatal(err)
				}
				serve(from)
				if err := s.answered(req.SessionEpoch, from); err != nil {
					t.Fatal(err)
				}
			}
			if len(from) != len(model) {
				t.Fatalf("%d partitions are fetched, want %d", len(from), len(model))
			}
			for i := range from {
				f := &from[i]
				if f.fetchParams != model[f.partition] {
					t.Fatalf("partition %d is fetched with %+v, want %+v", f.partition, f.fetchParams, model[f.partition])
				}
				if f.unchanged && f.bytes() > 0 {
					t.Fatalf("records of partition %d are left out", f.partition)
				}
				if !f.unchanged {
					known[f.partition] = state{f.out.HighWatermark, f.out.LogStartOffset}
				}
				if known[f.partition] != world[f.partition] {
					t.Fatalf("the client knows %+v of partition %d, it is %+v", known[f.partition], f.partition, world[f.partition])
				}
			}
		}
	})
}

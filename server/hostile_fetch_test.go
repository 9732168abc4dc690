package server

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

func many(topic string, from, n int) (out []at) {
	for i := range n {
		out = append(out, at{topic, int32(from + i), 0})
	}
	return out
}

// Nothing is remembered of who fetches partitions by the thousand that there are not.
func TestHostileFetchSession(t *testing.T) {
	for _, version := range []int16{12, 13} {
		n := startNode(t, t.TempDir())
		c := &sessionClient{client: dial(t, n.Addr()), version: version, ids: map[string][16]byte{"none": {1, 2, 3}}}
		c.ids["a"] = c.create("a", 1)
		cached := func() int {
			n.server.fetches.mu.Lock()
			defer n.server.fetches.mu.Unlock()
			return n.server.fetches.mu.partitions
		}
		if id := c.fetch(0, 0, 0, many("none", 0, mostUnfetchable+1)).SessionID; id != 0 || cached() != 0 {
			t.Errorf("version %d: a session of none: %d, %d partitions are remembered", version, id, cached())
		}
		resp := c.fetch(0, 0, 0, append(many("none", 0, mostUnfetchable), at{"a", 0, 0}))
		if resp.SessionID == 0 || cached() != mostUnfetchable+1 {
			t.Fatalf("version %d: some that there are not: %+v, %d partitions", version, resp.SessionID, cached())
		}
		if got := c.fetch(resp.SessionID, 1, 0, many("none", mostUnfetchable, 5000)); got.ErrorCode != 0 || cached() != 0 {
			t.Errorf("version %d: more of them: error %d, %d partitions are remembered", version, got.ErrorCode, cached())
		}
		if code := c.fetch(resp.SessionID, 2, 0, nil).ErrorCode; code != kerr.FetchSessionIDNotFound.Code {
			t.Errorf("version %d: then: error %d", version, code)
		}
	}
}

// A tenant that has all the sessions that it gets leaves room for others.
func TestHostileFetchTenants(t *testing.T) {
	c := newFetchCache(1000, time.Minute)
	offer := func(tenant string, n int) bool {
		s := newSession(true, false, fakeFetches(n))
		s.tenant = tenant
		c.offer(s)
		return s.id != 0
	}
	for _, greedy := range []string{"a", "b"} {
		for n := 1 << 17; n > 0; n /= 2 {
			for offer(greedy, n) {
			}
		}
		if !offer("other of "+greedy, 10_000) {
			t.Errorf("%d partitions of %s, %d in all: another has no session", c.mu.of[greedy], greedy, c.mu.partitions)
		}
	}
	for _, s := range c.mu.sessions {
		c.drop(s)
	}
	if c.mu.partitions != 0 || len(c.mu.of) != 0 {
		t.Errorf("%d partitions, of %v", c.mu.partitions, c.mu.of)
	}
}

// A session remembers no name that no topic can have, and takes no more room than what is counted
// of it: neither for what was named twice, nor for what was forgotten.
func TestHostileFetchNames(t *testing.T) {
	long := strings.Repeat("x", projections.MaxTopicName+1)
	n := startNode(t, t.TempDir())
	c := &sessionClient{client: dial(t, n.Addr()), version: 12}
	c.create("a", 1)
	if resp := c.fetch(0, 0, 0, []at{{"a", 0, 0}, {long, 0, 0}}); resp.SessionID != 0 || c.told(resp) != "a0 "+long+"0!3" {
		t.Errorf("session %d, %.100s", resp.SessionID, c.told(resp))
	}
	if resp := c.fetch(0, 0, 0, []at{{"a", 0, 0}, {long[1:], 0, 0}}); resp.SessionID == 0 {
		t.Error("the longest name that a topic can have takes the session away")
	}
	id := c.fetch(0, 0, 0, []at{{"a", 0, 0}}).SessionID
	if code := c.fetch(id, 1, 0, []at{{long, 0, 0}}).ErrorCode; code != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("a session takes in a name of %d bytes: error %d", len(long), code)
	}
	if code := c.fetch(id, 2, 0, nil).ErrorCode; code != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("then: error %d", code)
	}
}

func TestHostileFetchRoom(t *testing.T) {
	fits := func(what string, s *fetchSession) {
		t.Helper()
		if n := len(s.mu.order); cap(s.mu.order) > 2*n+fewRemembered || s.mu.most > 2*n+fewRemembered {
			t.Errorf("%s: %d partitions, with room for %d and %d", what, n, cap(s.mu.order), s.mu.most)
		}
	}
	same := make([]fetchFrom, 10_000)
	for i := range same {
		same[i].fetchKey = fetchKey{name: "topic", partition: int32(i % 2)}
	}
	s := newSession(false, false, same)
	fits("named twice", s)

	cache := newFetchCache(1, time.Minute)
	s = newSession(false, false, fakeFetches(10_000))
	cache.offer(s)
	forget := func(from int) *kmsg.FetchRequest {
		req := &kmsg.FetchRequest{Version: 12, SessionID: s.id, SessionEpoch: s.mu.epoch}
		gone := kmsg.FetchRequestForgottenTopic{Topic: "topic"}
		for i := from; i < 10_000; i++ {
			gone.Partitions = append(gone.Partitions, int32(i))
		}
		req.ForgottenTopics = append(req.ForgottenTopics, gone)
		return req
	}
	for _, req := range []*kmsg.FetchRequest{forget(2), forget(2)} {
		topic := kmsg.FetchRequestTopic{Topic: "topic"}
		for _, n := range req.ForgottenTopics[0].Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.FetchRequestTopicPartition{Partition: n, FetchOffset: 5})
		}
		req.Topics = append(req.Topics, topic)
		req.SessionEpoch = s.mu.epoch
		_, from, err := cache.next(req)
		if err != nil || len(from) != 2 {
			t.Fatalf("%d partitions are left, %v", len(from), err)
		}
		fits("forgotten", s)
		for i := range from {
			if f := &from[i]; f.session != s.mu.parts[f.fetchKey] {
				t.Errorf("%+v is not the session's", f.fetchKey)
			}
		}
	}
}

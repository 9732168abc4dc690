package server

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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

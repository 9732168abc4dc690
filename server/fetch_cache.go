package server

import (
	"cmp"
	"container/heap"
	"container/list"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxCachedPartitions bounds what all sessions together remember, at about 200 bytes
// each and its name, which is one that a topic can have. A consumer beyond it does without a
// session.
const maxCachedPartitions = 1 << 20

// shareOfFetches is how many times what is left over of them a tenant may have.
const shareOfFetches = 2

// mostUnfetchable bounds the partitions of a session that there are not, or that its client
// may not read. Whoever has more goes without: each answer names all of them.
const mostUnfetchable = 1000

// fetchCache holds the sessions of all connections, a bounded number. Who comes when it
// is full gets in if a session has not been used for evictAfter, else if one is worth
// less: it has lived for evictAfter (or is a consumer's where a broker asks) and has
// fewer partitions than the newcomer.
type fetchCache struct {
	slots      int
	evictAfter time.Duration
	now        func() time.Time

	mu struct {
		sync.Mutex
		sessions   map[int32]*fetchSession
		used       list.List // of *fetchSession, that used longest ago first
		evictable  [2]sessionHeap
		partitions int
		of         map[string]int // of those, by tenant
		evictions  int
	}
}

// Which sessions a newcomer may take the place of.
const (
	byAll        = iota // those that have lived for evictAfter
	byPrivileged        // these, and all that are not privileged
)

func newFetchCache(slots int, evictAfter time.Duration) *fetchCache {
	c := &fetchCache{slots: slots, evictAfter: evictAfter, now: time.Now}
	c.mu.sessions, c.mu.of = map[int32]*fetchSession{}, map[string]int{}
	for i := range c.mu.evictable {
		c.mu.evictable[i].which = i
	}
	return c
}

// offer takes a session in and gives it its ID, or leaves it with ID 0.
func (c *fetchCache) offer(s *fetchSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	s.created, s.cached.size = now, len(s.mu.order)
	s.cached.heaps = [2]int{-1, -1}
	if s.mu.alien || s.unfetchable() > mostUnfetchable || !c.room(s.tenant, s.cached.size) || len(c.mu.sessions) >= c.slots && !c.evictFor(s, now) {
		return
	}
	for s.id == 0 || c.mu.sessions[s.id] != nil {
		s.id = rand.Int32()
	}
	c.mu.sessions[s.id] = s
	s.cached.used = c.mu.used.PushBack(s)
	c.count(s.tenant, s.cached.size)
	c.touch(s, now)
}

// room reports whether a tenant may have more partitions: whoever has many leaves some to
// others. The caller holds c.mu.
func (c *fetchCache) room(tenant string, more int) bool {
	return c.mu.of[tenant]+more <= shareOfFetches*(maxCachedPartitions-c.mu.partitions-more)
}

// count notes how many partitions more a tenant has. The caller holds c.mu.
func (c *fetchCache) count(tenant string, more int) {
	c.mu.partitions += more
	if c.mu.of[tenant] += more; c.mu.of[tenant] == 0 {
		delete(c.mu.of, tenant)
	}
}

// evictFor makes room for a newcomer, if somebody may be evicted for it.
func (c *fetchCache) evictFor(s *fetchSession, now time.Time) bool {
	var victim *fetchSession
	if oldest := c.mu.used.Front(); oldest == nil {
		return false
	} else if o := oldest.Value.(*fetchSession); now.Sub(o.cached.at) > c.evictAfter {
		victim = o
	} else {
		h := &c.mu.evictable[byAll]
		if s.privileged {
			h = &c.mu.evictable[byPrivileged]
		}
		if len(h.all) == 0 || compareWorth(s, h.all[0]) < 0 {
			return false
		}
		victim = h.all[0]
	}
	c.drop(victim)
	c.mu.evictions++
	return true
}

// compareWorth orders sessions by what is lost with them.
func compareWorth(a, b *fetchSession) int {
	if a.privileged != b.privileged {
		if a.privileged {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.cached.size, b.cached.size), cmp.Compare(a.id, b.id))
}

// touch notes that a session is used. The caller holds c.mu.
func (c *fetchCache) touch(s *fetchSession, now time.Time) {
	s.cached.at = now
	c.mu.used.MoveToBack(s.cached.used)
	old := now.Sub(s.created) > c.evictAfter
	c.mu.evictable[byAll].place(s, old)
	c.mu.evictable[byPrivileged].place(s, old || !s.privileged)
}

// drop takes a session out. The caller holds c.mu.
func (c *fetchCache) drop(s *fetchSession) {
	delete(c.mu.sessions, s.id)
	c.mu.used.Remove(s.cached.used)
	s.cached.used = nil
	c.count(s.tenant, -s.cached.size)
	for i := range c.mu.evictable {
		c.mu.evictable[i].place(s, false)
	}
}

// remove ends a session, if there is one of that ID.
func (c *fetchCache) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.mu.sessions[id]; s != nil {
		c.drop(s)
	}
}

// next takes in an incremental request, and returns the session and all that it is
// about. A request that leaves nothing in its session ends it: then both are nil. Errors are
// FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH and FETCH_SESSION_TOPIC_ID_ERROR.
func (c *fetchCache) next(req *kmsg.FetchRequest) (*fetchSession, []fetchFrom, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.sessions[req.SessionID]
	if s == nil {
		return nil, nil, kerr.FetchSessionIDNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.epoch != req.SessionEpoch:
		return nil, nil, kerr.InvalidFetchSessionEpoch
	case s.byID != (req.Version >= 13):
		return nil, nil, kerr.FetchSessionTopicIDError
	}
	s.update(req)
	n := len(s.mu.order)
	grown := n - s.cached.size
	fits := grown <= 0 || c.room(s.tenant, grown)
	c.count(s.tenant, grown)
	s.cached.size = n
	if n == 0 {
		c.drop(s)
		return nil, nil, nil
	}
	if !fits || s.mu.alien {
		c.drop(s) // its client starts over
		return nil, nil, kerr.FetchSessionIDNotFound
	}
	c.touch(s, c.now())
	s.mu.epoch = nextEpoch(s.mu.epoch)
	return s, s.fetches(), nil
}

// metrics are called as Kafka's JMX exporter calls them.
func (c *fetchCache) metrics() []prometheus.Collector {
	gauge := func(name, help string, v func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kafka_server_fetchsessioncache_" + name, Help: help}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(v())
		})
	}
	return []prometheus.Collector{
		gauge("numincrementalfetchsessions", "Fetch sessions.", func() int { return len(c.mu.sessions) }),
		gauge("numincrementalfetchpartitionscached", "Partitions in fetch sessions.", func() int { return c.mu.partitions }),
		gauge("incrementalfetchsessionevictions_total", "Fetch sessions evicted for others.", func() int { return c.mu.evictions }),
	}
}

// sessionHeap has the session first that is evicted first.
type sessionHeap struct {
	which int // of a session's two places
	all   []*fetchSession
}

// place puts a session where it belongs now, or takes it out.
func (h *sessionHeap) place(s *fetchSession, in bool) {
	switch at := s.cached.heaps[h.which]; {
	case at < 0 && in:
		heap.Push(h, s)
	case at >= 0 && in:
		heap.Fix(h, at)
	case at >= 0:
		heap.Remove(h, at)
	}
}

func (h *sessionHeap) Len() int           { return len(h.all) }
func (h *sessionHeap) Less(i, j int) bool { return compareWorth(h.all[i], h.all[j]) < 0 }

func (h *sessionHeap) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].cached.heaps[h.which], h.all[j].cached.heaps[h.which] = i, j
}

// Push implements heap.Interface.
func (h *sessionHeap) Push(x any) {
	s := x.(*fetchSession)
	s.cached.heaps[h.which] = len(h.all)
	h.all = append(h.all, s)
}

// Pop implements heap.Interface.
func (h *sessionHeap) Pop() any {
	last := len(h.all) - 1
	s := h.all[last]
	h.all[last] = nil
	h.all = h.all[:last]
	s.cached.heaps[h.which] = -1
	return s
}

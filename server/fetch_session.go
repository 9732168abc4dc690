package server

import (
	"container/list"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// fetchKey names a partition as the client does: by name up to version 12 (id is zero
// then), by ID above (name is empty then).
type fetchKey struct {
	name      string
	id        [16]byte
	partition int32
}

// fetchParams is what a client asks of a partition.
type fetchParams struct {
	offset   int64
	maxBytes int32
	epoch    int32 // what it believes to be the leader epoch, -1 if nothing
}

// sessionPartition is one partition of a session. high and start are what the client
// was last told of it; -1 makes sure that it is told again.
type sessionPartition struct {
	fetchKey
	fetchParams
	high, start int64
	forgotten   bool
	unfetchable bool // there is none, or the client may not read it
}

// fetchSession remembers what a consumer fetches, so that a request has to name only
// what is different from the one before, and an answer likewise (KIP-227).
type fetchSession struct {
	id         int32
	byID       bool // topics are named by ID
	privileged bool // a broker's: evicted after consumers'
	created    time.Time
	tenant     string // who has it

	mu struct { // the cache's mutex may be held around it, nothing else
		sync.Mutex
		epoch int32 // of the next request
		parts map[fetchKey]*sessionPartition
		order []*sessionPartition // those that were served longest ago first
		most  int                 // partitions that there were since room was made for so many
		alien bool                // one has a name that no topic has
	}

	cached cachedSession // the cache's
}

// nextEpoch counts requests of a session; 0 and below have meanings of their own.
func nextEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return -1
	case epoch == math.MaxInt32:
		return 1
	}
	return epoch + 1
}

// eachAsked calls f for every partition that a request names.
func eachAsked(req *kmsg.FetchRequest, f func(fetchKey, fetchParams)) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			f(keyOf(req.Version, t.Topic, t.TopicID, p.Partition), fetchParams{p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch})
		}
	}
}

func keyOf(version int16, name string, id [16]byte, partition int32) fetchKey {
	if version >= 13 {
		return fetchKey{id: id, partition: partition}
	}
	return fetchKey{name: name, partition: partition}
}

// update takes in a request's changes. The caller holds mu.
func (s *fetchSession) update(req *kmsg.FetchRequest) {
	eachAsked(req, func(k fetchKey, p fetchParams) {
		if have := s.mu.parts[k]; have != nil {
			have.fetchParams = p
			return
		}
		s.add(&sessionPartition{fetchKey: k, fetchParams: p, high: -1, start: -1})
	})
	gone := false
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, n := range t.Partitions {
			k := keyOf(req.Version, t.Topic, t.TopicID, n)
			if p := s.mu.parts[k]; p != nil {
				delete(s.mu.parts, k)
				p.forgotten, gone = true, true
			}
		}
	}
	if gone {
		s.reorder(func(p *sessionPartition) (stays, last bool) { return !p.forgotten, false })
		s.shrink()
	}
}

func (s *fetchSession) add(p *sessionPartition) {
	s.mu.parts[p.fetchKey] = p
	s.mu.order = append(s.mu.order, p)
	s.mu.most = max(s.mu.most, len(s.mu.order))
	s.mu.alien = s.mu.alien || len(p.name) > projections.MaxTopicName
}

// fewRemembered partitions are not worth to be moved.
const fewRemembered = 64

// shrink gives back what a session holds beyond twice of what it remembers, which is all that is
// counted of it. The caller holds mu, and no partition of the session.
func (s *fetchSession) shrink() {
	n := len(s.mu.order)
	if s.mu.most <= 2*n+fewRemembered {
		return
	}
	all := make([]sessionPartition, n)
	parts, order := make(map[fetchKey]*sessionPartition, n), make([]*sessionPartition, n)
	for i, p := range s.mu.order {
		all[i] = *p
		parts[p.fetchKey], order[i] = &all[i], &all[i]
	}
	s.mu.parts, s.mu.order, s.mu.most = parts, order, n
}

// reorder takes out what does not stay and moves to the end what is last.
func (s *fetchSession) reorder(where func(*sessionPartition) (stays, last bool)) {
	var ends []*sessionPartition
	order := s.mu.order[:0]
	for _, p := range s.mu.order {
		switch stays, last := where(p); {
		case !stays:
		case last:
			ends = append(ends, p)
		default:
			order = append(order, p)
		}
	}
	clear(s.mu.order[len(order):])
	s.mu.order = append(order, ends...)
}

// fetches are the session's partitions as a request's, in the order they are served.
func (s *fetchSession) fetches() []fetchFrom {
	from := make([]fetchFrom, len(s.mu.order))
	for i, p := range s.mu.order {
		from[i] = fetchFrom{fetchKey: p.fetchKey, fetchParams: p.fetchParams, session: p}
	}
	return from
}

// answered notes what a request with the given epoch is answered, and marks what the
// answer leaves out: partitions of which there is no news. What has records goes to the
// end, so that under small limits everybody's turn comes. It fails if another request
// of the session came in between.
func (s *fetchSession) answered(epoch int32, from []fetchFrom) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch != nextEpoch(epoch) {
		return kerr.InvalidFetchSessionEpoch
	}
	served := map[*sessionPartition]bool{}
	for i := range from {
		f := &from[i]
		f.unchanged = !f.session.tell(f)
		if f.bytes() > 0 {
			served[f.session] = true
		}
	}
	if len(served) > 0 {
		s.reorder(func(p *sessionPartition) (stays, last bool) { return true, served[p] })
	}
	return nil
}

// tell notes an answer, and reports whether it has anything that the client does not know.
func (p *sessionPartition) tell(f *fetchFrom) (news bool) {
	news = f.bytes() > 0 || f.out.ErrorCode != 0 || p.high != f.out.HighWatermark || p.start != f.out.LogStartOffset
	p.high, p.start = f.out.HighWatermark, f.out.LogStartOffset
	if f.out.ErrorCode != 0 {
		p.high = -1 // so that the end of the error is news too
	}
	p.unfetchable = f.found.looked && (f.found.topic == nil || f.out.ErrorCode == kerr.TopicAuthorizationFailed.Code || f.out.ErrorCode == kerr.UnknownTopicOrPartition.Code)
	return news
}

// unfetchable is how many partitions of the session cannot be fetched.
func (s *fetchSession) unfetchable() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.mu.order {
		if p.unfetchable {
			n++
		}
	}
	return n
}

// newSession makes the session that a full request asks for, with its answer.
func newSession(byID, privileged bool, from []fetchFrom) *fetchSession {
	s := &fetchSession{byID: byID, privileged: privileged}
	s.mu.epoch = nextEpoch(0)
	s.mu.parts = make(map[fetchKey]*sessionPartition, len(from))
	s.mu.order = make([]*sessionPartition, 0, len(from))
	s.mu.most = len(from)
	all := make([]sessionPartition, len(from))
	for i := range from {
		f := &from[i]
		p := s.mu.parts[f.fetchKey]
		if p == nil {
			p = &all[i]
			p.fetchKey = f.fetchKey
			s.add(p)
		}
		p.fetchParams = f.fetchParams
		p.tell(f)
	}
	s.shrink()
	return s
}

// fetchFrom is one partition that a request is about, named or remembered.
type fetchFrom struct {
	fetchKey
	fetchParams
	session   *sessionPartition // nil without a session
	unchanged bool              // the answer leaves it out

	found fetchTarget
	out   kmsg.FetchResponseTopicPartition
	recs  *partition.Region // records that stay in their file until they are sent
}

func (f *fetchFrom) bytes() int {
	if f.recs != nil {
		return int(f.recs.Size())
	}
	return len(f.out.RecordBatches)
}

// cachedSession is what the cache knows of a session; its mutex guards it.
type cachedSession struct {
	used  *list.Element // nil once out of the cache
	at    time.Time     // when it was last used
	size  int           // partitions, as of then
	heaps [2]int        // its places in the cache's heaps, -1 if not in it
}

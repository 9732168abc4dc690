package server

// Fetch, key 1, versions 4 to 18.
//
// Consumers may keep a session (KIP-227): from version 7 on, session epoch 0 asks for
// one, -1 does without or ends one. Requests of one session are taken in the order of
// the wire. Topics are named by ID from version 13; an ID that is not known (any more)
// gets UNKNOWN_TOPIC_ID under that ID. INCONSISTENT_TOPIC_ID cannot come about: a name
// and an ID never come in one request.
//
// A consumer that is above its quota is answered with nothing, as if there were nothing, and
// no session is opened or changed.
//
// The first batch found is sent even if it is larger than asked for (KIP-74). An answer
// comes at once if there is an error to tell, but a topic that was not known from the
// start does not keep the others from waiting for records. Answers rest on a Check no
// older than a second. With isolation level 1 records end at the last stable offset, and the
// aborted transactions among them are listed by first offset; with 0 that list is null.
// A consumer is never told an error code that the Java client does
// not know for Fetch. NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH carry the leader from
// version 12, if it lives, and its address from version 16.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var fetchAPI = api{key: kmsg.Fetch, min: 4, max: 18, access: checks(right{acl.Read, acl.Topic}, right{acl.ClusterAction, acl.Cluster}), start: (*Server).fetch}

// noRecords is an empty answer; librdkafka takes a null one for damage.
var noRecords = []byte{}

const readCommitted = 1 // isolation level

const (
	fetchMaxAge  = time.Second
	maxFetchWait = 5 * time.Minute
)

// fetchCall is one request on its way.
type fetchCall struct {
	s       *Server
	asker   *request
	conn    *conn
	turn    <-chan struct{}
	req     *kmsg.FetchRequest
	resp    *fetchAnswer
	view    *projections.Cluster
	session *fetchSession // of an incremental request
	from    []fetchFrom   // in the order they are served

	allowed fetchAllowed

	minBytes, maxBytes int
	committed          bool // the isolation level is read_committed
}

// fetchTarget is where a partition was found.
type fetchTarget struct {
	topic   *projections.Topic
	part    *partition.Partition // nil if there is an error in the answer already
	unknown bool                 // as a topic; from the start, if looked is false
	looked  bool
	place   partition.Place // if located; else the offset alone
	located bool
}

func (s *Server) fetch(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.FetchRequest)
	if req.Version < 7 {
		req.SessionID, req.SessionEpoch = 0, -1
	}
	c := &fetchCall{s: s, asker: r, conn: r.conn, turn: r.turn, req: req, resp: newFetchAnswer(r.version, s.answers)}
	c.maxBytes = int(min(int64(max(req.MaxBytes, 0)), s.cfg.FetchMaxBytes))
	if q := s.quotas(); q != nil {
		c.maxBytes = min(c.maxBytes, s.quota.Most(q, r.client()))
	}
	c.minBytes = min(int(req.MinBytes), c.maxBytes)
	c.committed = req.IsolationLevel == readCommitted
	return later(c.wait)
}

func (c *fetchCall) wait(ctx context.Context) (kmsg.Response, error) {
	defer c.abandon()
	if c.req.SessionID != 0 {
		// What an earlier request of the session has changed has to be there.
		if err := c.awaitTurn(); err != nil {
			return nil, err
		}
	}
	if err := c.open(); err != nil {
		return c.refuse(err)
	}
	c.authorize()
	c.awaitRecords(ctx)
	if err := c.awaitTurn(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, volumeWait)
	defer cancel()
	fresh := c.s.metrics.checked(c.s.backend.Fresh(ctx, fetchMaxAge))
	began := time.Now()
	c.read(ctx, fresh)
	c.asker.took += time.Since(began)
	if c.throttled() {
		return c.answerNothing()
	}
	return c.answer()
}

func (c *fetchCall) awaitTurn() error {
	select {
	case <-c.turn:
		return nil
	case <-c.conn.ctx.Done(): // not ctx: at a stop, too, answers are in the order of the wire
		return c.conn.ctx.Err()
	}
}

// full is whether the request names all that it is about.
func (c *fetchCall) full() bool { return c.req.SessionEpoch == 0 || c.req.SessionEpoch == -1 }

// open finds out what the request is about.
func (c *fetchCall) open() (err error) {
	if !c.full() {
		c.session, c.from, err = c.s.fetches.next(c.req)
		return err
	}
	c.s.fetches.remove(c.req.SessionID)
	n := 0
	for i := range c.req.Topics {
		n += len(c.req.Topics[i].Partitions)
	}
	c.from = make([]fetchFrom, 0, n)
	eachAsked(c.req, func(k fetchKey, p fetchParams) {
		c.from = append(c.from, fetchFrom{fetchKey: k, fetchParams: p})
	})
	return nil
}

// refuse answers with an error of the session alone.
func (c *fetchCall) refuse(err error) (kmsg.Response, error) {
	c.resp.ErrorCode = c.s.failure(kmsg.Fetch, err)
	return c.resp, nil
}

// answer leaves out what the session makes needless, and opens one that is asked for.
func (c *fetchCall) answer() (kmsg.Response, error) {
	for i := range c.from {
		if n := c.from[i].bytes(); n > 0 {
			c.s.metrics.fetched(c.from[i].found.topic.Name, n)
		}
	}
	switch {
	case c.session != nil:
		c.resp.SessionID = c.session.id
		if err := c.session.answered(c.req.SessionEpoch, c.from); err != nil {
			return c.refuse(err)
		}
		if len(c.from) > mostUnfetchable && c.session.unfetchable() > mostUnfetchable {
			c.s.fetches.remove(c.session.id) // its client starts over, and goes without
		}
	case c.req.SessionEpoch == 0 && len(c.from) > 0:
		s := newSession(c.req.Version >= 13, c.req.ReplicaID >= 0 || c.req.ReplicaState.ID >= 0, c.from)
		s.tenant = c.asker.tenant()
		c.s.fetches.offer(s)
		c.resp.SessionID = s.id
	}
	c.resp.take(c.from)
	c.from = nil // their files are the answer's to release
	return c.resp, nil
}

// abandon releases what did not become an answer.
func (c *fetchCall) abandon() {
	if c.from == nil {
		return
	}
	for i := range c.from {
		c.from[i].recs.Release()
	}
	c.resp.release()
}

// find looks a partition up, anew: while waiting it may have been deleted, or moved.
func (c *fetchCall) find(f *fetchFrom) {
	first := !f.found.looked
	f.found = fetchTarget{looked: true, topic: topicOf(c.view, c.req.Version >= 13, f.name, f.id), place: partition.At(f.offset)}
	f.out.Default()
	f.out.RecordBatches = noRecords
	f.out.Partition, f.out.HighWatermark = f.partition, -1
	if err := c.findOne(f); err != nil {
		f.found.part = nil
		f.found.unknown = first && f.found.topic == nil
		c.fail(f, err)
	}
}

func (c *fetchCall) findOne(f *fetchFrom) (err error) {
	t := &f.found
	defer func() {
		if t.part == nil { // Kafka tells it as a list then
			f.out.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		}
	}()
	if t.topic == nil {
		if c.req.Version >= 13 {
			return kerr.UnknownTopicID
		}
		return c.unknownOrDenied(f.name)
	}
	if err := c.denied(t.topic.Name); err != nil {
		return err
	}
	if t.part, err = c.s.backend.Partition(t.topic.ID, f.partition); err != nil {
		t.part = nil
		return err
	}
	if err := checkEpoch(t.part, f.epoch); err != nil {
		return err
	}
	start, high, _ := t.part.Offsets()
	if f.offset < start || f.offset > high {
		f.out.LogStartOffset, f.out.HighWatermark = start, high
		return kerr.OffsetOutOfRange
	}
	return nil
}

// checkEpoch compares what a client believes to be the leader epoch (KIP-320).
func checkEpoch(p *partition.Partition, epoch int32) error {
	switch mine := p.LeaderEpoch(); {
	case epoch < 0 || epoch == mine:
		return nil
	case epoch < mine:
		return kerr.FencedLeaderEpoch
	default:
		return kerr.UnknownLeaderEpoch
	}
}

// checkEpochButNone is checkEpoch where only -1 is no epoch, as Kafka has it outside Fetch.
func checkEpochButNone(p *partition.Partition, epoch int32) error {
	if epoch < -1 {
		return kerr.FencedLeaderEpoch
	}
	return checkEpoch(p, epoch)
}

// read tells where the records are. fresh is the outcome of the Check that vouches for
// them.
func (c *fetchCall) read(ctx context.Context, fresh error) {
	left, one := c.maxBytes, true
	for i := range c.from {
		f := &c.from[i]
		if f.found.part == nil {
			continue
		}
		err := fresh
		if err == nil {
			err = c.readOne(ctx, f, left, one)
		}
		if err != nil {
			c.fail(f, err)
			continue
		}
		if n := f.bytes(); n > 0 {
			left, one = left-n, false
		}
	}
}

// streamed is the least that is sent from its file. Less is read into the answer: it
// costs no more, and an error can be told.
const streamed = 128 << 10

func (c *fetchCall) readOne(ctx context.Context, f *fetchFrom, left int, one bool) error {
	cut := f.found.part.Cut
	if c.committed {
		cut = f.found.part.CutCommitted
	}
	got, err := cut(ctx, f.found.place, max(0, min(int(f.maxBytes), left)), one)
	if c.committed {
		f.out.AbortedTransactions = abortedTxns(got.Aborted)
	}
	if got.HighWatermark > 0 || err == nil {
		f.out.HighWatermark, f.out.LastStableOffset, f.out.LogStartOffset = got.HighWatermark, got.LastStableOffset, got.LogStart
	}
	if err != nil || got.Region == nil {
		return err
	}
	return c.pick(ctx, f, got.Region)
}

// abortedTxns is a list for the wire, not null.
func abortedTxns(list []partition.AbortedTxn) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	out := make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 0, len(list))
	for _, t := range list {
		out = append(out, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: t.Producer, FirstOffset: t.First})
	}
	return out
}

// pick puts a region into the answer, as its bytes or, where they are many or there is no
// memory for them, as what is to be sent. What is not trusted is read first.
func (c *fetchCall) pick(ctx context.Context, f *fetchFrom, r *partition.Region) error {
	switch trusted := r.Trusted(); {
	case (r.Size() < streamed || !trusted) && c.resp.hold(r.Size()):
		defer r.Release()
		recs, err := r.Bytes(ctx)
		if err == nil {
			f.out.RecordBatches = recs
		}
		return err
	case !trusted:
		if err := r.Verify(ctx); err != nil {
			r.Release()
			return err
		}
	}
	f.recs = r
	return nil
}

// fetchCodes are the codes that consumers understand here; others make the Java
// client fail for good.
var fetchCodes = []int16{-1, 1, 2, 3, 6, 9, 29, 56, 74, 75, 78, 100, 103}

func (c *fetchCall) fail(f *fetchFrom, err error) {
	f.out.ErrorCode = c.s.failure(kmsg.Fetch, err)
	if errors.Is(err, context.DeadlineExceeded) || !slices.Contains(fetchCodes, f.out.ErrorCode) {
		f.out.ErrorCode = kerr.KafkaStorageError.Code
	}
	moved := f.out.ErrorCode == kerr.NotLeaderForPartition.Code || f.out.ErrorCode == kerr.FencedLeaderEpoch.Code
	if !moved || c.req.Version < 12 {
		return
	}
	leader, epoch := leaderOf(c.view, f.found.topic, f.partition)
	f.out.CurrentLeader.LeaderID, f.out.CurrentLeader.LeaderEpoch = leader, epoch
	b, ok := c.view.Broker(leader)
	if !ok || c.req.Version < 16 || slices.ContainsFunc(c.resp.Brokers, func(b kmsg.FetchResponseBroker) bool { return b.NodeID == leader }) {
		return
	}
	if n, ok := c.s.nodeOf(b, c.conn); ok {
		rb := kmsg.NewFetchResponseBroker()
		rb.NodeID, rb.Host, rb.Port, rb.Rack = n.id, n.host, n.port, n.rack
		c.resp.Brokers = append(c.resp.Brokers, rb)
	}
}

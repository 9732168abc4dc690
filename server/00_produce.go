package server

// Produce, key 0, versions 3 to 13; listed from 0 for the sake of librdkafka
// (KAFKA-18659), but versions 0 to 2 cost the connection.
//
// Appending happens on the connection's reader, so a connection's batches get their
// offsets in the order of the wire; waiting for the commit happens beside it. acks=1
// waits like acks=-1; acks=0 has no answer, and any error closes the connection,
// which is the only sign its sender gets. Topics are named by ID from version 13.
// NOT_LEADER_OR_FOLLOWER carries the leader from version 10. A batch that begins a
// transaction on a partition waits, on the reader, for its coordinator's word (KIP-890);
// from version 12 on that adds the partition to the transaction.
// zstd is refused below version 7, whose consumers may not know it (KIP-110).
// Records of a transaction need the right to write under its ID, and without it nothing of
// the request is written.
// A batch that an idempotent producer sends again is answered as it was the first time.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var produceAPI = api{key: kmsg.Produce, min: 0, max: 13, works: 3, records: true, access: checks(right{acl.Write, acl.Topic}, right{acl.Write, acl.TransactionalID}), start: (*Server).produce}

// minProduceWait is the least time a produce request waits for its commit: with one
// copy Kafka answers whatever the timeout, so clients may send a very small one.
const minProduceWait = 5 * time.Second

// produced is a batch that was appended and is not committed.
type produced struct {
	out      *kmsg.ProduceResponseTopicPartition
	topic    *projections.Topic
	appended *partition.Appended
	records  int32
	bytes    int
}

// produceCall is one request on its way.
type produceCall struct {
	s       *Server
	conn    *conn
	req     *kmsg.ProduceRequest
	resp    *kmsg.ProduceResponse
	view    *projections.Cluster
	waiting []produced
	doubted []doubt
	checks  []txnCheck // of a transactional request
	claim   *claim
	err     error // the first one, for acks=0
	// denied are the places of topics that nothing may be written to; all is why nothing may
	// be written at all.
	denied map[int]bool
	all    error
}

func (s *Server) produce(ctx context.Context, r *request) (reply, error) {
	c := &produceCall{s: s, conn: r.conn, req: r.msg.(*kmsg.ProduceRequest), resp: kmsg.NewPtrProduceResponse(), view: s.backend.View(), claim: r.claim}
	c.resp.Version = r.version
	c.req.Topics = slices.DeleteFunc(c.req.Topics, func(t kmsg.ProduceRequestTopic) bool { return len(t.Partitions) == 0 })
	c.resp.Topics = make([]kmsg.ProduceResponseTopic, len(c.req.Topics))
	if q := c.view.Quotas(); q != nil {
		r.slow(byProduce, s.quota.Produce(q, r.client(), int(r.size)))
	}
	c.authorize(r)
	c.verifyTxn(ctx)
	for i := range c.req.Topics {
		c.startTopic(ctx, i, &c.resp.Topics[i])
	}
	if c.req.Acks == 0 && c.err != nil {
		return reply{}, c.err
	}
	if len(c.waiting)+len(c.doubted) == 0 && c.req.Acks != 0 {
		return now(c.resp)
	}
	return later(c.wait)
}

// authorize finds out what may not be written. A transaction is authorized as a whole.
func (c *produceCall) authorize(r *request) {
	if isTransactionalRequest(c.req) && (c.req.TransactionID == nil || !r.may(acl.Write, acl.TransactionalID, *c.req.TransactionID)) {
		c.all = kerr.TransactionalIDAuthorizationFailed // of whomever it is
		return
	}
	if r.subject == nil {
		return
	}
	for i := range c.req.Topics {
		in := &c.req.Topics[i]
		name := in.Topic
		if c.req.Version >= 13 {
			t := c.view.TopicByID(in.TopicID)
			if t == nil {
				continue
			}
			name = t.Name
		}
		if !r.may(acl.Write, acl.Topic, name) {
			if c.denied == nil {
				c.denied = map[int]bool{}
			}
			c.denied[i] = true
		}
	}
}

func (c *produceCall) startTopic(ctx context.Context, at int, out *kmsg.ProduceResponseTopic) {
	in := &c.req.Topics[at]
	out.Default()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(in.Partitions))
	t := topicOf(c.view, c.req.Version >= 13, in.Topic, in.TopicID)
	for i := range in.Partitions {
		p, o := &in.Partitions[i], &out.Partitions[i]
		o.Default()
		o.Partition, o.BaseOffset, o.LogAppendTime, o.LogStartOffset = p.Partition, -1, -1, -1
		err := c.append(ctx, at, t, p, o)
		switch {
		case err == nil:
		case c.req.Acks != 0 && restsOnState(err):
			c.doubted = append(c.doubted, doubt{o, t, err})
		default:
			c.fail(t, o, err)
		}
	}
}

func (c *produceCall) append(ctx context.Context, at int, t *projections.Topic, p *kmsg.ProduceRequestTopicPartition, o *kmsg.ProduceResponseTopicPartition) error {
	if err := c.refuse(at, t); err != nil {
		return err
	}
	check := c.checked(t.ID, p.Partition)
	if check == nil {
		part, err := c.s.backend.Partition(t.ID, p.Partition)
		check = &txnCheck{part: part, err: err}
	}
	if check.err != nil {
		return check.err
	}
	if c.badAcks() {
		return kerr.InvalidRequiredAcks
	}
	if c.req.Version < 7 && isZstd(p.Records) {
		return fmt.Errorf("%w: zstd is for version 7 and later (KIP-110)", kerr.UnsupportedCompressionType)
	}
	records := recordCount(p.Records) // before the buffer is the partition's
	a, err := check.part.AppendTxn(ctx, p.Records, check.guard)
	if err != nil {
		if tellsStart(err) {
			o.LogStartOffset, _, _ = check.part.Offsets()
		}
		return err
	}
	c.waiting = append(c.waiting, produced{o, t, a, records, len(p.Records)})
	return nil
}

// tellsStart reports a refusal that comes with the log's start, as Kafka has it: one of what
// the batch says, and not of whether or how it could be stored.
func tellsStart(err error) bool {
	for _, e := range []error{partition.ErrNotABatch, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.CorruptMessage, kerr.KafkaStorageError, kerr.NotLeaderForPartition} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

func (c *produceCall) badAcks() bool { return c.req.Acks < -1 || c.req.Acks > 1 }

// refuse tells what is wrong with the request or the topic, whatever the partition.
func (c *produceCall) refuse(at int, t *projections.Topic) error {
	switch {
	case c.all != nil:
		return c.all
	case t == nil && c.req.Version >= 13:
		return kerr.UnknownTopicID
	case c.denied[at]:
		return kerr.TopicAuthorizationFailed
	case t == nil:
		return kerr.UnknownTopicOrPartition
	}
	return nil
}

// doubt is a refusal that may be a deposed leader's, which does not know what its successor
// has stored.
type doubt struct {
	out   *kmsg.ProduceResponseTopicPartition
	topic *projections.Topic
	err   error
}

// restsOnState reports a refusal that producers take for final, and that the newest state
// of the producer may not bear out.
func restsOnState(err error) bool {
	return errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.InvalidTxnState)
}

// settleDoubts refuses for good what a Check that begins now still lets this broker refuse.
func (c *produceCall) settleDoubts(ctx context.Context) {
	if len(c.doubted) == 0 {
		return
	}
	fenced := c.s.backend.CheckFresh(ctx)
	for _, d := range c.doubted {
		if err := d.err; fenced == nil {
			c.fail(d.topic, d.out, err)
		} else {
			c.fail(d.topic, d.out, fenced)
		}
	}
}

// wait answers when every batch is committed or has failed.
func (c *produceCall) wait(ctx context.Context) (kmsg.Response, error) {
	limit := max(time.Duration(c.req.TimeoutMillis)*time.Millisecond, minProduceWait)
	tctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.settleDoubts(tctx)
	var late []*partition.Appended
	for i := range c.waiting {
		w := &c.waiting[i]
		err := w.appended.Wait(tctx)
		if err != nil && tctx.Err() != nil {
			late = append(late, w.appended)
		}
		if err != nil {
			c.fail(w.topic, w.out, err)
			continue
		}
		w.out.BaseOffset, w.out.LogAppendTime, w.out.LogStartOffset = w.appended.BaseOffset, w.appended.LogAppendTime, w.appended.LogStartOffset
		c.s.metrics.produced(w.topic.Name, w.records, w.bytes)
	}
	c.s.keep(late, c.claim)
	if c.req.Acks == 0 {
		return nil, c.err
	}
	return c.resp, nil
}

// keep holds a claim until the appends that nobody waits for any more have let go
// of the request's bytes.
func (s *Server) keep(late []*partition.Appended, c *claim) {
	if len(late) == 0 {
		return
	}
	held := c.pass()
	s.wg.Go(func() {
		defer held.release()
		for _, a := range late {
			_ = a.Wait(s.life) // its outcome was not waited for
		}
	})
}

// fail fills in one partition's error.
func (c *produceCall) fail(t *projections.Topic, o *kmsg.ProduceResponseTopicPartition, err error) {
	if c.err == nil {
		c.err = err
	}
	o.ErrorCode = c.s.failure(kmsg.Produce, err)
	if o.ErrorCode == kerr.NotLeaderForPartition.Code && c.req.Version >= 10 {
		c.pointToLeader(t, o)
	}
	if c.req.Version >= 8 {
		o.ErrorMessage = message(err)
		o.ErrorRecords = recordErrors(err)
	}
}

// recordErrors names the records of a batch that were refused, if it was for them.
func recordErrors(err error) (out []kmsg.ProduceResponseTopicPartitionErrorRecord) {
	var re *partition.RecordsError
	if !errors.As(err, &re) {
		return nil
	}
	for _, r := range re.Records {
		o := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		o.RelativeOffset, o.ErrorMessage = r.Index, &r.Message
		out = append(out, o)
	}
	return out
}

func (c *produceCall) pointToLeader(t *projections.Topic, o *kmsg.ProduceResponseTopicPartition) {
	leader, epoch := leaderOf(c.view, t, o.Partition)
	o.CurrentLeader.LeaderID, o.CurrentLeader.LeaderEpoch = leader, epoch
	b, ok := c.view.Broker(leader)
	if !ok {
		return
	}
	for _, have := range c.resp.Brokers {
		if have.NodeID == leader {
			return
		}
	}
	if n, ok := c.s.nodeOf(b, c.conn); ok {
		rb := kmsg.NewProduceResponseBroker()
		rb.NodeID, rb.Host, rb.Port, rb.Rack = n.id, n.host, n.port, n.rack
		c.resp.Brokers = append(c.resp.Brokers, rb)
	}
}

// isTransactionalRequest reports whether any batch is part of a transaction.
func isTransactionalRequest(req *kmsg.ProduceRequest) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if isTransactional(req.Topics[i].Partitions[j].Records) {
				return true
			}
		}
	}
	return false
}

// isTransactional reads a batch's attributes.
func isTransactional(batch []byte) bool {
	const low, transactional = 22, 1 << 4
	return len(batch) > low && batch[low]&transactional != 0
}

// isZstd reads a batch's attributes.
func isZstd(batch []byte) bool {
	const magic, low, codec, zstd = 16, 22, 7, 4
	return len(batch) > low && batch[magic] == 2 && batch[low]&codec == zstd
}

// recordCount reads a batch's record count for the metrics. The partition judges it.
func recordCount(batch []byte) int32 {
	const at = 57
	if len(batch) < at+4 {
		return 0
	}
	return max(0, int32(binary.BigEndian.Uint32(batch[at:])))
}

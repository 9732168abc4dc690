package traffic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
)

// Held is what brokers have to keep though nobody says a word: a member of a classic group and
// one of a next-generation group within their sessions, an open transaction within its timeout,
// what a group without members has committed, and the oldest record of a topic. Each has more
// time than any machine is slow for, and less than a clock is wrong by. So what ends has ended
// by a clock.
type Held struct {
	name    string
	cl      *kgo.Client
	txn     *kgo.Client
	classic struct {
		member     string
		generation int32
	}
	next struct {
		member string
		epoch  int32
	}
}

const (
	heldTopic    = "held"
	heldSession  = 30 * time.Minute // the most that brokers take by themselves, as of a transaction
	heldTxn      = 15 * time.Minute
	heldInterval = 14 * time.Second // of heartbeats; no other group has it
	heldOffset   = 7
	heldOnce     = 10 * time.Second // for one question
)

// ClockSets are the settings of brokers whose clocks are wrong by an hour, to either side. What
// is kept by the clock is kept for longer than any two of them are apart, and looked for all
// every so often. What clients stamp may lie ahead of a clock that is behind: 1 h is the usual bound.
func ClockSets(every time.Duration) []string {
	const kept = 4 * time.Hour
	out := []string{fmt.Sprintf("group.consumer.max.session.timeout.ms=%d", heldSession.Milliseconds())}
	for _, name := range []string{"log.message.timestamp.after.max.ms", "log.retention.ms", "transactional.id.expiration.ms", "producer.id.expiration.ms"} {
		out = append(out, fmt.Sprintf("%s=%d", name, kept.Milliseconds()))
	}
	for _, name := range []string{"log.retention.check.interval.ms", "offsets.retention.check.interval.ms", "transaction.remove.expired.transaction.cleanup.interval.ms"} {
		out = append(out, fmt.Sprintf("%s=%d", name, every.Milliseconds()))
	}
	return append(out, fmt.Sprintf("offsets.retention.minutes=%d", int(kept.Minutes())))
}

// Hold begins all of it, under a name that nobody has had before.
func (e *Env) Hold(ctx context.Context, name string) (*Held, error) {
	h := &Held{name: name}
	if err := h.start(ctx, e); err != nil {
		h.drop()
		return nil, err
	}
	return h, nil
}

func (h *Held) start(ctx context.Context, e *Env) (err error) {
	if h.cl, err = e.client(); err != nil {
		return err
	}
	if h.txn, err = e.client(kgo.TransactionalID(h.name), kgo.TransactionTimeout(heldTxn)); err != nil {
		return err
	}
	if _, err = kadm.NewClient(h.cl).CreateTopic(ctx, 1, 1, nil, heldTopic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", heldTopic, err)
	}
	if err = h.cl.ProduceSync(ctx, heldRecord()).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for _, begin := range []func(context.Context) error{h.commit, h.joinClassic, h.joinNext, h.begin} {
		if err = begin(ctx); err != nil {
			return err
		}
	}
	return nil
}

func heldRecord() *kgo.Record { return &kgo.Record{Topic: heldTopic, Value: []byte("held")} }

func (h *Held) commit(ctx context.Context) error {
	var to kadm.Offsets
	to.AddOffset(heldTopic, 0, heldOffset, -1)
	got, err := kadm.NewClient(h.cl).CommitOffsets(ctx, h.name+"-offsets", to)
	return errors.Join(err, got.Error())
}

func (h *Held) joinClassic(ctx context.Context) error {
	resp, err := joinOnce(ctx, h.cl, h.name+"-classic", heldSession)
	if err != nil {
		return err
	}
	h.classic.member, h.classic.generation = resp.MemberID, resp.Generation
	sync, mine := kmsg.NewPtrSyncGroupRequest(), kmsg.NewSyncGroupRequestGroupAssignment()
	sync.Group, sync.MemberID, sync.Generation = h.name+"-classic", resp.MemberID, resp.Generation
	sync.ProtocolType, sync.Protocol = resp.ProtocolType, resp.Protocol
	mine.MemberID, mine.MemberAssignment = resp.MemberID, new(kmsg.ConsumerMemberAssignment).AppendTo(nil)
	sync.GroupAssignment = append(sync.GroupAssignment, mine)
	got, err := sync.RequestWith(ctx, h.cl)
	if err == nil {
		err = kerr.ErrorForCode(got.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("synchronize the classic group: %w", err)
	}
	return nil
}

// joinOnce is the first part of joining a classic group.
func joinOnce(ctx context.Context, cl *kgo.Client, group string, session time.Duration) (*kmsg.JoinGroupResponse, error) {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{heldTopic}
	req, p := kmsg.NewPtrJoinGroupRequest(), kmsg.NewJoinGroupRequestProtocol()
	req.Group, req.ProtocolType = group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(rebalanceTime.Milliseconds())
	p.Name, p.Metadata = "range", meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && resp.ErrorCode == kerr.MemberIDRequired.Code {
		req.MemberID = resp.MemberID
		resp, err = req.RequestWith(ctx, cl)
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("join group %s: %w", group, err)
	}
	return resp, nil
}

// joinNext joins the next-generation group, and returns when the group's own settings are gone
// by, and the member has all that it is to have.
func (h *Held) joinNext(ctx context.Context) error {
	if err := h.configure(ctx); err != nil {
		return err
	}
	h.next.member = uuid.NewString()
	req := h.beat()
	req.RebalanceTimeoutMillis = int32(rebalanceTime.Milliseconds())
	req.SubscribedTopicNames, req.Topics = []string{heldTopic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for {
		resp, err := req.RequestWith(ctx, h.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return fmt.Errorf("join the next-generation group: %w", err)
		}
		if resp.Assignment != nil {
			req.Topics = req.Topics[:0]
			for _, t := range resp.Assignment.Topics {
				have := kmsg.NewConsumerGroupHeartbeatRequestTopic()
				have.TopicID, have.Partitions = t.TopicID, t.Partitions
				req.Topics = append(req.Topics, have)
			}
		}
		done := len(req.Topics) > 0 && resp.MemberEpoch == req.MemberEpoch && int64(resp.HeartbeatIntervalMillis) == heldInterval.Milliseconds()
		req.MemberEpoch, h.next.epoch = resp.MemberEpoch, resp.MemberEpoch
		if done {
			return nil
		}
		if !sleep.For(ctx, loosely) {
			return fmt.Errorf("join the next-generation group: %w", ctx.Err())
		}
	}
}

// beat is a heartbeat of the next-generation member.
func (h *Held) beat() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = h.name+"-next", h.next.member, h.next.epoch
	return req
}

// configure gives the next-generation group its session.
func (h *Held) configure(ctx context.Context) error {
	req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, h.name+"-next"
	for name, d := range map[string]time.Duration{"consumer.session.timeout.ms": heldSession, "consumer.heartbeat.interval.ms": heldInterval} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, kmsg.StringPtr(strconv.FormatInt(d.Milliseconds(), 10))
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, h.cl)
	if err == nil && len(resp.Resources) == 1 {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("configure the next-generation group: %w", err)
	}
	return nil
}

func (h *Held) begin(ctx context.Context) error {
	err := h.txn.BeginTransaction()
	if err == nil {
		err = h.txn.ProduceSync(ctx, heldRecord()).FirstErr()
	}
	if err != nil {
		return fmt.Errorf("begin the transaction: %w", err)
	}
	return nil
}

// Look looks whether all is there. What is gone is in lost; of what is in unknown nobody
// answered before ctx ended. Who looks is heard of: the sessions begin anew.
func (h *Held) Look(ctx context.Context) (lost, unknown error) {
	return h.each(ctx, map[string]func(context.Context) error{
		"the member of the classic group": h.lookClassic, "the member of the next-generation group": h.lookNext,
		"the committed offset": h.lookOffset, "the oldest record": h.lookStart, "the transaction": h.lookTxn,
	})
}

func (h *Held) each(ctx context.Context, looks map[string]func(context.Context) error) (lost, unknown error) {
	for what, look := range looks {
		switch err := patiently(ctx, look); {
		case err == nil:
		case told(err):
			lost = errors.Join(lost, fmt.Errorf("%s: %w", what, err))
		default:
			unknown = errors.Join(unknown, fmt.Errorf("%s: %w", what, err))
		}
	}
	return lost, unknown
}

// errGone is of an answer that is not what it was to be.
var errGone = errors.New("not as it was")

// told reports that an answer was had, and that asking once more will not change it.
func told(err error) bool {
	var e *kerr.Error
	return errors.Is(err, errGone) || errors.As(err, &e) && !e.Retriable
}

// patiently asks until there is an answer that stays, or ctx ends.
func patiently(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, heldOnce)
		err := ask(once)
		cancel()
		if err == nil || told(err) || !sleep.For(ctx, 4*loosely) {
			return err
		}
	}
}

func (h *Held) lookClassic(ctx context.Context) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = h.name+"-classic", h.classic.member, h.classic.generation
	resp, err := req.RequestWith(ctx, h.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func (h *Held) lookNext(ctx context.Context) error {
	resp, err := h.beat().RequestWith(ctx, h.cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	h.next.epoch = resp.MemberEpoch
	return nil
}

func (h *Held) lookOffset(ctx context.Context) error {
	got, err := kadm.NewClient(h.cl).FetchOffsets(ctx, h.name+"-offsets")
	if err := errors.Join(err, got.Error()); err != nil {
		return err
	}
	if o, ok := got.Lookup(heldTopic, 0); !ok || o.At != heldOffset {
		return fmt.Errorf("%w: %+v", errGone, got)
	}
	return nil
}

func (h *Held) lookStart(ctx context.Context) error {
	got, err := kadm.NewClient(h.cl).ListStartOffsets(ctx, heldTopic)
	if err := errors.Join(err, got.Error()); err != nil {
		return err
	}
	if o, _ := got.Lookup(heldTopic, 0); o.Offset != 0 {
		return fmt.Errorf("%w: the log begins at %d", errGone, o.Offset)
	}
	return nil
}

func (h *Held) lookTxn(ctx context.Context) error {
	got, err := kadm.NewClient(h.cl).DescribeTransactions(ctx, h.name)
	if err != nil {
		return err
	}
	if t := got[h.name]; t.Err != nil || t.State != "Ongoing" {
		return errors.Join(t.Err, fmt.Errorf("%w: it is %q", errGone, t.State))
	}
	return nil
}

// End looks once more, commits the transaction and has the members leave.
func (h *Held) End(ctx context.Context) (lost, unknown error) {
	defer h.drop()
	if lost, unknown = h.Look(ctx); lost != nil || unknown != nil {
		return lost, unknown
	}
	lost, unknown = h.each(ctx, map[string]func(context.Context) error{"the transaction's end": func(ctx context.Context) error { return h.txn.EndTransaction(ctx, kgo.TryCommit) }})
	leave := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	leave.Group, leave.MemberID, m.MemberID = h.name+"-classic", h.classic.member, h.classic.member
	leave.Members = append(leave.Members, m)
	_, _ = leave.RequestWith(ctx, h.cl) // or its session ends
	h.next.epoch = -1
	_, _ = h.beat().RequestWith(ctx, h.cl)
	return lost, unknown
}

// drop closes the clients. What was begun ends by its timeout.
func (h *Held) drop() {
	for _, cl := range []*kgo.Client{h.txn, h.cl} {
		if cl != nil {
			cl.Close()
		}
	}
}

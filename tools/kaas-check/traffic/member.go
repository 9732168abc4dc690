package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// Member is one of a group, from its joining to its end. It processes what it polls, then
// commits that, and lets nothing be taken from it meanwhile.
type Member struct {
	env    *Env
	proc   int32
	places []place
	cl     *kgo.Client
	wire   *wire
	cancel context.CancelFunc
	wg     sync.WaitGroup

	commits   atomic.Int64 // requests that were written
	beating   atomic.Int64 // when the newest heartbeat was sent
	heartbeat atomic.Int64 // when the last was sent that was answered well
	crashed   atomic.Int64 // when, 0 for not
	mu        struct {
		sync.Mutex
		since map[place]int64 // what it has, from when on
	}
}

const (
	commitTime    = 10 * time.Second
	rebalanceTime = 60 * time.Second // longer than anything that a member does between two polls
	leaveTime     = 15 * time.Second
)

// Join makes the n-th member of a group that Group has begun, under the next-generation
// protocol or the classic one.
func (e *Env) Join(id int32, group string, next bool, balancer kgo.GroupBalancer, n int) (*Member, error) {
	name := fmt.Sprintf("member %d of group %s", n, group)
	m := &Member{env: e, places: e.places(nil), wire: &wire{dial: e.Dial}, proc: e.Log.ProcOf(id, name, history.Member)}
	m.mu.since = map[place]int64{}
	m.heartbeat.Store(e.Log.Now())
	var topics []string
	for _, t := range e.Topics {
		topics = append(topics, t.Name)
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.KeepControlRecords(), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.SessionTimeout(e.session()), kgo.RebalanceTimeout(rebalanceTime), kgo.HeartbeatInterval(heartbeat),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
		kgo.AdjustFetchOffsetsFn(m.fetched), kgo.WithHooks(m), kgo.WithLogger(m), kgo.Balancers(balancer),
	}
	if next {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	var err error
	if m.cl, err = e.clientBy(m.wire.connect, opts...); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	m.wg.Go(func() {
		for ctx.Err() == nil {
			m.once(ctx)
		}
	})
	return m, nil
}

// once polls, processes and commits.
func (m *Member) once(ctx context.Context) {
	invoke := m.env.Log.Now()
	fs := m.cl.PollRecords(ctx, 200)
	defer m.cl.AllowRebalance()
	if m.crashed.Load() > 0 {
		return
	}
	upTo := map[string]map[int32]kgo.EpochOffset{}
	fs.EachPartition(func(f kgo.FetchTopicPartition) {
		at, ok := find(m.places, f.Topic, f.Partition)
		if !ok || len(f.Records) == 0 {
			return
		}
		offsets := make([]int64, len(f.Records))
		for i, r := range f.Records {
			offsets[i] = r.Offset
		}
		last := f.Records[len(f.Records)-1]
		m.env.Log.Processed(m.proc, at.part, invoke, m.env.Log.Now(), offsets...)
		if upTo[f.Topic] == nil {
			upTo[f.Topic] = map[int32]kgo.EpochOffset{}
		}
		upTo[f.Topic][f.Partition] = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
	})
	if len(upTo) > 0 {
		m.commit(upTo)
	}
}

// commit commits, and notes what came of it for each partition. A request that was written
// twice may take effect twice, the first one at any time.
func (m *Member) commit(upTo map[string]map[int32]kgo.EpochOffset) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTime)
	defer cancel()
	_, generation := m.cl.GroupMetadata()
	invoke, written := m.env.Log.Now(), m.commits.Load()
	var resp *kmsg.OffsetCommitResponse
	var failed error
	m.cl.CommitOffsetsSync(ctx, upTo, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, got *kmsg.OffsetCommitResponse, err error) {
		resp, failed = got, err
	})
	op := history.Op{Kind: history.Commit, Proc: m.proc, Epoch: generation, Invoke: invoke, Complete: m.env.Log.Now()}
	times := m.commits.Load() - written
	for topic, parts := range upTo {
		for index, to := range parts {
			at, _ := find(m.places, topic, index)
			op.Part, op.Offset = at.part, to.Offset
			op.Outcome, op.Text = commitOutcome(resp, topic, index, failed, times)
			m.env.Log.Add(op)
			if op.Outcome == history.OK && times > 1 {
				op.Outcome, op.Text = history.Unknown, "sent before, without an answer"
				m.env.Log.Add(op)
			}
		}
	}
}

// commitOutcome is what came of a commit of one partition that was written so many times.
func commitOutcome(resp *kmsg.OffsetCommitResponse, topic string, index int32, err error, written int64) (history.Outcome, string) {
	if err == nil {
		err = errors.New("an answer without the partition")
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if t.Topic != topic || p.Partition != index {
					continue
				}
				if err = kerr.ErrorForCode(p.ErrorCode); err == nil {
					return history.OK, ""
				}
				if written <= 1 && slices.Contains(commitRefusals, err) {
					return history.Failed, err.Error()
				}
			}
		}
	}
	var dial *net.OpError
	if written == 0 && errors.As(err, &dial) && dial.Op == "dial" {
		return history.Failed, err.Error()
	}
	return history.Unknown, err.Error() // at the end of the time for it, it may be being written
}

// commitRefusals are the errors with which nothing was committed. A coordinator that loses
// its group may say that it is none after it has tried.
var commitRefusals = []error{
	kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.FencedInstanceID, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch,
	kerr.GroupIDNotFound, kerr.InvalidGroupID,
}

func (m *Member) assigned(_ context.Context, _ *kgo.Client, got map[string][]int32) {
	now := m.env.Log.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.each(got, func(at place) { m.mu.since[at] = now })
}

func (m *Member) revoked(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	m.ends(gone, history.OK)
}

func (m *Member) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	m.ends(gone, history.Unknown)
}

// ends notes that the member no longer has partitions. One that has crashed had them until
// then.
func (m *Member) ends(gone map[string][]int32, outcome history.Outcome) {
	heartbeat, until := m.heartbeat.Load(), m.env.Log.Now()
	if at := m.crashed.Load(); at > 0 {
		until = at
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.each(gone, func(at place) {
		if since, ok := m.mu.since[at]; ok {
			delete(m.mu.since, at)
			m.env.Log.Owned(m.proc, at.part, since, until, heartbeat, outcome)
		}
	})
}

func (m *Member) each(parts map[string][]int32, do func(place)) {
	for topic, indexes := range parts {
		for _, index := range indexes {
			if at, ok := find(m.places, topic, index); ok {
				do(at)
			}
		}
	}
}

// fetched notes what the member was told to begin at. It asked after it was given the
// partition.
func (m *Member) fetched(_ context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, parts := range at {
		for index, offset := range parts {
			p, ok := find(m.places, topic, index)
			since, had := m.mu.since[p]
			if ok && had {
				m.env.Log.Observe(m.proc, p.part, history.Committed, max(-1, offset.EpochOffset().Offset), -1, since)
			}
		}
	}
	return at, nil
}

const keyOffsetCommit = 8

// OnBrokerWrite is told of every request that was written, or of which a part was.
func (m *Member) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) {
	if key == keyOffsetCommit && bytes > 0 {
		m.commits.Add(1)
	}
}

// Level has the client tell all that it does.
func (m *Member) Level() kgo.LogLevel { return kgo.LogLevelDebug }

// Log hears of heartbeats in what the client tells: nothing else says how one was answered.
func (m *Member) Log(_ kgo.LogLevel, msg string, about ...any) {
	switch msg {
	case "heartbeating":
		m.beating.Store(m.env.Log.Now())
	case "heartbeat complete":
		if len(about) > 0 && about[len(about)-1] == nil {
			m.heartbeat.Store(m.beating.Load())
		}
	}
}

// Leave ends the member in order.
func (m *Member) Leave() {
	m.cancel()
	m.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = m.cl.LeaveGroupContext(ctx) // what it left open a session's end closes
	m.cl.Close()
}

// Crash ends the member without a word to anybody.
func (m *Member) Crash() {
	m.crashed.Store(m.env.Log.Now())
	m.wire.cut()
	m.cancel()
	m.wg.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.cl.LeaveGroupContext(ctx) // it cannot be said
	m.cl.Close()
}

// wire is the connections of a member, which can be cut.
type wire struct {
	dial Dial
	mu   struct {
		sync.Mutex
		conns []net.Conn
		down  bool
	}
}

var errCut = errors.New("the member has crashed")

func (w *wire) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := w.dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.down {
		conn.Close()
		return nil, errCut
	}
	w.mu.conns = append(w.mu.conns, conn)
	return conn, nil
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.down = true
	for _, c := range w.mu.conns {
		c.Close()
	}
}

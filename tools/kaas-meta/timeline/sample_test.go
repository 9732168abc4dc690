package timeline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// Names as an enemy would choose them: the first ends a script element if it can.
const (
	hostileGroup  = `</script><img src=x onerror="window.harmed=1">`
	hostileTxn    = `<!--<script>window.harmed=2</script>` + "\u202egnp.exe"
	hostileReason = `"><svg onload=window.harmed=3>{{.}}${alert(1)}`
	hostileMember = "javascript:window.harmed=4//\u2028\x00'`"
)

// script writes a stream's history without writing any files.
type script[S any] struct {
	t        *testing.T
	stream   *history.Stream
	schema   *metalog.Schema[S]
	describe func(metalog.Event) (string, error)
	decode   func(metalog.Event) (any, error)
	pos      substrate.Position
	state    S
	session  string
	node     int32
	out      []step
	// kept is where a successor continues from.
	kept substrate.Position
}

// takeOver begins an epoch of a node's.
func (s *script[S]) takeOver(at time.Time, node int32, reason string, evs ...metalog.Event) {
	s.node, s.session = node, fmt.Sprintf("session-of-%d-%d", node, s.pos.Epoch+1)
	s.pos = substrate.Position{Epoch: s.pos.Epoch + 1, Seq: 1}
	s.add(at, s.kept, reason, metalog.StatusCommitted, evs)
}

func (s *script[S]) publish(at time.Time, reason string, evs ...metalog.Event) {
	prev := s.pos
	s.pos.Seq++
	s.add(at, prev, reason, metalog.StatusCommitted, evs)
}

// disowned publishes what no successor will continue from.
func (s *script[S]) disowned(at time.Time, reason string, evs ...metalog.Event) {
	prev := s.pos
	s.pos.Seq++
	s.add(at, prev, reason, metalog.StatusDisowned, evs)
}

func (s *script[S]) add(at time.Time, prev substrate.Position, reason string, status metalog.Status, evs []metalog.Event) {
	s.t.Helper()
	r := history.Record{Stream: s.stream, Position: s.pos, Status: status, Time: at, Node: s.node, Session: s.session, Reason: reason, Prev: prev, Base: s.pos.Seq == 1}
	for _, ev := range evs {
		text, err := s.describe(ev)
		check(s.t, err)
		data, err := s.decode(ev)
		check(s.t, err)
		r.Events = append(r.Events, history.Event{Type: ev.Type, Text: text, Data: data})
	}
	before := history.State{Stream: s.stream, Position: prev, Fold: s.state}
	if status == metalog.StatusCommitted {
		state, err := s.schema.Apply(s.state, evs)
		check(s.t, err)
		s.state, s.kept = state, s.pos
	}
	after := history.State{Stream: s.stream, Position: s.pos, Fold: s.state}
	s.out = append(s.out, step{Record: r, before: before.Fold, after: after.Fold, changes: history.Diff(before, after)})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func facts(t *testing.T, fs ...projections.Fact) []metalog.Event {
	t.Helper()
	evs, err := projections.NewEvents(fs...)
	if err != nil {
		t.Fatal(err)
	}
	return evs
}

func groupFacts(t *testing.T, fs ...groups.Fact) []metalog.Event {
	t.Helper()
	evs, err := groups.NewEvents(fs...)
	if err != nil {
		t.Fatal(err)
	}
	return evs
}

func txnFacts(t *testing.T, fs ...txns.Fact) []metalog.Event {
	t.Helper()
	evs, err := txns.NewEvents(fs...)
	if err != nil {
		t.Fatal(err)
	}
	return evs
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const brokers = 3

// world is a cluster's life by chance, the same for the same number of events.
type world struct {
	t       *testing.T
	r       *rand.Rand
	now     time.Time
	cluster *script[*projections.Cluster]
	groups  *script[*groups.Shard]
	txns    *script[*txns.Shard]
	topics  []topicOf
	epochs  map[string]int32
	broker  int64 // newest epoch
	commits map[string]int64
	members map[string][]string
	gens    map[string]int32
	events  int
}

type topicOf struct {
	id   projections.TopicID
	name string
	n    int32
}

// sample is a cluster of three brokers with about that many events, within a bit over a day.
func sample(t *testing.T, events int) *Timeline {
	t.Helper()
	return sampleWith(t, events, Options{})
}

func sampleWith(t *testing.T, events int, opt Options) *Timeline {
	t.Helper()
	w := newWorld(t)
	step := 26 * time.Hour / time.Duration(events)
	for w.events < events {
		w.now = w.now.Add(time.Duration(w.r.ExpFloat64() * float64(step)))
		w.happen()
	}
	return w.page(opt)
}

func (w *world) page(opt Options) *Timeline {
	b := newBuilder(opt)
	b.out.Cluster = "sample <b>cluster</b>"
	for _, st := range w.cluster.out {
		b.learnFrom(st.Record)
	}
	followAll(b, w.cluster.stream, w.cluster.out)
	followAll(b, w.groups.stream, w.groups.out)
	followAll(b, w.txns.stream, w.txns.out)
	return b.finish()
}

func followAll(b *builder, s *history.Stream, steps []step) {
	f := b.follow(s.Name, laneOfStream(b, s))
	for _, st := range steps {
		f.step(st)
	}
	f.end()
}

// topicID is that of the nth topic that a world makes.
func topicID(n int) projections.TopicID { return projections.TopicID{byte(n), 0xaa} }

// namesOnly is a volume that knows the names of topics, and nothing else.
func namesOnly(t *testing.T) *substrate.Volume {
	fs, err := substrate.OpenDir(t.TempDir())
	check(t, err)
	v, err := substrate.OpenVolume(fs, "names")
	check(t, err)
	check(t, v.EnsureDir("meta"))
	check(t, v.EnsureDir(v.MetaDir()))
	var made []projections.Fact
	for i, name := range topicNames {
		made = append(made, &projections.TopicCreated{ID: topicID(i + 1), Name: name, Partitions: 1})
	}
	check(t, metalog.Ensure(v, v.MetaDir()+"/cluster", projections.ClusterSchema(), "names", noon, facts(t, made...)...))
	return v
}

var topicNames = []string{"orders", "payments", "audit.log"}

func newWorld(t *testing.T) *world {
	v := namesOnly(t)
	w := &world{t: t, r: rand.New(rand.NewPCG(7, 7)), now: noon, epochs: map[string]int32{}, commits: map[string]int64{},
		members: map[string][]string{}, gens: map[string]int32{},
		cluster: &script[*projections.Cluster]{t: t, stream: history.Cluster(v), schema: projections.ClusterSchema(), state: projections.NewCluster(),
			describe: projections.Describe, decode: func(ev metalog.Event) (any, error) { return projections.DecodeEvent(ev) }},
		groups: &script[*groups.Shard]{t: t, stream: history.Groups(v, 7), schema: groups.Schema(), state: groups.NewShard(),
			describe: groups.Describe, decode: func(ev metalog.Event) (any, error) { return groups.DecodeEvent(ev) }},
		txns: &script[*txns.Shard]{t: t, stream: history.Txns(v, 3), schema: txns.Schema(), state: txns.NewShard(),
			describe: txns.Describe, decode: func(ev metalog.Event) (any, error) { return txns.DecodeEvent(ev) }}}
	w.cluster.takeOver(w.now, 1, "broker 1 is controller", w.all(&projections.ControllerChanged{Node: 1},
		&projections.ShardsMade{Kind: projections.ShardGroups, Count: 8}, &projections.ShardsMade{Kind: projections.ShardTxns, Count: 4})...)
	for id := int32(1); id <= brokers; id++ {
		w.tick()
		w.register(id)
	}
	for i := range int32(8) {
		w.epochs[fmt.Sprint("groups/", i)] = 1
		w.cluster.publish(w.now, "shards shared out", w.all(&projections.ShardOwnerChanged{Kind: projections.ShardGroups, Shard: i, Owner: i%brokers + 1, Epoch: 1})...)
	}
	for i, name := range topicNames {
		w.tick()
		w.create(name, int32(3+i*2))
	}
	w.tick()
	w.groups.takeOver(w.now, 2, "taken over")
	w.txns.takeOver(w.now, 3, "taken over")
	for _, g := range []string{"billing", "warehouse", "analytics", hostileGroup} {
		w.tick()
		w.rebalance(g, 3)
	}
	return w
}

func (w *world) tick() { w.now = w.now.Add(time.Duration(200+w.r.IntN(900)) * time.Millisecond) }

func (w *world) all(fs ...projections.Fact) []metalog.Event {
	w.events += len(fs)
	return facts(w.t, fs...)
}

func (w *world) register(id int32) {
	w.broker++
	w.cluster.publish(w.now, fmt.Sprintf("broker %d started", id), w.all(&projections.BrokerRegistered{ID: id, Epoch: w.broker, Host: fmt.Sprintf("host-%d", id),
		Incarnation: fmt.Sprintf("00000000-0000-4000-8000-%012d", w.broker), Session: fmt.Sprintf("data-%d-%d", id, w.broker), Rack: "east",
		Listeners: []projections.Listener{{Name: "PLAINTEXT", Host: fmt.Sprintf("host-%d", id), Port: 9092}}})...)
}

func (w *world) create(name string, n int32) {
	t := topicOf{topicID(len(w.topics) + 1), name, n}
	w.topics = append(w.topics, t)
	fs := []projections.Fact{&projections.TopicCreated{ID: t.id, Name: name, Partitions: n, CreatedAt: w.now.UnixMilli(), Configs: map[string]string{"retention.ms": "86400000"}}}
	for i := range n {
		fs = append(fs, w.lead(t, i, i%brokers+1))
	}
	w.cluster.publish(w.now, "CreateTopics from a client", w.all(fs...)...)
}

func (w *world) lead(t topicOf, i, leader int32) projections.Fact {
	key := fmt.Sprint(t.name, i)
	w.epochs[key]++
	return &projections.PartitionLeaderChanged{TopicID: t.id, Partition: i, Leader: leader, Epoch: w.epochs[key]}
}

func (w *world) happen() {
	switch n := w.r.IntN(1000); {
	case n < 2:
		w.lose(int32(w.r.IntN(brokers)) + 1)
	case n < 12:
		w.cluster.publish(w.now, "IncrementalAlterConfigs from a client", w.all(&projections.ConfigChanged{Resource: projections.ResourceTopic, Name: w.topics[0].name,
			TopicID: w.topics[0].id, Set: map[string]string{"retention.ms": fmt.Sprint(1000 * w.r.IntN(90000))}})...)
	case n < 20:
		w.cluster.publish(w.now, "producer IDs for broker 1", w.all(&projections.ProducerIDsAllocated{First: int64(w.events) * 1000, Count: 1000, Broker: 1})...)
	case n < 60:
		w.rebalance([]string{"billing", "warehouse", "analytics", hostileGroup}[w.r.IntN(4)], w.r.IntN(5))
	case n < 260:
		w.transact([]string{"etl-1", "etl-2", hostileTxn}[w.r.IntN(3)])
	default:
		w.commit([]string{"billing", "warehouse", "analytics", hostileGroup}[w.r.IntN(4)])
	}
}

// lose fences a broker, gives away what it leads, and has it back a minute later. The
// controller is replaced, and leaves an entry that nobody continues from.
func (w *world) lose(id int32) {
	if w.cluster.node == id {
		w.cluster.disowned(w.now, "too late", w.all(&projections.ProducerIDsAllocated{First: int64(w.events) * 1000, Count: 1000, Broker: id})...)
		w.tick()
		next := id%brokers + 1
		w.cluster.takeOver(w.now, next, fmt.Sprintf("broker %d is controller", next), w.all(&projections.ControllerChanged{Node: next})...)
	}
	b, _ := w.cluster.state.Broker(id)
	fs := []projections.Fact{&projections.BrokerFenced{ID: id, Epoch: b.Epoch}}
	for _, t := range w.cluster.state.Topics() {
		for i, p := range t.Partitions {
			if p.Leader == id {
				fs = append(fs, w.lead(topicOf{t.ID, t.Name, 0}, int32(i), projections.NoLeader))
			}
		}
	}
	w.cluster.publish(w.now, fmt.Sprintf("broker %d is gone", id), w.all(fs...)...)
	w.now = w.now.Add(20 * time.Second)
	fs = nil
	for _, t := range w.cluster.state.Topics() {
		for i, p := range t.Partitions {
			if p.Leader == projections.NoLeader {
				fs = append(fs, w.lead(topicOf{t.ID, t.Name, 0}, int32(i), id%brokers+1))
			}
		}
	}
	w.cluster.publish(w.now, "leaders for what nobody leads", w.all(fs...)...)
	w.now = w.now.Add(5 * time.Minute)
	w.register(id)
}

func (w *world) rebalance(group string, n int) {
	w.gens[group]++
	c := groups.Classic{ProtocolType: "consumer", Generation: w.gens[group]}
	for i := range n {
		id := fmt.Sprintf("%s-member-%d", group[:3], i)
		if group == hostileGroup {
			id = fmt.Sprint(hostileMember, i)
		}
		c.Members = append(c.Members, groups.ClassicMember{ID: id, ClientID: "app", Host: "/10.0.0.1", SessionTimeout: 45 * time.Second, Assignment: []byte{0}})
	}
	if n > 0 {
		c.Protocol, c.Leader = "range", c.Members[0].ID
	}
	w.events++
	reason := "rebalance"
	if group == hostileGroup {
		reason = hostileReason
	}
	w.groups.publish(w.now, reason, groupFacts(w.t, &groups.ClassicGroupChanged{Group: group, Time: w.now.UnixMilli(), State: c})...)
}

func (w *world) commit(group string) {
	t := w.topics[w.r.IntN(len(w.topics))]
	p := int32(w.r.IntN(int(t.n)))
	key := fmt.Sprint(group, t.name, p)
	w.commits[key] += int64(w.r.IntN(500) + 1)
	w.events++
	w.groups.publish(w.now, "commit", groupFacts(w.t, &groups.OffsetsCommitted{Group: group, Time: w.now.UnixMilli(),
		Topics: []groups.TopicOffsets{{Topic: t.id, Partitions: []groups.PartitionOffset{{Partition: p, Offset: w.commits[key], LeaderEpoch: -1, Expires: -1}}}}})...)
}

func (w *world) transact(id string) {
	t := w.topics[0]
	txn := txns.Txn{ID: id, ProducerID: int64(len(id)), Epoch: 1, LastEpoch: txns.NoEpoch, PrevProducerID: txns.NoProducer, NextProducerID: txns.NoProducer,
		State: txns.Ongoing, Timeout: 60000, Started: w.now.UnixMilli(), Updated: w.now.UnixMilli(), Partitions: txns.Partitions{{Topic: t.id, Index: 1}}, Groups: []int32{7}}
	for _, s := range []txns.State{txns.Ongoing, txns.PrepareCommit, txns.CompleteCommit} {
		txn.State = s
		if s == txns.CompleteCommit {
			txn.Partitions, txn.Groups, txn.Started = nil, nil, txns.NotStarted
		}
		w.events++
		w.txns.publish(w.now, "transaction of a client", txnFacts(w.t, &txns.TxnChanged{Txn: txn})...)
		w.now = w.now.Add(time.Duration(w.r.IntN(1500)) * time.Millisecond)
	}
}

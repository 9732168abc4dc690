package txnshard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a partition, or a shard of groups.
type place struct {
	part   txns.Partition
	groups bool
	shard  int32
}

func partPlace(topic int, index int32) place { return place{part: part(topic, index)} }
func groupPlace(shard int32) place           { return place{groups: true, shard: shard} }

// record is what a place has in its log.
type record struct {
	marker, commit bool
	producer       Producer
	tag            int // of the transaction; 0 in a marker
}

// log is a place as its leader keeps it.
type log struct {
	records   []record
	producers map[int64]*atPlace
}

// atPlace is what a place knows of a producer.
type atPlace struct {
	epoch       int16
	coordinator int32
	open        bool
	guard       int // counts markers
}

// world is the cluster around the shards of a test, and the truth about it.
type world struct {
	rng      *rand.Rand // of the test's goroutine
	seed     uint64
	healthy  atomic.Bool
	view     atomic.Pointer[projections.Cluster]
	current  atomic.Pointer[Shard]
	epochs   atomic.Int32 // of the shard's stream
	names    atomic.Int64
	ids      atomic.Int64 // of producers
	tags     atomic.Int64
	requests atomic.Int64

	mu       sync.Mutex
	shards   []*Shard // all that ever served
	logs     map[place]*log
	handed   map[Producer]int  // how often each was given to a new producer
	ends     map[Producer]bool // outcome that markers of version 2 carried
	dead     map[projections.TopicID]bool
	outcomes map[int]outcomeOf
	bad      error
	stats    worldStats
}

type worldStats struct{ committed, aborted, unknown, markers, refused, late, owners, fenced int }

// outcomeOf is what a client knows of its transaction.
type outcomeOf struct{ asked, acked, commit bool }

func newWorld(t testing.TB, seed int64) *world {
	w := &world{rng: rand.New(rand.NewPCG(uint64(seed), 1)), seed: uint64(seed), logs: map[place]*log{}, handed: map[Producer]int{},
		ends: map[Producer]bool{}, dead: map[projections.TopicID]bool{}, outcomes: map[int]outcomeOf{}}
	w.view.Store(projections.NewCluster())
	var fs []projections.Fact
	for b := range int32(3) {
		fs = append(fs, &projections.BrokerRegistered{ID: b, Epoch: 1, Incarnation: "i", Listeners: []projections.Listener{{Name: "P", Host: "h", Port: 1}}})
	}
	for n := 1; n <= 2; n++ {
		fs = append(fs, &projections.TopicCreated{ID: topicID(n), Name: fmt.Sprintf("t%d", n), Partitions: 3})
		for i := range int32(3) {
			fs = append(fs, &projections.PartitionLeaderChanged{TopicID: topicID(n), Partition: i, Leader: i, Epoch: 1})
		}
	}
	fs = append(fs, &projections.ShardsMade{Kind: projections.ShardGroups, Count: 2})
	for i := range int32(2) {
		fs = append(fs, &projections.ShardOwnerChanged{Kind: projections.ShardGroups, Shard: i, Owner: i, Epoch: 1})
	}
	w.tell(fs...)
	return w
}

// tell changes the view.
func (w *world) tell(fs ...projections.Fact) {
	evs, err := projections.NewEvents(fs...)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	next, err := projections.Apply(w.view.Load(), evs)
	if err != nil {
		panic(err)
	}
	w.view.Store(next)
	shards := w.shards
	w.mu.Unlock()
	for _, s := range shards {
		s.ViewChanged()
	}
}

func (w *world) violate(format string, a ...any) {
	if w.bad == nil {
		w.bad = fmt.Errorf(format, a...)
	}
}

// chance draws by the seed, and by a number that counts requests.
func (w *world) chance(salt int64) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, uint64(w.requests.Add(1)*1000+salt)))
}

func (w *world) volume(fs substrate.FS) (*substrate.Volume, error) {
	v := &substrate.Volume{FS: fs, NewID: func() string { return fmt.Sprintf("n%d", w.names.Add(1)) }}
	if err := v.Init(""); err != nil {
		return nil, err
	}
	if err := v.EnsureDir("meta"); err != nil {
		return nil, err
	}
	return v, v.EnsureDir(v.MetaDir())
}

func (w *world) options(s *substrate.Session) Options {
	l := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("KAAS_SIM_LOG") != "" {
		l = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return Options{View: w.view.Load, Check: s.Check, NewProducerID: w.newID, Fence: w.fence, Deleted: w.deleted, Markers: w,
		AbortEvery: time.Second, CleanEvery: time.Minute, ForgetAfter: 10 * time.Minute, Log: l}
}

var errNoController = errors.New("there is no controller")

func (w *world) newID(context.Context) (int64, error) {
	if r := w.chance(1); !w.healthy.Load() && r.IntN(10) == 0 {
		return 0, errNoController
	}
	return w.ids.Add(1), nil
}

func (w *world) fence(_ context.Context, id int64, epoch int16) error {
	r := w.chance(2)
	if !w.healthy.Load() && r.IntN(8) == 0 {
		return errNoController
	}
	if f := w.view.Load().FenceProducer(id, epoch, time.Now()); f != nil {
		w.tell(f)
	}
	if !w.healthy.Load() && r.IntN(8) == 0 {
		return errNoController // an answer that is lost
	}
	return nil
}

func (w *world) deleted(_ context.Context, id projections.TopicID) (bool, error) {
	if r := w.chance(3); !w.healthy.Load() && r.IntN(4) == 0 {
		return false, errNoController
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead[id], nil
}

// Write implements Markers: a broker that may be slow, lose a request or an answer, or do
// what it was asked long after nobody waits.
func (w *world) Write(ctx context.Context, to projections.Broker, reqs []MarkerRequest) ([]MarkerResult, error) {
	r := w.chance(10 + int64(to.ID))
	if w.healthy.Load() {
		return w.writeMarkers(to.ID, reqs), nil
	}
	if !sleep.For(ctx, time.Duration(r.IntN(30))*time.Millisecond) {
		return nil, ctx.Err()
	}
	switch r.IntN(12) {
	case 0:
		return nil, errors.New("connection refused")
	case 1:
		w.writeMarkers(to.ID, reqs)
		return nil, errors.New("connection reset")
	case 2:
		late := reqs[:0:0]
		for _, q := range reqs {
			if q.Version >= epochRaising { // before, nothing tells one transaction's marker from the next one's
				late = append(late, q)
			}
		}
		time.AfterFunc(time.Duration(r.IntN(20_000))*time.Millisecond, func() {
			w.writeMarkers(to.ID, late)
			w.mu.Lock()
			w.stats.late++
			w.mu.Unlock()
		})
		<-ctx.Done()
		return nil, ctx.Err()
	case 3:
		return w.writeMarkers(to.ID, reqs)[:len(reqs)-1], nil
	case 4:
		out := w.writeMarkers(to.ID, reqs)
		out[0] = MarkerResult{}
		return out, nil
	}
	return w.writeMarkers(to.ID, reqs), nil
}

func (w *world) writeMarkers(to int32, reqs []MarkerRequest) (out []MarkerResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range reqs {
		var res MarkerResult
		for _, p := range q.Partitions {
			res.Partitions = append(res.Partitions, w.markLocked(to, place{part: p}, q))
		}
		for _, g := range q.Groups {
			res.Groups = append(res.Groups, w.markLocked(to, groupPlace(g), q))
		}
		out = append(out, res)
	}
	return out
}

// markLocked ends a producer's transaction at a place, by the rules that leaders have.
func (w *world) markLocked(to int32, at place, q MarkerRequest) error {
	if w.leaderLocked(at) != to {
		return kerr.NotLeaderForPartition
	}
	if w.dead[at.part.Topic] {
		return kerr.UnknownTopicOrPartition
	}
	p := w.atLocked(at, q.Producer.ID)
	switch {
	case q.CoordinatorEpoch < p.coordinator:
		w.stats.refused++
		return kerr.TransactionCoordinatorFenced
	case q.Producer.Epoch < p.epoch, q.Version >= epochRaising && p.open && q.Producer.Epoch == p.epoch:
		w.stats.refused++
		return kerr.InvalidProducerEpoch
	}
	if q.Version >= epochRaising {
		if had, ok := w.ends[q.Producer]; ok && had != q.Commit {
			w.violate("producer %+v: a transaction ends with commit %v and %v", q.Producer, had, q.Commit)
		}
		w.ends[q.Producer] = q.Commit
	}
	p.epoch, p.coordinator = q.Producer.Epoch, q.CoordinatorEpoch
	p.guard++
	if p.open {
		p.open = false
		l := w.logs[at]
		l.records = append(l.records, record{marker: true, commit: q.Commit, producer: q.Producer})
		w.stats.markers++
	}
	return nil
}

func (w *world) leaderLocked(at place) int32 {
	v := w.view.Load()
	if at.groups {
		return leaderOf(v.Shards(projections.ShardGroups), at.shard)
	}
	if t := v.TopicByID(at.part.Topic); t != nil {
		return leaderOf(t.Partitions, at.part.Index)
	}
	return projections.NoLeader
}

func (w *world) atLocked(at place, id int64) *atPlace {
	l := w.logs[at]
	if l == nil {
		l = &log{producers: map[int64]*atPlace{}}
		w.logs[at] = l
	}
	if l.producers[id] == nil {
		l.producers[id] = &atPlace{epoch: -1}
	}
	return l.producers[id]
}

func (w *world) guard(at place, id int64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.atLocked(at, id).guard
}

// append writes a record of a transaction, verified since the guard was taken.
func (w *world) append(at place, by Producer, tag, guard int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.atLocked(at, by.ID)
	fencedBelow, _ := w.view.Load().FencedEpoch(by.ID)
	switch {
	case w.dead[at.part.Topic]:
		return kerr.UnknownTopicOrPartition
	case by.Epoch < p.epoch, by.Epoch < fencedBelow:
		return kerr.InvalidProducerEpoch
	case p.guard != guard:
		return kerr.InvalidTxnState
	}
	p.epoch, p.open = by.Epoch, true
	l := w.logs[at]
	l.records = append(l.records, record{producer: by, tag: tag})
	return nil
}

// judge holds every log against what clients were told.
func (w *world) judge() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[int]bool{} // outcome by transaction
	for at, l := range w.logs {
		open := map[int64][]int{}
		for _, r := range l.records {
			if !r.marker {
				open[r.producer.ID] = append(open[r.producer.ID], r.tag)
				continue
			}
			for _, tag := range open[r.producer.ID] {
				if had, ok := seen[tag]; ok && had != r.commit {
					w.violate("transaction %d is committed and aborted", tag)
				}
				seen[tag] = r.commit
				o := w.outcomes[tag]
				switch {
				case o.acked && o.commit != r.commit:
					w.violate("transaction %d was acknowledged with commit %v and has %v at %v", tag, o.commit, r.commit, at)
				case r.commit && !(o.asked && o.commit):
					w.violate("transaction %d is committed, and nobody asked for it", tag)
				}
			}
			open[r.producer.ID] = nil
		}
		for id, tags := range open {
			if len(tags) > 0 && !w.dead[at.part.Topic] {
				w.violate("transactions %v of producer %d hang at %v", tags, id, at)
			}
		}
	}
	return w.bad
}

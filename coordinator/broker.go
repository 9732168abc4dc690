package coordinator

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// Broker is a running broker of this process.
type Broker struct {
	v      *substrate.Volume
	opt    Options
	log    *slog.Logger
	stream string // the cluster stream

	// run ends when the broker leaves, by Stop or by its end; hard when waiting for
	// the volume is given up.
	run, hard     context.Context
	leave, giveUp context.CancelFunc
	done          chan struct{} // closed when the broker has ended
	stopped       chan struct{} // closed when Stop is through

	view  atomic.Pointer[projections.Cluster]
	slots atomic.Pointer[slotTable]
	data  atomic.Pointer[tenure] // nil while one session replaces another

	began      time.Time
	beginWait  time.Duration              // of the next term, of serveTerm alone
	ctl        atomic.Pointer[controller] // nil while this process is not the controller
	peers      Peers
	reader     *clusterReader                     // follow's, but for Expect
	news       chan struct{}                      // the cluster stream may have news
	reports    chan struct{}                      // there is something to tell the controller
	reached    atomic.Pointer[projections.Broker] // the controller that has answered last
	missed     atomic.Pointer[projections.Broker] // that one, when nobody listens where it was
	agentPace  pace                               // the agent's
	agentTold  bool                               // the agent's: that it is not let in is in the log
	registered atomic.Int64                       // epoch of this process's registration, 0 before it is seen
	leaving    atomic.Bool                        // Retire was called
	freed      chan struct{}                      // closed when the controller has let this broker stop
	stalled    atomic.Bool                        // a probe write has not come back in time
	probed     atomic.Int64                       // at what uptime the last probe write that came back began
	probing    atomic.Int64                       // at what uptime the probe under way began
	unstarted  atomic.Pointer[error]              // why Start cannot succeed

	cleaner  *partition.Cleaner // nil where nothing is cleaned
	space    *space
	recovery *partition.RecoveryBudget

	ids producerIDs

	transit  chan struct{} // a place for each partition being opened or closed
	removals chan struct{} // a place for each topic being removed

	// mu guards what few hold for a moment: who leads the stream, what is shown,
	// what is under way. Nobody waits or touches the volume while holding it.
	mu struct {
		sync.Mutex
		err      error
		stopping bool
		lead     *lead
		shown    substrate.Position
		moved    chan struct{}   // closed when the view has changed
		serving  bool            // the view has this process serve, with the data session it has
		leaving  map[place]*slot // whose keepers are to let go
		tenured  chan struct{}   // closed when data is set again
		creating map[string]*creation
		fencing  map[int64]int16      // producers that are to be fenced, with their least epochs
		sessions []*substrate.Session // every one this process opened
	}
	wg sync.WaitGroup
}

func newBroker(v *substrate.Volume, opt Options) *Broker {
	opt = opt.withDefaults()
	b := &Broker{v: v, opt: opt, log: opt.Log, stream: clusterStream(v),
		done: make(chan struct{}), stopped: make(chan struct{}), space: newSpace(), recovery: partition.NewRecoveryBudget(opt.RecoveryBytes),
		transit: make(chan struct{}, opt.OpenParallel), removals: make(chan struct{}, 4)}
	b.began, b.beginWait, b.peers = time.Now(), opt.BeginWait, opt.Peers
	if b.peers == nil {
		b.peers = newKgoPeers(opt)
	}
	b.reader = metalog.NewReader(v, b.stream, projections.ClusterSchema())
	b.news, b.reports, b.freed = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	b.cleaner = b.newCleaner()
	b.run, b.leave = context.WithCancel(context.Background())
	b.hard, b.giveUp = context.WithCancel(context.Background())
	b.view.Store(projections.NewCluster())
	b.slots.Store(&slotTable{topics: map[projections.TopicID][]*slot{}})
	b.mu.tenured = make(chan struct{})
	b.mu.creating = map[string]*creation{}
	b.mu.fencing = map[int64]int16{}
	b.mu.moved = make(chan struct{})
	b.mu.leaving = map[place]*slot{}
	return b
}

// View is the newest committed state of the cluster that this process knows.
func (b *Broker) View() *projections.Cluster { return b.view.Load() }

// Done is closed when the broker has ended; Err then tells why.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Err is nil while the broker runs and after a Stop. It wraps substrate.ErrFenced
// when another process with the same node ID took over.
func (b *Broker) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.err
}

// end makes err the broker's end, if it has none, and has everything leave. What
// was begun is waited for by Stop.
func (b *Broker) end(err error) {
	b.mu.Lock()
	first := b.endLocked(err)
	b.mu.Unlock()
	if first && err != nil {
		b.log.Error("broker has ended", "node", b.opt.NodeID, "err", err)
	}
}

func (b *Broker) endLocked(err error) (first bool) {
	select {
	case <-b.done:
		return false
	default:
	}
	b.mu.err = err
	close(b.done)
	b.leave()
	return true
}

// spawn runs f as the broker's own goroutine, which Stop waits for. It reports
// false, and does nothing, once the broker leaves.
func (b *Broker) spawn(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spawnLocked(f)
}

func (b *Broker) spawnLocked(f func()) bool {
	if b.mu.stopping || b.run.Err() != nil {
		return false
	}
	b.wg.Go(f)
	return true
}

// whyEnded is the reason that work cannot be begun or waited for any more.
func (b *Broker) whyEnded() error {
	if err := b.Err(); err != nil {
		return err
	}
	return errStopped
}

// takePlace takes a place of a bounded pool and returns what gives it back, once. What takes
// longer than settle hangs, most likely, and goes on without the place: it is not to keep
// others waiting.
func takePlace(ctx context.Context, pool chan struct{}) (back func(), ok bool) {
	if !enter(ctx, pool) {
		return nil, false
	}
	give := sync.OnceFunc(func() { <-pool })
	t := time.AfterFunc(settle, give)
	return func() { t.Stop(); give() }, true
}

// enter takes a place of a bounded pool, or reports false when ctx has ended.
func enter(ctx context.Context, pool chan struct{}) bool {
	select {
	case pool <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

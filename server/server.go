package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/server/quota"
)

// Server answers clients on the listeners it was given.
type Server struct {
	cfg       *Config
	clusterID string
	backend   Backend
	log       *slog.Logger
	metrics   *metrics

	queued *budget // bytes of requests that carry records
	// Of the others, those that are not large, while they are read, and if they fit the buffer
	// while they are decoded; and what is decoded of the rest of them.
	control, decoding *budget
	// Large ones, while they are read; and what is decoded of them, until they are answered.
	large, decoded *budget
	strangers      *budget                    // of those who have not said who they are, while they are read
	told           *budget                    // bytes of long answers, but for fetches
	answers        *answers                   // bytes of records in answers
	verify         atomic.Pointer[verifyTxns] // of tests; nil: the transaction's coordinator is asked
	fetches        *fetchCache
	beats          beats
	sasl           map[string]*saslListener // of the listeners that have it
	quota          *quota.Manager
	refused        atomic.Int64   // connections that are about to be closed: see admit
	disk           substrate.Lane // of looks at the volume's size

	refusals   seldom          // what is logged of handshakes that fail
	ends       [endings]seldom // and of connections that end for a reason
	failures   seldom          // of requests that the broker itself could not serve
	causes     seldom          // of what clients are told in the code's own words alone
	panicked   seldom
	authorizer *authorizer

	life    context.Context // ends when handlers have to answer with what they know
	end     context.CancelFunc
	wire    context.Context // ends, a little later, when connections are cut
	cut     context.CancelFunc
	stop    chan struct{}   // closed when draining begins
	serving context.Context // ends when draining begins
	drain   context.CancelFunc
	stopOne sync.Once

	lastRead atomic.Pointer[time.Time] // when reading ends; set before stop is closed

	lns []net.Listener
	wg  sync.WaitGroup // accept loops, connections, and what outlives their requests

	mu struct { // written by the accept loops and their connections
		sync.Mutex
		conns map[*conn]struct{}
		from  map[netip.Addr]int64 // how many of them each address has
		at    []int64              // and each listener
	}
}

// Start serves clients of the cluster on lns, which are the configuration's listeners
// in their order, until Shutdown.
func Start(cfg *Config, clusterID string, backend Backend, lns []net.Listener, m *metrics, log *slog.Logger) *Server {
	s := &Server{
		cfg: cfg, clusterID: clusterID, backend: backend, log: log, metrics: m, lns: lns,
		queued: newBudget(cfg.QueuedMaxBytes), control: newBudget(cfg.QueuedMaxBytes), decoding: newBudget(cfg.QueuedMaxBytes / 2),
		large: newBudget(cfg.QueuedMaxBytes / 2), decoded: newBudget(cfg.QueuedMaxBytes),
		strangers: newBudget(cfg.QueuedMaxBytes / 4), told: newBudget(cfg.AnswersMaxBytes),
		answers: &answers{limit: cfg.AnswersMaxBytes},
		fetches: newFetchCache(int(cfg.FetchSessions), cfg.FetchSessionAge),
		quota:   quota.New(cfg.Quota),
		stop:    make(chan struct{}), disk: substrate.NewLane(1), authorizer: newAuthorizer(cfg, log),
	}
	s.told.exact = true
	m.watchTopics(func(topic string) bool { return backend.View().Topic(topic) != nil })
	m.registry.MustRegister(s.fetches.metrics()...)
	s.mu.conns, s.mu.from, s.mu.at = map[*conn]struct{}{}, map[netip.Addr]int64{}, make([]int64, len(cfg.Listeners))
	s.wire, s.cut = context.WithCancel(context.Background())
	s.life, s.end = context.WithCancel(s.wire)
	s.serving, s.drain = context.WithCancel(s.life)
	s.startSASL()
	if s.authorizer.on() {
		s.wg.Go(func() { s.authorizer.audit.run(s.stop) })
	}
	for i, ln := range lns {
		s.wg.Go(func() { s.accept(i, ln) })
	}
	return s
}

func (s *Server) accept(at int, ln net.Listener) {
	for try := 0; ; {
		nc, err := ln.Accept()
		if err == nil {
			if try = 0; s.admit(at, nc) {
				s.take(at, nc)
			}
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Out of descriptors, mostly: others are being served, so wait for some to end.
		s.log.Warn("accept", "listener", s.cfg.Listeners[at].Name, "address", ln.Addr().String(), "err", err)
		try = min(try+1, 7)
		select {
		case <-time.After(10 * time.Millisecond << try):
		case <-s.stop:
			return
		}
	}
}

// take serves a connection to the listener of that place in the configuration. Clients
// that fill the broker keep no brokers out, who come by a listener of their own.
func (s *Server) take(at int, nc net.Conn) {
	c, cfg, from := s.newConn(&s.cfg.Listeners[at], nc), s.cfg.in(s.backend.View()), addressOf(nc)
	most, mostFrom := cfg.MaxConnections, cfg.mostFrom(from)
	if len(s.cfg.Listeners) > 1 && c.listener.Name == s.cfg.InterBroker {
		most, mostFrom = math.MaxInt64, math.MaxInt64
	}
	s.mu.Lock()
	full := int64(len(s.mu.conns)) >= most || s.mu.from[from] >= mostFrom || s.mu.at[at] >= cfg.Listeners[at].most || s.draining()
	if !full {
		s.mu.conns[c] = struct{}{}
		s.mu.from[from]++
		s.mu.at[at]++
	}
	s.mu.Unlock()
	if full {
		c.cancel(nil)
		c.hangUp()
		return
	}
	s.metrics.conns.Inc()
	s.wg.Go(func() {
		c.serve()
		c.cancel(nil)
		s.metrics.conns.Dec()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.at[at]--
		if s.mu.from[from]--; s.mu.from[from] == 0 {
			delete(s.mu.from, from)
		}
		s.mu.Unlock()
	})
}

func (s *Server) draining() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

const (
	// lastReads is how long requests are still read at a stop: what was sent before its
	// sender could know is answered too.
	lastReads = 50 * time.Millisecond
	// lastWords is how long answers may take that say only that the broker is gone.
	lastWords = 100 * time.Millisecond
)

// Shutdown stops accepting and, a moment later, reading, and lets what was started be
// answered, long polls at once. When ctx ends, what is left is answered at once, mostly
// with NOT_LEADER_OR_FOLLOWER, so that clients look for another broker; then connections
// are cut. It returns when nothing of the server runs any more.
func (s *Server) Shutdown(ctx context.Context) {
	s.stopOne.Do(func() {
		last := time.Now().Add(lastReads)
		s.lastRead.Store(&last)
		close(s.stop)
		s.drain()
	})
	for _, ln := range s.lns {
		ln.Close()
	}
	s.mu.Lock()
	for c := range s.mu.conns {
		c.drain()
	}
	s.mu.Unlock()
	last := make(chan struct{})
	hurry := context.AfterFunc(ctx, func() {
		defer close(last)
		s.end()
		select {
		case <-time.After(lastWords):
			s.cut()
		case <-s.wire.Done():
		}
	})
	s.wg.Wait()
	s.authorizer.audit.tell(time.Now(), true)
	s.cut()
	if !hurry() {
		<-last
	}
}

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"

	"kaas.dev/kaas/projections"
)

// Peers is how a broker asks others, on their inter-broker listeners.
type Peers interface {
	// Ask sends one request and returns its answer. Heartbeats go on a connection of
	// their own, so that nothing keeps them waiting, and it is not given up while idle.
	Ask(ctx context.Context, to projections.Listener, req kmsg.Request) (kmsg.Response, error)
	// Stay holds a connection to a broker and returns when it has ended, or with ctx. It
	// asks nothing.
	Stay(ctx context.Context, to projections.Listener)
	// Close ends what Ask has left open.
	Close()
}

// kgoPeers asks by franz-go's client: one for heartbeats and one for all else, of each
// address.
type kgoPeers struct {
	secure func(ctx context.Context, nc net.Conn, host string) (net.Conn, error)
	login  sasl.Mechanism

	mu      sync.Mutex
	clients map[string]*kgo.Client
}

func newKgoPeers(opt Options) *kgoPeers {
	return &kgoPeers{secure: opt.Secure, login: opt.Login, clients: map[string]*kgo.Client{}}
}

// dial connects to a broker.
func (p *kgoPeers) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	nc, err := dialer.DialContext(ctx, network, addr)
	if err != nil || p.secure == nil {
		return nc, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return p.secure(ctx, nc, host)
}

const (
	dialTimeout = 2 * time.Second
	// idleConnection is the most there is, and above any heartbeat interval in use: a
	// connection that ends is news.
	idleConnection = 15 * time.Minute
)

func (p *kgoPeers) Ask(ctx context.Context, to projections.Listener, req kmsg.Request) (kmsg.Response, error) {
	addr := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
	cl, err := p.client(addr, beats(req))
	if err != nil {
		return nil, fmt.Errorf("ask broker at %s: %w", addr, err)
	}
	resp, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("ask broker at %s: %w", addr, err)
	}
	return resp, nil
}

func (p *kgoPeers) Stay(ctx context.Context, to projections.Listener) {
	conn, err := p.dial(ctx, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if p.login != nil && login(ctx, conn, p.login) != nil {
		return
	}
	var b [1]byte
	_, _ = conn.Read(b[:]) // nothing is ever sent: whatever comes is the end
}

func (p *kgoPeers) client(addr string, beats bool) (*kgo.Client, error) {
	key := addr + " " + strconv.FormatBool(beats)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients == nil {
		return nil, net.ErrClosed
	}
	cl := p.clients[key]
	if cl == nil {
		var err error
		opts := []kgo.Opt{kgo.SeedBrokers(addr), kgo.ClientID("kaas"), kgo.Dialer(p.dial),
			kgo.ConnIdleTimeout(idleConnection), kgo.DisableClientMetrics()}
		if p.login != nil {
			opts = append(opts, kgo.SASL(p.login))
		}
		cl, err = kgo.NewClient(opts...)
		if err != nil {
			return nil, err
		}
		p.clients[key] = cl
	}
	return cl, nil
}

// beats reports a request of a broker's registration.
func beats(req kmsg.Request) bool {
	k := kmsg.Key(req.Key())
	return k == kmsg.BrokerHeartbeat || k == kmsg.BrokerRegistration
}

func (p *kgoPeers) Close() {
	p.mu.Lock()
	clients := p.clients
	p.clients = nil
	p.mu.Unlock()
	for _, cl := range clients {
		cl.Close()
	}
}

// nobodyThere reports that no process listens where one was asked: it is gone, for its
// listener ends last.
func nobodyThere(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

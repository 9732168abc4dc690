package lab

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
)

// Ports of a broker on its host, and its volume there.
const (
	BrokerPort = "9092"
	HTTPPort   = "8080"
	VolumeDir  = "/mnt/data/kaas"
)

// startTime is the most that a broker may take, many times the usual on a busy machine.
const startTime = 3 * time.Minute

// stopTime is more than a broker takes that nobody relieves of what it leads.
const stopTime = 2 * time.Minute

// Broker is a kaas broker on a host.
type Broker struct {
	*Process
	Addr string // for clients, with DialContext
	HTTP string // of /readyz and /metrics
}

// BuildBroker makes the broker's binary.
func (l *Lab) BuildBroker(ctx context.Context) (string, error) {
	return l.Build(ctx, "kaas.dev/kaas/server/cmd/kaas")
}

// StartBroker runs a broker's binary, built without cgo, on host n, with node.id n and
// the volume that all brokers of the lab share, and returns when it answers. args are
// its further flags, of which the last counts: "--set", "node.id=1".
func (l *Lab) StartBroker(ctx context.Context, n int, binary string, args ...string) (*Broker, error) {
	h, err := l.Lookup(n)
	if err != nil {
		return nil, err
	}
	b := &Broker{Addr: net.JoinHostPort(h.Addr(), BrokerPort), HTTP: net.JoinHostPort(h.Addr(), HTTPPort)}
	line := []string{binary, "--set", "node.id=" + strconv.Itoa(n), "--set", "listeners=PLAINTEXT://" + b.Addr,
		"--set", "http.listeners=" + b.HTTP, "--set", "log.dirs=" + VolumeDir}
	b.Process, err = h.Spawn(ctx, "kaas", "exec "+quote(append(line, args...)...))
	if err != nil {
		return nil, err
	}
	ended := make(chan int, 1)
	waitCtx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with waitCtx, at the return
		if code, err := b.Wait(waitCtx); err == nil {
			ended <- code
		}
	}()
	err = await(ctx, "start of the broker on "+h.Name(), startTime, func(ctx context.Context) (bool, error, error) {
		select {
		case code := <-ended:
			return false, nil, fmt.Errorf("the broker on %s ended with code %d: %s", h.Name(), code, b.End())
		default:
		}
		err := l.answers(ctx, b.Addr)
		return err == nil, err, nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// StartBrokers runs a broker on each of the first n hosts, all at once, as a cluster is
// started: who comes alone is given everything, only to hand it over again. With an
// error, the brokers that do not run are nil.
func (l *Lab) StartBrokers(ctx context.Context, n int, binary string, args ...string) ([]*Broker, error) {
	out, errs := make([]*Broker, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i], errs[i] = l.StartBroker(ctx, i+1, binary, args...) })
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// answers asks a broker for its versions.
func (l *Lab) answers(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := l.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err // a client would wait longer and longer before it tries again
	}
	conn.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.Dialer(l.DialContext), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewApiVersionsRequest()
	_, err = cl.SeedBrokers()[0].Request(ctx, &req)
	return err
}

// Kill is kill -9, and returns when the broker is gone.
func (b *Broker) Kill(ctx context.Context) error { return b.stop(ctx, syscall.SIGKILL, -1) }

// Stop asks the broker to end and is an error if it does not end well. Others take over
// what it leads first, which takes a while.
func (b *Broker) Stop(ctx context.Context) error { return b.stop(ctx, syscall.SIGTERM, 0) }

func (b *Broker) stop(ctx context.Context, sig syscall.Signal, want int) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := b.Signal(ctx, sig); err != nil {
		return err
	}
	code, err := b.Wait(ctx)
	if err == nil && want >= 0 && code != want {
		err = fmt.Errorf("the broker on %s ended with code %d: %s", b.Host.Name(), code, b.End())
	}
	return err
}

package server

import (
	"context"

	franz "github.com/twmb/franz-go/pkg/sasl"

	"kaas.dev/kaas/server/auth/login"
)

// peerLogin is how this broker logs in to others. Nil does nothing.
type peerLogin struct {
	mechanism franz.Mechanism
	end       context.CancelFunc
	done      chan struct{}
}

// logIn begins what the mechanism does beside its logins, such as to fetch tokens ahead of time.
func (n *Node) logIn() {
	s := n.cfg.SASL.Peers
	if s == nil {
		return
	}
	for _, note := range s.Notes {
		n.log.Warn(note, "listener", n.cfg.InterBroker)
	}
	ctx, end := context.WithCancel(context.Background())
	l := &peerLogin{login.New(s, n.log), end, make(chan struct{})}
	go func() {
		defer close(l.done)
		if r, ok := l.mechanism.(interface{ Run(context.Context) }); ok {
			r.Run(ctx)
		}
	}()
	n.login = l
}

// toPeers is the mechanism, nil where brokers have none among themselves.
func (l *peerLogin) toPeers() franz.Mechanism {
	if l == nil {
		return nil
	}
	return l.mechanism
}

// stop ends it; a file system that hangs keeps it no longer than ctx lasts.
func (l *peerLogin) stop(ctx context.Context) {
	if l == nil {
		return
	}
	l.end()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}

package kube

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// Way is a client's own connections to the API server, through this process.
type Way struct {
	Kubeconfig string // the file that leads along it, if it is a Server's

	to func() string // where the API server listens
	ln net.Listener
	wg sync.WaitGroup
	mu struct {
		sync.Mutex
		delay  time.Duration
		opened chan struct{} // not nil: nothing passes before it is closed
		conns  map[net.Conn]bool
		closed bool
	}
}

// OpenWay makes a way from a port of an address of this host to an API server.
func OpenWay(from string, to func() string) (*Way, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(from, "0"))
	if err != nil {
		return nil, err
	}
	w := &Way{to: to, ln: ln}
	w.mu.conns = map[net.Conn]bool{}
	w.wg.Go(w.accept)
	return w, nil
}

// Way makes a way to the server.
func (s *Server) Way() (*Way, error) {
	w, err := OpenWay("127.0.0.1", s.where)
	if err != nil {
		return nil, err
	}
	s.ways = append(s.ways, w)
	w.Kubeconfig = filepath.Join(s.dir.Root(), fmt.Sprintf("way-%d.kubeconfig", len(s.ways)))
	conf := s.conf.DeepCopy()
	for _, c := range conf.Clusters {
		c.Server = "https://" + w.Addr()
	}
	return w, clientcmd.WriteToFile(*conf, w.Kubeconfig)
}

// Addr is where it begins.
func (w *Way) Addr() string { return w.ln.Addr().String() }

// Slow has every answer come late by so much, 0 for not at all.
func (w *Way) Slow(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.delay = by
}

// Cut has nothing pass any more, and no connection end: it leads nowhere. Heal undoes it.
func (w *Way) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.opened == nil && !w.mu.closed {
		w.mu.opened = make(chan struct{})
	}
}

// Heal undoes Cut.
func (w *Way) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.opened != nil {
		close(w.mu.opened)
		w.mu.opened = nil
	}
}

// Close ends it, and the connections that go along it.
func (w *Way) Close() {
	w.mu.Lock()
	w.mu.closed, w.mu.delay = true, 0
	if w.mu.opened != nil {
		close(w.mu.opened)
		w.mu.opened = nil
	}
	for c := range w.mu.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.ln.Close()
	w.wg.Wait()
}

func (w *Way) accept() {
	for {
		c, err := w.ln.Accept()
		if err != nil {
			return
		}
		w.wg.Go(func() { w.carry(c) })
	}
}

// carry carries a connection's bytes to the server and back.
func (w *Way) carry(client net.Conn) {
	w.pass(0)
	server, err := net.Dial("tcp", w.to())
	if err != nil || !w.note(client, server) {
		client.Close()
		if server != nil {
			server.Close()
		}
		return
	}
	defer w.forget(client, server)
	var wg sync.WaitGroup
	for _, d := range []struct {
		from, to net.Conn
		late     bool
	}{{client, server, false}, {server, client, true}} {
		wg.Go(func() {
			w.copy(d.to, d.from, d.late)
			client.Close()
			server.Close()
		})
	}
	wg.Wait()
}

type piece struct {
	b  []byte
	at time.Time
}

// copy passes on what comes, late or not.
func (w *Way) copy(to io.Writer, from io.Reader, late bool) {
	pieces := make(chan piece, 64)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(pieces)
	wg.Go(func() {
		for p := range pieces {
			delay := time.Duration(0)
			if late {
				delay = time.Until(p.at.Add(w.delay()))
			}
			w.pass(delay)
			if _, err := to.Write(p.b); err != nil {
				for range pieces { // the reader ends with its connection
				}
				return
			}
		}
	})
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if n > 0 {
			pieces <- piece{b[:n], time.Now()}
		}
		if err != nil {
			return
		}
	}
}

func (w *Way) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.delay
}

// pass waits for delay, and for as long as the way is cut.
func (w *Way) pass(delay time.Duration) {
	t := time.NewTimer(max(delay, 0))
	defer t.Stop()
	<-t.C
	w.mu.Lock()
	opened := w.mu.opened
	w.mu.Unlock()
	if opened != nil {
		<-opened
	}
}

func (w *Way) note(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.mu.conns[c] = true
	}
	return !w.mu.closed
}

func (w *Way) forget(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		delete(w.mu.conns, c)
	}
}

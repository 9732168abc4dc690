package server

import (
	"net"
	"slices"
	"sync"
)

// mostHTTP bounds the connections to http.listeners, whose descriptors are those of clients, too.
const mostHTTP = 100

// boundedListener has so many connections open at once. One more takes the place of another: the
// oldest of the address that has the most. So whoever hoards them keeps no probe from its answer.
type boundedListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*boundedConn // the oldest first
}

type boundedConn struct {
	net.Conn
	from string
	in   *boundedListener
}

func (l *boundedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &boundedConn{nc, nc.RemoteAddr().String(), l}
	if host, _, err := net.SplitHostPort(c.from); err == nil {
		c.from = host
	}
	if gone := l.add(c); gone != nil {
		gone.Conn.Close() // whoever serves it learns of it, and closes it again
	}
	return c, nil
}

// add takes a connection in, and returns the one that it takes the place of, if any.
func (l *boundedListener) add(c *boundedConn) (gone *boundedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		gone = l.dispensable()
		l.remove(gone)
	}
	l.open = append(l.open, c)
	return gone
}

// dispensable is the oldest connection of the address that has the most. The caller holds mu.
func (l *boundedListener) dispensable() (oldest *boundedConn) {
	of := map[string]int{}
	for _, c := range l.open {
		of[c.from]++
	}
	for _, c := range l.open {
		if oldest == nil || of[c.from] > of[oldest.from] {
			oldest = c
		}
	}
	return oldest
}

// remove forgets a connection, if it is there. The caller holds mu.
func (l *boundedListener) remove(c *boundedConn) {
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

func (c *boundedConn) Close() error {
	c.in.mu.Lock()
	c.in.remove(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}

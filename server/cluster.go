package server

import (
	"net"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections"
)

// node is a broker as one listener's clients see it.
type node struct {
	id   int32
	host string
	port int32
	rack *string
}

// nodeOf is how broker b is reached by the clients of c: through the listener of the
// same name, for another may ask for less, or not be reachable from there. Where the
// operator named no address for this broker, it is the one that the client itself
// used: it worked.
func (s *Server) nodeOf(b projections.Broker, c *conn) (node, bool) {
	l, ok := b.Listener(c.listener.Name)
	if !ok {
		return node{}, false
	}
	n := node{id: b.ID, host: l.Host, port: l.Port}
	if b.Rack != "" {
		n.rack = &b.Rack
	}
	if b.ID == s.cfg.NodeID && s.cfg.advertisesUsed(c.listener) {
		if a, ok := c.nc.LocalAddr().(*net.TCPAddr); ok {
			n.host, n.port = a.AddrPort().Addr().Unmap().WithZone("").String(), int32(a.Port)
		}
	}
	return n, true
}

// nodes returns the living brokers, and with fenced the others too.
func (s *Server) nodes(view *projections.Cluster, c *conn, fenced bool) []node {
	var out []node
	for _, b := range view.Brokers() {
		if n, ok := s.nodeOf(b, c); ok && (fenced || !b.Fenced) {
			out = append(out, n)
		}
	}
	return out
}

// topicOf finds a topic by what the request's version names it by.
func topicOf(view *projections.Cluster, byID bool, name string, id [16]byte) *projections.Topic {
	if byID {
		return view.TopicByID(id)
	}
	return view.Topic(name)
}

// leaderOf is the leader and leader epoch of a partition, -1 and -1 if there is none that
// lives.
func leaderOf(view *projections.Cluster, t *projections.Topic, index int32) (leader, epoch int32) {
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return -1, -1
	}
	p := t.Partitions[index]
	if !view.Alive(p.Leader) {
		return -1, -1
	}
	return p.Leader, p.Epoch
}

// controllerFor is whom the clients of c are sent to with changes: the controller or, where
// it does not live or they cannot reach it, this broker, which passes them on.
func (s *Server) controllerFor(c *conn, view *projections.Cluster) int32 {
	b, _ := view.Broker(view.Controller())
	if _, reachable := b.Listener(c.listener.Name); reachable && !b.Fenced {
		return b.ID
	}
	return s.cfg.NodeID
}

// shownPartition is a partition as the clients of one listener are shown it.
type shownPartition struct {
	leader, epoch          int32
	replicas, isr, offline []int32
	err                    error
}

// shown tells of a leader that lives, is served by the volume, and can be reached.
func (s *Server) shown(c *conn, view *projections.Cluster, t *projections.Topic, index int) shownPartition {
	p := t.Partitions[index]
	one := []int32{p.Leader}
	out := shownPartition{leader: p.Leader, epoch: p.Epoch, replicas: one, isr: one, offline: []int32{}}
	b, _ := view.Broker(p.Leader)
	_, reachable := b.Listener(c.listener.Name)
	switch {
	case p.Leader == projections.NoLeader:
		out.replicas, out.isr, out.err = []int32{}, []int32{}, kerr.LeaderNotAvailable
	case !view.Alive(p.Leader) || s.backend.Offline(t.ID, int32(index)) != nil:
		out.leader, out.isr, out.offline, out.err = projections.NoLeader, []int32{}, one, kerr.LeaderNotAvailable
	case !reachable:
		out.leader, out.err = projections.NoLeader, kerr.ListenerNotFound
	}
	return out
}

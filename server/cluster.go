package server

import (
	"net"
	"slices"

	"kaas.dev/kaas/projections"
)

// allTopicOps and allClusterOps are what everybody may do while there are no ACLs,
// as bits of Kafka's operation codes (KIP-430).
const (
	allTopicOps   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	allClusterOps = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// node is a broker as one listener's clients see it.
type node struct {
	id   int32
	host string
	port int32
	rack *string
}

// nodeOf is how broker b is reached by the clients of c. Where the operator named
// no address for this broker, it is the one that the client itself used: it worked.
func (s *Server) nodeOf(b projections.Broker, c *conn) (node, bool) {
	l, ok := b.Listener(s.cfg.Listeners[0].Name)
	if !ok {
		return node{}, false
	}
	n := node{id: b.ID, host: l.Host, port: l.Port}
	if b.Rack != "" {
		n.rack = &b.Rack
	}
	if b.ID == s.cfg.NodeID && s.cfg.advertisesUsed() && c != nil {
		if a, ok := c.nc.LocalAddr().(*net.TCPAddr); ok {
			n.host, n.port = a.AddrPort().Addr().Unmap().WithZone("").String(), int32(a.Port)
		}
	}
	return n, true
}

// advertisesUsed reports whether clients are told the address they connected to.
func (c *Config) advertisesUsed() bool {
	return len(c.Advertised) == 0 && slices.Contains([]string{"", "0.0.0.0", "::"}, c.Listeners[0].Host)
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

// leaderOf is the leader and leader epoch of a partition, -1 and -1 if unknown.
func leaderOf(t *projections.Topic, index int32) (leader, epoch int32) {
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return -1, -1
	}
	p := t.Partitions[index]
	return p.Leader, p.Epoch
}

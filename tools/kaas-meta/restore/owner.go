package restore

import (
	"errors"
	"io/fs"
	"math"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// Owner is a session that ends when one of its streams is restored.
type Owner struct {
	Session string   `json:"session"`
	Node    int32    `json:"node"` // node.id; -1 where it cannot be told
	Role    string   `json:"role"`
	Host    string   `json:"host,omitempty"`
	Streams []string `json:"streams"` // of those that are restored
	// Partitions and Shards are how many of them the broker leads by this session: all are
	// opened anew, by it or by others.
	Partitions int `json:"partitions"`
	Shards     int `json:"shards"`
}

// seal notes whom a claim of the stream seals.
func (p *Plan) seal(v *substrate.Volume, path, label string, c *projections.Cluster) error {
	session, _, err := metalog.NeedsSeal(v, path, math.MaxInt32, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is made anew
	}
	if err != nil || session == "" {
		return err
	}
	for i := range p.Sealed {
		if o := &p.Sealed[i]; o.Session == session {
			o.Streams = append(o.Streams, label)
			return nil
		}
	}
	o := Owner{Session: session, Node: -1, Streams: []string{label}}
	if id, ok := identity(v, session); ok {
		o.Node, o.Role, o.Host = id.NodeID, id.Role, id.Host
	}
	for _, b := range c.Brokers() {
		if b.Session == session {
			o.Node, o.Role = b.ID, substrate.RoleData
			o.Partitions, o.Shards = ledBy(c, b.ID)
		}
	}
	p.Sealed = append(p.Sealed, o)
	return nil
}

func ledBy(c *projections.Cluster, node int32) (partitions, shards int) {
	for _, t := range c.Topics() {
		for _, p := range t.Partitions {
			if p.Leader == node {
				partitions++
			}
		}
	}
	for _, kind := range []projections.ShardKind{projections.ShardGroups, projections.ShardTxns} {
		for _, p := range c.Shards(kind) {
			if p.Leader == node {
				shards++
			}
		}
	}
	return partitions, shards
}

// identity reads whose a session is. Its token moves between two names, so one look may miss
// it; nothing rests on that.
func identity(v *substrate.Volume, session string) (id substrate.Identity, ok bool) {
	for range 3 {
		for _, n := range []string{"0", "1"} {
			name := substrate.SessionPath(session) + "/" + n
			b, err := v.ReadFile(name)
			if err != nil {
				_, _ = v.ListFresh(substrate.SessionPath(session)) // what was looked up while absent is forgotten
				continue
			}
			if _, err := substrate.DecodeFile(name, substrate.KindSession, b, &id); err == nil {
				return id, true
			}
		}
	}
	return id, false
}

package projections

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// QuotaName is one part of whom a quota is for: a name, the default for whoever has none of
// his own, or, the zero value, nothing. Names are not empty.
type QuotaName struct {
	Name    string `msgpack:"name,omitempty" json:"name,omitempty"`
	Default bool   `msgpack:"default,omitempty" json:"default,omitempty"`
}

// IsZero reports that the part says nothing.
func (n QuotaName) IsZero() bool { return n == QuotaName{} }

func (n QuotaName) compare(m QuotaName) int {
	switch {
	case n.Default == m.Default:
		return cmp.Compare(n.Name, m.Name)
	case n.Default:
		return -1
	}
	return 1
}

// QuotaEntity is whom a quota is for: a user, a client ID, both together, or an address.
type QuotaEntity struct {
	User     QuotaName `msgpack:"user,omitempty" json:"user,omitzero"`
	ClientID QuotaName `msgpack:"client_id,omitempty" json:"client_id,omitzero"`
	IP       QuotaName `msgpack:"ip,omitempty" json:"ip,omitzero"`
}

func (e QuotaEntity) compare(f QuotaEntity) int {
	return cmp.Or(e.User.compare(f.User), e.ClientID.compare(f.ClientID), e.IP.compare(f.IP))
}

// String is the entity as it is said to people: user "alice", default client ID.
func (e QuotaEntity) String() string {
	s := ""
	for _, p := range e.Parts() {
		if s != "" {
			s += ", "
		}
		if p.Name.Default {
			s += "default " + p.said
		} else {
			s += p.said + " " + quoted(p.Name.Name)
		}
	}
	return s
}

// Kinds of parts, as Kafka calls them.
const (
	QuotaUser     = "user"
	QuotaClientID = "client-id"
	QuotaIP       = "ip"
)

// QuotaPart is a part of an entity that says something, with its kind.
type QuotaPart struct {
	Kind string
	Name QuotaName
	said string
}

// Parts are those of the entity, user first.
func (e QuotaEntity) Parts() (out []QuotaPart) {
	for _, p := range []QuotaPart{{QuotaUser, e.User, "user"}, {QuotaClientID, e.ClientID, "client ID"}, {QuotaIP, e.IP, "address"}} {
		if !p.Name.IsZero() {
			out = append(out, p)
		}
	}
	return out
}

// QuotaValues are an entity's quotas by Kafka's names.
type QuotaValues map[string]float64

// EncodeMsgpack writes them in order, so that equal ones have equal bytes.
func (q QuotaValues) EncodeMsgpack(e *msgpack.Encoder) error {
	err := e.EncodeMapLen(len(q))
	for _, k := range slices.Sorted(maps.Keys(q)) {
		err = errors.Join(err, e.EncodeString(k), e.EncodeFloat64(q[k]))
	}
	return err
}

// Quotas is all that was set, by whom it is for. It never changes, so that it is known by its
// address: what was worked out from it holds as long as a view has the same.
type Quotas struct {
	by map[QuotaEntity]QuotaValues
}

// Of is what was set for an entity itself, by Kafka's names, nil if nothing was.
func (q *Quotas) Of(e QuotaEntity) QuotaValues {
	if q == nil {
		return nil
	}
	return q.by[e]
}

// Entities are those that something was set for, in one order.
func (q *Quotas) Entities() []QuotaEntity {
	if q == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(q.by), QuotaEntity.compare)
}

func (q *Quotas) equal(r *Quotas) bool {
	return q == r || q != nil && r != nil && maps.EqualFunc(q.by, r.by, maps.Equal[QuotaValues])
}

// setQuotas sets all that an entity has.
func (d *draft) setQuotas(e QuotaEntity, set QuotaValues) {
	if !d.own.quotas {
		d.own.quotas = true
		q := &Quotas{map[QuotaEntity]QuotaValues{}}
		if d.quotas != nil {
			q.by = maps.Clone(d.quotas.by)
		}
		d.quotas = q
	}
	if len(set) == 0 {
		delete(d.quotas.by, e)
	} else {
		d.quotas.by[e] = set
	}
}

// settleQuotas has the view have none where none are left.
func (d *draft) settleQuotas() {
	if d.own.quotas && len(d.quotas.by) == 0 {
		d.quotas = nil
	}
}

// Quotas are those of the cluster, nil if there are none.
func (c *Cluster) Quotas() *Quotas { return c.quotas }

// quotaBody is what was set for one entity.
type quotaBody struct {
	Entity QuotaEntity `msgpack:"entity"`
	Set    QuotaValues `msgpack:"set"`
}

func encodeQuotas(c *Cluster) (out []quotaBody) {
	for _, e := range c.quotas.Entities() {
		out = append(out, quotaBody{e, c.quotas.by[e]})
	}
	return out
}

func (c *Cluster) decodeQuotas(bs []quotaBody) error {
	if len(bs) == 0 {
		return nil
	}
	q := &Quotas{make(map[QuotaEntity]QuotaValues, len(bs))}
	for _, b := range bs {
		switch {
		case b.Entity == QuotaEntity{} || len(b.Set) == 0:
			return errors.New("a quota is for nobody, or none")
		case q.by[b.Entity] != nil:
			return fmt.Errorf("quotas of %s stand twice", b.Entity)
		}
		q.by[b.Entity] = b.Set
	}
	c.quotas = q
	return nil
}

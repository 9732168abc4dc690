package quota

import (
	"net/netip"

	"kaas.dev/kaas/projections"
)

// Client is who asks: a user and a client ID.
type Client struct{ User, ID string }

// kind is a kind of quota of clients.
type kind uint8

const (
	produce kind = iota
	fetch
	request
	mutation
	kinds
)

var names = [kinds]string{projections.QuotaProducerBytes, projections.QuotaConsumerBytes, projections.QuotaRequestPercentage, projections.QuotaMutations}

// limits are the quotas of a view, made ready to be looked up.
type limits struct {
	from    *projections.Quotas
	clients [kinds]table
	ips     map[netip.Addr]float64
	ip      float64 // of every other address; 0: none
}

// table is one kind of quota.
type table struct {
	levels [len(levels)]bool // which of them have a quota
	any    bool
	by     map[projections.QuotaEntity]float64
}

// part is how much of a client a level looks at.
type part uint8

const (
	none part = iota
	byDefault
	named
)

// levels are the kinds of entities that fit a client, in the order in which they count.
var levels = [...]struct{ user, id part }{
	{named, named}, {named, byDefault}, {named, none},
	{byDefault, named}, {byDefault, byDefault}, {byDefault, none},
	{none, named}, {none, byDefault},
}

func (p part) of(name string) projections.QuotaName {
	switch p {
	case named:
		return projections.QuotaName{Name: name}
	case byDefault:
		return projections.QuotaName{Default: true}
	}
	return projections.QuotaName{}
}

func partOf(n projections.QuotaName) part {
	switch {
	case n.Default:
		return byDefault
	case n.Name != "":
		return named
	}
	return none
}

func newLimits(q *projections.Quotas) *limits {
	l := &limits{from: q, ips: map[netip.Addr]float64{}}
	for i := range l.clients {
		l.clients[i].by = map[projections.QuotaEntity]float64{}
	}
	for _, e := range q.Entities() {
		set := q.Of(e)
		if v, ok := set[projections.QuotaConnections]; ok && !e.IP.IsZero() {
			l.addIP(e.IP, v)
			continue
		}
		for i := range l.clients {
			if v, ok := set[names[i]]; ok && e.IP.IsZero() {
				l.clients[i].add(e, v)
			}
		}
	}
	return l
}

func (l *limits) addIP(n projections.QuotaName, v float64) {
	if n.Default {
		l.ip = v
	} else if a, err := netip.ParseAddr(n.Name); err == nil {
		l.ips[a.Unmap().WithZone("")] = v
	}
}

func (t *table) add(e projections.QuotaEntity, v float64) {
	for i, l := range levels {
		if partOf(e.User) == l.user && partOf(e.ClientID) == l.id {
			t.levels[i], t.any, t.by[e] = true, true, v
		}
	}
}

// find is the quota of a client, and with whom the client shares what it uses: the client
// itself, all clients of the user, or all users of the client ID.
func (t *table) find(c Client) (bound float64, shared Client, ok bool) {
	if !t.any {
		return 0, Client{}, false
	}
	for i, l := range levels {
		if !t.levels[i] {
			continue
		}
		bound, ok = t.by[projections.QuotaEntity{User: l.user.of(c.User), ClientID: l.id.of(c.ID)}]
		if !ok {
			continue
		}
		switch none {
		case l.id:
			return bound, Client{User: c.User}, true
		case l.user:
			return bound, Client{ID: c.ID}, true
		}
		return bound, c, true
	}
	return 0, Client{}, false
}

// of is the quota of an address.
func (l *limits) of(a netip.Addr) (bound float64, ok bool) {
	if v, ok := l.ips[a]; ok {
		return v, true
	}
	return l.ip, l.ip > 0
}

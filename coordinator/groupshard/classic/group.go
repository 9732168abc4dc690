package classic

import (
	"cmp"
	"slices"
	"time"

	"kaas.dev/kaas/projections/groups"
)

// state is where a group stands.
type state int8

const (
	empty state = iota
	preparing
	completing
	stable
	dead
)

func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// Group is one group's live state.
type Group struct {
	id  string
	cfg Config

	state        state
	generation   int32
	protocolType string // of the members; of the last ones when there are none
	protocol     string // of the generation
	leader       string // member ID; empty without members

	members   []*member // in the order they came
	byID      map[string]*member
	static    map[string]*member // by instance ID
	supported map[string]int     // by protocol: how many members support it
	topics    map[string]bool    // subscribed, as of the generation; nil: not known
	pending   pendings
	bytes     int64 // that the members take; see weight

	rebalance rebalance
	storing   *assignment            // the leader's, while it is being stored
	replacing map[int64]*replacement // static members, while they are being stored
	// stores is the ID of the last store, stored that of the last that has succeeded.
	stores, stored int64
	effects        []Effect
}

// New returns a group with the membership as it was stored last, nil if there is none. It
// is Stable, or Empty, and all sessions begin now. A group that is larger than it may be
// begins to rebalance.
func New(id string, from *groups.Classic, cfg Config, now time.Time) *Group {
	g := &Group{
		id:        id,
		cfg:       cfg,
		byID:      map[string]*member{},
		static:    map[string]*member{},
		supported: map[string]int{},
		replacing: map[int64]*replacement{},
	}
	if from == nil {
		return g
	}
	g.generation, g.protocolType, g.protocol = from.Generation, from.ProtocolType, from.Protocol
	for _, stored := range from.Members {
		m := &member{ClassicMember: stored}
		m.alive(now)
		g.add(m)
	}
	if g.byID[from.Leader] != nil {
		g.leader = from.Leader
	}
	if len(g.members) > 0 {
		g.state = stable
	}
	g.topics = g.subscriptions()
	if len(g.members) > cfg.MaxSize {
		g.prepare(now)
	}
	return g
}

// ID is the group's name.
func (g *Group) ID() string { return g.id }

// State is the group's state as Kafka names it.
func (g *Group) State() string { return g.state.String() }

// Configure makes cfg the settings from now on.
func (g *Group) Configure(cfg Config) { g.cfg = cfg }

// ProtocolType is that of the members, or of the last ones; empty if there were none.
func (g *Group) ProtocolType() string { return g.protocolType }

// Generation is that of the last rebalance.
func (g *Group) Generation() int32 { return g.generation }

// Idle reports that the group has nothing in memory that was not stored: it may be
// forgotten, and loaded again when it is asked for.
func (g *Group) Idle() bool {
	return g.state == empty && g.pending.due.Len() == 0 && g.stored == g.stores
}

// Take returns what there is to do since the last call, in order.
func (g *Group) Take() []Effect {
	e := g.effects
	g.effects = nil
	return e
}

// Close ends the group here: it was deleted, goes over to the other protocol, or has
// another owner. Whoever waits gets err, a *kerr.Error; later requests are told that the
// coordinator is not available, and the end of a store is of no interest.
func (g *Group) Close(now time.Time, err error) {
	for _, m := range g.members {
		g.answerJoin(now, m, JoinResponse{MemberID: m.ID, Generation: -1}, err)
		g.answerSync(now, m, err)
	}
	g.state, g.rebalance, g.storing = dead, rebalance{}, nil
	g.members, g.leader, g.protocol, g.topics = nil, "", "", nil
	clear(g.byID)
	clear(g.static)
	clear(g.supported)
	g.pending, g.bytes = pendings{}, 0
	clear(g.replacing)
}

// Membership is what the group has now, as it would be stored.
func (g *Group) Membership() groups.Classic {
	c := groups.Classic{
		ProtocolType: g.protocolType,
		Generation:   g.generation,
		Protocol:     g.protocol,
		Leader:       g.leader,
	}
	for _, m := range g.members {
		c.Members = append(c.Members, m.ClassicMember)
	}
	slices.SortFunc(c.Members, func(a, b groups.ClassicMember) int { return cmp.Compare(a.ID, b.ID) })
	return c
}

// store asks for a membership to be stored, and returns the store's ID.
func (g *Group) store(c groups.Classic) int64 {
	g.stores++
	g.emit(Store{ID: g.stores, State: c})
	return g.stores
}

func (g *Group) emit(e Effect) { g.effects = append(g.effects, e) }

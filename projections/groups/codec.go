package groups

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kaas.dev/kaas/projections"
)

// stateBody is the encoded view: everything in one order, so that equal views have
// equal bytes. Offsets are packed, and name their topic by its place in Topics.
type stateBody struct {
	Topics []projections.TopicID `msgpack:"topics"` // ascending
	Groups []groupBody           `msgpack:"groups"` // by ID
}

type groupBody struct {
	ID         string        `msgpack:"i"`
	Offsets    []byte        `msgpack:"o,omitempty"`
	Pending    []pendingBody `msgpack:"p,omitempty"` // by producer
	Classic    *Classic      `msgpack:"c,omitempty"`
	Consumer   *consumerBody `msgpack:"n,omitempty"`
	EmptySince int64         `msgpack:"e,omitempty"`
}

type pendingBody struct {
	Producer int64  `msgpack:"i"`
	Epoch    int16  `msgpack:"e"`
	Offsets  []byte `msgpack:"o"`
}

type consumerBody struct {
	Epoch       int32             `msgpack:"e"`
	TargetEpoch int32             `msgpack:"t"`
	Assignor    string            `msgpack:"a,omitempty"`
	TopicsHash  uint64            `msgpack:"h"`
	Members     []*ConsumerMember `msgpack:"m,omitempty"` // by ID
	Target      Targets           `msgpack:"g,omitempty"`
}

// Encode returns the view as one msgpack value.
func Encode(s *Shard) ([]byte, error) {
	e := newStateEncoder(s)
	body := stateBody{Topics: e.topics, Groups: make([]groupBody, 0, s.Len())}
	for g := range s.Groups() {
		body.Groups = append(body.Groups, e.group(g))
	}
	return encode(&body)
}

// stateEncoder has the places of topics, and scratch space.
type stateEncoder struct {
	topics     []projections.TopicID
	place      map[projections.TopicID]int
	places     []int
	partitions []int32
}

func newStateEncoder(s *Shard) *stateEncoder {
	e := &stateEncoder{place: map[projections.TopicID]int{}}
	for g := range s.Groups() {
		for id := range g.Offsets {
			e.place[id] = 0
		}
		for _, p := range g.Pending {
			for id := range p.Offsets {
				e.place[id] = 0
			}
		}
	}
	e.topics = slices.SortedFunc(maps.Keys(e.place), compareIDs)
	for i, id := range e.topics {
		e.place[id] = i
	}
	return e
}

func (e *stateEncoder) group(g *Group) groupBody {
	b := groupBody{ID: g.ID, Classic: g.Classic, EmptySince: g.EmptySince}
	if len(g.Offsets) > 0 {
		b.Offsets = e.offsets(g.Offsets)
	}
	for _, producer := range slices.Sorted(maps.Keys(g.Pending)) {
		p := g.Pending[producer]
		b.Pending = append(b.Pending, pendingBody{producer, p.Epoch, e.offsets(p.Offsets)})
	}
	if c := g.Consumer; c != nil {
		b.Consumer = &consumerBody{c.Epoch, c.TargetEpoch, c.Assignor, c.TopicsHash, nil, c.Target}
		for _, m := range slices.Sorted(maps.Keys(c.Members)) {
			b.Consumer.Members = append(b.Consumer.Members, c.Members[m])
		}
	}
	return b
}

func (e *stateEncoder) offsets(o Offsets) []byte {
	e.places = e.places[:0]
	size := 1
	for id, t := range o {
		e.places = append(e.places, e.place[id])
		size += 12 + 8*len(t)
	}
	slices.Sort(e.places)
	p := packer{b: make([]byte, 0, size)}
	p.uint(uint64(len(e.places)))
	for _, n := range e.places {
		p.uint(uint64(n))
		e.partitions = p.topicOffsets(o[e.topics[n]], e.partitions)
	}
	return p.b
}

// Decode is the inverse of Encode. It refuses what no fold gives.
func Decode(raw []byte) (*Shard, error) {
	var body stateBody
	if err := unmarshal(raw, &body); err != nil {
		return nil, fmt.Errorf("groups view: %w", err)
	}
	if !sorted(body.Topics, compareIDs) {
		return nil, errors.New("groups view: topics are not in order")
	}
	if !sorted(body.Groups, func(a, b groupBody) int { return cmp.Compare(a.ID, b.ID) }) {
		return nil, errors.New("groups view: groups are not in order")
	}
	all := make([]*Group, len(body.Groups))
	for i := range body.Groups {
		g, err := body.group(&body.Groups[i])
		if err != nil {
			return nil, fmt.Errorf("groups view: group %q: %w", body.Groups[i].ID, err)
		}
		all[i] = g
	}
	return &Shard{newTable(all)}, nil
}

// sorted reports whether values ascend, none twice.
func sorted[T any](vs []T, compare func(a, b T) int) bool {
	for i := 1; i < len(vs); i++ {
		if compare(vs[i-1], vs[i]) >= 0 {
			return false
		}
	}
	return true
}

func (s *stateBody) group(b *groupBody) (*Group, error) {
	g := &Group{ID: b.ID, Classic: b.Classic, EmptySince: b.EmptySince}
	var err error
	if g.Offsets, err = s.offsets(b.Offsets); err != nil {
		return nil, err
	}
	for _, p := range b.Pending {
		o, err := s.offsets(p.Offsets)
		if err != nil {
			return nil, err
		}
		if _, twice := g.Pending[p.Producer]; twice || o == nil {
			return nil, fmt.Errorf("producer %d stands twice or has nothing staged", p.Producer)
		}
		if g.Pending == nil {
			g.Pending = make(map[int64]Pending, len(b.Pending))
		}
		g.Pending[p.Producer] = Pending{p.Epoch, o}
	}
	if g.Classic != nil {
		g.Classic.normalize()
	}
	if g.Consumer, err = b.Consumer.decode(); err != nil {
		return nil, err
	}
	switch {
	case g.void():
		return nil, errors.New("there is nothing of it")
	case g.Classic != nil && g.Consumer != nil:
		return nil, errors.New("it has memberships of both protocols")
	case g.HasMembers() != (g.EmptySince == 0):
		return nil, fmt.Errorf("it has members (%v) and is empty since %d", g.HasMembers(), g.EmptySince)
	}
	return g, nil
}

// offsets unpacks; nil if there are none.
func (s *stateBody) offsets(packed []byte) (Offsets, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	u := unpacker{b: packed}
	n := u.count(3)
	out := make(Offsets, n)
	for range n {
		place := u.uint()
		if place >= uint64(len(s.Topics)) {
			return nil, fmt.Errorf("there is no topic %d of %d", place, len(s.Topics))
		}
		t, err := u.topic()
		if err != nil {
			return nil, err
		}
		id := s.Topics[place]
		if id.IsZero() || out[id] != nil {
			return nil, fmt.Errorf("topic %s is no topic or stands twice", id)
		}
		out[id] = t
	}
	if n == 0 && u.err == nil {
		u.err = errors.New("offsets of no topic")
	}
	return out, u.end()
}

// topic unpacks the offsets of one topic.
func (u *unpacker) topic() (map[int32]Offset, error) {
	n := u.offsets()
	t := make(map[int32]Offset, n)
	for range n {
		p, o := u.offset()
		if u.err == nil && p < 0 {
			u.fail(errPacked)
		}
		t[p] = o
	}
	if u.err == nil && (n == 0 || len(t) != n) {
		u.fail(errors.New("a topic has no partition, or one twice"))
	}
	return t, u.err
}

func (b *consumerBody) decode() (*Consumer, error) {
	if b == nil {
		return nil, nil
	}
	c := &Consumer{Epoch: b.Epoch, TargetEpoch: b.TargetEpoch, Assignor: b.Assignor, TopicsHash: b.TopicsHash,
		Members: make(map[string]*ConsumerMember, len(b.Members)), Target: b.Target}
	for _, m := range b.Members {
		if m == nil || c.Members[m.ID] != nil {
			return nil, errors.New("a member is nil or stands twice")
		}
		m.normalize()
		c.Members[m.ID] = m
	}
	if c.Target == nil {
		c.Target = Targets{}
	}
	for m, a := range c.Target {
		c.Target[m] = a.normal()
	}
	return c, nil
}

package consumer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"kaas.dev/kaas/projections/groups"
)

type partition = groups.Partition

// client is a member as clients are: it takes what it is told at once, gives up what it is
// no longer told when it gets round to it, and says all after an answer that it missed.
type client struct {
	id       string
	instance *string
	epoch    int32
	topics   []string
	pattern  string
	has      map[partition]bool // what it may process
	told     map[partition]bool
	said     map[partition]bool // that it has, last; nil if that may not have arrived
	// classic is the kind of a classic member: eager ones give up all to join.
	classic kind
	rejoin  bool // it has to join; otherwise, if it has not heard of an assignment, to sync
	sync    bool
}

type kind int8

const (
	modern kind = iota
	eager
	cooperative
)

func (c *client) String() string {
	return fmt.Sprintf("%s at %d has %d told %d said %v", c.id, c.epoch, len(c.has), len(c.told), c.said != nil)
}

// request is the client's next heartbeat.
func (c *client) request() HeartbeatRequest {
	r := beatAt(c.id, c.epoch)
	r.InstanceID = c.instance
	if c.epoch < 0 {
		return r
	}
	if c.epoch == 0 || c.said == nil {
		r.RebalanceTimeout, r.Topics, r.Regex = time.Minute, append([]string{}, c.topics...), ptr(c.pattern)
	}
	if c.epoch == 0 || c.said == nil || !maps.Equal(c.said, c.has) {
		r.Owned = named(c.has)
	}
	return r
}

// named is a set of partitions as a request has it.
func named(set map[partition]bool) []groups.TopicPartitions {
	byTopic := map[topicID][]int32{}
	for p := range set {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Index)
	}
	out := []groups.TopicPartitions{}
	for id, ps := range byTopic {
		out = append(out, groups.TopicPartitions{Topic: id, Partitions: ps})
	}
	return out
}

func setOf(a groups.Assignment) map[partition]bool {
	out := map[partition]bool{}
	for id, ps := range a {
		for _, p := range ps {
			out[partition{Topic: id, Index: p}] = true
		}
	}
	return out
}

// drop forgets everything, as a member does that is fenced or begins.
func (c *client) drop() {
	c.epoch, c.has, c.told, c.said = 0, map[partition]bool{}, map[partition]bool{}, nil
	c.rejoin, c.sync = true, false
}

// release gives up what the client is no longer told to have.
func (c *client) release() {
	maps.DeleteFunc(c.has, func(p partition, _ bool) bool { return !c.told[p] })
}

// hear takes an answer.
func (c *client) hear(resp HeartbeatResponse, sent map[partition]bool) {
	c.epoch, c.said = resp.MemberEpoch, sent
	if resp.Assignment != nil {
		c.told = setOf(resp.Assignment)
		maps.Copy(c.has, c.told)
	}
}

// model is a group with its clients, and what always holds for them.
type model struct {
	*world
	clients []*client
	names   int
	epochs  map[string]int32 // of members, the highest seen
	epoch   int32
}

func newModel(t *rapid.T) *model {
	m := &model{world: newWorld(t, "a:3", "b:2"), epochs: map[string]int32{}}
	if rapid.Bool().Draw(t, "no memory") {
		m.cfg.Memory = nil
	}
	return m
}

// beat sends a client's heartbeat; its answer may be lost.
func (m *model) beat(t *rapid.T, c *client, lost bool) {
	if c.classic != modern && c.epoch >= 0 {
		m.classicBeat(t, c, lost)
		return
	}
	r := c.request()
	resp, err := m.world.beat(r)
	switch {
	case lost:
		c.said = nil
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedMemberEpoch):
		c.drop()
	case err != nil && !errors.Is(err, kerr.GroupIDNotFound):
		t.Fatalf("%s: %v", c.id, err)
	case err == nil:
		c.hear(resp, maps.Clone(c.has))
	}
	m.check(t)
}

// check is what holds after each step.
func (m *model) check(t *rapid.T) {
	owner := map[partition]string{}
	for _, c := range m.clients {
		for p := range c.has {
			if other := owner[p]; other != "" {
				t.Fatalf("%v is processed by %s and %s", p, other, c.id)
			}
			owner[p] = c.id
		}
	}
	if m.g == nil || m.g.Consumer == nil {
		return
	}
	if m.g.Consumer.Epoch < m.epoch || m.g.Consumer.TargetEpoch > m.g.Consumer.Epoch {
		t.Fatalf("epoch %d after %d, target %d", m.g.Consumer.Epoch, m.epoch, m.g.Consumer.TargetEpoch)
	}
	m.epoch = m.g.Consumer.Epoch
	m.checkMembers(t)
}

func (m *model) checkMembers(t *rapid.T) {
	owner := map[partition]string{}
	for id, member := range m.g.Consumer.Members {
		for _, a := range []groups.Assignment{member.Assigned, member.Revoking} {
			for p := range setOf(a) {
				if other := owner[p]; other != "" {
					t.Fatalf("%v is had by members %s and %s", p, other, id)
				}
				owner[p] = id
			}
		}
		if e := member.Epoch; e != away && e < m.epochs[id] {
			t.Fatalf("member %s is at epoch %d after %d", id, e, m.epochs[id])
		}
		m.epochs[id] = max(m.epochs[id], member.Epoch)
		if (member.State == groups.UnrevokedPartitions) != (len(member.Revoking) > 0) {
			t.Fatalf("member %s is %d with %v to give up", id, member.State, member.Revoking)
		}
	}
	for id := range m.g.Consumer.Target {
		if m.g.Consumer.Members[id] == nil {
			t.Fatalf("target for %s, who is no member", id)
		}
	}
}

func (m *model) pick(t *rapid.T) *client {
	if len(m.clients) == 0 {
		t.Skip("nobody")
	}
	return rapid.SampledFrom(m.clients).Draw(t, "client")
}

func (m *model) newID() string {
	m.names++
	return fmt.Sprint("m", m.names)
}

func (m *model) start(t *rapid.T, instance *string) *client {
	c := &client{id: m.newID(), instance: instance}
	c.drop()
	c.subscribe(t)
	m.clients = append(m.clients, c)
	return c
}

func (c *client) subscribe(t *rapid.T) {
	c.topics = rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"a", "b"}, {"a", "b", "c", "d"}, {"d"}, {}}).Draw(t, "topics")
	c.pattern = rapid.SampledFrom([]string{"", "", "[bc]", ".*"}).Draw(t, "pattern")
}

func (m *model) forget(c *client) {
	m.clients = slices.DeleteFunc(m.clients, func(o *client) bool { return o == c })
}

// actions are what may happen.
func (m *model) actions() map[string]func(*rapid.T) {
	topic := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	return map[string]func(*rapid.T){
		"join": func(t *rapid.T) {
			if len(m.clients) > 5 {
				t.Skip("enough")
			}
			m.beat(t, m.start(t, nil), false)
		},
		"join static": func(t *rapid.T) {
			i := rapid.SampledFrom([]string{"i", "j"}).Draw(t, "instance")
			if slices.ContainsFunc(m.clients, func(c *client) bool { return c.instance != nil && *c.instance == i }) || m.g != nil && m.held(i) {
				t.Skip("taken")
			}
			m.beat(t, m.start(t, &i), false)
		},
		"beat":         func(t *rapid.T) { m.beat(t, m.pick(t), false) },
		"beat again":   func(t *rapid.T) { m.beat(t, m.pick(t), false) },
		"answer lost":  func(t *rapid.T) { m.beat(t, m.pick(t), true) },
		"release":      func(t *rapid.T) { m.pick(t).release() },
		"release beat": func(t *rapid.T) { c := m.pick(t); c.release(); m.beat(t, c, false) },
		"subscribe":    func(t *rapid.T) { c := m.pick(t); c.subscribe(t); c.said = nil },
		"leave": func(t *rapid.T) {
			c := m.pick(t)
			c.drop()
			c.epoch = leaving
			if c.instance != nil && rapid.Bool().Draw(t, "away") {
				c.epoch = away
			}
			m.beat(t, c, false)
			m.forget(c)
		},
		"crash": func(t *rapid.T) {
			c := m.pick(t)
			m.forget(c)
			m.fence(c.id)
			m.check(t)
		},
		"fenced alive": func(t *rapid.T) { // and stops by itself when its session is over
			c := m.pick(t)
			m.fence(c.id)
			c.has, c.said = map[partition]bool{}, nil
			m.check(t)
		},
		"create": func(t *rapid.T) {
			if name := topic.Draw(t, "name"); m.topics.Topic(name) == nil {
				m.create(name, rapid.Int32Range(1, 4).Draw(t, "partitions"))
			}
		},
		"delete": func(t *rapid.T) {
			if name := topic.Draw(t, "name"); m.topics.Topic(name) != nil {
				m.delete(name)
			}
		},
		"grow": func(t *rapid.T) {
			if name := topic.Draw(t, "name"); m.topics.Topic(name) != nil {
				m.grow(name, int32(len(m.topics.Topic(name).Partitions))+1)
			}
		},
	}
}

// held reports whether a member that has not left has the instance ID.
func (m *model) held(instance string) bool {
	if m.g.Consumer == nil {
		return false
	}
	for _, c := range m.g.Consumer.Members {
		if c.InstanceID != nil && *c.InstanceID == instance && c.Epoch != away {
			return true
		}
	}
	return false
}

// settle lets every client do what it should, five times, and looks at the outcome.
func (m *model) settle(t *rapid.T) {
	for id := range m.g.Consumer.Members {
		if !slices.ContainsFunc(m.clients, func(c *client) bool { return c.id == id }) {
			m.fence(id) // away, or crashed while its answer was under way
		}
	}
	modernOne := func(c *client) bool { return c.classic == modern }
	if m.g.Consumer == nil || len(m.g.Consumer.Members) == 0 && !slices.ContainsFunc(m.clients, modernOne) {
		return // it went back when those were gone, or will when one joins
	}
	for range 5 {
		for _, c := range m.clients {
			m.rest(t, c)
		}
	}
	if s := State(m.g.Consumer); len(m.clients) > 0 && s != Stable {
		t.Fatalf("state %s: %+v", s, m.g.Consumer)
	}
	owned := map[partition]bool{}
	loads := []int{}
	for _, c := range m.clients {
		maps.Copy(owned, c.has)
		loads = append(loads, len(c.has))
		if m.g.Consumer.Members[c.id] == nil {
			t.Fatalf("%s (%d) is no member", c, c.classic)
		}
		if got := setOf(m.g.Consumer.Members[c.id].Assigned); !maps.Equal(got, c.has) {
			t.Fatalf("%s has %v, and the group knows of %v", c.id, c.has, got)
		}
	}
	if want := m.wanted(); !maps.Equal(owned, want) {
		t.Fatalf("owned are %v, want %v", owned, want)
	}
	if m.alike() && len(loads) > 0 && slices.Max(loads) > slices.Min(loads)+1 {
		t.Fatalf("loads %v", loads)
	}
}

// rest lets a client do what it has to do by its next heartbeat.
func (m *model) rest(t *rapid.T, c *client) {
	if c.classic == modern {
		c.release()
	}
	m.beat(t, c, false)
	for i := 0; i < 4 && c.classic != modern && (c.rejoin || c.sync); i++ {
		m.beat(t, c, false)
	}
}

// wanted is every partition that somebody subscribes to.
func (m *model) wanted() map[partition]bool {
	out := map[partition]bool{}
	for _, c := range m.g.Consumer.Members {
		for _, topic := range subscribed(m.topics, &Config{}, c) {
			for i := range topic.Partitions {
				out[partition{Topic: topic.ID, Index: int32(i)}] = true
			}
		}
	}
	return out
}

// alike reports whether all subscribe to the same.
func (m *model) alike() bool {
	for _, a := range m.g.Consumer.Members {
		for _, b := range m.g.Consumer.Members {
			if !slices.Equal(subscribed(m.topics, &Config{}, a), subscribed(m.topics, &Config{}, b)) {
				return false
			}
		}
	}
	return true
}

func TestAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.beat(t, m.start(t, nil), false)
		t.Repeat(m.actions())
		m.settle(t)
		was := m.g
		for _, c := range m.clients {
			m.beat(t, c, false)
		}
		if m.g != was {
			t.Fatal("a settled group changes")
		}
	})
}

package consumer

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"
)

// classicBeat is the next request of a classic client.
func (m *model) classicBeat(t *rapid.T, c *client, lost bool) {
	var err error
	switch {
	case m.g == nil || m.g.Consumer == nil || len(m.g.Consumer.Members) == 0:
		return // the group is classic, and decides elsewhere
	case c.rejoin:
		err = m.joinClassic(c, lost)
	case c.sync:
		err = m.syncClassic(c, lost)
	default:
		err = ClassicHeartbeat(m.g, m.topics, m.cfg, c.id, c.instance, c.epoch)
	}
	switch {
	case lost || err == nil:
	case errors.Is(err, kerr.RebalanceInProgress):
		c.rejoin = true
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration):
		c.drop()
	default:
		t.Fatalf("%s: %v", c.id, err)
	}
	m.check(t)
}

func (m *model) joinClassic(c *client, lost bool) error {
	if c.classic == eager {
		c.has = map[partition]bool{}
	}
	resp, err := m.classicJoin(JoinRequest{MemberID: c.id, InstanceID: c.instance, Protocols: m.protocols(c.has, c.topics...)})
	if err == nil && !lost {
		c.epoch, c.rejoin, c.sync = resp.Generation, false, true
	}
	return err
}

func (m *model) syncClassic(c *client, lost bool) error {
	_, b, err := ClassicSync(m.g, m.topics, SyncRequest{MemberID: c.id, InstanceID: c.instance, Generation: c.epoch})
	if err != nil || lost {
		return err
	}
	a, err := unpack(b, m.topics)
	if err != nil {
		return err
	}
	c.sync, c.told = false, setOf(a)
	maps.Copy(c.has, c.told)
	if len(c.has) > len(c.told) {
		c.release() // and says so
		c.rejoin = true
	}
	return nil
}

// startClassic lets some members of a classic group be there, whom a member joins.
func (m *model) startClassic(t *rapid.T) {
	text := map[string]string{}
	for _, owned := range []string{"a:0", "a:1,2", ""}[:rapid.IntRange(1, 3).Draw(t, "classic members")] {
		c := m.start(t, nil)
		c.classic = rapid.SampledFrom([]kind{eager, cooperative}).Draw(t, "kind")
		c.topics, c.pattern, c.epoch, c.rejoin = []string{"a"}, "", 7, false
		text[c.id], c.has = owned, setOf(assignmentOf(m.holding("", 0, owned).Owned))
	}
	m.classicGroup(text)
}

func TestAnyOrderOfEventsWithClassicMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.cfg.Upgrade, m.cfg.Downgrade = true, rapid.Bool().Draw(t, "downgrade")
		m.startClassic(t)
		m.beat(t, m.start(t, nil), false)
		actions := m.actions()
		actions["join classic"] = func(t *rapid.T) {
			if len(m.clients) > 5 || m.g.Consumer == nil {
				t.Skip("enough, or a classic group")
			}
			c := m.start(t, nil)
			c.classic, c.pattern = rapid.SampledFrom([]kind{eager, cooperative}).Draw(t, "kind"), ""
			m.beat(t, c, false)
		}
		for _, name := range []string{"subscribe", "release", "release beat"} { // of classic members, part of joining
			other := actions[name]
			actions[name] = func(t *rapid.T) {
				if slices.ContainsFunc(m.clients, func(c *client) bool { return c.classic != modern }) {
					t.Skip("there are classic members")
				}
				other(t)
			}
		}
		t.Repeat(actions)
		if m.g.Consumer == nil {
			m.checkClassic(t)
			return
		}
		m.settle(t)
	})
}

// checkClassic looks at a group that has gone back: nobody is assigned what another has.
func (m *model) checkClassic(t *rapid.T) {
	owner := map[partition]string{}
	for _, member := range m.g.Classic.Members {
		a, err := unpack(member.Assignment, m.topics)
		if err != nil {
			t.Fatal(err)
		}
		for p := range setOf(a) {
			if other := owner[p]; other != "" {
				t.Fatalf("%v is assigned to %s and %s", p, other, member.ID)
			}
			owner[p] = member.ID
		}
	}
}

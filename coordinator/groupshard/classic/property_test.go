package classic

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"kaas.dev/kaas/projections/groups"
)

// TestRandomGroups lets clients, time, stores and owners do what they may do in any
// order, and then lets everything work: every request is answered, and the group settles.
func TestRandomGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t)
		t.Repeat(map[string]func(*rapid.T){
			"":          func(*rapid.T) { s.check() },
			"step":      func(*rapid.T) { s.pick("client").step() },
			"live":      func(*rapid.T) { s.live(1) },
			"live on":   func(*rapid.T) { s.live(12) },
			"again":     func(*rapid.T) { s.pick("client").again() },
			"join":      func(*rapid.T) { s.pick("client").join() },
			"heartbeat": func(*rapid.T) { s.pick("client").heartbeat() },
			"leave":     func(*rapid.T) { s.pick("client").leave() },
			"remove":    func(*rapid.T) { s.remove() },
			"crash":     func(*rapid.T) { s.pick("client").crash() },
			"restart":   func(*rapid.T) { s.restart() },
			"change":    func(*rapid.T) { s.pick("client").choose() },
			"pass":      func(*rapid.T) { s.pass(s.duration()) },
			"pause":     func(*rapid.T) { s.pause(s.duration()) },
			"store":     func(*rapid.T) { s.end(s.chance("fails", 4), s.chance("happens", 2)) },
			"owner":     func(*rapid.T) { s.reload() },
		})
		s.settle()
	})
}

// generation is one under one owner: what an owner did not store, the next may do anew.
type generation struct {
	life int
	n    int32
}

type sim struct {
	t       *rapid.T
	cfg     Config
	g       *Group
	now     time.Time
	life    int
	ids     int
	tokens  int
	clients []*simClient
	waiting map[Token]*simClient
	stores  []Store
	kept    *groups.Classic
	newest  int32                 // generation of this life
	leaders map[generation]string // who was asked to assign
}

func newSim(t *rapid.T) *sim {
	s := &sim{
		t:       t,
		now:     time.Unix(1e9, 0),
		waiting: map[Token]*simClient{},
		leaders: map[generation]string{},
	}
	s.cfg = Config{
		MinSession: time.Second, MaxSession: time.Hour, MaxSize: rapid.SampledFrom([]int{1, 3, 5, 6, 10}).Draw(t, "size"),
		InitialDelay: time.Duration(rapid.IntRange(0, 5).Draw(t, "delay")) * time.Second,
		NewID:        func() string { s.ids++; return fmt.Sprint(s.ids) },
	}
	for i := range 7 {
		c := &simClient{s: s, name: fmt.Sprint("c", i), version: rapid.SampledFrom([]int{3, 5, 9}).Draw(t, "version")}
		if i < 3 {
			c.instance = instance(fmt.Sprint("i", i))
		}
		c.choose()
		s.clients = append(s.clients, c)
	}
	s.g = New("g", nil, s.cfg, s.now)
	return s
}

func (s *sim) pick(label string) *simClient {
	return s.clients[rapid.IntRange(0, len(s.clients)-1).Draw(s.t, label)]
}

func (s *sim) chance(label string, of int) bool { return rapid.IntRange(1, of).Draw(s.t, label) == 1 }

func (s *sim) duration() time.Duration {
	return time.Duration(rapid.SampledFrom([]int{0, 1, 2, 3, 5, 8, 10, 20, 60}).Draw(s.t, "seconds")) * time.Second
}

// pass lets time go by with the timers in time, pause with the timers late.
func (s *sim) pass(d time.Duration) {
	end := s.now.Add(d)
	for range 10000 {
		at, ok := s.g.Deadline()
		if !ok || at.After(end) {
			s.now = end
			return
		}
		if at.After(s.now) {
			s.now = at
		}
		s.g.Expire(s.now)
		s.drain()
	}
	s.t.Fatal("the timers do not come to an end")
}

func (s *sim) pause(d time.Duration) {
	s.now = s.now.Add(d)
	s.g.Expire(s.now)
	s.drain()
}

// end ends the oldest store. One that fails may have happened all the same.
func (s *sim) end(fails, happens bool) {
	if len(s.stores) == 0 {
		return
	}
	st := s.stores[0]
	s.stores = s.stores[1:]
	var err error
	if fails {
		err = errDisk
	}
	if !fails || happens {
		s.kept = &st.State
	}
	s.g.Stored(s.now, st.ID, err)
	s.drain()
}

// reload gives the group to another owner, who finds some of what was being stored.
func (s *sim) reload() {
	if n := rapid.IntRange(0, len(s.stores)).Draw(s.t, "stored"); n > 0 {
		s.kept = &s.stores[n-1].State
	}
	s.stores = nil
	s.g.Close(s.now, kerr.NotCoordinator)
	s.drain()
	if len(s.waiting) > 0 {
		s.t.Fatalf("not answered when closed: %v", s.waiting)
	}
	s.life++
	s.g = New("g", s.kept, s.cfg, s.now)
	s.newest = 0
	if s.kept != nil {
		s.newest = s.kept.Generation
	}
	if s.g.Generation() != s.newest {
		s.t.Fatalf("generation %d, stored %d", s.g.Generation(), s.newest)
	}
	s.drain()
}

// remove is an administrator who removes a static member.
func (s *sim) remove() {
	i := fmt.Sprint("i", rapid.IntRange(0, 2).Draw(s.t, "instance"))
	s.g.Leave(s.now, []LeaveMember{{InstanceID: &i}})
	s.drain()
}

// live lets everything work for some seconds.
func (s *sim) live(seconds int) {
	for range seconds {
		s.pass(time.Second)
		for _, c := range s.clients {
			c.step()
		}
		s.end(false, true)
	}
}

// restart starts all clients again that are gone.
func (s *sim) restart() {
	for _, c := range s.clients {
		if c.gone {
			c.crash()
			c.gone = false
		}
	}
}

func (s *sim) drain() {
	for _, e := range s.g.Take() {
		switch e := e.(type) {
		case JoinAnswer:
			s.answered(e.Token).joined(e)
		case SyncAnswer:
			s.answered(e.Token).synced(e)
		case Store:
			s.stores = append(s.stores, e)
		}
	}
}

func (s *sim) answered(t Token) *simClient {
	c := s.waiting[t]
	if c == nil {
		s.t.Fatalf("request %v is answered twice, or was never sent", t)
	}
	delete(s.waiting, t)
	return c
}

// check looks at what must always hold.
func (s *sim) check() {
	g := s.g
	if g.generation < s.newest {
		s.t.Fatalf("generation %d after %d", g.generation, s.newest)
	}
	s.newest = g.generation
	if (len(g.members) == 0) != (g.leader == "") || g.leader != "" && g.byID[g.leader] == nil {
		s.t.Fatalf("leader %q of %d members", g.leader, len(g.members))
	}
	supported := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.Protocols {
			supported[p.Name]++
		}
		if m.join != nil && g.state != preparing && len(g.replacing) == 0 || m.sync != nil && g.state != completing {
			s.t.Fatalf("%s waits in state %s", m.ID, g.state)
		}
	}
	if fmt.Sprint(supported) != fmt.Sprint(g.supported) || len(g.byID) != len(g.members) {
		s.t.Fatalf("%d members by ID of %d; protocols %v, counted %v", len(g.byID), len(g.members), g.supported, supported)
	}
	r := g.rebalance
	switch waits := !r.joinBy.IsZero(); {
	case waits != (g.state == preparing):
		s.t.Fatalf("state %s, joins until %v", g.state, r.joinBy)
	case g.state == completing && r.syncBy.IsZero() && g.storing == nil:
		s.t.Fatal("nothing ends the rebalance")
	case (g.state == stable || g.state == completing) && (len(g.members) == 0 || len(g.members) > s.cfg.MaxSize):
		s.t.Fatalf("state %s with %d members", g.state, len(g.members))
	}
}

// settle lets everything work. Everybody who waits is answered, also those whose clients
// are gone; and the living clients are in one stable group.
func (s *sim) settle() {
	for range 300 {
		s.live(2)
		s.check()
	}
	in := 0
	for _, c := range s.clients {
		if c.gone {
			continue
		}
		in++
		if m := s.g.byID[c.id]; m == nil || !c.has || c.generation != s.g.generation {
			s.t.Fatalf("%s has not settled: member %+v, %+v, group %s at %d", c.name, m, c, s.g.State(), s.g.generation)
		}
	}
	want := "Stable"
	if in == 0 {
		want = "Empty"
	}
	if s.g.State() != want || len(s.g.members) != in || len(s.waiting) > 0 || s.g.Idle() && in > 0 {
		s.t.Fatalf("state %s with %d of %d members; waiting: %v", s.g.State(), len(s.g.members), in, s.waiting)
	}
	bytes := int64(0)
	for _, m := range s.g.members {
		bytes += weight(&m.ClassicMember)
	}
	if s.g.bytes != bytes {
		s.t.Fatalf("members have %d bytes, counted are %d", bytes, s.g.bytes)
	}
}

// assigned checks an assignment: it names who made it, for which generation and whom.
func (s *sim) assigned(c *simClient, got string) {
	var life int
	var n int32
	var leader, member string
	if _, err := fmt.Sscanf(strings.ReplaceAll(got, "/", " "), "%d %d %s %s", &life, &n, &leader, &member); err != nil {
		s.t.Fatalf("%s is assigned %q", c.name, got)
	}
	heir := c.instance != nil && strings.HasPrefix(member, *c.instance+"-")
	if n != c.generation || s.leaders[generation{life, n}] != leader || member != c.id && !heir {
		s.t.Fatalf("%s (%s) is assigned %q in generation %d", c.name, c.id, got, c.generation)
	}
	for _, m := range s.kept.Members {
		if m.ID == c.id && s.kept.Generation == n && string(m.Assignment) == got {
			return
		}
	}
	s.t.Fatalf("%s is assigned %q, which is not stored: %+v", c.id, got, s.kept)
}

// simClient is a client that does what clients do. One that is gone sends nothing.
type simClient struct {
	s          *sim
	name       string
	version    int
	instance   *string
	protocols  []groups.Protocol
	id         string
	generation int32 // 0: has to join
	members    []JoinMember
	leads      bool
	has        bool  // an assignment
	token      Token // of what it waits for
	gone       bool
}

func (c *simClient) choose() {
	c.protocols = protocols(rapid.SampledFrom([][]string{
		{"range"}, {"range:u"}, {"sticky", "range"}, {"range", "sticky:t,u"},
	}).Draw(c.s.t, "protocols")...)
}

func (c *simClient) send() Token {
	c.s.tokens++
	c.token = c.s.tokens
	c.s.waiting[c.token] = c
	return c.token
}

// step does what comes next.
func (c *simClient) step() {
	switch {
	case c.gone || c.token != nil:
	case c.generation == 0:
		c.join()
	case !c.has:
		c.sync()
	default:
		c.heartbeat()
	}
}

// again gives up waiting, and asks once more.
func (c *simClient) again() {
	if c.gone || c.token == nil {
		return
	}
	c.token = nil
	c.step()
}

func (c *simClient) join() {
	if c.gone || c.token != nil {
		return
	}
	c.generation, c.has, c.members, c.leads = 0, false, nil, false
	seconds := rapid.IntRange(1, 3).Draw(c.s.t, "timeout")
	c.s.g.Join(c.s.now, JoinRequest{
		Token: c.send(), MemberID: c.id, InstanceID: c.instance, ClientID: c.name, ProtocolType: "consumer",
		Protocols: c.protocols, SessionTimeout: time.Duration(10*seconds) * time.Second,
		RebalanceTimeout: time.Duration(20*seconds) * time.Second,
		RequireKnownID:   c.version >= 4, SkipAssignment: c.version >= 9,
	})
	c.s.drain()
}

func (c *simClient) joined(a JoinAnswer) {
	if c.token != a.Token {
		return // it has stopped waiting for this
	}
	c.token = nil
	if a.Err != nil {
		c.failed(a.Err, a.MemberID)
		return
	}
	s := c.s
	c.id, c.generation, c.members = a.MemberID, a.Generation, a.Members
	c.leads = len(a.Members) > 0 && !a.SkipAssignment
	if len(a.Members) > s.cfg.MaxSize {
		s.t.Fatalf("a generation of %d members, at most %d may be", len(a.Members), s.cfg.MaxSize)
	}
	if !c.leads {
		return
	}
	gen := generation{s.life, a.Generation}
	if other, ok := s.leaders[gen]; ok && other != c.id || a.Leader != c.id {
		s.t.Fatalf("%s is to lead generation %d of %s and %s", c.id, a.Generation, other, a.Leader)
	}
	s.leaders[gen] = c.id
}

func (c *simClient) sync() {
	r := SyncRequest{Token: c.send(), MemberID: c.id, InstanceID: c.instance, Generation: c.generation}
	if c.leads {
		r.Assignments = map[string][]byte{}
		for _, m := range c.members {
			r.Assignments[m.MemberID] = fmt.Appendf(nil, "%d/%d/%s/%s", c.s.life, c.generation, c.id, m.MemberID)
		}
	}
	c.s.g.Sync(c.s.now, r)
	c.s.drain()
}

func (c *simClient) synced(a SyncAnswer) {
	if c.token != a.Token {
		return
	}
	c.token = nil
	if a.Err != nil {
		c.failed(a.Err, c.id)
		return
	}
	c.s.assigned(c, string(a.Assignment))
	c.has = true
}

func (c *simClient) heartbeat() {
	if c.gone || c.token != nil || c.generation == 0 {
		return
	}
	if err := c.s.g.Heartbeat(c.s.now, c.id, c.instance, c.generation); err != nil {
		c.failed(err, c.id)
	}
}

// failed does what clients do about an error.
func (c *simClient) failed(err error, id string) {
	c.generation, c.has = 0, false
	switch {
	case errors.Is(err, kerr.MemberIDRequired):
		c.id = id
	case errors.Is(err, kerr.UnknownMemberID):
		c.id = ""
	case errors.Is(err, kerr.FencedInstanceID), errors.Is(err, kerr.GroupMaxSizeReached):
		c.gone = true
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.NotCoordinator):
	default:
		c.s.t.Fatalf("%s: %v", c.name, err)
	}
}

func (c *simClient) leave() {
	if c.gone || c.id == "" {
		return
	}
	c.s.g.Leave(c.s.now, []LeaveMember{{MemberID: c.id, InstanceID: c.instance}})
	c.s.drain()
	c.id, c.generation, c.has, c.token = "", 0, false, nil
}

// crash ends the client. Its requests stay with the group.
func (c *simClient) crash() {
	c.gone = true
	c.id, c.generation, c.has, c.token = "", 0, false, nil
}

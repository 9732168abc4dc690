package classic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// world is a group, the time, and what was answered.
type world struct {
	t      *testing.T
	g      *Group
	now    time.Time
	cfg    Config
	tokens int
	joins  map[Token]JoinAnswer
	syncs  map[Token]SyncAnswer
	stores []Store // not ended yet
	kept   *groups.Classic
}

const (
	session = 10 * time.Second
	rejoin  = 60 * time.Second // the rebalance timeout
	delay   = 3 * time.Second
)

func newWorld(t *testing.T) *world {
	ids := 0
	w := &world{
		t:   t,
		now: time.Unix(1e9, 0),
		cfg: Config{MinSession: time.Second, MaxSession: time.Hour, InitialDelay: delay, MaxSize: 100, NewID: func() string {
			ids++
			return fmt.Sprint(ids)
		}},
		joins: map[Token]JoinAnswer{},
		syncs: map[Token]SyncAnswer{},
	}
	w.g = New("g", nil, w.cfg, w.now)
	return w
}

// reload is an owner change: what was stored last comes back.
func (w *world) reload() {
	w.g = New("g", w.kept, w.cfg, w.now)
	w.stores = nil
	w.drain()
}

func (w *world) drain() {
	w.t.Helper()
	for _, e := range w.g.Take() {
		switch e := e.(type) {
		case JoinAnswer:
			if _, twice := w.joins[e.Token]; twice {
				w.t.Fatalf("join %v is answered twice", e.Token)
			}
			w.joins[e.Token] = e
		case SyncAnswer:
			if _, twice := w.syncs[e.Token]; twice {
				w.t.Fatalf("sync %v is answered twice", e.Token)
			}
			w.syncs[e.Token] = e
		case Store:
			w.stores = append(w.stores, e)
		}
	}
}

func (w *world) token() Token {
	w.tokens++
	return w.tokens
}

// join sends a JoinGroup, with what is usual where nothing is said.
func (w *world) join(r JoinRequest) Token {
	w.t.Helper()
	r.Token = w.token()
	if r.ClientID == "" {
		r.ClientID, r.Host = "client", "/10.0.0.1"
	}
	if r.ProtocolType == "" {
		r.ProtocolType = "consumer"
	}
	if r.Protocols == nil {
		r.Protocols = protocols("range")
	}
	if r.SessionTimeout == 0 {
		r.SessionTimeout, r.RebalanceTimeout = session, rejoin
	}
	w.g.Join(w.now, r)
	w.drain()
	return r.Token
}

func (w *world) sync(r SyncRequest) Token {
	w.t.Helper()
	r.Token = w.token()
	w.g.Sync(w.now, r)
	w.drain()
	return r.Token
}

// pass lets time go by, and the timers run when they are due.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		at, ok := w.g.Deadline()
		if !ok || at.After(end) {
			break
		}
		if at.After(w.now) {
			w.now = at
		}
		w.g.Expire(w.now)
		w.drain()
	}
	w.now = end
}

// until lets time go by, timer for timer, until a join is answered.
func (w *world) until(t Token) {
	w.t.Helper()
	for w.joins[t].Token == nil {
		at, ok := w.g.Deadline()
		if !ok {
			w.t.Fatalf("join %v is never answered", t)
		}
		w.pass(at.Sub(w.now))
	}
}

// beat lets time go by while members send heartbeats.
func (w *world) beat(d time.Duration, ids ...string) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.pass(min(session/4, end.Sub(w.now)))
		for _, id := range ids {
			w.g.Heartbeat(w.now, id, nil, w.g.Generation())
		}
	}
}

// stored ends the oldest store.
func (w *world) stored(err error) {
	w.t.Helper()
	if len(w.stores) == 0 {
		w.t.Fatal("nothing is to be stored")
	}
	s := w.stores[0]
	w.stores = w.stores[1:]
	if err == nil {
		w.kept = &s.State
	}
	w.g.Stored(w.now, s.ID, err)
	w.drain()
}

func (w *world) joined(t Token) JoinResponse {
	w.t.Helper()
	a, ok := w.joins[t]
	if !ok || a.Err != nil {
		w.t.Fatalf("join %v: answered %v, %v; in state %s", t, ok, a.Err, w.g.State())
	}
	return a.JoinResponse
}

func (w *world) synced(t Token) string {
	w.t.Helper()
	a, ok := w.syncs[t]
	if !ok || a.Err != nil {
		w.t.Fatalf("sync %v: answered %v, %v; in state %s", t, ok, a.Err, w.g.State())
	}
	return string(a.Assignment)
}

// fails expects an error as the answer of a join or sync.
func (w *world) fails(t Token, want error) JoinResponse {
	w.t.Helper()
	j, isJoin := w.joins[t]
	s, isSync := w.syncs[t]
	if err := errors.Join(j.Err, s.Err); !isJoin && !isSync || !errors.Is(err, want) {
		w.t.Fatalf("request %v: answered %v, %v; want %v", t, isJoin || isSync, err, want)
	}
	return j.JoinResponse
}

func (w *world) waits(ts ...Token) {
	w.t.Helper()
	for _, t := range ts {
		j, isJoin := w.joins[t]
		s, isSync := w.syncs[t]
		if isJoin || isSync {
			w.t.Fatalf("request %v is answered: %+v %+v", t, j, s)
		}
	}
}

func (w *world) state(want string) {
	w.t.Helper()
	if w.g.State() != want {
		w.t.Fatalf("state %s, want %s", w.g.State(), want)
	}
}

func (w *world) is(err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		w.t.Fatalf("got %v, want %v", err, want)
	}
}

// settle has the members of a generation that has just begun sync: each is assigned its
// own ID and the generation.
func (w *world) settle(ids ...string) {
	w.t.Helper()
	given := map[string][]byte{}
	for _, id := range ids {
		given[id] = fmt.Appendf(nil, "%s@%d", id, w.g.Generation())
	}
	var syncs []Token
	for _, id := range ids {
		r := SyncRequest{MemberID: id, Generation: w.g.Generation()}
		if m := w.g.byID[id]; m != nil {
			r.InstanceID = m.InstanceID
		}
		if id == w.g.leader {
			r.Assignments = given
		}
		syncs = append(syncs, w.sync(r))
	}
	w.waits(syncs...)
	w.stored(nil)
	for i, t := range syncs {
		if got := w.synced(t); got != string(given[ids[i]]) {
			w.t.Fatalf("%s is assigned %q", ids[i], got)
		}
	}
	w.state("Stable")
}

// stable makes a group of these instances, "" for dynamic members; it returns their IDs,
// the leader's first.
func (w *world) stable(instances ...string) []string {
	w.t.Helper()
	var ts []Token
	for _, i := range instances {
		ts = append(ts, w.join(JoinRequest{InstanceID: instance(i)}))
	}
	w.until(ts[0])
	var ids []string
	for _, t := range ts {
		ids = append(ids, w.joined(t).MemberID)
	}
	w.settle(ids...)
	return ids
}

func instance(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// protocols are those of a consumer of the topic t, by preference.
func protocols(names ...string) []groups.Protocol {
	var ps []groups.Protocol
	for _, n := range names {
		name, topics, said := strings.Cut(n, ":")
		if !said {
			topics = "t"
		}
		ps = append(ps, groups.Protocol{Name: name, Metadata: subscription(strings.Split(topics, ",")...)})
	}
	return ps
}

// subscription is a consumer's metadata, with something of a newer version behind.
func subscription(topics ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, 3)
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = binary.BigEndian.AppendUint16(b, uint16(len(t)))
		b = append(b, t...)
	}
	return append(b, "more"...)
}

var errDisk = fmt.Errorf("disk: %w", kerr.KafkaStorageError)

package consumer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// tester is what a test or a property has to fail with.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is one group, the topics, and what the members say.
type world struct {
	t      tester
	topics *projections.Cluster
	made   byte
	shard  *groups.Shard
	g      *groups.Group // of the shard
	cfg    Config
	now    time.Time
}

func newWorld(t tester, topics ...string) *world {
	w := &world{t: t, topics: projections.NewCluster(), shard: groups.NewShard(), now: start, cfg: Config{
		SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second,
		Assignors: []string{"uniform", "range"}, Memory: &Memory{},
	}}
	for _, spec := range topics {
		var name string
		var n int32
		if _, err := fmt.Sscanf(strings.Replace(spec, ":", " ", 1), "%s %d", &name, &n); err != nil {
			t.Fatalf("topic %q: %v", spec, err)
		}
		w.create(name, n)
	}
	return w
}

func (w *world) tell(f projections.Fact) {
	w.t.Helper()
	ev, err := projections.NewEvent(f)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if w.topics, err = projections.Apply(w.topics, []metalog.Event{ev}); err != nil {
		w.t.Fatalf("%v", err)
	}
}

func (w *world) create(name string, partitions int32) {
	w.t.Helper()
	w.made++
	w.tell(&projections.TopicCreated{ID: projections.TopicID{0: 1, 15: w.made}, Name: name, Partitions: partitions})
}

func (w *world) grow(name string, partitions int32) {
	w.t.Helper()
	w.tell(&projections.PartitionsAdded{TopicID: w.topics.Topic(name).ID, Topic: name, Partitions: partitions})
}

func (w *world) delete(name string) {
	w.t.Helper()
	w.tell(&projections.TopicDeleted{ID: w.topics.Topic(name).ID})
}

func (w *world) fold(facts []groups.Fact) {
	w.t.Helper()
	evs, err := groups.NewEvents(facts...)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if w.shard, err = groups.Apply(w.shard, evs); err != nil {
		w.t.Fatalf("%v", err)
	}
	w.g = w.shard.Group("g")
}

// beat sends a request and commits what it decides.
func (w *world) beat(r HeartbeatRequest) (HeartbeatResponse, error) {
	w.t.Helper()
	r.GroupID, r.Version = "g", 1
	facts, resp, err := Heartbeat(w.g, w.topics, w.cfg, w.now, r)
	w.decidesAgain(r, facts, resp)
	if err == nil {
		w.fold(facts)
	} else if len(facts) > 0 {
		w.t.Fatalf("%d facts with error %v", len(facts), err)
	}
	return resp, err
}

// decidesAgain fails if the same request has another outcome, or has with a memory another
// than without.
func (w *world) decidesAgain(r HeartbeatRequest, facts []groups.Fact, resp HeartbeatResponse) {
	w.t.Helper()
	if _, ok := w.t.(*testing.B); ok {
		return
	}
	cfg := w.cfg
	cfg.Memory = nil
	again, resp2, _ := Heartbeat(w.g, w.topics, cfg, w.now, r)
	a, err1 := groups.NewEvents(facts...)
	b, err2 := groups.NewEvents(again...)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(a, b) || !reflect.DeepEqual(resp, resp2) {
		w.t.Fatalf("decides %v and answers %+v, then %v and %+v", facts, resp, again, resp2)
	}
}

func (w *world) must(r HeartbeatRequest) HeartbeatResponse {
	w.t.Helper()
	resp, err := w.beat(r)
	if err != nil {
		w.t.Fatalf("heartbeat %+v: %v", r, err)
	}
	return resp
}

func (w *world) fence(member string) {
	w.t.Helper()
	w.fold(Fence(w.g, w.topics, w.cfg, w.now, member))
}

// join is a request to join with a subscription by name.
func join(id string, topics ...string) HeartbeatRequest {
	return HeartbeatRequest{
		MemberID: id, ClientID: "c", Host: "h", RebalanceTimeout: time.Minute,
		Topics: append([]string{}, topics...), Owned: []groups.TopicPartitions{},
	}
}

// beatAt is a heartbeat without news.
func beatAt(id string, epoch int32) HeartbeatRequest {
	return HeartbeatRequest{MemberID: id, MemberEpoch: epoch, ClientID: "c", Host: "h", RebalanceTimeout: -1}
}

// holding is a heartbeat that says what the member owns, such as "a:0,1 b:0".
func (w *world) holding(id string, epoch int32, owned string) HeartbeatRequest {
	r := beatAt(id, epoch)
	r.Owned = []groups.TopicPartitions{}
	for _, part := range strings.Fields(owned) {
		name, list, _ := strings.Cut(part, ":")
		tp := groups.TopicPartitions{Topic: w.topics.Topic(name).ID}
		for _, s := range strings.Split(list, ",") {
			var p int32
			fmt.Sscan(s, &p)
			tp.Partitions = append(tp.Partitions, p)
		}
		r.Owned = append(r.Owned, tp)
	}
	return r
}

// text is an assignment in the form of holding; "-" is none told.
func (w *world) text(a groups.Assignment) string {
	if a == nil {
		return "-"
	}
	var out []string
	for id, ps := range a {
		name := id.String()
		if t := w.topics.TopicByID(id); t != nil {
			name = t.Name
		}
		out = append(out, name+":"+strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ps)), ","), "[]"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (w *world) want(r HeartbeatRequest, epoch int32, assignment string) HeartbeatResponse {
	w.t.Helper()
	resp := w.must(r)
	if got := w.text(resp.Assignment); resp.MemberEpoch != epoch || got != assignment {
		w.t.Fatalf("%s at %d is told epoch %d and %q, want %d and %q", r.MemberID, r.MemberEpoch, resp.MemberEpoch, got, epoch, assignment)
	}
	return resp
}

func wantCode(t tester, err error, want *kerr.Error) {
	t.Helper()
	if want == nil && err == nil {
		return
	}
	if want == nil || !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

var _ tester = (*testing.T)(nil)

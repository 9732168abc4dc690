package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

func TestWhatARequestMustHold(t *testing.T) {
	full := func(change func(*HeartbeatRequest)) HeartbeatRequest {
		r := join("m", "a")
		r.GroupID, r.Version = "g", 1
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		change func(*HeartbeatRequest)
		want   *kerr.Error
	}{
		"as it should be":              {func(r *HeartbeatRequest) {}, nil},
		"no group":                     {func(r *HeartbeatRequest) { r.GroupID = "" }, kerr.InvalidRequest},
		"a blank group":                {func(r *HeartbeatRequest) { r.GroupID = " " }, kerr.InvalidRequest},
		"no member":                    {func(r *HeartbeatRequest) { r.MemberID = "" }, kerr.InvalidRequest},
		"no member in version 0":       {func(r *HeartbeatRequest) { r.Version, r.MemberID, r.NewID = 0, "", "n" }, nil},
		"no member, version 0, leaves": {func(r *HeartbeatRequest) { r.Version, r.MemberID, r.MemberEpoch = 0, "", -1 }, kerr.InvalidRequest},
		"no member, version 0, epoch":  {func(r *HeartbeatRequest) { r.Version, r.MemberID, r.MemberEpoch = 0, "", 3 }, kerr.InvalidRequest},
		"empty instance":               {func(r *HeartbeatRequest) { r.InstanceID = ptr("") }, kerr.InvalidRequest},
		"empty rack":                   {func(r *HeartbeatRequest) { r.RackID = ptr("") }, kerr.InvalidRequest},
		"no rebalance timeout":         {func(r *HeartbeatRequest) { r.RebalanceTimeout = -1 }, kerr.InvalidRequest},
		"owned not said":               {func(r *HeartbeatRequest) { r.Owned = nil }, kerr.InvalidRequest},
		"owns some":                    {func(r *HeartbeatRequest) { r.Owned = []groups.TopicPartitions{{}} }, kerr.InvalidRequest},
		"no subscription":              {func(r *HeartbeatRequest) { r.Topics = nil }, kerr.InvalidRequest},
		"a pattern is one":             {func(r *HeartbeatRequest) { r.Topics, r.Regex = nil, ptr("a.*") }, nil},
		"an empty pattern is one":      {func(r *HeartbeatRequest) { r.Topics, r.Regex = nil, ptr("") }, nil},
		"not a pattern":                {func(r *HeartbeatRequest) { r.Regex = ptr("a)(b") }, kerr.InvalidRegularExpression},
		"away without an instance":     {func(r *HeartbeatRequest) { r.MemberEpoch = -2 }, kerr.InvalidRequest},
		"below all epochs":             {func(r *HeartbeatRequest) { r.MemberEpoch = -3 }, kerr.InvalidRequest},
		"assignor":                     {func(r *HeartbeatRequest) { r.ServerAssignor = ptr("range") }, nil},
		"unknown assignor":             {func(r *HeartbeatRequest) { r.ServerAssignor = ptr("sticky") }, kerr.UnsupportedAssignor},
		"no such group":                {func(r *HeartbeatRequest) { r.MemberEpoch = 1 }, kerr.GroupIDNotFound},
		"no such group to leave":       {func(r *HeartbeatRequest) { r.MemberEpoch = -1 }, kerr.GroupIDNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a:2")
			_, _, err := Heartbeat(nil, w.topics, w.cfg, w.now, full(c.change))
			wantCode(t, err, c.want)
		})
	}
}

func TestAMemberAloneGetsEverything(t *testing.T) {
	w := newWorld(t, "a:3", "b:1")
	resp := w.want(join("A", "b", "a", "a", "not there"), 1, "a:0,1,2 b:0")
	if resp.SessionTimeout != 45*time.Second || resp.HeartbeatInterval != 5*time.Second || resp.RebalanceTimeout != 0 || resp.Left {
		t.Fatalf("answer %+v", resp)
	}
	if s := State(w.g.Consumer); s != Stable {
		t.Fatalf("state %s", s)
	}
	was := w.g
	w.want(beatAt("A", 1), 1, "-")
	w.want(w.holding("A", 1, "a:0,1,2 b:0"), 1, "-")
	if w.g != was {
		t.Fatal("a heartbeat without news was committed")
	}
	full := join("A", "a", "b", "not there")
	full.MemberEpoch = 1
	w.want(full, 1, "a:0,1,2 b:0") // after an error, members say all and want all
}

// CASES E-01.
func TestAPartitionWaitsForItsFormerOwner(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(join("A", "a"), 1, "a:0,1")
	w.want(join("B", "a"), 2, "")
	first := w.want(w.holding("A", 1, "a:0,1"), 1, "a:0")
	if first.RebalanceTimeout != time.Minute || !first.RevokesAnew {
		t.Fatalf("no time is set for what is to be given up: %+v", first)
	}
	for range 3 {
		w.want(beatAt("B", 2), 2, "-")
		again := w.want(w.holding("A", 1, "a:0,1"), 1, "-")
		if again.RebalanceTimeout != time.Minute || again.RevokesAnew {
			t.Fatalf("the time runs from the first answer: %+v", again)
		}
		w.want(beatAt("A", 1), 1, "-") // it does not say what it owns
	}
	if s := State(w.g.Consumer); s != Reconciling {
		t.Fatalf("state %s", s)
	}
	if done := w.want(w.holding("A", 1, "a:0"), 2, "-"); done.RebalanceTimeout != 0 {
		t.Fatalf("the time is not over: %+v", done)
	}
	w.want(beatAt("B", 2), 2, "a:1")
	if s := State(w.g.Consumer); s != Stable {
		t.Fatalf("state %s", s)
	}
}

func TestWhoIsFencedLetsGo(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(join("A", "a"), 1, "a:0,1")
	w.want(join("B", "a"), 2, "")
	w.want(beatAt("A", 1), 1, "a:0")
	w.fence("A")
	if s := State(w.g.Consumer); s != Assigning {
		t.Fatalf("state %s", s)
	}
	w.want(beatAt("B", 2), 3, "a:0,1")
	_, err := w.beat(beatAt("A", 1))
	wantCode(t, err, kerr.UnknownMemberID)
	if facts := Fence(w.g, w.topics, w.cfg, w.now, "A"); facts != nil {
		t.Fatalf("who is not there is fenced with %d facts", len(facts))
	}
}

func TestLeaving(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(join("A", "a"), 1, "a:0,1")
	_, err := w.beat(beatAt("B", -1))
	wantCode(t, err, kerr.UnknownMemberID)
	resp := w.want(beatAt("A", -1), -1, "-")
	if !resp.Left || len(w.g.Consumer.Members) != 0 || State(w.g.Consumer) != Empty {
		t.Fatalf("answer %+v, members %v", resp, w.g.Consumer.Members)
	}
	w.want(join("A", "a"), 3, "a:0,1") // its epoch never goes back
}

func TestEpochs(t *testing.T) {
	// The member went from epoch 1 to 2, and owns a:0.
	for name, c := range map[string]struct {
		r    func(*world) HeartbeatRequest
		want *kerr.Error
		told string
	}{
		"its own":                        {func(w *world) HeartbeatRequest { return beatAt("A", 2) }, nil, "-"},
		"too high":                       {func(w *world) HeartbeatRequest { return beatAt("A", 3) }, kerr.FencedMemberEpoch, ""},
		"the one before, owned not said": {func(w *world) HeartbeatRequest { return beatAt("A", 1) }, kerr.FencedMemberEpoch, ""},
		"the one before, no more owned":  {func(w *world) HeartbeatRequest { return w.holding("A", 1, "a:0") }, nil, "a:0"},
		"the one before, less owned":     {func(w *world) HeartbeatRequest { return w.holding("A", 1, "") }, nil, "a:0"},
		"the one before, more owned":     {func(w *world) HeartbeatRequest { return w.holding("A", 1, "a:0,1") }, kerr.FencedMemberEpoch, ""},
		"joins anew":                     {func(w *world) HeartbeatRequest { return join("A", "a") }, nil, "a:0"},
		"unknown":                        {func(w *world) HeartbeatRequest { return beatAt("C", 2) }, kerr.UnknownMemberID, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a:2")
			w.want(join("A", "a"), 1, "a:0,1")
			w.want(join("B", "a"), 2, "")
			w.want(beatAt("A", 1), 1, "a:0")
			w.want(w.holding("A", 1, "a:0"), 2, "-")
			resp, err := w.beat(c.r(w))
			wantCode(t, err, c.want)
			if err == nil && (resp.MemberEpoch != 2 || w.text(resp.Assignment) != c.told) {
				t.Fatalf("epoch %d, told %q", resp.MemberEpoch, w.text(resp.Assignment))
			}
		})
	}
}

func TestWhoJoinsAnewOwnsNothing(t *testing.T) {
	w := newWorld(t, "a:2")
	w.want(join("A", "a"), 1, "a:0,1")
	w.want(join("B", "a"), 2, "")
	w.want(join("A", "a"), 2, "a:0") // nothing to wait for
	w.want(beatAt("B", 2), 2, "a:1")
}

func TestAFullGroup(t *testing.T) {
	w := newWorld(t, "a:2")
	w.cfg.MaxSize = 2
	w.must(join("A", "a"))
	static := join("S", "a")
	static.InstanceID = ptr("i")
	w.must(static)
	_, err := w.beat(join("C", "a"))
	wantCode(t, err, kerr.GroupMaxSizeReached)
	w.must(join("A", "a")) // is there already
	gone := beatAt("S", -2)
	gone.InstanceID = ptr("i")
	w.must(gone)
	static.MemberID = "S2"
	w.must(static) // takes a place that is there
}

func TestSubscriptionsChange(t *testing.T) {
	w := newWorld(t, "a:1", "b:1")
	w.want(join("A", "a"), 1, "a:0")
	r := beatAt("A", 1)
	r.Topics = []string{"b"}
	w.want(r, 1, "") // a first
	r.MemberEpoch = 1
	w.want(w.holding("A", 1, ""), 2, "b:0")
	r = beatAt("A", 2)
	r.Topics = []string{"b"}
	w.want(r, 2, "-") // the same again changes nothing
	r.Topics = []string{}
	w.want(r, 2, "")
	w.want(w.holding("A", 2, ""), 3, "-")
}

// CASES E-03.
func TestTopicsAreNoticed(t *testing.T) {
	w := newWorld(t, "logs-1:1", "other:1")
	r := join("A")
	r.Topics, r.Regex = nil, ptr("logs-.*")
	w.want(r, 1, "logs-1:0")
	w.create("logs-2", 2)
	w.want(beatAt("A", 1), 2, "logs-1:0 logs-2:0,1")
	w.create("logs-3", 1)
	w.create("xlogs-4", 1)
	w.want(beatAt("A", 2), 3, "logs-1:0 logs-2:0,1 logs-3:0")
	w.grow("logs-3", 2)
	w.want(beatAt("A", 3), 4, "logs-1:0 logs-2:0,1 logs-3:0,1")
	w.create("unrelated", 1)
	w.want(beatAt("A", 4), 4, "-")
	gone := w.topics.Topic("logs-1").ID
	w.delete("logs-1")
	w.want(beatAt("A", 4), 4, "logs-2:0,1 logs-3:0,1")
	w.create("logs-1", 1) // another topic by that name
	w.want(w.holding("A", 4, "logs-2:0,1 logs-3:0,1"), 6, "logs-1:0 logs-2:0,1 logs-3:0,1")
	if w.g.Consumer.Members["A"].Assigned[gone] != nil {
		t.Fatal("still has the deleted topic")
	}
}

func TestPatternsAndNamesTogether(t *testing.T) {
	w := newWorld(t, "a:1", "ab:1", "b:1")
	r := join("A", "b", "ab")
	r.Regex = ptr("a|ab?")
	w.want(r, 1, "a:0 ab:0 b:0")
	r = w.holding("A", 1, "a:0 ab:0 b:0")
	r.Regex = ptr("")
	w.want(r, 1, "ab:0 b:0")
	r = w.holding("A", 1, "ab:0 b:0")
	r.Regex = ptr("[")
	_, err := w.beat(r)
	wantCode(t, err, kerr.InvalidRegularExpression)
}

// sight is somebody who does not see some topics.
type sight struct{ hidden *map[string]bool }

func (s sight) Describes(topic string) bool { return !(*s.hidden)[topic] }

func (s sight) Who() any { return s }

// A pattern matches the topics that the member may describe, for each member its own, and
// as that changes. Names were judged when they came.
func TestPatternsMatchWhatMayBeDescribed(t *testing.T) {
	w := newWorld(t, "a:2", "b:2")
	of := map[string]*map[string]bool{"User:alice": {"b": true}, "User:bob": {}}
	w.cfg.Describer = func(m *groups.ConsumerMember) Describer { return sight{of[m.Principal]} }
	as := func(r HeartbeatRequest, principal string) HeartbeatRequest { r.Principal = principal; return r }
	joins := func(id, principal string) HeartbeatRequest {
		r := as(join(id), principal)
		r.Topics, r.Regex = nil, ptr(".*")
		return r
	}
	w.want(joins("A", "User:alice"), 1, "a:0,1")
	w.want(joins("B", "User:bob"), 2, "b:0,1")
	w.want(as(beatAt("A", 1), "User:alice"), 2, "-")
	*of["User:alice"], *of["User:bob"] = map[string]bool{"a": true}, map[string]bool{"b": true}
	w.create("c", 1)
	for range 4 { // each says that it has what it was given, until all is settled
		for id, who := range map[string]string{"A": "User:alice", "B": "User:bob"} {
			r := as(beatAt(id, w.g.Consumer.Members[id].Epoch), who)
			r.Owned = named(setOf(w.g.Consumer.Members[id].Assigned))
			if _, err := w.beat(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, hidden := range map[string]string{"A": "a", "B": "b"} {
		has := w.g.Consumer.Members[id].Assigned
		if has[w.topics.Topic(hidden).ID] != nil || len(has) == 0 {
			t.Errorf("%s has %v", id, has)
		}
	}
	if got := State(w.g.Consumer); got != Stable {
		t.Error(got)
	}
	// Names beside the pattern, and a pattern that is given up.
	r := as(beatAt("A", w.g.Consumer.Members["A"].Epoch), "User:alice")
	r.Topics, r.Regex = []string{"a"}, ptr("")
	if _, err := w.beat(r); err != nil || w.g.Consumer.Members["A"].Principal != "" {
		t.Errorf("%+v, %v", w.g.Consumer.Members["A"], err)
	}
}

func TestTheAssignorOfMostIsUsed(t *testing.T) {
	for _, c := range []struct {
		ask  [3]string
		want string
	}{
		{[3]string{"", "", ""}, "uniform"},
		{[3]string{"range", "", ""}, "range"},
		{[3]string{"range", "uniform", ""}, "uniform"},
		{[3]string{"range", "uniform", "range"}, "range"},
	} {
		t.Run(fmt.Sprint(c.ask), func(t *testing.T) {
			w := newWorld(t, "a:2")
			for i, name := range c.ask {
				r := join(fmt.Sprint(i), "a")
				if name != "" {
					r.ServerAssignor = &name
				}
				w.must(r)
			}
			if got := w.g.Consumer.Assignor; got != c.want {
				t.Fatalf("assignor %q, want %q", got, c.want)
			}
		})
	}
}

func TestANewIDInVersion0(t *testing.T) {
	w := newWorld(t, "a:1")
	r := join("", "a")
	r.GroupID, r.NewID = "g", "made"
	facts, resp, err := Heartbeat(nil, w.topics, w.cfg, w.now, r)
	wantCode(t, err, nil)
	if w.fold(facts); resp.MemberID != "made" || w.g.Consumer.Members["made"] == nil {
		t.Fatalf("answer %+v", resp)
	}
}

func TestAnEmptyClassicGroupIsReplaced(t *testing.T) {
	w := newWorld(t, "a:1")
	w.fold([]groups.Fact{&groups.ClassicGroupChanged{Group: "g", State: groups.Classic{ProtocolType: "consumer", Generation: 7}}})
	_, err := w.beat(beatAt("A", 3))
	wantCode(t, err, kerr.GroupIDNotFound)
	w.want(join("A", "a"), 1, "a:0")
	if w.g.Classic != nil {
		t.Fatal("is still a classic group")
	}
}

func TestTopicsThatChangeTogetherAreNoticed(t *testing.T) {
	seen := map[uint64]string{}
	for a := int32(1); a <= 20; a++ {
		for b := int32(1); b <= 20; b++ {
			w := newWorld(t, fmt.Sprint("a:", a), fmt.Sprint("b:", b))
			w.must(join("A", "a", "b"))
			h, name := w.g.Consumer.TopicsHash, fmt.Sprint(a, " and ", b)
			if other := seen[h]; other != "" {
				t.Fatalf("%s partitions look like %s", name, other)
			}
			seen[h] = name
		}
	}
}

func TestWhoNeverHeardOfAPartitionIsNotAskedForIt(t *testing.T) {
	w := newWorld(t, "a:2")
	w.must(join("A", "a")) // the answer is lost
	w.want(join("B", "a"), 2, "")
	full := w.holding("A", 1, "") // the second answer was lost too
	full.RebalanceTimeout, full.Topics = time.Minute, []string{"a"}
	w.want(full, 2, "a:0")
	w.want(beatAt("B", 2), 2, "a:1")
}

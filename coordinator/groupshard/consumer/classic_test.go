package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections/groups"
)

// protocols are those of a classic member with a subscription, which owns partitions.
func (w *world) protocols(owned map[partition]bool, topics ...string) []groups.Protocol {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics = 1, topics
	for _, tp := range named(owned) {
		if topic := w.topics.TopicByID(tp.Topic); topic != nil {
			o := kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic.Name, Partitions: tp.Partitions}
			meta.OwnedPartitions = append(meta.OwnedPartitions, o)
		}
	}
	b := meta.AppendTo(nil)
	return []groups.Protocol{{Name: "range", Metadata: b}, {Name: "cooperative-sticky", Metadata: b}}
}

// classicGroup commits a classic group of generation 7 whose members have those partitions.
func (w *world) classicGroup(assigned map[string]string) {
	w.t.Helper()
	c := groups.Classic{ProtocolType: "consumer", Generation: 7, Protocol: "range"}
	for id, text := range assigned {
		a := groups.Assignment{}
		for p := range setOf(assignmentOf(w.holding("", 0, text).Owned)) {
			a[p.Topic] = either(a[p.Topic], []int32{p.Index})
		}
		c.Members, c.Leader = append(c.Members, groups.ClassicMember{
			ID: id, ClientID: "c", Host: "h", SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute,
			Protocols: w.protocols(nil, "a"), Assignment: pack(a, 1, w.topics),
		}), id
	}
	w.fold([]groups.Fact{&groups.ClassicGroupChanged{Group: "g", State: c}})
}

func assignmentOf(owned []groups.TopicPartitions) groups.Assignment {
	out := groups.Assignment{}
	for _, tp := range owned {
		out[tp.Topic] = either(out[tp.Topic], tp.Partitions)
	}
	return out
}

func (w *world) classicJoin(r JoinRequest) (JoinResponse, error) {
	w.t.Helper()
	r.GroupID, r.ProtocolType, r.ClientID, r.Host = "g", "consumer", "c", "h"
	r.SessionTimeout, r.RebalanceTimeout = 10*time.Second, time.Minute
	facts, resp, err := ClassicJoin(w.g, w.topics, w.cfg, w.now, r)
	if err == nil {
		w.fold(facts)
	} else if len(facts) > 0 {
		w.t.Fatalf("%d facts with error %v", len(facts), err)
	}
	return resp, err
}

// rejoins has a member join that owns partitions, and checks its generation and assignment.
func (w *world) rejoins(id, owned string, generation int32, assignment string) {
	w.t.Helper()
	has := setOf(assignmentOf(w.holding("", 0, owned).Owned))
	resp, err := w.classicJoin(JoinRequest{MemberID: id, Protocols: w.protocols(has, "a")})
	if err != nil || resp.MemberID != id || resp.Generation != generation || resp.Protocol != "range" {
		w.t.Fatalf("%s joins: %+v, %v, want generation %d", id, resp, err, generation)
	}
	protocol, b, err := ClassicSync(w.g, w.topics, SyncRequest{MemberID: id, Generation: generation})
	if err != nil || protocol != "range" {
		w.t.Fatalf("%s syncs: %q, %v", id, protocol, err)
	}
	a, err := unpack(b, w.topics)
	if got := w.text(a); err != nil || got != assignment {
		w.t.Fatalf("%s is told %q, %v, want %q", id, got, err, assignment)
	}
}

func (w *world) beats(id string, generation int32, want *kerr.Error) {
	w.t.Helper()
	wantCode(w.t, ClassicHeartbeat(w.g, w.topics, w.cfg, id, nil, generation), want)
}

func migrating(t tester, topics ...string) *world {
	w := newWorld(t, topics...)
	w.cfg.Upgrade, w.cfg.Downgrade = true, true
	return w
}

func TestAClassicGroupGoesOverAndBack(t *testing.T) {
	w := migrating(t, "a:4")
	w.classicGroup(map[string]string{"A": "a:0,1", "B": "a:2,3"})
	w.want(join("C", "a"), 8, "") // waits for what A and B have
	if w.g.Classic != nil || len(w.g.Consumer.Members) != 3 {
		t.Fatalf("group %+v", w.g)
	}
	w.beats("A", 7, kerr.RebalanceInProgress)
	_, _, err := ClassicSync(w.g, w.topics, SyncRequest{MemberID: "A", Generation: 7})
	wantCode(t, err, kerr.RebalanceInProgress)
	w.rejoins("A", "", 8, "a:0,1") // it gave up all, and had the luck to be left what it had
	w.beats("A", 8, nil)
	w.rejoins("B", "a:2,3", 7, "a:2") // cooperative: one is to go
	w.beats("B", 7, kerr.RebalanceInProgress)
	w.want(beatAt("C", 8), 8, "-")
	w.rejoins("B", "a:2", 8, "a:2")
	w.want(beatAt("C", 8), 8, "a:3")
	w.beats("B", 8, nil)
	if s := State(w.g.Consumer); s != Stable {
		t.Fatalf("state %s", s)
	}

	w.want(beatAt("C", -1), -1, "-")
	if w.g.Consumer != nil || w.g.Classic == nil || len(w.g.Classic.Members) != 2 || w.g.Classic.Generation != 8 {
		t.Fatalf("group %+v", w.g)
	}
	c := w.g.Classic
	if c.Protocol != "range" || c.ProtocolType != "consumer" || c.Leader != "A" || c.Members[0].SessionTimeout != 10*time.Second {
		t.Fatalf("classic %+v", c)
	}
	a, err := unpack(c.Members[1].Assignment, w.topics)
	if got := w.text(a); err != nil || got != "a:2" {
		t.Fatalf("B has %q, %v", got, err)
	}
}

func TestWhichClassicGroupsGoOver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *groups.Classic)
		want   *kerr.Error
	}{
		"consumers":           {func(*world, *groups.Classic) {}, nil},
		"not by the policy":   {func(w *world, c *groups.Classic) { w.cfg.Upgrade = false }, kerr.GroupIDNotFound},
		"not consumers":       {func(w *world, c *groups.Classic) { c.ProtocolType = "connect" }, kerr.GroupIDNotFound},
		"too many":            {func(w *world, c *groups.Classic) { w.cfg.MaxSize = 1 }, kerr.GroupIDNotFound},
		"no subscription":     {func(w *world, c *groups.Classic) { c.Members[0].Protocols[0].Metadata = []byte{0} }, kerr.GroupIDNotFound},
		"another assignment":  {func(w *world, c *groups.Classic) { c.Members[0].Assignment = []byte{0, 0, 0} }, kerr.GroupIDNotFound},
		"no assignment yet":   {func(w *world, c *groups.Classic) { c.Members[0].Assignment = nil }, nil},
		"data of an assignor": {func(w *world, c *groups.Classic) { c.Members[0].Assignment = []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9} }, kerr.GroupIDNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := migrating(t, "a:4")
			w.classicGroup(map[string]string{"A": "a:0,1", "B": "a:2,3"})
			c.change(w, w.g.Classic)
			_, err := w.beat(join("C", "a"))
			wantCode(t, err, c.want)
		})
	}
}

func TestWhenAGroupStaysWithThisProtocol(t *testing.T) {
	for name, change := range map[string]func(*world){
		"not by the policy": func(w *world) { w.cfg.Downgrade = false },
		"too many":          func(w *world) { w.cfg.ClassicMaxSize = 1 },
		"another member":    func(w *world) { w.must(join("D", "a")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := migrating(t, "a:4")
			w.classicGroup(map[string]string{"A": "a:0,1", "B": "a:2,3"})
			w.must(join("C", "a"))
			change(w)
			w.fence("C")
			if w.g.Consumer == nil {
				t.Fatal("has gone back")
			}
		})
	}
}

func TestClassicRequests(t *testing.T) {
	join := func(change func(*JoinRequest)) func(*world) error {
		return func(w *world) error {
			r := JoinRequest{MemberID: "A", Protocols: w.protocols(nil, "a")}
			change(&r)
			_, err := w.classicJoin(r)
			return err
		}
	}
	sync := func(r SyncRequest) func(*world) error {
		return func(w *world) error { _, _, err := ClassicSync(w.g, w.topics, r); return err }
	}
	beat := func(id string, instance *string, generation int32) func(*world) error {
		return func(w *world) error { return ClassicHeartbeat(w.g, w.topics, w.cfg, id, instance, generation) }
	}
	leave := func(id string, instance *string) func(*world) error {
		return func(w *world) error {
			facts, errs := ClassicLeave(w.g, w.topics, w.cfg, w.now, []LeaveMember{{id, instance}})
			if (len(facts) > 0) != (errs[0] == nil) {
				w.t.Fatalf("%d facts, %v", len(facts), errs)
			}
			return errs[0]
		}
	}
	// A is a classic member at 8, S a static one at 10, which is the group's epoch, C of
	// this protocol.
	for name, c := range map[string]struct {
		do   func(*world) error
		want *kerr.Error
	}{
		"join again":                 {join(func(r *JoinRequest) {}), nil},
		"join, no protocols":         {join(func(r *JoinRequest) { r.Protocols = r.Protocols[:0] }), kerr.InconsistentGroupProtocol},
		"join, not supported by all": {join(func(r *JoinRequest) { r.MemberID, r.Protocols[0].Name, r.Protocols = "N", "x", r.Protocols[:1] }), kerr.InconsistentGroupProtocol},
		"join, not a subscription":   {join(func(r *JoinRequest) { r.Protocols[0].Metadata = nil }), kerr.InconsistentGroupProtocol},
		"join without an ID":         {join(func(r *JoinRequest) { r.MemberID, r.NewID = "", "N" }), nil},
		"join, one needs an ID":      {join(func(r *JoinRequest) { r.MemberID, r.NewID, r.RequireKnownID = "", "N", true }), kerr.MemberIDRequired},
		"join, an ID comes first": {join(func(r *JoinRequest) {
			r.MemberID, r.NewID, r.RequireKnownID, r.Protocols[0].Metadata = "", "N", true, nil
		}), kerr.MemberIDRequired},
		"join, static needs none":      {join(func(r *JoinRequest) { r.MemberID, r.NewID, r.RequireKnownID, r.InstanceID = "", "N", true, ptr("k") }), nil},
		"join in a static place":       {join(func(r *JoinRequest) { r.MemberID, r.NewID, r.InstanceID = "", "N", ptr("i") }), nil},
		"join in another's place":      {join(func(r *JoinRequest) { r.InstanceID = ptr("i") }), kerr.FencedInstanceID},
		"join in an unknown place":     {join(func(r *JoinRequest) { r.InstanceID = ptr("k") }), kerr.UnknownMemberID},
		"sync":                         {sync(SyncRequest{MemberID: "S", InstanceID: ptr("i"), Generation: 10}), nil},
		"sync, behind":                 {sync(SyncRequest{MemberID: "A", Generation: 8}), kerr.RebalanceInProgress},
		"sync, another generation":     {sync(SyncRequest{MemberID: "A", Generation: 7}), kerr.IllegalGeneration},
		"sync, another protocol type":  {sync(SyncRequest{MemberID: "S", Generation: 10, ProtocolType: ptr("connect")}), kerr.InconsistentGroupProtocol},
		"sync, another protocol":       {sync(SyncRequest{MemberID: "S", Generation: 10, Protocol: ptr("sticky")}), kerr.InconsistentGroupProtocol},
		"sync of the other protocol":   {sync(SyncRequest{MemberID: "C", Generation: 9}), kerr.UnknownMemberID},
		"sync, unknown":                {sync(SyncRequest{MemberID: "N", Generation: 8}), kerr.UnknownMemberID},
		"beat, behind":                 {beat("A", nil, 8), kerr.RebalanceInProgress},
		"beat":                         {beat("S", ptr("i"), 10), nil},
		"beat, another generation":     {beat("A", nil, 9), kerr.IllegalGeneration},
		"beat, another's instance":     {beat("A", ptr("i"), 8), kerr.FencedInstanceID},
		"beat, unknown instance":       {beat("A", ptr("k"), 8), kerr.UnknownMemberID},
		"beat of the other protocol":   {beat("C", nil, 9), kerr.UnknownMemberID},
		"leave":                        {leave("A", nil), nil},
		"leave by instance":            {leave("", ptr("i")), nil},
		"leave, the other protocol":    {leave("C", nil), nil},
		"leave, unknown":               {leave("N", nil), kerr.UnknownMemberID},
		"leave, nobody":                {leave("", nil), kerr.UnknownMemberID},
		"leave, unknown instance":      {leave("", ptr("k")), kerr.UnknownMemberID},
		"leave, another's instance":    {leave("A", ptr("i")), kerr.FencedInstanceID},
		"a commit":                     {func(w *world) error { return MayCommit(w.g, "A", nil, 8, false, nil) }, nil},
		"a commit, another generation": {func(w *world) error { return MayCommit(w.g, "A", nil, 7, false, nil) }, kerr.IllegalGeneration},
		"a fetch, another generation":  {func(w *world) error { return MayFetch(w.g, ptr("A"), 7) }, kerr.IllegalGeneration},
	} {
		t.Run(name, func(t *testing.T) {
			w := migrating(t, "a:4")
			w.classicGroup(map[string]string{"A": "a:0,1,2,3"})
			w.must(HeartbeatRequest{MemberID: "C", RebalanceTimeout: time.Minute, Topics: []string{"a"}, Owned: []groups.TopicPartitions{}})
			w.rejoins("A", "", 8, "a:0,1")
			w.must(beatAt("C", 8))
			r := JoinRequest{NewID: "S", InstanceID: ptr("i"), Protocols: w.protocols(nil, "a")}
			if resp, err := w.classicJoin(r); err != nil || resp.Generation != 9 {
				t.Fatalf("%+v, %v", resp, err)
			}
			w.create("b", 1)
			q := w.holding("C", 8, "")
			q.Topics = []string{"a", "b"}
			w.must(q)
			if _, err := w.classicJoin(JoinRequest{MemberID: "S", InstanceID: ptr("i"), Protocols: w.protocols(nil, "a")}); err != nil {
				t.Fatal(err)
			}
			wantCode(t, c.do(w), c.want)
		})
	}
}

func TestAStaticMemberGoesOver(t *testing.T) {
	w := migrating(t, "a:2")
	w.classicGroup(map[string]string{"A": "a:0,1"})
	w.g.Classic.Members[0].InstanceID = ptr("i")
	if resp := w.want(static(join("A2", "a"), "i"), 8, "a:0,1"); resp.Replaced != "A" {
		t.Fatalf("answer %+v", resp)
	}
	resp, err := w.classicJoin(JoinRequest{NewID: "A3", InstanceID: ptr("i"), Protocols: w.protocols(nil, "a")})
	if err != nil || resp.Replaced != "A2" || resp.Generation != 8 {
		t.Fatalf("answer %+v, %v", resp, err)
	}
	if m := w.g.Consumer.Members["A3"]; len(w.g.Consumer.Members) != 1 || fmt.Sprint(m.Assigned) == "map[]" {
		t.Fatalf("members %v", w.g.Consumer.Members)
	}
}

func TestSeveralLeaveAtOnce(t *testing.T) {
	w := migrating(t, "a:2")
	w.classicGroup(map[string]string{"A": "a:0", "B": "a:1"})
	w.must(join("C", "a"))
	facts, errs := ClassicLeave(w.g, w.topics, w.cfg, w.now, []LeaveMember{{MemberID: "A"}, {MemberID: "N"}, {MemberID: "B"}, {MemberID: "A"}})
	for i, want := range []*kerr.Error{nil, kerr.UnknownMemberID, nil, nil} {
		wantCode(t, errs[i], want)
	}
	w.fold(facts)
	if len(w.g.Consumer.Members) != 1 {
		t.Fatalf("members %v", w.g.Consumer.Members)
	}
}

// CASES E-03.
func TestClassicMembersNoticeTopics(t *testing.T) {
	w := migrating(t, "a:2")
	w.cfg.Downgrade = false
	w.classicGroup(map[string]string{"A": "a:0,1"})
	w.must(join("C", "a"))
	w.fence("C")
	w.rejoins("A", "", 9, "a:0,1")
	w.beats("A", 9, nil)
	w.create("b", 1)
	w.beats("A", 9, nil)
	w.grow("a", 3)
	w.beats("A", 9, kerr.RebalanceInProgress)
	w.rejoins("A", "a:0,1", 10, "a:0,1,2")
	w.beats("A", 10, nil)
}

func TestWhoGoesBackKeepsWhatItHasNotGivenUp(t *testing.T) {
	w := migrating(t, "a:2")
	w.classicGroup(map[string]string{"A": "a:0,1"})
	w.want(join("C", "a"), 8, "")
	w.rejoins("A", "a:0,1", 7, "a:0") // it has yet to give up the other
	w.want(beatAt("C", -1), -1, "-")
	a, err := unpack(w.g.Classic.Members[0].Assignment, w.topics)
	if got := w.text(a); err != nil || got != "a:0,1" {
		t.Fatalf("A has %q, %v", got, err)
	}
}

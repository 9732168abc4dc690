package classic

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestSyncIsRefused(t *testing.T) {
	x := "x"
	for name, c := range map[string]struct {
		r    SyncRequest
		want error
	}{
		"unknown member":     {SyncRequest{MemberID: "nobody", Generation: 1}, kerr.UnknownMemberID},
		"another generation": {SyncRequest{MemberID: "client-1", Generation: 2}, kerr.IllegalGeneration},
		"another's instance": {SyncRequest{MemberID: "client-1", InstanceID: instance("s"), Generation: 1}, kerr.FencedInstanceID},
		"another type":       {SyncRequest{MemberID: "client-1", Generation: 1, ProtocolType: &x}, kerr.InconsistentGroupProtocol},
		"another protocol":   {SyncRequest{MemberID: "client-1", Generation: 1, Protocol: &x}, kerr.InconsistentGroupProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stable("", "s")
			w.fails(w.sync(c.r), c.want)
		})
	}
}

func TestSyncWhileRebalancing(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "")
	w.join(JoinRequest{MemberID: ids[0]})
	w.fails(w.sync(SyncRequest{MemberID: ids[1], Generation: 1}), kerr.RebalanceInProgress)
}

func TestMemberThatIsLeftOut(t *testing.T) {
	w := newWorld(t)
	a, b := w.join(JoinRequest{}), w.join(JoinRequest{})
	w.until(a)
	lead := w.sync(SyncRequest{MemberID: w.joined(a).MemberID, Generation: 1,
		Assignments: map[string][]byte{w.joined(a).MemberID: []byte("all"), "nobody": []byte("x")}})
	w.stored(nil)
	if got := w.synced(lead); got != "all" {
		t.Fatalf("assigned %q", got)
	}
	if got := w.synced(w.sync(SyncRequest{MemberID: w.joined(b).MemberID, Generation: 1})); got != "" {
		t.Fatalf("assigned %q", got)
	}
}

// A client that lost its connection asks again while its assignment is being stored: what
// it sends now is not what is stored.
func TestLeaderSyncsTwice(t *testing.T) {
	w := newWorld(t)
	j := w.join(JoinRequest{})
	w.pass(delay)
	id := w.joined(j).MemberID
	first := w.sync(SyncRequest{MemberID: id, Generation: 1, Assignments: map[string][]byte{id: []byte("first")}})
	second := w.sync(SyncRequest{MemberID: id, Generation: 1, Assignments: map[string][]byte{id: []byte("second")}})
	w.fails(first, kerr.RebalanceInProgress)
	if len(w.stores) != 1 {
		t.Fatalf("%d stores", len(w.stores))
	}
	w.stored(nil)
	if got := w.synced(second); got != "first" {
		t.Fatalf("assigned %q", got)
	}
}

func TestAssignmentIsNotStored(t *testing.T) {
	for name, c := range map[string]struct{ err, want error }{
		"the disk fails":  {errDisk, kerr.NotCoordinator},
		"it takes long":   {kerr.RequestTimedOut, kerr.CoordinatorNotAvailable},
		"something else":  {errors.New("boom"), kerr.CoordinatorNotAvailable},
		"too large":       {kerr.MessageTooLarge, kerr.UnknownServerError},
		"another's group": {kerr.NotCoordinator, kerr.NotCoordinator},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.join(JoinRequest{}), w.join(JoinRequest{})
			w.until(a)
			ids := []string{w.joined(a).MemberID, w.joined(b).MemberID}
			s := w.sync(SyncRequest{MemberID: ids[1], Generation: 1})
			lead := w.sync(SyncRequest{MemberID: ids[0], Generation: 1})
			w.stored(c.err)
			w.fails(s, c.want)
			w.fails(lead, c.want)
			w.state("PreparingRebalance")
			w.join(JoinRequest{MemberID: ids[0]})
			w.join(JoinRequest{MemberID: ids[1]})
			w.settle(ids...)
			if w.kept.Generation != 2 {
				t.Fatalf("stored %+v", w.kept)
			}
		})
	}
}

func TestLeave(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "s", "u")
	errs := w.g.Leave(w.now, []LeaveMember{
		{MemberID: "nobody"},
		{InstanceID: instance("nobody")},
		{MemberID: ids[0], InstanceID: instance("s")},
		{MemberID: ""},
		{InstanceID: instance("s")}, // an administrator's
		{MemberID: ids[2], InstanceID: instance("u")},
	})
	w.drain()
	want := []error{kerr.UnknownMemberID, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.UnknownMemberID, nil, nil}
	for i := range want {
		w.is(errs[i], want[i])
	}
	w.state("PreparingRebalance")
	w.is(w.g.Leave(w.now, []LeaveMember{{MemberID: ids[0]}})[0], nil)
	w.drain()
	w.state("Empty")
	w.stored(nil)
}

func TestLeaveEndsTheWait(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "", "")
	j0, j1 := w.join(JoinRequest{MemberID: ids[0]}), w.join(JoinRequest{MemberID: ids[1]})
	w.g.Leave(w.now, []LeaveMember{{MemberID: ids[1]}})
	w.drain()
	w.fails(j1, kerr.UnknownMemberID)
	w.waits(j0)
	w.g.Leave(w.now, []LeaveMember{{MemberID: ids[2]}})
	w.drain()
	w.joined(j0)
	s := w.sync(SyncRequest{MemberID: ids[0], Generation: 2})
	w.g.Leave(w.now, []LeaveMember{{MemberID: ids[0]}})
	w.drain()
	w.fails(s, kerr.UnknownMemberID)
	w.state("Empty")
}

func TestEverybodyLeavesBeforeTheFirstGeneration(t *testing.T) {
	w := newWorld(t)
	j := w.join(JoinRequest{InstanceID: instance("s")})
	w.g.Leave(w.now, []LeaveMember{{InstanceID: instance("s")}})
	w.drain()
	w.fails(j, kerr.UnknownMemberID)
	next := w.join(JoinRequest{ProtocolType: "connect", Protocols: protocols("p")})
	w.pass(2 * delay)
	if r := w.joined(next); r.ProtocolType != "connect" || r.Leader != r.MemberID {
		t.Fatalf("answer %+v", r)
	}
}

package groupshard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// beat is a full heartbeat of a member of group g.
func (b *bench) beat(sh *Shard, member string, epoch int32, owned []groups.TopicPartitions) (consumer.HeartbeatResponse, error) {
	if owned == nil {
		owned = []groups.TopicPartitions{}
	}
	return sh.ConsumerHeartbeat(context.Background(), consumer.HeartbeatRequest{GroupID: "g", Version: 1, MemberID: member, MemberEpoch: epoch,
		RebalanceTimeout: time.Minute, ClientID: "c", Host: "h", Topics: []string{"t"}, Owned: owned})
}

func (b *bench) mustBeat(sh *Shard, member string, epoch int32, owned []groups.TopicPartitions) consumer.HeartbeatResponse {
	b.tb.Helper()
	r, err := b.beat(sh, member, epoch, owned)
	if err != nil {
		b.tb.Fatalf("heartbeat of %s in epoch %d: %v", member, epoch, err)
	}
	return r
}

// Issue 5: a member of the next-generation protocol goes on under a new owner; its session
// runs from there, and when it ends its partitions go to others.
func TestConsumerMemberOutlivesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 2)
		first := b.owner(1)
		r := b.mustBeat(first, "m", 0, nil)
		if len(r.Assignment[topic]) != 2 {
			t.Fatalf("assigned is %v", r.Assignment)
		}
		next := b.owner(2)
		if _, err := b.beat(first, "n", 0, nil); !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("the old owner takes a member: %v", err)
		}
		owned := []groups.TopicPartitions{{Topic: topic, Partitions: []int32{0, 1}}}
		if again := b.mustBeat(next, "m", r.MemberEpoch, owned); again.MemberEpoch != r.MemberEpoch {
			t.Errorf("its epoch was %d, is %d", r.MemberEpoch, again.MemberEpoch)
		}
		time.Sleep(40 * time.Second)
		if n := b.mustBeat(next, "n", 0, nil); len(n.Assignment[topic]) != 0 {
			t.Errorf("what m has is given to n: %v", n.Assignment)
		}
		time.Sleep(6 * time.Second) // 46 s after m was heard
		synctest.Wait()
		if _, err := b.beat(next, "m", r.MemberEpoch, owned); !errors.Is(err, kerr.UnknownMemberID) {
			t.Errorf("a member whose session has ended: %v", err)
		}
		if n := b.mustBeat(next, "n", 0, nil); len(n.Assignment[topic]) != 2 {
			t.Errorf("n has %v", n.Assignment)
		}
	})
}

// A group goes over to the next-generation protocol and back while it has members.
func TestGroupChangesItsProtocolAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 2)
		ctx := context.Background()
		sh := b.owner(1)
		member, generation := b.joinWith(sh, topic, 0, 1)
		b.mustBeat(sh, "n", 0, nil)
		if err := sh.Heartbeat(ctx, "g", member, nil, generation); !errors.Is(err, kerr.RebalanceInProgress) {
			t.Fatalf("the classic member is to join anew: %v", err)
		}
		d, err := sh.Describe(ctx, "g")
		if err != nil || d.Consumer == nil || len(d.Consumer.Members) != 2 {
			t.Fatalf("described as %+v, %v", d, err)
		}
		j := sh.Join(ctx, "g", joinRequest(member))
		if j.Err != nil {
			t.Fatalf("join: %v", j.Err)
		}
		y := sh.Sync(ctx, "g", classic.SyncRequest{MemberID: member, Generation: j.Generation})
		if y.Err != nil {
			t.Fatalf("sync: %v", y.Err)
		}
		if _, err := b.beat(sh, "n", -1, nil); err != nil {
			t.Fatalf("leave: %v", err)
		}
		if err := sh.Heartbeat(ctx, "g", member, nil, j.Generation); !errors.Is(err, kerr.RebalanceInProgress) {
			t.Errorf("who is left is to be rebalanced: %v", err)
		}
		last := sh.Join(ctx, "g", joinRequest(member))
		if last.Err != nil || last.Leader != member || last.Generation <= j.Generation {
			t.Errorf("join as a classic group: %+v", last)
		}
	})
}

// joinWith makes group g of one classic member with partitions of topic t.
func (b *bench) joinWith(sh *Shard, topic projections.TopicID, partitions ...int32) (member string, generation int32) {
	b.tb.Helper()
	a := kmsg.NewConsumerMemberAssignment()
	a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: b.view.TopicByID(topic).Name, Partitions: partitions}}
	j := sh.Join(context.Background(), "g", joinRequest(""))
	if j.Err != nil {
		b.tb.Fatal(j.Err)
	}
	y := sh.Sync(context.Background(), "g", classic.SyncRequest{MemberID: j.MemberID, Generation: j.Generation,
		Assignments: map[string][]byte{j.MemberID: a.AppendTo(nil)}})
	if y.Err != nil {
		b.tb.Fatal(y.Err)
	}
	return j.MemberID, j.Generation
}

// A classic member that is not heard any more when its group goes over to the
// next-generation protocol is taken out, and what it had goes to others.
func TestSilentClassicMemberIsFencedAfterTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 2)
		sh := b.owner(1)
		member, _ := b.joinWith(sh, topic, 0, 1)
		n := b.mustBeat(sh, "n", 0, nil)
		if len(n.Assignment[topic]) != 0 {
			t.Fatalf("what the classic member has is given to n: %v", n.Assignment)
		}
		for range 10 {
			time.Sleep(6 * time.Second)
			n = b.mustBeat(sh, "n", n.MemberEpoch, nil)
		}
		if g := sh.group("g"); g.Consumer.Members[member] != nil {
			t.Error("a classic member that has said nothing for a minute is still a member")
		}
		if len(n.Assignment[topic]) != 2 {
			t.Errorf("n has %v", n.Assignment)
		}
	})
}

// An assignment that is committed counts when the group goes over to the other protocol,
// though memory does not know it yet: the member is about to be told that it has it (E-01).
func TestChangeOfProtocolSeesACommittedAssignment(t *testing.T) {
	sh := newBench(t).owner(1)
	before := groups.Classic{ProtocolType: "consumer", Generation: 1, Protocol: "range", Leader: "m", Members: []groups.ClassicMember{{ID: "m", SessionTimeout: time.Minute}}}
	sh.mu.Lock()
	sh.makeLiveLocked("g", &before, time.Now())
	sh.mu.Unlock()
	committed := before
	committed.Members = []groups.ClassicMember{{ID: "m", SessionTimeout: time.Minute, Assignment: []byte("x")}}
	seen := sh.seenBy(&groups.Group{ID: "g", Classic: &committed}, "g")
	if len(seen.Classic.Members) != 1 || string(seen.Classic.Members[0].Assignment) != "x" {
		t.Errorf("seen is %+v", seen.Classic)
	}
}

// A member whose join is not answered, as its commit takes too long, is in the group all the
// same. Where its client has gone, it ends with its session as every member does.
func TestMemberThatWasNotAnsweredHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.topic("t", 2)
		hang := make(chan struct{})
		var hung atomic.Bool
		b.v.FS = &faultfs.FS{FS: b.v.FS, Hook: func(op faultfs.Op) (f faultfs.Fault) {
			if hung.Load() && op.Name == "create" {
				<-hang
			}
			return f
		}}
		sh := b.owner(1)
		hung.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := sh.ConsumerHeartbeat(ctx, consumer.HeartbeatRequest{GroupID: "g", Version: 1, MemberID: "m", RebalanceTimeout: time.Minute,
			Topics: []string{"t"}, Owned: []groups.TopicPartitions{}})
		if err == nil {
			t.Error("it was answered")
		}
		hung.Store(false)
		close(hang)
		synctest.Wait()
		if g := sh.group("g"); g == nil || len(g.Consumer.Members) != 1 {
			t.Fatalf("the group is %+v, want its member", g)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if g := sh.group("g"); g != nil && g.Consumer != nil && len(g.Consumer.Members) != 0 {
			t.Errorf("its members are %v still", g.Consumer.Members)
		}
	})
}

// A member of the next-generation protocol commits where the request has a place for its
// epoch; the last heartbeat of one is told no interval for another.
func TestConsumerMembersAsKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 2)
		sh := b.owner(1)
		r := b.mustBeat(sh, "m", 0, nil)
		c := Commit{Group: "g", MemberID: "m", Generation: r.MemberEpoch, Topics: offsets(topic, 1, 0), Epochless: true}
		if err := sh.Commit(context.Background(), c); !errors.Is(err, kerr.UnsupportedVersion) {
			t.Errorf("a commit without an epoch: %v", err)
		}
		c.Epochless = false
		if err := sh.Commit(context.Background(), c); err != nil {
			t.Error(err)
		}
		if r := b.mustBeat(sh, "m", -1, nil); r.HeartbeatInterval != 0 {
			t.Errorf("who leaves is to send a heartbeat after %v", r.HeartbeatInterval)
		}
	})
}

package groupshard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// CASES G-05, G-07: what is acknowledged outlives its owner, deletions too, whether the
// owner closed the shard or was sealed.
func TestCommittedOffsetsOutliveTheOwner(t *testing.T) {
	for _, closed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			topic := b.topic("t", 3)
			first := b.owner(1)
			b.commit(first, "kept", topic, 7, 0, 1)
			b.commit(first, "kept", topic, 9, 1)
			b.commit(first, "deleted", topic, 1, 0)
			if err := first.Delete(context.Background(), "deleted"); err != nil {
				t.Fatal(err)
			}
			if closed {
				if err := first.Relinquish(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			next := b.owner(2)
			b.expect(next, "kept", topic, 0, 7)
			b.expect(next, "kept", topic, 1, 9)
			b.expect(next, "deleted", topic, 0, -1)
			ls, err := next.List(context.Background())
			if err != nil || len(ls) != 1 || ls[0] != (Listed{Group: "kept", State: "Empty", Type: "classic"}) {
				t.Errorf("listed are %v, %v", ls, err)
			}
		})
	}
}

// CASES G-09: an owner that was fenced commits nothing, and says who is to be asked.
func TestFencedOwnerIsNoCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 1)
		old := b.owner(1)
		next := b.owner(2)
		err := old.Commit(context.Background(), Commit{Group: "g", Generation: -1, Topics: offsets(topic, 5, 0)})
		if !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("a commit of the old owner: %v", err)
		}
		if _, err := old.Fetch(context.Background(), "g", nil, -1); !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("a fetch of the old owner: %v", err)
		}
		if a := old.Join(context.Background(), "g", joinRequest("")); !errors.Is(a.Err, kerr.NotCoordinator) {
			t.Errorf("a join of the old owner: %v", a.Err)
		}
		b.expect(next, "g", topic, 0, -1)
	})
}

func joinRequest(member string) classic.JoinRequest {
	return classic.JoinRequest{MemberID: member, ClientID: "c", Host: "h", ProtocolType: "consumer",
		Protocols:      []groups.Protocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0}}},
		SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second}
}

// join makes a group of one member and returns it with its generation.
func (b *bench) join(sh *Shard, group string) (member string, generation int32) {
	b.tb.Helper()
	ctx := context.Background()
	j := sh.Join(ctx, group, joinRequest(""))
	if j.Err != nil {
		b.tb.Fatalf("join: %v", j.Err)
	}
	s := sh.Sync(ctx, group, classic.SyncRequest{MemberID: j.MemberID, Generation: j.Generation,
		Assignments: map[string][]byte{j.MemberID: []byte("all")}})
	if s.Err != nil || string(s.Assignment) != "all" {
		b.tb.Fatalf("sync: %q, %v", s.Assignment, s.Err)
	}
	return j.MemberID, j.Generation
}

// CASES G-05 and issue 5: members go on under a new owner, without a rebalance.
func TestMemberOutlivesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 1)
		ctx := context.Background()
		first := b.owner(1)
		member, generation := b.join(first, "g")
		next := b.owner(2)
		if err := next.Heartbeat(ctx, "g", member, nil, generation); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
		err := next.Commit(ctx, Commit{Group: "g", MemberID: member, Generation: generation, Topics: offsets(topic, 3, 0)})
		if err != nil {
			t.Errorf("commit: %v", err)
		}
		time.Sleep(9 * time.Second)
		if err := next.Heartbeat(ctx, "g", member, nil, generation); err != nil {
			t.Errorf("heartbeat within the session: %v", err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if err := next.Heartbeat(ctx, "g", member, nil, generation); !errors.Is(err, kerr.UnknownMemberID) {
			t.Errorf("heartbeat after the session: %v", err)
		}
	})
}

// An owner that has handed over says nothing of offsets, though nobody sealed it.
func TestWhoHandedOverIsNoCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		topic := b.topic("t", 1)
		old := b.owner(1)
		b.commit(old, "g", topic, 1, 0)
		if err := old.Relinquish(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.commit(b.owner(2), "g", topic, 2, 0)
		if g, err := old.Fetch(context.Background(), "g", nil, -1); !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("the old owner tells %v, %v", g, err)
		}
	})
}

// Who waits in a join when the shard goes elsewhere is sent there at once.
func TestLeavingAnswersWhoWaits(t *testing.T) {
	for name, leave := range map[string]func(*Shard) error{
		"closed": func(s *Shard) error { return s.Relinquish(context.Background()) },
		"left":   func(s *Shard) error { return s.Abandon(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			sh := b.owner(1)
			answer := make(chan classic.JoinAnswer, 1)
			go func() { answer <- sh.Join(context.Background(), "g", joinRequest("")) }()
			synctest.Wait()
			if err := leave(sh); err != nil {
				t.Fatal(err)
			}
			if a := <-answer; !errors.Is(a.Err, kerr.NotCoordinator) {
				t.Errorf("%s: who waited was answered %v", name, a.Err)
			}
		})
	}
}

// CASES G-06: when offsets expire.
func TestOffsetExpiry(t *testing.T) {
	type group struct {
		name string
		kept bool
		make func(b *bench, sh *Shard, topic projections.TopicID)
	}
	for _, g := range []group{
		{"never had members", false, func(b *bench, sh *Shard, topic projections.TopicID) { b.commit(sh, "g", topic, 1, 0) }},
		{"has an idle member", true, func(b *bench, sh *Shard, topic projections.TopicID) {
			member, gen := b.join(sh, "g")
			b.keepAlive(sh, "g", member, gen, 5*time.Minute)
			if err := sh.Commit(context.Background(), Commit{Group: "g", MemberID: member, Generation: gen, Topics: offsets(topic, 1, 0)}); err != nil {
				b.tb.Error(err)
			}
		}},
		{"lost its member", false, func(b *bench, sh *Shard, topic projections.TopicID) {
			member, gen := b.join(sh, "g")
			if err := sh.Commit(context.Background(), Commit{Group: "g", MemberID: member, Generation: gen, Topics: offsets(topic, 1, 0)}); err != nil {
				b.tb.Error(err)
			}
			if _, err := sh.Leave(context.Background(), "g", []classic.LeaveMember{{MemberID: member}}); err != nil {
				b.tb.Error(err)
			}
		}},
		{"rebalances", true, func(b *bench, sh *Shard, topic projections.TopicID) {
			slow := joinRequest("")
			slow.RebalanceTimeout = time.Hour
			j := sh.Join(context.Background(), "g", slow)
			if y := sh.Sync(context.Background(), "g", classic.SyncRequest{MemberID: j.MemberID, Generation: j.Generation}); y.Err != nil {
				b.tb.Error(y.Err)
			}
			if err := sh.Commit(context.Background(), Commit{Group: "g", MemberID: j.MemberID, Generation: j.Generation, Topics: offsets(topic, 1, 0)}); err != nil {
				b.tb.Error(err)
			}
			b.keepAlive(sh, "g", j.MemberID, j.Generation, 5*time.Minute)
			go sh.Join(context.Background(), "g", joinRequest("")) // and the other never joins anew
		}},
		{"asked for longer", true, func(b *bench, sh *Shard, topic projections.TopicID) {
			o := offsets(topic, 1, 0)
			o[0].Partitions[0].Expires = time.Now().Add(time.Hour).UnixMilli()
			if err := sh.Commit(context.Background(), Commit{Group: "g", Generation: -1, Topics: o}); err != nil {
				b.tb.Error(err)
			}
		}},
	} {
		t.Run(g.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.conf.Retention, b.opt.CleanEvery = time.Minute, 10*time.Second
				topic := b.topic("t", 1)
				sh := b.owner(1)
				g.make(b, sh, topic)
				time.Sleep(55 * time.Second)
				b.expect(sh, "g", topic, 0, 1)
				time.Sleep(2 * time.Minute)
				want := int64(-1)
				if g.kept {
					want = 1
				}
				b.expect(sh, "g", topic, 0, want)
				b.expect(b.owner(2), "g", topic, 0, want)
			})
		})
	}
}

// keepAlive has a member beat for as long.
func (b *bench) keepAlive(sh *Shard, group, member string, generation int32, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	b.tb.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			_ = sh.Heartbeat(ctx, group, member, nil, generation)
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			case <-sh.Done():
				return
			}
		}
	}()
}

// CASES A-03: a topic's offsets go with it, and are not those of its namesake.
func TestOffsetsGoWithTheirTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		gone, kept := b.topic("gone", 1), b.topic("kept", 1)
		sh := b.owner(1)
		b.commit(sh, "g", gone, 1, 0)
		b.commit(sh, "g", kept, 2, 0)
		b.commit(sh, "h", gone, 3, 0)
		sh.TopicsDeleted([]projections.TopicID{gone})
		synctest.Wait()
		b.expect(sh, "g", gone, 0, -1)
		b.expect(sh, "g", kept, 0, 2)
		b.expect(sh, "h", gone, 0, -1)
	})
}

// A member whose join's client went away is dropped when its session ends, and the others
// are not kept waiting.
func TestGroupEndsWithItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		sh := b.owner(1)
		b.join(sh, "g")
		if err := sh.Delete(context.Background(), "g"); !errors.Is(err, kerr.NonEmptyGroup) {
			t.Errorf("a group with a member is deleted: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := sh.Delete(context.Background(), "g"); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := sh.Delete(context.Background(), "g"); !errors.Is(err, kerr.GroupIDNotFound) {
			t.Errorf("delete once more: %v", err)
		}
	})
}

// What is dropped of old offsets may take as long as the volume does: members' deadlines do
// not wait for it.
func TestCleaningHoldsNoDeadlineUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.conf.Retention, b.opt.CleanEvery = time.Second, 10*time.Second
		topic := b.topic("t", 1)
		hang := make(chan struct{})
		var hung atomic.Bool
		b.v.FS = &faultfs.FS{FS: b.v.FS, Hook: func(op faultfs.Op) (f faultfs.Fault) {
			if hung.Load() && op.Name == "create" {
				<-hang
			}
			return f
		}}
		sh := b.owner(1)
		b.commit(sh, "old", topic, 1, 0)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		hung.Store(true) // from here on nothing is published
		began := time.Now()
		if j := sh.Join(context.Background(), "g", joinRequest("")); j.Err != nil {
			t.Error(j.Err)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("a join that waits for 3 s was answered after %v", d)
		}
		hung.Store(false)
		close(hang)
	})
}

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quickLoss has the loss of a broker noticed soon.
var quickLoss = []string{"broker.session.timeout.ms=" + soon(), "broker.heartbeat.interval.ms=1000", "group.initial.rebalance.delay.ms=0"}

func soon() string {
	if foreign != "" {
		return "9000"
	}
	return "3000"
}

// TestCommitsSurviveSweeps commits, and has what is committed survive controllers that
// sweep what earlier ones left, deleted topics, and restarts of all (CASES G-05). What
// nobody knows of in the directory survives, too.
func TestCommitsSurviveSweeps(t *testing.T) {
	need(t)
	c := startCluster(t, quickLoss...)
	c.create(topic, 1, nil)
	strange := []string{"strange", "topics/strange", "meta/strange", "strange.dir/file"}
	if foreign == "" {
		for _, name := range strange {
			name = filepath.Join(c.brokers[0].dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("whose?"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string]int64{}
	for i := range 20 {
		group := fmt.Sprintf("group-%d", i)
		want[group] = int64(1000 + i)
		c.coordinated(1, group, func(id int32) bool { return c.commitOffset(id, group, topic, want[group], "of "+group) == nil })
	}
	there := func(when string) {
		t.Helper()
		for group, offset := range want {
			if got, metadata := c.committed(1, group); got != offset || metadata == nil || *metadata != "of "+group {
				t.Errorf("%s, group %s: committed is %d, want %d", when, group, got, offset)
			}
		}
		for _, name := range strange {
			if b, err := os.ReadFile(filepath.Join(c.brokers[0].dir, name)); foreign == "" && (err != nil || string(b) != "whose?") {
				t.Errorf("%s, the file %s: %q, %v", when, name, b, err)
			}
		}
	}
	there("before anything")
	for term := range 2 { // each controller sweeps when it begins
		gone := c.aController(1)
		c.broker(gone).kill()
		other := c.other(gone)
		passing := fmt.Sprintf("passing-%d", term)
		c.await("a topic made by another controller", func() bool {
			_, err := c.admin().CreateTopic(t.Context(), 1, 1, nil, passing)
			return err == nil || errors.Is(err, kerr.TopicAlreadyExists)
		})
		if _, err := c.admin().DeleteTopic(t.Context(), passing); err != nil {
			t.Errorf("delete %s: %v", passing, err)
		}
		c.await("it is gone", func() bool {
			m := c.metadata(other, passing)
			return m != nil && m.Topics[0].ErrorCode == kerr.UnknownTopicOrPartition.Code
		})
		c.broker(gone).start()
		c.settled()
		there(fmt.Sprintf("after controller %d", gone))
	}
	c.restartAll((*broker).end)
	there("after a restart")
	c.restartAll((*broker).kill)
	there("after kill -9 of all")
}

// end asks a broker to end, and waits for it.
func (b *broker) end() {
	if foreign == "" {
		b.stop()
		return
	}
	_ = b.cmd.Process.Signal(os.Interrupt) // an error says that it has ended
	select {
	case <-b.done:
	case <-time.After(30 * time.Second):
		b.kill()
	}
}

// TestDeletedGroupStaysDeleted deletes groups, one of them after it has changed its
// coordinator, and looks for what is left of them at every broker, before and after
// restarts of all (CASES G-07).
func TestDeletedGroupStaysDeleted(t *testing.T) {
	need(t)
	c := startCluster(t, quickLoss...)
	c.create(topic, 1, nil)
	const stays, moves, lives = "stays", "moves", "lives"
	for _, group := range []string{stays, moves, lives} {
		c.coordinated(1, group, func(id int32) bool { return c.commitOffset(id, group, topic, 7, "") == nil })
	}
	member := c.newClient(kgo.ConsumerGroup(lives), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	c.await("the group has a member", func() bool {
		member.PollFetches(timeout(t, 50*time.Millisecond))
		id, generation := member.GroupMetadata()
		return id != "" && generation > 0 // which it has by its second answer
	})
	c.deletes(lives, kerr.NonEmptyGroup)
	c.deletes("never-was", kerr.GroupIDNotFound)
	c.deletes(stays, nil)

	gone := c.coordinator(1, moves)
	c.broker(gone).kill()
	as := c.other(gone)
	c.await("another coordinator", func() bool {
		ids, _ := c.coordinators(as, moves)
		return len(ids) == 1 && ids[0] > 0 && ids[0] != gone
	})
	c.deletes(moves, nil)
	c.broker(gone).start()
	c.settled()
	member.Close()
	c.await("the group has no members", func() bool { return c.deleteCode(lives) == 0 })

	all := []string{stays, moves, lives}
	c.areGone("at once", all...)
	c.restartAll((*broker).end)
	c.areGone("after a restart", all...)
	c.restartAll((*broker).kill)
	c.areGone("after kill -9 of all", all...)
	c.deletes(stays, kerr.GroupIDNotFound)
}

func (c *cluster) areGone(when string, groups ...string) {
	t := c.t
	t.Helper()
	for _, group := range groups {
		for id := int32(1); id <= 3; id++ {
			if c.listed(id, group) {
				t.Errorf("%s: broker %d lists the group %s", when, id, group)
			}
		}
		if got, _ := c.committed(1, group); got != -1 {
			t.Errorf("%s: committed of %s is %d, want -1", when, group, got)
		}
		var g kmsg.DescribeGroupsResponseGroup
		c.coordinated(1, group, func(id int32) bool {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups = []string{group}
			resp, err := c.ask(id, req)
			if err == nil {
				g = resp.(*kmsg.DescribeGroupsResponse).Groups[0]
			}
			return err == nil && !elsewhere(g.ErrorCode)
		})
		if g.ErrorCode != kerr.GroupIDNotFound.Code || g.State != "Dead" {
			t.Errorf("%s: the group %s is described with code %d and state %s, want %d and Dead", when, group, g.ErrorCode, g.State, kerr.GroupIDNotFound.Code)
		}
	}
}

// deletes asks for a group to be deleted, and wants an answer.
func (c *cluster) deletes(group string, want *kerr.Error) {
	c.t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got := c.deleteCode(group); got != code {
		c.t.Errorf("DeleteGroups of %s: code %d (%v), want %d", group, got, kerr.ErrorForCode(got), code)
	}
}

// deleteCode asks a group's coordinator to delete it, again while that is about to serve it.
func (c *cluster) deleteCode(group string) (code int16) {
	c.t.Helper()
	c.await("an answer about the deletion of "+group, func() bool {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group}
		resp, err := req.RequestWith(timeout(c.t, startTime), c.cl)
		if err != nil {
			return false
		}
		code = resp.Groups[0].ErrorCode
		return !elsewhere(code)
	})
	return code
}

// elsewhere reports whether an answer's code says to ask another broker, or later.
func elsewhere(code int16) bool {
	return code == kerr.NotCoordinator.Code || code == kerr.CoordinatorLoadInProgress.Code || code == kerr.CoordinatorNotAvailable.Code
}

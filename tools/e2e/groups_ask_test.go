package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// capped is a request of at most a version.
type capped struct {
	kmsg.Request
	most int16
}

func (c capped) MaxVersion() int16 { return c.most }

// The newest versions that name topics and not their IDs.
const (
	commitByName = 9
	fetchByName  = 9
)

// once asks one broker, and no other, a single time.
func (c *cluster) once(id int32, most time.Duration, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), most)
	defer cancel()
	return c.asked[id-1].SeedBrokers()[0].Request(ctx, req)
}

// coordinators are those of groups as one broker tells them, and the addresses that it
// tells; nil if it does not know them all.
func (c *cluster) coordinators(as int32, groups ...string) (ids []int32, addrs []string) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = groups
	resp, err := c.ask(as, req)
	if err != nil {
		return nil, nil
	}
	by := map[string]kmsg.FindCoordinatorResponseCoordinator{}
	for _, found := range resp.(*kmsg.FindCoordinatorResponse).Coordinators {
		by[found.Key] = found
	}
	for _, g := range groups {
		found, ok := by[g]
		if !ok || found.ErrorCode != 0 {
			return nil, nil
		}
		ids = append(ids, found.NodeID)
		addrs = append(addrs, fmt.Sprintf("%s:%d", found.Host, found.Port))
	}
	return ids, addrs
}

// coordinator is that of a group, when a broker knows it and it serves the group.
func (c *cluster) coordinator(as int32, group string) (id int32) {
	c.t.Helper()
	c.coordinated(as, group, func(by int32) bool {
		id = by
		_, _, err := c.fetchOffset(id, group, topic)
		return err == nil
	})
	return id
}

// coordinated waits until ok of a group's coordinator, which may be another each time: groups are
// moved until each broker has its share.
func (c *cluster) coordinated(as int32, group string, ok func(id int32) bool) {
	c.t.Helper()
	c.await("the coordinator of the group "+group+" answers", func() bool {
		ids, _ := c.coordinators(as, group)
		return len(ids) == 1 && ids[0] > 0 && ok(ids[0])
	})
}

// committed is what a group has committed of partition 0, and with which metadata, as its
// coordinator tells it.
func (c *cluster) committed(as int32, group string) (offset int64, metadata *string) {
	c.t.Helper()
	c.coordinated(as, group, func(id int32) bool {
		var err error
		offset, metadata, err = c.fetchOffset(id, group, topic)
		return err == nil
	})
	return offset, metadata
}

// fetchOffset asks a broker what a group has committed of partition 0, and with which
// metadata.
func (c *cluster) fetchOffset(id int32, group, topic string) (int64, *string, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = group, []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}
	req.Groups = append(req.Groups, g)
	got, err := c.once(id, 5*time.Second, capped{req, fetchByName})
	if err != nil {
		return 0, nil, err
	}
	resp := got.(*kmsg.OffsetFetchResponse)
	if len(resp.Groups) != 1 {
		return 0, nil, fmt.Errorf("an answer about %d groups", len(resp.Groups))
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		return 0, nil, err
	}
	if len(resp.Groups[0].Topics) != 1 || len(resp.Groups[0].Topics[0].Partitions) != 1 {
		return 0, nil, fmt.Errorf("an answer without the partition")
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	return p.Offset, p.Metadata, kerr.ErrorForCode(p.ErrorCode)
}

// commitOffset has a broker commit of partition 0, as one who is no member.
func (c *cluster) commitOffset(id int32, group, topic string, offset int64, metadata string) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = offset, &metadata
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, err := c.once(id, 2*time.Second, capped{req, commitByName})
	if err != nil {
		return err
	}
	resp := got.(*kmsg.OffsetCommitResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("an answer without the partition")
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// joinCode has a broker take in a member without an ID, and returns the code of its answer.
// A coordinator says that the member needs one.
func (c *cluster) joinCode(id int32, group string) (int16, error) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType = group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", subscription()
	req.Protocols = append(req.Protocols, p)
	resp, err := c.once(id, 5*time.Second, req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.JoinGroupResponse).ErrorCode, nil
}

func subscription() []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = []string{topic}
	return m.AppendTo(nil)
}

// listed is whether a broker lists a group.
func (c *cluster) listed(id int32, group string) bool {
	c.t.Helper()
	resp, err := c.ask(id, kmsg.NewPtrListGroupsRequest())
	if err != nil {
		c.t.Fatalf("ListGroups at %d: %v", id, err)
	}
	for _, g := range resp.(*kmsg.ListGroupsResponse).Groups {
		if g.Group == group {
			return true
		}
	}
	return false
}

// restartAll ends every broker in a way, and starts all.
func (c *cluster) restartAll(end func(*broker)) {
	c.t.Helper()
	done := make(chan struct{})
	for _, b := range c.brokers {
		go func() { end(b); done <- struct{}{} }()
	}
	for range c.brokers {
		<-done
	}
	for _, b := range c.brokers {
		b.launch()
	}
	c.settled()
}

// timeout is a context that ends by itself.
func timeout(t *testing.T, most time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	return ctx
}

package server

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// aclBackend has a view with ACLs and topics, and no partitions.
type aclBackend struct {
	noCluster
	view *projections.Cluster
}

func (b aclBackend) View() *projections.Cluster { return b.view }

// authorizing are a produce and a fetch of alice's for so many partitions of 10 topics, which
// she may have; without an authorizer, if acls is 0, by as many ACLs else.
func authorizing(t testing.TB, partitions, acls int) (*produceCall, *fetchCall, *request) {
	t.Helper()
	var facts []projections.Fact
	var made []projections.ACL
	for i := range 10 {
		facts = append(facts, &projections.TopicCreated{ID: projections.TopicID{1, byte(i)}, Name: fmt.Sprintf("orders-%d", i), Partitions: int32(partitions)})
	}
	for i := range acls {
		made = append(made, allow("alice", acl.Read, acl.Topic, fmt.Sprintf("t%d", i)))
	}
	if acls > 0 {
		made = append(made, allow("alice", projections.ACLAll, acl.Topic, "orders*"))
	}
	evs, err := projections.NewEvents(append(facts, &projections.ACLsCreated{ACLs: made})...)
	if err != nil {
		t.Fatal(err)
	}
	view, err := projections.Apply(projections.NewCluster(), evs)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Authorizer: acls > 0}
	s := &Server{cfg: cfg, backend: aclBackend{view: view}, authorizer: newAuthorizer(cfg, testLog(t))}
	r := &request{conn: &conn{s: s}, principal: auth.User("alice")}
	r.subject = s.subject(r.principal, r.from)
	produce := &produceCall{s: s, view: view, req: &kmsg.ProduceRequest{Version: 13}}
	fetch := &fetchCall{s: s, asker: r, view: view, req: &kmsg.FetchRequest{Version: 18, ReplicaID: -1}}
	fetch.req.ReplicaState.ID = -1
	for i := range 10 {
		rt := kmsg.ProduceRequestTopic{TopicID: projections.TopicID{1, byte(i)}}
		for p := range partitions {
			rt.Partitions = append(rt.Partitions, kmsg.ProduceRequestTopicPartition{Partition: int32(p)})
			fetch.from = append(fetch.from, fetchFrom{fetchKey: fetchKey{id: rt.TopicID, partition: int32(p)}})
		}
		produce.req.Topics = append(produce.req.Topics, rt)
	}
	return produce, fetch, r
}

// decideFetch decides on all partitions of a fetch, as looking them up does.
func decideFetch(c *fetchCall) (denied int) {
	c.authorize()
	for i := range c.from {
		if t := c.view.TopicByID(c.from[i].id); c.denied(t.Name) != nil {
			denied++
		}
	}
	return denied
}

// What may be written and read is decided without an allocation, however many partitions.
func TestAuthorizingDoesNotAllocate(t *testing.T) {
	for _, acls := range []int{0, 1000} {
		produce, fetch, r := authorizing(t, 50, acls)
		if n := testing.AllocsPerRun(20, func() { produce.authorize(r); decideFetch(fetch) }); n > 0 {
			t.Errorf("with %d ACLs: %v allocations", acls, n)
		}
		if len(produce.denied) > 0 || decideFetch(fetch) > 0 {
			t.Errorf("with %d ACLs: something is denied", acls)
		}
	}
}

func BenchmarkAuthorize(b *testing.B) {
	for _, acls := range []int{0, 1000} {
		produce, fetch, r := authorizing(b, 50, acls)
		b.Run(fmt.Sprintf("Produce/acls=%d", acls), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				produce.authorize(r)
			}
		})
		b.Run(fmt.Sprintf("Fetch/acls=%d", acls), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decideFetch(fetch)
			}
		})
	}
}

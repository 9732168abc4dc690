package server

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

// acls are what a filter chooses, in lines, in every version.
func (c *client) acls(edit func(*kmsg.DescribeACLsRequest)) string {
	c.t.Helper()
	var first string
	for v := int16(1); v <= 3; v++ {
		req := kmsg.NewPtrDescribeACLsRequest()
		anyACL(req)
		edit(req)
		req.Version = v
		resp := c.ask(req).(*kmsg.DescribeACLsResponse)
		if resp.ErrorCode != 0 {
			c.t.Fatalf("describe ACLs: error %d", resp.ErrorCode)
		}
		var lines []string
		for _, r := range resp.Resources {
			for _, a := range r.ACLs {
				lines = append(lines, projections.ACL{Resource: acl.Resource(r.ResourceType), Pattern: projections.ACLPattern(r.ResourcePatternType), Name: r.ResourceName,
					Principal: a.Principal, Host: a.Host, Operation: acl.Operation(a.Operation), Permission: projections.ACLPermission(a.PermissionType)}.String())
			}
		}
		if got := strings.Join(lines, "\n"); v == 1 {
			first = got
		} else if got != first {
			c.t.Errorf("version %d tells\n%s\nand version 1\n%s", v, got, first)
		}
	}
	return first
}

func everything(*kmsg.DescribeACLsRequest) {}

func TestACLsAreMadeToldAndDeleted(t *testing.T) {
	n := startAuthorized(t)
	c := dialAs(t, "admin", n.Addr())
	read, write, denied := allow("alice", acl.Read, acl.Topic, "a"), allow("alice", acl.Write, acl.Topic, "a"), deny("bob", projections.ACLAll, acl.Group, "g*")
	c.grant(read, write, denied)
	c.grant(read) // again
	all := strings.Join([]string{read.String(), write.String(), denied.String()}, "\n")
	if got := c.acls(everything); got != all {
		t.Errorf("made:\n%s\nwant\n%s", got, all)
	}
	name := "g7"
	if got := c.acls(func(r *kmsg.DescribeACLsRequest) {
		r.ResourcePatternType, r.ResourceName = kmsg.ACLResourcePatternTypeMatch, &name
	}); got != denied.String() {
		t.Errorf("what matches %s: %s", name, got)
	}
	for v := int16(1); v <= 3; v++ {
		req := kmsg.NewPtrDeleteACLsRequest()
		req.Version = v
		f, g := anyFilter(), anyFilter()
		f.Operation = kmsg.ACLOperationRead
		g.ResourceType = kmsg.ACLResourceTypeTopic
		req.Filters = append(req.Filters, f, g)
		got := c.ask(req).(*kmsg.DeleteACLsResponse).Results
		if len(got) != 2 || len(got[0].MatchingACLs) != 1 || len(got[1].MatchingACLs) != 2 || got[1].MatchingACLs[0].Operation != kmsg.ACLOperationRead || got[1].MatchingACLs[1].ResourceName != "a" {
			t.Errorf("version %d: deleted %+v", v, got)
		}
		if got := c.acls(everything); got != denied.String() {
			t.Errorf("version %d: left is %s", v, got)
		}
		c.grant(read, write)
	}
	c.revoke()
	if got := c.acls(everything); got != "" {
		t.Errorf("left is %s", got)
	}
}

// What is wrong with one ACL is told of it, and the others are made.
func TestACLsAreJudgedOneByOne(t *testing.T) {
	n := startAuthorized(t)
	c := dialAs(t, "admin", n.Addr())
	good, bad, cluster := allow("alice", acl.Read, acl.Topic, "a"), allow("alice", acl.Read, acl.Topic, "b"), allow("alice", acl.Read, acl.Cluster, "mine")
	bad.Host = "10.0.0.0/99"
	for v := int16(1); v <= 3; v++ {
		req := kmsg.NewPtrCreateACLsRequest()
		req.Version = v
		req.Creations = append(req.Creations, creation(bad), creation(good), creation(cluster))
		got := c.ask(req).(*kmsg.CreateACLsResponse).Results
		want := []int16{kerr.InvalidRequest.Code, 0, kerr.InvalidRequest.Code}
		for i := range want {
			if len(got) != 3 || got[i].ErrorCode != want[i] || (want[i] == 0) != (got[i].ErrorMessage == nil) {
				t.Fatalf("version %d: %+v", v, got)
			}
		}
		if got := c.acls(everything); got != good.String() {
			t.Errorf("version %d: made %s", v, got)
		}
		c.revoke()
	}
	many := kmsg.NewPtrDeleteACLsRequest()
	many.Version = 3
	for range mostACLFilters + 1 {
		many.Filters = append(many.Filters, anyFilter())
	}
	if got := c.ask(many).(*kmsg.DeleteACLsResponse).Results; len(got) != len(many.Filters) || got[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("%d filters: %d answers, first %+v", len(many.Filters), len(got), got[0])
	}
}

// As in Kafka, what is of no known kind costs the connection, and only that.
func TestUnknownKindsOfACLsCostTheConnection(t *testing.T) {
	n := startAuthorized(t)
	for what, req := range map[string]kmsg.Request{
		"described": &kmsg.DescribeACLsRequest{Version: 3, ResourceType: 2, ResourcePatternType: 3, Operation: 0, PermissionType: 1},
		"created":   &kmsg.CreateACLsRequest{Version: 3, Creations: []kmsg.CreateACLsRequestCreation{{ResourceType: 9, ResourceName: "a", ResourcePatternType: 3, Principal: "User:a", Host: "*", Operation: 3, PermissionType: 3}}},
		"deleted":   &kmsg.DeleteACLsRequest{Version: 3, Filters: []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 5, Operation: 1, PermissionType: 1}}},
	} {
		c := dialAs(t, "admin", n.Addr())
		c.send(req)
		t.Log(what)
		c.closed()
	}
	f := startFollower(t, n) // and not that of the broker which passes it on
	c := dial(t, f.addr)
	c.send(&kmsg.CreateACLsRequest{Version: 3, Creations: make([]kmsg.CreateACLsRequestCreation, 1)})
	c.closed()
	dialAs(t, "admin", n.Addr()).acls(everything)
}

// Who has been told that something is denied or allowed from now on finds it so.
func TestACLsActAtOnce(t *testing.T) {
	n := startAuthorized(t)
	admin, alice := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", n.Addr())
	admin.create("a", 1)
	for range 3 {
		if code, _ := alice.produce("a", newBatch(nil, "v")); code != kerr.TopicAuthorizationFailed.Code {
			t.Fatalf("without a grant: error %d", code)
		}
		admin.grant(allow("alice", acl.Write, acl.Topic, "a"))
		if code, _ := alice.produce("a", newBatch(nil, "v")); code != 0 {
			t.Fatalf("with one: error %d", code)
		}
		admin.grant(deny("*", acl.Write, acl.Topic, "a"))
		if code, _ := alice.produce("a", newBatch(nil, "v")); code != kerr.TopicAuthorizationFailed.Code {
			t.Fatalf("denied to everybody: error %d", code)
		}
		admin.revoke()
	}
	if end := admin.end("a"); end != 3 {
		t.Errorf("%d records, want 3", end)
	}
}

// A fetch that waits is decided when it comes, as in Kafka; the next one of its session by the
// ACLs of then.
func TestFetchSessionsAreAuthorizedEachTime(t *testing.T) {
	n := startAuthorized(t)
	admin, alice := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", n.Addr())
	id := admin.create("a", 1)
	admin.grant(allow("alice", acl.Read, acl.Topic, "a"))
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MaxWaitMillis, req.SessionEpoch = 18, 1<<20, 0, 0
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = 1<<20, -1
	req.Topics = []kmsg.FetchRequestTopic{{TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{rp}}}
	first := alice.ask(req).(*kmsg.FetchResponse)
	if first.SessionID == 0 || first.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("with a grant: %+v", first)
	}
	admin.revoke()
	admin.produce("a", newBatch(nil, "secret"))
	req.Topics, req.SessionID, req.SessionEpoch = nil, first.SessionID, 1
	next := alice.ask(req).(*kmsg.FetchResponse)
	if len(next.Topics) != 1 || next.Topics[0].Partitions[0].ErrorCode != kerr.TopicAuthorizationFailed.Code || len(next.Topics[0].Partitions[0].RecordBatches) > 0 {
		t.Fatalf("in a session, after it was taken back: %+v", next)
	}
	admin.grant(allow("alice", acl.Read, acl.Topic, "a"))
	req.SessionEpoch = 2
	if again := alice.ask(req).(*kmsg.FetchResponse); len(again.Topics) != 1 || len(again.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("given again: %+v", again)
	}
}

package server

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

// refusals are the codes that say no more than that something is denied: by topic, group,
// cluster, transactional ID, and of tokens and of SASL, on a listener where nobody says who he
// is.
var refusals = []int16{kerr.TopicAuthorizationFailed.Code, kerr.GroupAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code,
	kerr.TransactionalIDAuthorizationFailed.Code, kerr.DelegationTokenRequestNotAllowed.Code, kerr.IllegalSaslState.Code}

// S-04: a principal without grants walks every advertised key and version, naming all there
// is by name and by ID. He is refused everywhere, is shown nothing, and changes nothing.
func TestNobodyIsShownAnything(t *testing.T) {
	n := startAuthorized(t)
	admin, alice := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", n.Addr())
	s := &sweepTopics{dir: n.cfg.LogDir}
	for _, name := range []string{"sweep-a", "sweep-b", "hidden"} {
		id := admin.create(name, 3)
		if admin.produce(name, newBatch(nil, "secret")); name != "hidden" {
			s.names, s.ids = append(s.names, name), append(s.ids, id)
		}
	}
	for _, group := range []string{"sweep", "hidden-group"} {
		admin.commit(group, "sweep-a", 7)
	}
	for _, a := range apis {
		for v := max(a.min, a.works); v <= a.max; v++ {
			full := kmsg.RequestForKey(int16(a.key))
			full.SetVersion(v)
			s.fill(t, admin, full)
			for i, req := range []kmsg.Request{minimal(a, v), full} {
				what := fmt.Sprintf("%s v%d %s", kmsg.NameForKey(int16(a.key)), v, []string{"minimal", "full"}[i])
				fillAlso(req)
				if _, ok := req.(*kmsg.SyncGroupRequest); ok && i == 0 && v >= 5 {
					continue // whose members say what they speak, before all else
				}
				before := n.broker.View()
				resp := alice.ask(req)
				if n.broker.View() != before {
					t.Errorf("%s has changed the cluster", what)
				}
				for _, leak := range leaks(reflect.ValueOf(resp).Elem(), "") {
					t.Errorf("%s: %s", what, leak)
				}
			}
		}
	}
	for _, name := range s.names {
		if end := admin.end(name); end != 1 {
			t.Errorf("%s ends at %d, not 1: something was written to it", name, end)
		}
	}
	for _, group := range []string{"sweep", "hidden-group"} {
		if got := admin.committed(group, "sweep-a"); got != 7 {
			t.Errorf("%s has committed %d, not 7", group, got)
		}
	}
}

// fillAlso names what the sweep leaves to others.
func fillAlso(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.AddPartitionsToTxnRequest:
		r.TransactionalID = "sweep-x"
		r.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "sweep-a", Partitions: []int32{0}}}
	case *kmsg.AddOffsetsToTxnRequest:
		r.TransactionalID, r.Group = "sweep-x", "sweep"
	case *kmsg.EndTxnRequest:
		r.TransactionalID = "sweep-x"
	case *kmsg.TxnOffsetCommitRequest:
		r.TransactionalID, r.Group, r.Generation = "sweep-x", "sweep", -1
	case *kmsg.DescribeTransactionsRequest:
		r.TransactionalIDs = []string{"sweep-x"}
	case *kmsg.FetchRequest:
		if len(r.Topics) == 0 { // a session of nothing is no secret
			r.SessionEpoch = -1
		}
	}
}

// leaks are what an answer tells beyond refusals. What everybody may know of a cluster is
// none: its ID and brokers, and what this build can do.
func leaks(v reflect.Value, path string) (out []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out = leaks(v.Elem(), path)
		}
	case reflect.Struct:
		if _, open := v.Interface().(kmsg.ApiVersionsResponse); open {
			return nil
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" && f.Name != "Brokers" {
				out = append(out, leaks(v.Field(i), path+"."+f.Name)...)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Len() > 0 {
			return []string{fmt.Sprintf("%s has %d bytes", path, v.Len())}
		}
		for i := range v.Len() {
			out = append(out, leaks(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.String:
		if strings.Contains(v.String(), "hidden") {
			out = []string{path + " is " + v.String()}
		}
	case reflect.Int16:
		if code := int16(v.Int()); strings.HasSuffix(path, "ErrorCode") && code != 0 && !slices.Contains(refusals, code) {
			out = []string{fmt.Sprintf("%s is %d", path, code)}
		}
	case reflect.Int64:
		if v.Int() > 0 && !strings.HasPrefix(path, ".Markers[") { // where the request has named the producer
			out = []string{fmt.Sprintf("%s is %d", path, v.Int())}
		}
	case reflect.Int32:
		if strings.HasSuffix(path, "AuthorizedOperations") && v.Int() > 0 {
			out = []string{fmt.Sprintf("%s is %b", path, v.Int())}
		}
	}
	return out
}

func (c *client) commit(group, topic string, offset int64) int16 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// committed is a group's offset of a topic's first partition, or its error, negative.
func (c *client) committed(group, topic string) int64 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 9
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = group, -1
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}
	req.Groups = append(req.Groups, g)
	got := c.ask(req).(*kmsg.OffsetFetchResponse).Groups[0]
	if got.ErrorCode != 0 {
		return -int64(got.ErrorCode)
	}
	if p := got.Topics[0].Partitions[0]; p.ErrorCode != 0 {
		return -int64(p.ErrorCode)
	} else {
		return p.Offset
	}
}

// S-04: who has a group of his own sees and touches no other's.
func TestGroupsOfOthersAreOutOfReach(t *testing.T) {
	n := startAuthorized(t)
	admin, alice, bob := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", n.Addr()), dialAs(t, "bob", n.Addr())
	admin.create("a", 1)
	for _, user := range []string{"alice", "bob"} {
		admin.grant(allow(user, acl.Read, acl.Topic, "a"), allow(user, acl.Read, acl.Group, user+"*"), allow(user, acl.Delete, acl.Group, user+"*"))
	}
	if code := alice.commit("alice-1", "a", 5); code != 0 {
		t.Fatalf("a commit to the own group: error %d", code)
	}
	no := kerr.GroupAuthorizationFailed.Code
	if code := bob.commit("alice-1", "a", 9); code != no {
		t.Errorf("OffsetCommit: error %d", code)
	}
	if got := bob.committed("alice-1", "a"); got != -int64(no) {
		t.Errorf("OffsetFetch: %d", got)
	}
	ask := func(c *client, req kmsg.Request) string {
		req.SetVersion(req.MaxVersion())
		return answerTold(c.ask(req), func(s string) string {
			if s != "alice-1" {
				return ""
			}
			return s
		})
	}
	refused := fmt.Sprintf("Groups=[{ErrorCode=%d Group=alice-1}]", no)
	for what, req := range map[string]kmsg.Request{
		"DescribeGroups":        &kmsg.DescribeGroupsRequest{Groups: []string{"alice-1"}, IncludeAuthorizedOperations: true},
		"ConsumerGroupDescribe": &kmsg.ConsumerGroupDescribeRequest{Groups: []string{"alice-1"}},
		"DeleteGroups":          &kmsg.DeleteGroupsRequest{Groups: []string{"alice-1"}},
	} {
		if got := strings.Replace(ask(bob, req), "Group=alice-1 ErrorCode=30", "ErrorCode=30 Group=alice-1", 1); got != refused {
			t.Errorf("%s: %s, want %s", what, got, refused)
		}
	}
	if got := ask(bob, &kmsg.ListGroupsRequest{}); strings.Contains(got, "alice-1") {
		t.Errorf("ListGroups: %s", got)
	}
	if got := ask(alice, &kmsg.ListGroupsRequest{}); !strings.Contains(got, "alice-1") {
		t.Errorf("ListGroups of whose it is: %s", got)
	}
	if got := alice.committed("alice-1", "a"); got != 5 {
		t.Errorf("left is %d, not 5", got)
	}
	if got := ask(alice, &kmsg.DeleteGroupsRequest{Groups: []string{"alice-1"}}); strings.Contains(got, "30") {
		t.Errorf("who may: %s", got)
	}
}

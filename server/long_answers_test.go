package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is wrong with each of many parts of a request is told by its code, and by words as far as
// these are short in all.
func TestWordsOfAnAnswerAreBounded(t *testing.T) {
	c := dial(t, startNode(t, t.TempDir()).Addr())
	const many = 20_000
	name := func(i int) string { return fmt.Sprintf("%05d", i) }
	alter, replace := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrAlterConfigsRequest()
	create, grow := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewPtrCreatePartitionsRequest()
	remove, groups := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewPtrDeleteGroupsRequest()
	allow, forbid := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	quotas, scram := kmsg.NewPtrAlterClientQuotasRequest(), kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	elect, move := kmsg.NewPtrElectLeadersRequest(), kmsg.NewPtrAlterPartitionAssignmentsRequest()
	elect.Topics, move.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t"}}, []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t"}}
	for i := range many {
		alter.Resources = append(alter.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: 2, ResourceName: name(i)})
		replace.Resources = append(replace.Resources, kmsg.AlterConfigsRequestResource{ResourceType: 2, ResourceName: name(i)})
		create.Topics = append(create.Topics, kmsg.CreateTopicsRequestTopic{Topic: name(i), NumPartitions: 1, ReplicationFactor: 1})
		grow.Topics = append(grow.Topics, kmsg.CreatePartitionsRequestTopic{Topic: name(i), Count: 2})
		remove.TopicNames = append(remove.TopicNames, name(i))
		groups.Groups = append(groups.Groups, name(i))
		allow.Creations = append(allow.Creations, kmsg.CreateACLsRequestCreation{ResourceType: 2, ResourceName: name(i), ResourcePatternType: 3, Principal: "User:a", Host: "*", Operation: 3, PermissionType: 3})
		forbid.Filters = append(forbid.Filters, kmsg.DeleteACLsRequestFilter{ResourceType: 2, ResourcePatternType: 3, Operation: 3, PermissionType: 3})
		quotas.Entries = append(quotas.Entries, kmsg.AlterClientQuotasRequestEntry{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: kmsg.StringPtr(name(i))}}})
		scram.Deletions = append(scram.Deletions, kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: name(i), Mechanism: 1})
		elect.Topics[0].Partitions = append(elect.Topics[0].Partitions, int32(i))
		move.Topics[0].Partitions = append(move.Topics[0].Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: int32(i)})
	}
	for _, tc := range []struct {
		req     kmsg.Request
		version int16
		each    int // bytes of a part without words
	}{
		{alter, 1, 12}, {replace, 2, 12}, {create, 7, 50}, {grow, 3, 12}, {remove, 5, 12}, {groups, 2, 12}, {allow, 3, 5}, {forbid, 3, 6},
		{quotas, 1, 24}, {scram, 0, 12}, {elect, 2, 10}, {move, 0, 10},
	} {
		tc.req.SetVersion(tc.version)
		c.send(tc.req)
		if _, b := c.receive(); len(b) < many || len(b) > many*tc.each+2*mostWords {
			t.Errorf("%s: the answer to %d parts has %d bytes", kmsg.NameForKey(tc.req.Key()), many, len(b))
		}
	}
	few := alter.Resources[:2]
	few[1].ResourceType = 99
	alter.Resources = few
	for _, rr := range c.ask(alter).(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if rr.ErrorCode == 0 || rr.ErrorMessage == nil || *rr.ErrorMessage == "" {
			t.Errorf("%q: error %d without words", rr.ResourceName, rr.ErrorCode)
		}
	}
}

// A long answer takes its room while it is on its way, whatever the request. Who reads it slowly
// keeps others from that for 10 s.
func TestLongAnswersAreCounted(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	apis = before(api{key: kmsg.DeleteGroups, max: 2, start: func(_ *Server, _ context.Context, r *request) (reply, error) {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, 1000)
		for i := range resp.Groups {
			resp.Groups[i].Group = string(make([]byte, 1000))
		}
		if r.msg.(*kmsg.DeleteGroupsRequest).Groups == nil {
			resp.Groups = resp.Groups[:10]
		}
		return now(resp)
	}})
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t, "queued.max.response.bytes=1500000")
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version, req.Groups = 2, []string{"g"}
		slow, theirs := net.Pipe()
		s.take(0, theirs)
		began := time.Now()
		if _, err := slow.Write(frame(req, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c := theConn(s)
		if used := s.told.mu.used; used < 1_000_000 {
			t.Errorf("%d bytes are held by an answer that is not read", used)
		}
		small := kmsg.NewPtrDeleteGroupsRequest()
		small.Version = 2
		if took := answered(t, s, small); took != 0 {
			t.Errorf("a small answer waits %v", took)
		}
		if took := answered(t, s, req); took < slowReader || took > slowReader+2*pressAfter || time.Since(began) != took {
			t.Errorf("another long answer waits %v", took)
		}
		if _, err := io.ReadAll(slow); err != nil || !errors.Is(context.Cause(c.ctx), errSlow) {
			t.Errorf("%v, %v", err, context.Cause(c.ctx))
		}
		synctest.Wait()
		if used := s.told.mu.used; used != 0 {
			t.Errorf("%d bytes are held by answers that have gone", used)
		}
		slow.Close()
	})
}

// Topics that there are not take as much of an answer as others.
func TestUndescribedTopicsAreCounted(t *testing.T) {
	names := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for i := range 10_000 {
		names.Topics = append(names.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: fmt.Sprint(i)})
	}
	beyond := kmsg.NewPtrDescribeTopicPartitionsRequest()
	beyond.Topics, beyond.Cursor = slices.Clone(names.Topics), &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "none"}
	for i, req := range []*kmsg.DescribeTopicPartitionsRequest{names, beyond} {
		s, r := pipeServer(t), newTelling(t, newBudget(64<<20))
		r.msg = req
		rep, err := s.describeTopicPartitions(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(rep.resp.(*kmsg.DescribeTopicPartitionsResponse).Topics); got != 10_000 || r.telling.mu.n < 10_000*elementBytes {
			t.Errorf("request %d: %d topics are told, and %d bytes counted", i, got, r.telling.mu.n)
		}
		r.telling.release()
		r.conn.cancel(nil)
	}
}

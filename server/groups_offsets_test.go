package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// offsetCommitReq commits offset 10+p of each partition of the topics.
func offsetCommitReq(v int16, topics map[string][16]byte, partitions ...int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = v, "g"
	for name, id := range topics {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = name, id
		for _, p := range partitions {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, 10+int64(p), 4, kmsg.StringPtr("meta")
			t.Partitions = append(t.Partitions, rp)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// Every version of OffsetCommit commits what it can say, of topics by ID.
func TestOffsetCommitEveryVersion(t *testing.T) {
	f := &fakeShard{}
	c, _, id := dialFake(t, f, nil)
	inst := "i1"
	for v := int16(2); v <= 10; v++ {
		req := offsetCommitReq(v, map[string][16]byte{"t": id}, 0, 1)
		req.MemberID, req.InstanceID, req.Generation, req.RetentionTimeMillis = "m", &inst, 3, 60_000
		req.Topics[0].Partitions[1].Metadata = nil
		before := time.Now().UnixMilli()
		got := c.ask(req).(*kmsg.OffsetCommitResponse)
		want := []kmsg.OffsetCommitResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 0}, {Partition: 1}}}}
		if v >= 10 {
			want[0].Topic, want[0].TopicID = "", id
		}
		if !reflect.DeepEqual(got.Topics, want) {
			t.Errorf("version %d: %+v, want %+v", v, got.Topics, want)
		}
		asked := f.last(t).(groupshard.Commit)
		expires := asked.Topics[0].Partitions[0].Expires
		if v > 4 && expires != -1 || v <= 4 && (expires < before+60_000 || expires > time.Now().UnixMilli()+60_000) {
			t.Errorf("version %d: kept until %d", v, expires)
		}
		epoch := int32(-1)
		if v >= 6 {
			epoch = 4
		}
		wanted := groupshard.Commit{Group: "g", MemberID: "m", InstanceID: from(v, 7, &inst), Generation: 3, Epochless: v < 9, Topics: []groups.TopicOffsets{{Topic: id, Partitions: []groups.PartitionOffset{
			{Partition: 0, Offset: 10, LeaderEpoch: epoch, Metadata: "meta", Expires: expires}, {Partition: 1, Offset: 11, LeaderEpoch: epoch, Expires: expires}}}}}
		if !reflect.DeepEqual(asked, wanted) {
			t.Errorf("version %d asks %+v, want %+v", v, asked, wanted)
		}
		req = offsetCommitReq(v, map[string][16]byte{"t": id}, 0)
		c.ask(req)
		if asked := f.last(t).(groupshard.Commit); asked.Generation != -1 || asked.Topics[0].Partitions[0].Expires != -1 {
			t.Errorf("version %d, by nobody in particular: %+v", v, asked)
		}
	}
}

// What cannot be committed is told for itself; the rest is committed, or refused together.
func TestOffsetCommitParts(t *testing.T) {
	f := &fakeShard{}
	c, _, id := dialFake(t, f, nil, "offset.metadata.max.bytes=4")
	codes := func(req kmsg.Request) (s string) {
		t.Helper()
		for _, topic := range c.ask(req).(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range topic.Partitions {
				s += fmt.Sprintf("%d:%d ", p.Partition, p.ErrorCode)
			}
		}
		return s
	}
	for _, tc := range []struct {
		version int16
		err     error
		want    string // of partitions 0, 1, and 2, of which there is none
	}{
		{9, nil, "0:12 1:0 2:3 "}, {10, nil, "0:12 1:0 2:3 "}, {2, kerr.RebalanceInProgress, "0:12 1:27 2:3 "},
		{8, kerr.StaleMemberEpoch, "0:12 1:35 2:3 "}, {9, kerr.StaleMemberEpoch, "0:12 1:113 2:3 "},
		{8, kerr.GroupIDNotFound, "0:12 1:22 2:3 "}, {9, kerr.GroupIDNotFound, "0:12 1:69 2:3 "},
		{8, kerr.UnknownMemberID, "0:12 1:25 2:3 "}, {8, kerr.FencedInstanceID, "0:12 1:82 2:3 "},
	} {
		f.err = tc.err
		req := offsetCommitReq(tc.version, map[string][16]byte{"t": id}, 0, 1, 2)
		req.Topics[0].Partitions[0].Metadata = kmsg.StringPtr("12345")
		if got := codes(req); got != tc.want {
			t.Errorf("version %d, %v: %s, want %s", tc.version, tc.err, got, tc.want)
		}
		if asked := f.last(t).(groupshard.Commit); len(asked.Topics) != 1 || len(asked.Topics[0].Partitions) != 1 || asked.Topics[0].Partitions[0].Partition != 1 {
			t.Errorf("version %d asks for %+v", tc.version, asked.Topics)
		}
	}
	f.err, f.calls = nil, nil
	for v, want := range map[int16]string{9: "0:3 1:3 ", 10: "0:100 1:100 "} {
		if got := codes(offsetCommitReq(v, map[string][16]byte{"none": {9}}, 0, 1)); got != want {
			t.Errorf("version %d, no topic: %s, want %s", v, got, want)
		}
	}
	if got := codes(offsetCommitReq(9, map[string][16]byte{"t": id}, -1)); got != "-1:3 " {
		t.Error(got)
	}
	if len(f.calls) != 0 {
		t.Errorf("the group is asked about nothing: %+v", f.calls)
	}
}

// offsetsTold is an answer for one group as a line, whatever its version.
func offsetsTold(resp *kmsg.OffsetFetchResponse) string {
	var b strings.Builder
	part := func(name string, p kmsg.OffsetFetchResponseGroupTopicPartition) {
		fmt.Fprintf(&b, "%s/%d %d", name, p.Partition, p.Offset)
		if p.LeaderEpoch != -1 {
			fmt.Fprintf(&b, " epoch %d", p.LeaderEpoch)
		}
		if p.Metadata == nil || *p.Metadata != "" {
			fmt.Fprintf(&b, " %s", or(p.Metadata, "null"))
		}
		if p.ErrorCode != 0 {
			fmt.Fprintf(&b, " error %d", p.ErrorCode)
		}
		b.WriteString("; ")
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			part(t.Topic, kmsg.OffsetFetchResponseGroupTopicPartition(p))
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			name := t.Topic
			if resp.Version >= 10 {
				name = fmt.Sprintf("%x", t.TopicID[0])
			}
			for _, p := range t.Partitions {
				part(name, p)
			}
		}
	}
	return b.String()
}

// offsetFetchReq asks for a group's offsets of partitions of topics; of none for all.
func offsetFetchReq(v int16, group string, topics map[string][16]byte, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = v, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for name, id := range topics {
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: partitions})
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: name, TopicID: id, Partitions: partitions})
	}
	req.Groups = append(req.Groups, g)
	return req
}

// Every version of OffsetFetch tells what is committed, and -1 without an error where
// nothing is.
func TestOffsetFetchEveryVersion(t *testing.T) {
	f := &fakeShard{}
	c, n, id := dialFake(t, f, nil)
	dead := projections.TopicID{1, 2, 3}
	f.group = &groups.Group{ID: "g", Offsets: groups.Offsets{
		id:   {0: {Offset: 10, LeaderEpoch: 4, Metadata: "m"}, 1: {Offset: 11, LeaderEpoch: -1}},
		dead: {0: {Offset: 99, LeaderEpoch: 1}},
	}, Pending: map[int64]groups.Pending{7: {Offsets: groups.Offsets{id: {1: {Offset: 12}}}}}}
	ask := func(req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
		t.Helper()
		return c.ask(req).(*kmsg.OffsetFetchResponse)
	}
	ts, none := map[string][16]byte{"t": id}, map[string][16]byte{"none": {9}}
	for v := int16(1); v <= 10; v++ {
		name, other, epoch := "t", "none/0 -1; ", ""
		if v >= 5 {
			epoch = " epoch 4"
		}
		if v >= 10 {
			name, other = fmt.Sprintf("%x", id[0]), "9/0 -1 error 100; "
		}
		both := fmt.Sprintf("%s/0 10%s m; %s/1 11; ", name, epoch, name)
		if got, want := offsetsTold(ask(offsetFetchReq(v, "g", ts, 0, 1, 5))), both+name+"/5 -1; "; got != want {
			t.Errorf("version %d: %s, want %s", v, got, want)
		}
		if got := offsetsTold(ask(offsetFetchReq(v, "g", none, 0))); got != other {
			t.Errorf("version %d, no topic: %s, want %s", v, got, other)
		}
		if got, want := offsetsTold(ask(offsetFetchReq(v, "h", ts, 0))), name+"/0 -1; "; got != want {
			t.Errorf("version %d, no group: %s, want %s", v, got, want)
		}
		if v < 2 {
			continue
		}
		if got := offsetsTold(ask(offsetFetchReq(v, "g", nil))); got != both { // of a deleted topic nothing
			t.Errorf("version %d, all: %s, want %s", v, got, both)
		}
		if got := offsetsTold(ask(offsetFetchReq(v, "h", nil))); got != "" {
			t.Errorf("version %d, all of no group: %s", v, got)
		}
		if v < 7 {
			continue
		}
		req := offsetFetchReq(v, "g", ts, 0, 1)
		req.RequireStable = true
		if got, want := offsetsTold(ask(req)), fmt.Sprintf("%s/0 10%s m; %s/1 -1 error 88; ", name, epoch, name); got != want {
			t.Errorf("version %d, stable: %s, want %s", v, got, want)
		}
	}
	if n.broker.View().TopicByID(dead) != nil {
		t.Error("the deleted topic lives")
	}
}

func TestOffsetFetchMembers(t *testing.T) {
	f := &fakeShard{}
	c, _, id := dialFake(t, f, nil)
	member := "m"
	for v := int16(1); v <= 10; v++ {
		req := offsetFetchReq(v, "g", map[string][16]byte{"t": id}, 0)
		req.Groups[0].MemberID, req.Groups[0].MemberEpoch = &member, 5
		want := offsetsCall{"g", nil, -1}
		if v >= 9 {
			want = offsetsCall{"g", &member, 5}
		}
		c.ask(req)
		if asked := f.last(t); !reflect.DeepEqual(asked, want) {
			t.Errorf("version %d asks %+v, want %+v", v, asked, want)
		}
	}
	f.err = kerr.StaleMemberEpoch
	req := offsetFetchReq(9, "g", nil)
	req.Groups = append(req.Groups, offsetFetchReq(9, "h", nil).Groups...)
	got := c.ask(req).(*kmsg.OffsetFetchResponse).Groups
	if len(got) != 2 || got[0].Group != "g" || got[1].Group != "h" || got[0].ErrorCode != 113 || len(got[0].Topics) != 0 {
		t.Errorf("two groups: %+v", got)
	}
}

// Offsets are deleted of what there is, and each partition is told what became of it.
func TestOffsetDelete(t *testing.T) {
	f := &fakeShard{deleted: []error{kerr.GroupSubscribedToTopic, nil}}
	c, _, id := dialFake(t, f, nil)
	req := &kmsg.OffsetDeleteRequest{Group: "g"}
	for _, name := range []string{"none", "t"} {
		topic := kmsg.OffsetDeleteRequestTopic{Topic: name}
		for _, p := range []int32{0, 2, 1} {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		req.Topics = append(req.Topics, topic)
	}
	got := c.ask(req).(*kmsg.OffsetDeleteResponse)
	want := []kmsg.OffsetDeleteResponseTopic{
		{Topic: "none", Partitions: []kmsg.OffsetDeleteResponseTopicPartition{{Partition: 0, ErrorCode: 3}, {Partition: 2, ErrorCode: 3}, {Partition: 1, ErrorCode: 3}}},
		{Topic: "t", Partitions: []kmsg.OffsetDeleteResponseTopicPartition{{Partition: 0, ErrorCode: 86}, {Partition: 2, ErrorCode: 3}, {Partition: 1}}},
	}
	if got.ErrorCode != 0 || !reflect.DeepEqual(got.Topics, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if asked, wanted := f.last(t), (deleteOffsetsCall{{Topic: id, Partitions: []int32{0, 1}}}); !reflect.DeepEqual(asked, wanted) {
		t.Errorf("asks %+v, want %+v", asked, wanted)
	}
	for _, err := range []*kerr.Error{kerr.GroupIDNotFound, kerr.NonEmptyGroup} {
		f.err = err
		if got := c.ask(req).(*kmsg.OffsetDeleteResponse); got.ErrorCode != err.Code || len(got.Topics) != 0 {
			t.Errorf("%v: %+v", err, got)
		}
	}
	f.err = nil
	req.Topics = req.Topics[:1]
	if got := c.ask(req).(*kmsg.OffsetDeleteResponse); got.ErrorCode != 0 || len(got.Topics) != 1 {
		t.Errorf("of no topic that is there: %+v", got)
	}
}

package server

import (
	"encoding/binary"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is not UTF-8 is U+FFFD in every string of a message, and bytes stay as they are.
func TestMendText(t *testing.T) {
	const bad, good = "x\x80\xffy", "x\ufffd\ufffdy"
	m := bad
	req := &kmsg.OffsetCommitRequest{Group: bad, MemberID: "é", InstanceID: &m, Topics: []kmsg.OffsetCommitRequestTopic{
		{Topic: bad, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Metadata: nil}, {Metadata: &m}}}}}
	mendText(reflect.ValueOf(req))
	p := req.Topics[0]
	if req.Group != good || req.MemberID != "é" || *req.InstanceID != good || p.Topic != good || *p.Partitions[1].Metadata != good {
		t.Errorf("%+v", req)
	}
	join := &kmsg.JoinGroupRequest{Protocols: []kmsg.JoinGroupRequestProtocol{{Name: bad, Metadata: []byte(bad)}}}
	mendText(reflect.ValueOf(join))
	if p := join.Protocols[0]; p.Name != good || string(p.Metadata) != bad {
		t.Errorf("%+v", p)
	}
	names := &kmsg.DeleteGroupsRequest{Groups: []string{"a", bad}}
	if mendText(reflect.ValueOf(names)); names.Groups[1] != good {
		t.Errorf("%+v", names)
	}
}

// A group whose name is not UTF-8 has the name that Kafka gives it, in every answer.
func TestGroupOfNoText(t *testing.T) {
	n := served(t, startNode(t, t.TempDir()))
	c := dial(t, n.Addr())
	c.create("a", 1)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 8, "x\x80y", -1
	ct, cp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	cp.Offset, cp.Metadata = 1, kmsg.StringPtr("\xfe")
	ct.Topic, ct.Partitions = "a", append(ct.Partitions, cp)
	commit.Topics = append(commit.Topics, ct)
	if code := c.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatal(code)
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 4
	if gs := c.ask(list).(*kmsg.ListGroupsResponse).Groups; len(gs) != 1 || gs[0].Group != "x\ufffdy" {
		t.Errorf("%+v", gs)
	}
}

// Who has closed its side still gets what it asked for.
func TestHalfClosedIsAnswered(t *testing.T) {
	n := startNode(t, t.TempDir())
	nc, err := net.Dial("tcp", n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const asks = 5
	for range asks { // ApiVersions 0
		if _, err := nc.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	for i := range asks {
		if len(got) < 4 {
			t.Fatalf("%d answers of %d", i, asks)
		}
		got = got[4+binary.BigEndian.Uint32(got):]
	}
}

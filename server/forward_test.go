package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What only the controller does is done for whoever asks any broker, in every version,
// and is seen there once it is answered.
func TestForwardedInEveryVersion(t *testing.T) {
	n := startNode(t, t.TempDir())
	f := startFollower(t, n)
	c := dial(t, f.addr)
	s := &sweepTopics{}
	for _, name := range []string{"sweep-a", "sweep-b"} {
		s.names = append(s.names, name)
		s.ids = append(s.ids, c.create(name, 3))
		if f.View().Topic(name) == nil {
			t.Fatal("the topic is not seen where its maker asked for it")
		}
	}
	if f.pos[1] != n.broker.Shown() {
		t.Errorf("waited for %v, the controller was at %v", f.pos[1], n.broker.Shown())
	}
	forwards := 0
	for _, a := range apis {
		for v := max(a.min, a.works); a.forward && v <= a.max; v++ {
			req := kmsg.RequestForKey(int16(a.key))
			req.SetVersion(v)
			check := s.fill(t, c, req)
			before := len(f.pos)
			resp := c.ask(req)
			if err := check(resp); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(int16(a.key)), v, err)
			}
			if len(f.pos) != before+1 {
				t.Errorf("%s v%d: waited %d times for the view", kmsg.NameForKey(int16(a.key)), v, len(f.pos)-before)
			}
			forwards++
		}
	}
	if forwards < 20 {
		t.Errorf("only %d versions are forwarded", forwards)
	}
}

// Metadata makes a topic through any broker, and an admin client needs no controller.
func TestKadmThroughAFollower(t *testing.T) {
	n := startNode(t, t.TempDir())
	f := startFollower(t, n)
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	for _, name := range []string{"auto", "bad/name"} {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	got := dial(t, f.addr).ask(req).(*kmsg.MetadataResponse).Topics
	if got[0].ErrorCode != 0 || len(got[0].Partitions) != 1 || got[1].ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("%+v", got)
	}
	adm := kadm.NewClient(kgoClient(t, f.addr))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := adm.CreateTopic(ctx, 2, -1, nil, "made"); err != nil {
		t.Error(err)
	}
	if _, err := adm.CreateTopic(ctx, 2, -1, nil, "made"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Error(err)
	}
	if rs, err := adm.UpdatePartitions(ctx, 3, "made"); err != nil || rs.Error() != nil {
		t.Error(err, rs)
	}
	if rs, err := adm.DeleteTopics(ctx, "made", "auto"); err != nil || rs.Error() != nil {
		t.Error(err, rs)
	}
	if len(f.pos) < 5 {
		t.Errorf("the follower was asked %d times", len(f.pos))
	}
	if ts := n.broker.View().Topics(); len(ts) != 0 {
		t.Errorf("%d topics are left", len(ts))
	}
}

// A forwarded request is answered with the position of the view that shows its change, and
// by who is no controller with none. Clients are never sent it.
func TestPositionOfForwardedRequests(t *testing.T) {
	n := startNode(t, t.TempDir())
	f := startFollower(t, n)
	create := func(addr, topic string, forwarded bool) (*kmsg.CreateTopicsResponse, map[uint32][]byte) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 7, 10_000
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
		req.Topics = append(req.Topics, rt)
		if forwarded {
			setTag(req, forwardTag, []byte{})
		}
		resp := dial(t, addr).ask(req).(*kmsg.CreateTopicsResponse)
		return resp, tagsOf(resp)
	}
	resp, tags := create(n.Addr(), "a", true)
	if resp.Topics[0].ErrorCode != 0 || !slices.Equal(tags[forwardTag], positionBytes(n.broker.Shown())) {
		t.Errorf("by the controller: %+v", resp)
	}
	resp, tags = create(f.addr, "b", true)
	if v, ok := tags[forwardTag]; resp.Topics[0].ErrorCode != kerr.NotController.Code || !ok || len(v) != 0 {
		t.Errorf("by another: %+v", resp)
	}
	for i, addr := range []string{n.Addr(), f.addr} {
		if resp, tags := create(addr, fmt.Sprint("c", i), false); resp.Topics[0].ErrorCode != 0 || len(tags) != 0 {
			t.Errorf("of a client: %+v", resp)
		}
	}
}

// pipeTo is a connection to a server of the backend, both within a bubble.
func pipeTo(t *testing.T, b Backend) *client {
	s := Start(testConfig(t, "unused"), "cluster", b, nil, newMetrics(), testLog(t))
	mine, theirs := net.Pipe()
	s.take(0, theirs)
	t.Cleanup(func() {
		mine.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
	})
	return &client{t: t, nc: mine}
}

func namesTopic(req kmsg.Request, timeout int32) {
	name := "t"
	if r, ok := req.(kmsg.SetTimeoutRequest); ok {
		r.SetTimeout(timeout)
	}
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
	case *kmsg.DeleteTopicsRequest:
		r.Topics, r.TopicNames = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}, []string{name}
	case *kmsg.CreatePartitionsRequest:
		r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 5}}
	case *kmsg.AlterConfigsRequest:
		r.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: 2, ResourceName: name}}
	case *kmsg.IncrementalAlterConfigsRequest:
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 2, ResourceName: name}}
	case *kmsg.AlterPartitionAssignmentsRequest:
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{0}}}}}
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		r.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: name, Mechanism: 1}}
	case *kmsg.AlterClientQuotasRequest:
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &name}}}}
	case *kmsg.ElectLeadersRequest:
		r.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{0}}}
	case *kmsg.CreateACLsRequest:
		r.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: 2, ResourceName: name, ResourcePatternType: 3, Principal: "User:x", Host: "*", Operation: 3, PermissionType: 3}}
	case *kmsg.DeleteACLsRequest:
		r.Filters = []kmsg.DeleteACLsRequestFilter{anyFilter()}
	}
}

// codesIn are all error codes that an answer tells.
func codesIn(resp kmsg.Response) (codes []int16) {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		return append(codes, r.Topics[0].ErrorCode)
	case *kmsg.DeleteTopicsResponse:
		return append(codes, r.Topics[0].ErrorCode)
	case *kmsg.CreatePartitionsResponse:
		return append(codes, r.Topics[0].ErrorCode)
	case *kmsg.AlterConfigsResponse:
		return append(codes, r.Resources[0].ErrorCode)
	case *kmsg.IncrementalAlterConfigsResponse:
		return append(codes, r.Resources[0].ErrorCode)
	case *kmsg.AlterPartitionAssignmentsResponse:
		return append(codes, r.ErrorCode, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.ListPartitionReassignmentsResponse:
		return append(codes, r.ErrorCode)
	case *kmsg.ElectLeadersResponse:
		return append(codes, r.ErrorCode, r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.AlterClientQuotasResponse:
		return append(codes, r.Entries[0].ErrorCode)
	case *kmsg.UnregisterBrokerResponse:
		return append(codes, r.ErrorCode)
	case *kmsg.CreateACLsResponse:
		return append(codes, r.Results[0].ErrorCode)
	case *kmsg.DeleteACLsResponse:
		return append(codes, r.Results[0].ErrorCode)
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		return append(codes, r.Results[0].ErrorCode)
	}
	return nil
}

// Without a controller a request is answered within its time, with what its client tries
// again; meanwhile a controller is looked for.
func TestNoController(t *testing.T) {
	const inside = "10.0.0.3:9093"
	for _, a := range apis {
		if !a.forward {
			continue
		}
		t.Run(kmsg.NameForKey(int16(a.key)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				c := pipeTo(t, &another{Backend: noCluster{}, controller: func() bool { return false }, ask: func(context.Context, kmsg.Request) (kmsg.Response, error) {
					tries.Add(1)
					return nil, fmt.Errorf("%w: ask broker at %s: nobody there", kerr.NotController, inside)
				}})
				req := kmsg.RequestForKey(int16(a.key))
				req.SetVersion(a.max)
				namesTopic(req, 3000)
				began := time.Now()
				resp := c.ask(req)
				if bytes.Contains(resp.AppendTo(nil), []byte(inside)) {
					t.Errorf("the client is told where brokers are: %+v", resp)
				}
				codes := codesIn(resp)
				limit, want := 3*time.Second, kerr.NotController.Code
				if _, ok := req.(kmsg.TimeoutRequest); !ok {
					limit = findController
				}
				if a.key == kmsg.UnregisterBroker {
					want = kerr.RequestTimedOut.Code
				}
				if d := time.Since(began); d > limit || d < limit-2*controllerPause {
					t.Errorf("answered after %v", d)
				}
				if len(codes) == 0 || slices.Min(codes) != want || slices.Max(codes) != want || tries.Load() < 20 {
					t.Errorf("%d tries, codes %v", tries.Load(), codes)
				}
			})
		})
	}
}

// Whoever becomes controller meanwhile answers, be it this broker; who loses it is not
// believed; and an answer that is not known is told as such, not asked for again.
func TestControllerChangesMeanwhile(t *testing.T) {
	not := func() kmsg.Response {
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		resp.ErrorCode = kerr.NotController.Code
		setTag(resp, forwardTag, []byte{})
		return resp
	}
	for name, tc := range map[string]struct {
		after func(try int32) (kmsg.Response, error)
		here  int32 // the try after which this broker is controller
		code  int16
		tries int32
	}{
		"another": {func(try int32) (kmsg.Response, error) {
			if try < 4 {
				return not(), nil
			}
			return kmsg.NewPtrListPartitionReassignmentsResponse(), nil
		}, 100, 0, 4},
		"this one": {func(int32) (kmsg.Response, error) { return not(), nil }, 3, 0, 3},
		"unknown":  {func(int32) (kmsg.Response, error) { return nil, fmt.Errorf("%w: cut off", kerr.RequestTimedOut) }, 100, 7, 1},
		"late":     {func(int32) (kmsg.Response, error) { return nil, context.DeadlineExceeded }, 100, 7, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				c := pipeTo(t, &another{Backend: noCluster{}, controller: func() bool { return tries.Load() >= tc.here },
					ask: func(context.Context, kmsg.Request) (kmsg.Response, error) { return tc.after(tries.Add(1)) }})
				req := kmsg.NewPtrListPartitionReassignmentsRequest()
				req.TimeoutMillis = 5000
				resp := c.ask(req).(*kmsg.ListPartitionReassignmentsResponse)
				if resp.ErrorCode != tc.code || tries.Load() != tc.tries || len(tagsOf(resp)) != 0 {
					t.Errorf("%d tries, %+v", tries.Load(), resp)
				}
			})
		})
	}
}

// The controller changes the configuration of any broker that is registered.
func TestConfigsOfAnotherBroker(t *testing.T) {
	c, _ := movedAway(t, startNode(t, t.TempDir()), another{alter: func(string) error { return nil }})
	for name, want := range map[string]int16{"": 0, "0": 0, "5": 0, "05": 42, "6": 42, "x": 42} {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		value := "123456"
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "log.retention.ms", Value: &value}}}}
		if got := c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; got.ErrorCode != want {
			t.Errorf("broker %q: %+v", name, got)
		}
	}
}

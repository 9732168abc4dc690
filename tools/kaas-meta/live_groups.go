package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// liveGroups asks for all groups, or for one: what kind it is, its members and its offsets.
func liveGroups(ctx context.Context, cl brokers, id string) ([]groupState, error) {
	listed, err := cl.ListGroups(ctx)
	errs := []error{err}
	var classic, consumer, all []string
	for _, g := range listed.Sorted() {
		if id != "" && g.Group != id {
			continue
		}
		all = append(all, g.Group)
		if g.GroupType == "consumer" {
			consumer = append(consumer, g.Group)
		} else {
			classic = append(classic, g.Group)
		}
	}
	if len(all) == 0 {
		return nil, errors.Join(errs...)
	}
	var out []groupState
	if len(classic) > 0 {
		described, err := cl.DescribeGroups(ctx, classic...)
		errs = append(errs, err)
		for _, g := range described.Sorted() {
			out = append(out, liveClassic(g))
			errs = append(errs, ofGroup(g.Group, g.Err))
		}
	}
	if len(consumer) > 0 {
		described, err := cl.DescribeConsumerGroups(ctx, consumer...)
		errs = append(errs, err)
		for _, g := range described.Sorted() {
			out = append(out, liveConsumer(g))
			errs = append(errs, ofGroup(g.Group, g.Err))
		}
	}
	offsets := cl.FetchManyOffsets(ctx, all...)
	for i := range out {
		g := &out[i]
		o := offsets[g.ID]
		errs = append(errs, ofGroup(g.ID, o.Err))
		g.Offsets = liveOffsets(o.Fetched)
	}
	return out, errors.Join(errs...)
}

func ofGroup(group string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("group %q: %w", group, err)
}

func liveClassic(g kadm.DescribedGroup) groupState {
	s := groupState{place: place{Coordinator: &g.Coordinator.NodeID}, ID: g.Group, Protocol: "classic", State: g.State,
		ProtocolType: g.ProtocolType, Assignor: g.Protocol}
	if g.ProtocolType == "" && len(g.Members) == 0 {
		s.Protocol = "none"
	}
	for _, m := range g.Members {
		ms := memberState{ID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.ClientHost, Classic: true}
		if a, ok := m.Assigned.AsConsumer(); ok {
			ms.Assigned = assignmentLists(a)
		}
		s.Members = append(s.Members, ms)
	}
	return s
}

func liveConsumer(g kadm.DescribedConsumerGroup) groupState {
	s := groupState{place: place{Coordinator: &g.Coordinator.NodeID}, ID: g.Group, Protocol: "consumer", State: g.State,
		ProtocolType: "consumer", Epoch: &g.Epoch, TargetEpoch: &g.AssignmentEpoch, Assignor: g.AssignorName}
	for _, m := range g.Members {
		s.Members = append(s.Members, memberState{ID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.ClientHost,
			Epoch: &m.MemberEpoch, Classic: m.MemberType == 0, Topics: m.SubscribedTopics, Regex: m.SubscribedTopicRegex,
			Assigned: partitionLists(m.Assignment), Target: partitionLists(m.TargetAssignment)})
	}
	return s
}

func liveOffsets(os kadm.OffsetResponses) (out []offsetState) {
	for _, o := range os.Sorted() {
		out = append(out, offsetState{Topic: o.Topic, Partition: o.Partition, Offset: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata})
	}
	sortOffsets(out)
	return out
}

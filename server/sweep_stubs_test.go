package server

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillStubs fills the requests that are answered without anything to be done; nil if it
// does not know them.
func (s *sweepTopics) fillStubs(req kmsg.Request) func(kmsg.Response) error {
	refused := kerr.DelegationTokenRequestNotAllowed.Code
	want := func(ok bool, resp kmsg.Response) error {
		if !ok {
			return fmt.Errorf("%+v", resp)
		}
		return nil
	}
	switch r := req.(type) {
	case *kmsg.AlterReplicaLogDirsRequest:
		for i, dir := range []string{"/nowhere", s.dir} {
			d := kmsg.NewAlterReplicaLogDirsRequestDir()
			d.Dir = dir
			d.Topics = append(d.Topics, kmsg.AlterReplicaLogDirsRequestDirTopic{Topic: s.names[i], Partitions: []int32{2, 1, 0}})
			r.Dirs = append(r.Dirs, d)
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.AlterReplicaLogDirsResponse).Topics
			ok := len(ts) == 2 && len(ts[0].Partitions) == 3 && len(ts[1].Partitions) == 3
			for i := 0; ok && i < 3; i++ {
				ok = ts[0].Partitions[i].ErrorCode == kerr.LogDirNotFound.Code && ts[1].Partitions[i].ErrorCode == 0
			}
			return want(ok, resp)
		}
	case *kmsg.CreateDelegationTokenRequest:
		owner, kind := "alice", "User"
		r.OwnerPrincipalType, r.OwnerPrincipalName = &kind, &owner
		return func(resp kmsg.Response) error {
			a := resp.(*kmsg.CreateDelegationTokenResponse)
			name := map[bool]string{true: owner, false: "ANONYMOUS"}[r.Version >= 3]
			return want(a.ErrorCode == refused && a.PrincipalName == name && a.MaxTimestamp == -1, resp)
		}
	case *kmsg.RenewDelegationTokenRequest:
		return func(resp kmsg.Response) error {
			return want(resp.(*kmsg.RenewDelegationTokenResponse).ErrorCode == refused, resp)
		}
	case *kmsg.ExpireDelegationTokenRequest:
		return func(resp kmsg.Response) error {
			return want(resp.(*kmsg.ExpireDelegationTokenResponse).ErrorCode == refused, resp)
		}
	case *kmsg.DescribeDelegationTokenRequest:
		return func(resp kmsg.Response) error {
			return want(resp.(*kmsg.DescribeDelegationTokenResponse).ErrorCode == refused, resp)
		}
	case *kmsg.DescribeQuorumRequest:
		r.Topics = append(r.Topics, quorumTopic(metadataTopic, 0))
		return func(resp kmsg.Response) error {
			a := resp.(*kmsg.DescribeQuorumResponse)
			ok := a.ErrorCode == 0 && len(a.Topics) == 1 && len(a.Topics[0].Partitions) == 1 && len(a.Topics[0].Partitions[0].CurrentVoters) == 1
			return want(ok && (r.Version < 2) == (len(a.Nodes) == 0), resp)
		}
	case *kmsg.UpdateFeaturesRequest:
		for _, f := range features {
			r.FeatureUpdates = append(r.FeatureUpdates, featureUpdate(f.name, f.level, 1))
		}
		return func(resp kmsg.Response) error {
			a := resp.(*kmsg.UpdateFeaturesResponse)
			return want(a.ErrorCode == 0 && (len(a.Results) == len(features)) == (r.Version < 2), resp)
		}
	}
	return nil
}

func quorumTopic(name string, partitions ...int32) kmsg.DescribeQuorumRequestTopic {
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = name
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: p})
	}
	return t
}

func featureUpdate(name string, level int16, how int8) kmsg.UpdateFeaturesRequestFeatureUpdate {
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, how
	return u
}

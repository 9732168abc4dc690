package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var clusterScripts = []script{
	{"cluster", clusterScript},
	{"leaders", leadersScript},
	{"directories", directoriesScript},
	{"security", securityScript},
	{"quotas", quotasScript},
}

func clusterScript(s *side) {
	for _, ops := range []bool{false, true} {
		for kind := range int8(4) {
			each(s, fmt.Sprint("endpoints of type ", kind, ", operations ", ops), func(r *kmsg.DescribeClusterRequest) {
				r.EndpointType, r.IncludeClusterAuthorizedOperations = kind, ops
			})
		}
	}
	from(s, 2, "fenced ones, too", func(r *kmsg.DescribeClusterRequest) { r.EndpointType, r.IncludeFencedBrokers = 1, true })

	quorum := func(label, topic string, partitions ...int32) {
		each(s, label, func(r *kmsg.DescribeQuorumRequest) {
			t := kmsg.NewDescribeQuorumRequestTopic()
			t.Topic = topic
			for _, n := range partitions {
				t.Partitions = append(t.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: n})
			}
			r.Topics = append(r.Topics, t)
		})
	}
	each(s, "no quorum", func(r *kmsg.DescribeQuorumRequest) {})
	quorum("the quorum", "__cluster_metadata", 0)
	quorum("another partition", "__cluster_metadata", 1)
	quorum("two partitions", "__cluster_metadata", 0, 1)
	quorum("no partition", "__cluster_metadata")
	quorum("another topic", "no-such", 0)

	update := func(label, feature string, level int16, kind int8, only bool) {
		from(s, 1, label, func(r *kmsg.UpdateFeaturesRequest) {
			r.TimeoutMillis, r.ValidateOnly = 10_000, only
			r.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: feature, MaxVersionLevel: level, UpgradeType: kind}}
		})
	}
	each(s, "no features", func(r *kmsg.UpdateFeaturesRequest) { r.TimeoutMillis = 10_000 })
	each(s, "a feature twice", func(r *kmsg.UpdateFeaturesRequest) {
		f := kmsg.UpdateFeaturesRequestFeatureUpdate{Feature: "group.version", MaxVersionLevel: 1, UpgradeType: 1}
		r.TimeoutMillis, r.FeatureUpdates = 10_000, []kmsg.UpdateFeaturesRequestFeatureUpdate{f, f}
	})
	for _, only := range []bool{true, false} {
		update("an unknown feature", "no.such", 1, 1, only)
		update("as it is", "group.version", 1, 1, only)
		update("too high", "group.version", 9, 1, only)
		update("negative", "group.version", -1, 1, only)
		update("down as an upgrade", "group.version", 0, 1, only)
		update("an unknown kind", "group.version", 0, 9, only)
		update("no kind", "group.version", 1, 0, only)
		update("metadata as it is", "metadata.version", metadataLevel, 1, only)
		update("metadata too high", "metadata.version", 99, 1, only)
		update("metadata too low", "metadata.version", 1, 1, only)
	}
	update("down", "group.version", 0, 2, true)
	update("down with losses", "group.version", 0, 3, true)
	update("transactions down", "transaction.version", 1, 2, true)
	update("the quorum's version", "kraft.version", 0, 1, true)
	from(s, 0, "down with losses, in the old way", func(r *kmsg.UpdateFeaturesRequest) {
		r.TimeoutMillis, r.ValidateOnly = 10_000, true
		r.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "no.such", MaxVersionLevel: 0, AllowDowngrade: true, UpgradeType: 1}}
	})
	for _, id := range []int32{99, -1} {
		each(s, fmt.Sprint("broker ", id), func(r *kmsg.UnregisterBrokerRequest) { r.BrokerID = id })
	}
}

// metadataLevel is the level of metadata.version that both have.
const metadataLevel = 30

func leadersScript(s *side) {
	s.create("led", 2)
	elect := func(label string, kind int8, topics []kmsg.ElectLeadersRequestTopic) {
		each(s, label, func(r *kmsg.ElectLeadersRequest) { r.ElectionType, r.Topics, r.TimeoutMillis = kind, topics, 10_000 })
	}
	type topics = []kmsg.ElectLeadersRequestTopic
	for kind := range int8(3) {
		elect("none", kind, topics{})
		elect("no partitions", kind, topics{{Topic: "led"}})
		elect("one", kind, topics{{Topic: "led", Partitions: []int32{0}}})
		elect("twice", kind, topics{{Topic: "led", Partitions: []int32{0, 0}}})
		elect("topic twice", kind, topics{{Topic: "led", Partitions: []int32{0}}, {Topic: "led", Partitions: []int32{1}}})
		elect("unknown", kind, topics{{Topic: "led", Partitions: []int32{0, 9, -1}}, {Topic: "no-such", Partitions: []int32{0}}, {Topic: "a b", Partitions: []int32{0}}})
		elect("all", kind, nil)
	}
	move := func(label string, topics ...kmsg.AlterPartitionAssignmentsRequestTopic) {
		each(s, label, func(r *kmsg.AlterPartitionAssignmentsRequest) { r.TimeoutMillis, r.Topics = 10_000, topics })
	}
	to := func(topic string, partition int32, replicas ...int32) kmsg.AlterPartitionAssignmentsRequestTopic {
		return kmsg.AlterPartitionAssignmentsRequestTopic{Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}}}
	}
	move("nothing")
	move("no partitions", kmsg.AlterPartitionAssignmentsRequestTopic{Topic: "led"})
	move("to where it is", to("led", 0, nodeID))
	move("to an unknown one", to("led", 0, 99))
	move("to the same twice", to("led", 0, nodeID, nodeID))
	move("to a negative one", to("led", 0, -1))
	move("to nobody", kmsg.AlterPartitionAssignmentsRequestTopic{Topic: "led", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{}}}})
	move("cancelled", to("led", 0))
	move("an unknown topic", to("no-such", 0, nodeID))
	move("an unknown topic cancelled", to("no-such", 0))
	move("an unknown partition", to("led", 9, nodeID))
	move("a negative partition", to("led", -1, nodeID))
	move("some of each", to("led", 0, nodeID), to("no-such", 0, nodeID), to("led", 1, 99))
	from(s, 1, "more replicas than before", func(r *kmsg.AlterPartitionAssignmentsRequest) {
		r.TimeoutMillis, r.Topics, r.AllowReplicationFactorChange = 10_000, []kmsg.AlterPartitionAssignmentsRequestTopic{to("led", 0, nodeID)}, false
	})
	list := func(label string, topics []kmsg.ListPartitionReassignmentsRequestTopic) {
		each(s, label, func(r *kmsg.ListPartitionReassignmentsRequest) { r.TimeoutMillis, r.Topics = 10_000, topics })
	}
	list("all moves", nil)
	list("of none", []kmsg.ListPartitionReassignmentsRequestTopic{})
	list("of one", []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "led", Partitions: []int32{0, 9}}})
	list("of unknown ones", []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "no-such", Partitions: []int32{0}}, {Topic: "a b", Partitions: []int32{0}}})
}

func directoriesScript(s *side) {
	s.create("kept", 2)
	s.produce("kept", 0, batch(nil, values("a", "b")...))
	s.until("the directory's size", func() bool { return s.size("kept", 0) > 0 })
	type topics = []kmsg.DescribeLogDirsRequestTopic
	for _, c := range []struct {
		label  string
		topics topics
	}{
		{"none", topics{}},
		{"one", topics{{Topic: "kept", Partitions: []int32{0}}}},
		{"both", topics{{Topic: "kept", Partitions: []int32{0, 1}}}},
		{"twice", topics{{Topic: "kept", Partitions: []int32{0, 0}}}},
		{"unknown", topics{{Topic: "kept", Partitions: []int32{9, -1}}, {Topic: "no-such", Partitions: []int32{0}}}},
		{"no partitions", topics{{Topic: "kept"}}},
	} {
		each(s, c.label, func(r *kmsg.DescribeLogDirsRequest) { r.Topics = c.topics })
	}
	for _, c := range []struct{ label, dir, topic string }{
		{"an unknown directory", "/no/such", "kept"},
		{"a relative directory", "no/such", "kept"},
		{"no directory", "", "kept"},
		{"an unknown topic", "/no/such", "no-such"},
		{"a bad name", "/no/such", "a b"},
	} {
		each(s, c.label, func(r *kmsg.AlterReplicaLogDirsRequest) {
			r.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: c.dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: c.topic, Partitions: []int32{0, 9}}}}}
		})
	}
	each(s, "no directories", func(r *kmsg.AlterReplicaLogDirsRequest) {})
	each(s, "to where it is", func(r *kmsg.AlterReplicaLogDirsRequest) {
		r.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: s.dir(), Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "kept", Partitions: []int32{0, 9}}, {Topic: "no-such", Partitions: []int32{0}}}}}
	})
}

func (s *side) logDirs(topic string, partition int32) *kmsg.DescribeLogDirsResponse {
	resp, ok := s.quiet(newest(s, func(r *kmsg.DescribeLogDirsRequest) {
		r.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	})).(*kmsg.DescribeLogDirsResponse)
	if !ok || len(resp.Dirs) == 0 {
		return nil
	}
	return resp
}

func (s *side) dir() string {
	if r := s.logDirs("kept", 0); r != nil {
		return r.Dirs[0].Dir
	}
	return ""
}

func (s *side) size(topic string, partition int32) int64 {
	if r := s.logDirs(topic, partition); r != nil && len(r.Dirs[0].Topics) > 0 {
		return r.Dirs[0].Topics[0].Partitions[0].Size
	}
	return 0
}

// securityScript asks what needs authentication, or an authorizer, of brokers that have
// neither.
func securityScript(s *side) {
	each(s, "a token", func(r *kmsg.CreateDelegationTokenRequest) { r.MaxLifetimeMillis = 1000 })
	each(s, "a token for another", func(r *kmsg.CreateDelegationTokenRequest) {
		r.MaxLifetimeMillis, r.OwnerPrincipalType, r.OwnerPrincipalName = -1, ptr("User"), ptr("a")
	})
	each(s, "an unknown token", func(r *kmsg.RenewDelegationTokenRequest) { r.HMAC, r.RenewTimeMillis = []byte{1}, 1000 })
	each(s, "an unknown token", func(r *kmsg.ExpireDelegationTokenRequest) { r.HMAC, r.ExpiryPeriodMillis = []byte{1}, 1000 })
	each(s, "all tokens", func(r *kmsg.DescribeDelegationTokenRequest) { r.Owners = nil })
	each(s, "no tokens", func(r *kmsg.DescribeDelegationTokenRequest) {
		r.Owners = []kmsg.DescribeDelegationTokenRequestOwner{}
	})
	for _, name := range []string{"PLAIN", "SCRAM-SHA-256", "no-such", ""} {
		each(s, "mechanism "+name, func(r *kmsg.SASLHandshakeRequest) { r.Mechanism = name })
	}
	each(s, "out of turn", func(r *kmsg.SASLAuthenticateRequest) { r.SASLAuthBytes = []byte("\x00a\x00b") })
	s.credentials()
	each(s, "any rule", func(r *kmsg.DescribeACLsRequest) {
		r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = 1, 1, 1, 1
	})
	each(s, "unknown rules", func(r *kmsg.DescribeACLsRequest) {})
	each(s, "no rules", func(r *kmsg.CreateACLsRequest) {})
	each(s, "a rule", func(r *kmsg.CreateACLsRequest) {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType, c.Principal, c.Host, c.Operation, c.PermissionType = 2, "t", 3, "User:a", "*", 3, 3
		r.Creations = append(r.Creations, c, c)
	})
	each(s, "no rules", func(r *kmsg.DeleteACLsRequest) {})
	each(s, "a rule", func(r *kmsg.DeleteACLsRequest) {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = 1, 1, 1, 1
		r.Filters = append(r.Filters, f, f)
	})
}

// credentials asks for those of SCRAM, which need no authentication to be kept.
func (s *side) credentials() {
	type users = []kmsg.DescribeUserSCRAMCredentialsRequestUser
	told := func(label string, who users) {
		each(s, label, func(r *kmsg.DescribeUserSCRAMCredentialsRequest) { r.Users = who })
	}
	type changes = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion
	change := func(label string, gone []kmsg.AlterUserSCRAMCredentialsRequestDeletion, set changes) {
		each(s, label, func(r *kmsg.AlterUserSCRAMCredentialsRequest) { r.Deletions, r.Upsertions = gone, set })
	}
	up := func(name string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		return kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: name, Mechanism: mechanism, Iterations: iterations, Salt: []byte("salt"), SaltedPassword: make([]byte, 32)}
	}
	gone := func(name string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
		return kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: name, Mechanism: mechanism}
	}
	told("nobody's", users{})
	told("an unknown user's", users{{Name: "no-such"}})
	told("without a name", users{{Name: ""}})
	told("twice", users{{Name: "no-such"}, {Name: "no-such"}})
	change("nothing", nil, nil)
	change("an unknown user deleted", []kmsg.AlterUserSCRAMCredentialsRequestDeletion{gone("no-such", 1)}, nil)
	change("an unknown mechanism deleted", []kmsg.AlterUserSCRAMCredentialsRequestDeletion{gone("no-such", 9)}, nil)
	change("an unknown mechanism", nil, changes{up("a", 9, 5000)})
	change("too few iterations", nil, changes{up("a", 1, 10)})
	change("too many iterations", nil, changes{up("a", 1, 1_000_000)})
	change("no name", nil, changes{up("", 1, 5000)})
	change("twice", nil, changes{up("a", 1, 5000), up("a", 1, 6000)})
	change("set and deleted", []kmsg.AlterUserSCRAMCredentialsRequestDeletion{gone("a", 1)}, changes{up("a", 1, 5000)})
	change("set", nil, changes{up("a", 1, 5000), up("b", 1, 4096)})
	s.until("the credentials", func() bool {
		r, ok := s.quiet(newest(s, func(r *kmsg.DescribeUserSCRAMCredentialsRequest) { r.Users = nil })).(*kmsg.DescribeUserSCRAMCredentialsResponse)
		return ok && len(r.Results) == 2 || len(s.served(kmsg.DescribeUserSCRAMCredentials.Int16())) == 0
	})
	told("all", nil)
	told("some", users{{Name: "b"}, {Name: "no-such"}})
	change("deleted", []kmsg.AlterUserSCRAMCredentialsRequestDeletion{gone("a", 1), gone("b", 1), gone("a", 2)}, nil)
}

func quotasScript(s *side) {
	type components = []kmsg.DescribeClientQuotasRequestComponent
	told := func(label string, strict bool, cs components) {
		each(s, label, func(r *kmsg.DescribeClientQuotasRequest) { r.Strict, r.Components = strict, cs })
	}
	is := func(kind, name string) kmsg.DescribeClientQuotasRequestComponent {
		return kmsg.DescribeClientQuotasRequestComponent{EntityType: kind, MatchType: 0, Match: &name}
	}
	type entity = []kmsg.AlterClientQuotasRequestEntryEntity
	of := func(kind string, name *string) kmsg.AlterClientQuotasRequestEntryEntity {
		return kmsg.AlterClientQuotasRequestEntryEntity{Type: kind, Name: name}
	}
	change := func(label string, only bool, who entity, key string, value float64, gone bool) {
		each(s, label, func(r *kmsg.AlterClientQuotasRequest) {
			r.ValidateOnly = only
			r.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: who, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: key, Value: value, Remove: gone}}}}
		})
	}
	a, none := ptr("a"), (*string)(nil)
	told("none", false, components{})
	told("an unknown kind", false, components{is("planet", "a")})
	told("an unknown match", false, components{{EntityType: "user", MatchType: 9}})
	told("a kind twice", false, components{is("user", "a"), is("user", "b")})
	told("a name without one", false, components{{EntityType: "user", MatchType: 0}})
	told("no kind", false, components{is("", "a")})
	for _, only := range []bool{true, false} {
		change("an unknown key", only, entity{of("user", a)}, "no_such", 5, false)
		change("an unknown kind", only, entity{of("planet", a)}, "producer_byte_rate", 5, false)
		change("nobody", only, entity{}, "producer_byte_rate", 5, false)
		change("a kind twice", only, entity{of("user", a), of("user", a)}, "producer_byte_rate", 5, false)
		change("an empty name", only, entity{of("user", ptr(""))}, "producer_byte_rate", 5, false)
		change("a negative rate", only, entity{of("user", a)}, "producer_byte_rate", -5, false)
		change("no rate", only, entity{of("user", a)}, "producer_byte_rate", 0, false)
		change("half a byte", only, entity{of("user", a)}, "producer_byte_rate", 5.5, false)
		change("an address with a user", only, entity{of("user", a), of("ip", ptr("10.0.0.1"))}, "connection_creation_rate", 5, false)
		change("a bad address", only, entity{of("ip", ptr("x y"))}, "connection_creation_rate", 5, false)
		change("a rate that is not an address's", only, entity{of("ip", ptr("10.0.0.1"))}, "producer_byte_rate", 5, false)
		change("a user", only, entity{of("user", a)}, "producer_byte_rate", 5e9, false)
		change("a user's client", only, entity{of("user", a), of("client-id", ptr("c"))}, "request_percentage", 500, false)
		change("any client", only, entity{of("client-id", none)}, "consumer_byte_rate", 5e9, false)
		change("an address", only, entity{of("ip", ptr("10.0.0.1"))}, "connection_creation_rate", 50, false)
		change("what is not set removed", only, entity{of("user", ptr("none"))}, "producer_byte_rate", 0, true)
	}
	s.until("the quotas", func() bool {
		r, ok := s.quiet(newest(s, func(r *kmsg.DescribeClientQuotasRequest) {})).(*kmsg.DescribeClientQuotasResponse)
		return ok && len(r.Entries) >= 4 || len(s.served(kmsg.DescribeClientQuotas.Int16())) == 0
	})
	told("all", false, components{})
	told("all, strictly", true, components{})
	for _, strict := range []bool{false, true} {
		told("a user's", strict, components{is("user", "a")})
		told("another's", strict, components{is("user", "b")})
		told("any user's", strict, components{{EntityType: "user", MatchType: 2}})
		told("the default client's", strict, components{{EntityType: "client-id", MatchType: 1}})
		told("a user's client's", strict, components{is("user", "a"), is("client-id", "c")})
		told("an address's", strict, components{is("ip", "10.0.0.1")})
	}
	change("a user's removed", false, entity{of("user", a)}, "producer_byte_rate", 0, true)
	change("a client's removed", false, entity{of("user", a), of("client-id", ptr("c"))}, "request_percentage", 0, true)
	change("any client's removed", false, entity{of("client-id", none)}, "consumer_byte_rate", 0, true)
	change("an address's removed", false, entity{of("ip", ptr("10.0.0.1"))}, "connection_creation_rate", 0, true)
}

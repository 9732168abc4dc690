package server

import "github.com/twmb/franz-go/pkg/kmsg"

// kafkaAPI is an API that Apache Kafka 4.4 has.
type kafkaAPI struct {
	key      int16
	name     string
	min, max int16 // of its broker's listeners, or for those between brokers of its controller's
	note     string
}

// What is not served, in the words of the page.
const (
	withoutACLs = "SECURITY_DISABLED without an authorizer, as in Kafka."
	noShare     = "No share groups."
	noStreams   = "No streams groups. Kafka Streams runs with the classic protocol."
	noVoters    = "No. The controller is elected on the volume, and nobody votes."
	tokens      = "Refused with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on listeners without authentication, else with DELEGATION_TOKEN_AUTH_DISABLED, as by a Kafka without tokens."
)

// kafkaAPIs are those of Kafka's broker listeners.
var kafkaAPIs = []kafkaAPI{
	{0, "Produce", 0, 13, "Works from version 3, as in Kafka. `acks=1` waits for the volume, too."},
	{1, "Fetch", 4, 18, "No followers, and no reads from them."},
	{2, "ListOffsets", 1, 11, "There are no tiers: nothing is found there."},
	{3, "Metadata", 0, 13, ""},
	{8, "OffsetCommit", 2, 10, ""},
	{9, "OffsetFetch", 1, 10, ""},
	{10, "FindCoordinator", 0, 6, "Of groups and transactions. Key type 2 (share groups) is refused."},
	{11, "JoinGroup", 0, 9, ""},
	{12, "Heartbeat", 0, 4, ""},
	{13, "LeaveGroup", 0, 5, ""},
	{14, "SyncGroup", 0, 5, ""},
	{15, "DescribeGroups", 0, 6, ""},
	{16, "ListGroups", 0, 5, ""},
	{17, "SaslHandshake", 0, 1, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. No Kerberos."},
	{18, "ApiVersions", 0, 5, ""},
	{19, "CreateTopics", 2, 7, "A replication factor of -1, or of 1 and more, is taken and becomes 1. Assignments are checked; who leads is the controller's choice."},
	{20, "DeleteTopics", 1, 6, ""},
	{21, "DeleteRecords", 0, 2, ""},
	{22, "InitProducerId", 0, 5, ""},
	{23, "OffsetForLeaderEpoch", 2, 4, ""},
	{24, "AddPartitionsToTxn", 0, 5, "Versions 4 and 5 are between brokers."},
	{25, "AddOffsetsToTxn", 0, 4, ""},
	{26, "EndTxn", 0, 5, ""},
	{27, "WriteTxnMarkers", 1, 2, "The only client that sends it is an admin that aborts a transaction."},
	{28, "TxnOffsetCommit", 0, 6, ""},
	{29, "DescribeAcls", 1, 3, withoutACLs},
	{30, "CreateAcls", 1, 3, withoutACLs},
	{31, "DeleteAcls", 1, 3, withoutACLs},
	{32, "DescribeConfigs", 1, 4, "Topics, brokers, groups and client metrics. A broker shows the keys that this build has."},
	{33, "AlterConfigs", 0, 2, "The same resources."},
	{34, "AlterReplicaLogDirs", 1, 2, "There is one directory: another is LOG_DIR_NOT_FOUND."},
	{35, "DescribeLogDirs", 1, 5, "Each broker tells of what it leads, and of the volume that all share."},
	{36, "SaslAuthenticate", 0, 2, ""},
	{37, "CreatePartitions", 0, 3, ""},
	{38, "CreateDelegationToken", 1, 3, tokens},
	{39, "RenewDelegationToken", 1, 2, tokens},
	{40, "ExpireDelegationToken", 1, 2, tokens},
	{41, "DescribeDelegationToken", 1, 3, tokens},
	{42, "DeleteGroups", 0, 3, ""},
	{43, "ElectLeaders", 0, 2, "ELECTION_NOT_NEEDED while the leader lives: there is one copy, and none is preferred."},
	{44, "IncrementalAlterConfigs", 0, 1, "The same resources as for AlterConfigs."},
	{45, "AlterPartitionReassignments", 0, 1, "Moves the leader to the first broker named."},
	{46, "ListPartitionReassignments", 0, 0, "Moves of leaders that are under way."},
	{47, "OffsetDelete", 0, 0, ""},
	{48, "DescribeClientQuotas", 0, 1, ""},
	{49, "AlterClientQuotas", 0, 1, "Addresses, not names of hosts."},
	{50, "DescribeUserScramCredentials", 0, 0, ""},
	{51, "AlterUserScramCredentials", 0, 0, ""},
	{55, "DescribeQuorum", 0, 2, "The controller is the quorum, and its only voter."},
	{57, "UpdateFeatures", 0, 2, "A feature may be set to what it is; else INVALID_UPDATE_VERSION."},
	{60, "DescribeCluster", 0, 2, "Of brokers; who asks for controllers is told MISMATCHED_ENDPOINT_TYPE, as by Kafka's brokers."},
	{61, "DescribeProducers", 0, 0, ""},
	{64, "UnregisterBroker", 0, 0, ""},
	{65, "DescribeTransactions", 0, 0, ""},
	{66, "ListTransactions", 0, 2, ""},
	{68, "ConsumerGroupHeartbeat", 0, 1, ""},
	{69, "ConsumerGroupDescribe", 0, 1, ""},
	{71, "GetTelemetrySubscriptions", 0, 0, "Left out, as by a Kafka without a plugin that takes metrics: clients do not send any."},
	{72, "PushTelemetry", 0, 0, "Likewise."},
	{74, "ListConfigResources", 0, 1, ""},
	{75, "DescribeTopicPartitions", 0, 0, "Lists of eligible leaders are empty."},
	{76, "ShareGroupHeartbeat", 1, 1, noShare},
	{77, "ShareGroupDescribe", 1, 1, noShare},
	{78, "ShareFetch", 1, 2, noShare},
	{79, "ShareAcknowledge", 1, 2, noShare},
	{80, "AddRaftVoter", 0, 1, noVoters},
	{81, "RemoveRaftVoter", 0, 0, noVoters},
	{83, "InitializeShareGroupState", 0, 0, noShare},
	{84, "ReadShareGroupState", 0, 0, noShare},
	{85, "WriteShareGroupState", 0, 1, noShare},
	{86, "DeleteShareGroupState", 0, 0, noShare},
	{87, "ReadShareGroupStateSummary", 0, 1, noShare},
	{88, "StreamsGroupHeartbeat", 0, 1, noStreams},
	{89, "StreamsGroupDescribe", 0, 1, noStreams},
	{90, "DescribeShareGroupOffsets", 0, 1, noShare},
	{91, "AlterShareGroupOffsets", 0, 0, noShare},
	{92, "DeleteShareGroupOffsets", 0, 0, noShare},
	{93, "StreamsGroupTopologyDescriptionUpdate", 0, 0, noStreams},
	{94, "UnregisterController", 0, 0, "No. Every broker may be the controller."},
}

// kafkaInner are those of Kafka's controller listeners that brokers of kaas use, too.
var kafkaInner = []kafkaAPI{
	{62, "BrokerRegistration", 0, 4, ""},
	{63, "BrokerHeartbeat", 0, 2, "With the broker's own news in unknown tags."},
	{67, "AllocateProducerIds", 0, 0, ""},
}

// ask is a key, and a version of it, that a proposal needs.
type ask struct{ key, version int16 }

func is(key kmsg.Key, version int16) ask { return ask{int16(key), version} }

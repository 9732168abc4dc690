package server

import "github.com/twmb/franz-go/pkg/kmsg"

// state is how much of a proposal is there.
type state string

const (
	done   state = "done"
	partly state = "partly"
	not    state = "not"
)

// kip is one of Kafka's improvement proposals, as far as clients see it.
type kip struct {
	number int
	about  string
	state  state
	note   string
	asks   []ask // served if it is done, and not served if it is not
}

func asks(a ...ask) []ask { return a }

var kips = []kip{
	{4, "Topics made and deleted by requests", done, "", asks(is(kmsg.CreateTopics, 2), is(kmsg.DeleteTopics, 1))},
	{12, "TLS and Kerberos", partly, "No Kerberos.", nil},
	{13, "Bandwidth quotas", done, "Bytes are spread more evenly (docs/security.md).", nil},
	{32, "Timestamps in records", done, "", nil},
	{35, "Versions told to clients", done, "", asks(is(kmsg.ApiVersions, 0))},
	{36, "Racks", partly, "Told in metadata; there are no replicas to place.", nil},
	{40, "Groups listed and described", done, "", asks(is(kmsg.ListGroups, 0), is(kmsg.DescribeGroups, 0))},
	{43, "SASL mechanisms", done, "", asks(is(kmsg.SASLHandshake, 0))},
	{48, "Delegation tokens", not, "Requests are answered and refused.", nil},
	{62, "Heartbeats beside processing", done, "", asks(is(kmsg.JoinGroup, 1))},
	{74, "Fetch answers bounded in bytes", done, "", asks(is(kmsg.Fetch, 4))},
	{79, "Offsets by timestamp", done, "", asks(is(kmsg.ListOffsets, 1))},
	{82, "Headers in records", done, "", nil},
	{84, "SCRAM", done, "", asks(is(kmsg.DescribeUserSCRAMCredentials, 0))},
	{98, "Idempotent and transactional producers", done, "", asks(is(kmsg.InitProducerID, 0), is(kmsg.EndTxn, 0), is(kmsg.TxnOffsetCommit, 0))},
	{101, "Leader epochs", done, "There are no followers to truncate.", asks(is(kmsg.OffsetForLeaderEpoch, 2))},
	{103, "Listeners with names of their own", done, "", nil},
	{107, "Records deleted by requests", done, "", asks(is(kmsg.DeleteRecords, 0))},
	{108, "Policies for new topics", not, "There are no plugins.", nil},
	{110, "zstd", done, "", asks(is(kmsg.Produce, 7))},
	{112, "Several disks", not, "There is one volume; its failures are a partition's (docs/volume.md).", nil},
	{113, "Replicas moved between directories", partly, "There is one directory.", asks(is(kmsg.AlterReplicaLogDirs, 1), is(kmsg.DescribeLogDirs, 1))},
	{124, "Quotas of request time", done, "", nil},
	{133, "Configurations described and altered", done, "", asks(is(kmsg.DescribeConfigs, 1), is(kmsg.AlterConfigs, 0))},
	{140, "ACLs by requests", done, withoutACLs, asks(is(kmsg.DescribeACLs, 1), is(kmsg.CreateACLs, 1), is(kmsg.DeleteACLs, 1))},
	{152, "SASL errors told", done, "", asks(is(kmsg.SASLAuthenticate, 0))},
	{183, "Preferred leaders elected by requests", partly, "There is one copy: an election helps where the leader is dead.", asks(is(kmsg.ElectLeaders, 0))},
	{195, "Partitions added by requests", done, "", asks(is(kmsg.CreatePartitions, 0))},
	{219, "Throttled clients pause themselves", done, "", nil},
	{226, "Brokers configured while they run", partly, "The keys in the table above. Files of keys are watched in the place of being altered.", nil},
	{227, "Fetch sessions", done, "", asks(is(kmsg.Fetch, 7))},
	{229, "Groups deleted", done, "", asks(is(kmsg.DeleteGroups, 0))},
	{255, "OAuth", partly, "Tokens are signed: unsecured ones are refused.", asks(is(kmsg.SASLHandshake, 0))},
	{320, "Consumers notice that a log was cut", done, "", asks(is(kmsg.Fetch, 9), is(kmsg.OffsetForLeaderEpoch, 2))},
	{339, "Configurations altered key by key", done, "", asks(is(kmsg.IncrementalAlterConfigs, 0))},
	{345, "Static members", done, "", asks(is(kmsg.JoinGroup, 5), is(kmsg.LeaveGroup, 3))},
	{354, "Longest time without compaction", done, "", nil},
	{360, "Producers go on after errors", done, "", asks(is(kmsg.InitProducerID, 3))},
	{361, "Consumers may forbid that topics are made", done, "", asks(is(kmsg.Metadata, 4))},
	{368, "Authentication that expires", done, "", asks(is(kmsg.SASLAuthenticate, 1))},
	{371, "Rules for the names in certificates", done, "", nil},
	{373, "Tokens for others", not, "Requests are answered and refused.", nil},
	{389, "Most members of a group", done, "", nil},
	{392, "Reads from followers", not, "There are none: consumers read from the leader.", nil},
	{394, "Members learn their ID before they join", done, "", asks(is(kmsg.JoinGroup, 4))},
	{396, "Offsets of groups listed and set by an admin", done, "", asks(is(kmsg.OffsetCommit, 2), is(kmsg.OffsetFetch, 1))},
	{405, "Tiered storage", not, "The volume is the tier.", nil},
	{412, "Log levels changed while a broker runs", partly, "There is one logger, root.", asks(is(kmsg.IncrementalAlterConfigs, 0))},
	{430, "Operations that a client may do", done, "", asks(is(kmsg.Metadata, 8), is(kmsg.DescribeGroups, 3))},
	{447, "One transactional producer for many partitions", done, "", asks(is(kmsg.TxnOffsetCommit, 3), is(kmsg.OffsetFetch, 7))},
	{455, "Reassignments by requests", partly, "They move leaders.", asks(is(kmsg.AlterPartitionAssignments, 0), is(kmsg.ListPartitionReassignments, 0))},
	{460, "Unclean elections by requests", partly, "There is one copy: nothing is lost, and nothing is to be chosen.", asks(is(kmsg.ElectLeaders, 1))},
	{464, "The broker's counts for new topics", done, "", asks(is(kmsg.CreateTopics, 4))},
	{467, "Errors told record by record", done, "", asks(is(kmsg.Produce, 8))},
	{482, "Tagged fields", done, "", asks(is(kmsg.Metadata, 9))},
	{496, "Offsets deleted", done, "", asks(is(kmsg.OffsetDelete, 0))},
	{511, "Software names of clients", done, "They are logged.", asks(is(kmsg.ApiVersions, 3))},
	{516, "Topic IDs", done, "", asks(is(kmsg.Metadata, 10), is(kmsg.Fetch, 13), is(kmsg.Produce, 13))},
	{518, "Groups listed by state", done, "", asks(is(kmsg.ListGroups, 4))},
	{525, "Configurations told when topics are made", done, "", asks(is(kmsg.CreateTopics, 5))},
	{546, "Quotas by requests", done, "", asks(is(kmsg.DescribeClientQuotas, 0), is(kmsg.AlterClientQuotas, 0))},
	{554, "SCRAM credentials by requests", done, "", asks(is(kmsg.DescribeUserSCRAMCredentials, 0), is(kmsg.AlterUserSCRAMCredentials, 0))},
	{559, "Protocol types told", done, "", asks(is(kmsg.JoinGroup, 7), is(kmsg.SyncGroup, 5))},
	{569, "Types and documentation of configurations", done, "", asks(is(kmsg.DescribeConfigs, 3))},
	{573, "TLS 1.3", done, "", nil},
	{584, "Features of a cluster", partly, "Their levels are the build's, and cannot be changed.", asks(is(kmsg.UpdateFeatures, 0), is(kmsg.ApiVersions, 3))},
	{588, "Fenced producers told from those that timed out", done, "", asks(is(kmsg.InitProducerID, 4), is(kmsg.EndTxn, 2))},
	{595, "The quorum described", partly, "The controller is its only voter.", asks(is(kmsg.DescribeQuorum, 0))},
	{599, "Quotas of changes to topics", done, "", nil},
	{612, "Connections bounded", done, "", nil},
	{651, "Keys and certificates in PEM", done, "", nil},
	{664, "Transactions described, listed and aborted", done, "", asks(is(kmsg.DescribeProducers, 0), is(kmsg.DescribeTransactions, 0), is(kmsg.ListTransactions, 0), is(kmsg.WriteTxnMarkers, 1))},
	{684, "Certificates asked for on SASL listeners", done, "", nil},
	{699, "Coordinators of many groups at once", done, "", asks(is(kmsg.FindCoordinator, 4))},
	{700, "The cluster described", done, "", asks(is(kmsg.DescribeCluster, 0))},
	{709, "Offsets of many groups at once", done, "", asks(is(kmsg.OffsetFetch, 8))},
	{714, "Metrics of clients", not, "Subscriptions are kept and shown; clients are not asked to send anything.", asks(ask{71, 0}, ask{72, 0})},
	{734, "The record with the largest timestamp", done, "", asks(is(kmsg.ListOffsets, 7))},
	{768, "OAuth by identity providers", partly, "Brokers log in to one another with client credentials or a file, not with assertions (JWT bearer).", asks(is(kmsg.SASLHandshake, 0))},
	{800, "Reasons of joins and leaves", done, "They are logged.", asks(is(kmsg.JoinGroup, 8), is(kmsg.LeaveGroup, 5))},
	{814, "Static leaders keep an assignment", done, "", asks(is(kmsg.JoinGroup, 9))},
	{827, "Sizes of volumes", done, "", asks(is(kmsg.DescribeLogDirs, 4))},
	{848, "The next-generation group protocol", done, "", asks(is(kmsg.ConsumerGroupHeartbeat, 0), is(kmsg.ConsumerGroupDescribe, 0), is(kmsg.OffsetCommit, 9))},
	{853, "Voters added and removed", not, noVoters, asks(is(kmsg.AddRaftVoter, 0), is(kmsg.RemoveRaftVoter, 0))},
	{890, "Transactions guarded by the broker", done, "", asks(is(kmsg.Produce, 12), is(kmsg.EndTxn, 5), is(kmsg.AddPartitionsToTxn, 4))},
	{896, "Old versions removed", done, "The lowest versions are Kafka's.", nil},
	{919, "Admins that talk to controllers", not, "Clients talk to brokers.", nil},
	{932, "Share groups", not, noShare, asks(is(kmsg.ShareGroupHeartbeat, 1), is(kmsg.ShareFetch, 1))},
	{939, "Transactions of two phases", not, "Kafka 4.4 does not tell clients of its version 6 either.", asks(is(kmsg.InitProducerID, 6))},
	{951, "New leaders told with the error", done, "", asks(is(kmsg.Produce, 10), is(kmsg.Fetch, 16))},
	{966, "Partitions described page by page", partly, "Nobody but the leader is eligible: those lists are empty.", asks(is(kmsg.DescribeTopicPartitions, 0))},
	{994, "Transactions listed by how long they are open", done, "", asks(is(kmsg.ListTransactions, 1))},
	{1000, "Subscriptions to clients' metrics listed", done, "", asks(is(kmsg.ListConfigResources, 0))},
	{1005, "Offsets of tiers", done, "There are no tiers: nothing is found.", asks(is(kmsg.ListOffsets, 9))},
	{1043, "Groups listed by type", done, "", asks(is(kmsg.ListGroups, 5), is(kmsg.DescribeGroups, 6))},
	{1071, "Streams groups", not, noStreams, asks(is(kmsg.StreamsGroupHeartbeat, 0), is(kmsg.StreamsGroupDescribe, 0))},
	{1073, "Fenced brokers described", done, "", asks(is(kmsg.DescribeCluster, 2))},
	{1082, "Members make their own IDs", done, "", asks(is(kmsg.ConsumerGroupHeartbeat, 1))},
	{1102, "Clients sent back to their bootstrap servers", done, "", asks(is(kmsg.Metadata, 13))},
	{1142, "Resources with a configuration listed", done, "", asks(is(kmsg.ListConfigResources, 1))},
	{1152, "Transactions listed by pattern", done, "", asks(is(kmsg.ListTransactions, 2))},
	{1242, "Clients name the broker that they mean", done, "", asks(is(kmsg.ApiVersions, 5))},
	{1319, "Topic IDs in transactional commits", done, "", asks(is(kmsg.TxnOffsetCommit, 6))},
	{1331, "Topologies of streams groups described", not, noStreams, asks(ask{93, 0})},
}

package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

// walkCase is a way to use an API, with exactly the grants that it needs.
type walkCase struct {
	key    kmsg.Key
	name   string // of the way, where there are several
	from   int16  // the first version that it is for
	to     int16  // the last one; 0: all
	fill   func(w *aclWalk, req kmsg.Request)
	grants []right // of the cluster, or of whatever is called sweep…
}

// acls are what the grants come to for a user.
func (c *walkCase) acls(user string, but int) (out []projections.ACL) {
	for i, g := range c.grants {
		name := "sweep*"
		switch g.res {
		case acl.Cluster:
			name = acl.ClusterName
		case acl.User:
			name = "User:sweep"
		}
		if i != but {
			out = append(out, allow(user, g.op, g.res, name))
		}
	}
	return out
}

// as is the fill of a request of one type.
func as[R kmsg.Request](f func(*aclWalk, R)) func(*aclWalk, kmsg.Request) {
	return func(w *aclWalk, req kmsg.Request) { f(w, req.(R)) }
}

var (
	readTopic, writeTopic, describeTopic = right{acl.Read, acl.Topic}, right{acl.Write, acl.Topic}, right{acl.Describe, acl.Topic}
	readGroup, describeGroup             = right{acl.Read, acl.Group}, right{acl.Describe, acl.Group}
	writeTxn, describeTxn                = right{acl.Write, acl.TransactionalID}, right{acl.Describe, acl.TransactionalID}
	describeCluster, alterCluster        = right{acl.Describe, acl.Cluster}, right{acl.Alter, acl.Cluster}
	clusterAction                        = right{acl.ClusterAction, acl.Cluster}
)

// walkCases are all ways. Those that list come before those that make.
func walkCases() []walkCase {
	return append(append(walkReads(), walkGroups()...), walkChanges()...)
}

func walkReads() []walkCase {
	return []walkCase{
		{key: kmsg.ApiVersions},
		{key: kmsg.Metadata, name: "named", fill: as(namesOrIDs), grants: []right{describeTopic}},
		{key: kmsg.Metadata, name: "all", fill: as(func(_ *aclWalk, r *kmsg.MetadataRequest) { r.Topics = nil }), grants: []right{describeTopic}},
		{key: kmsg.Metadata, name: "operations", from: 8, fill: as(func(w *aclWalk, r *kmsg.MetadataRequest) {
			namesOrIDs(w, r)
			r.IncludeClusterAuthorizedOperations, r.IncludeTopicAuthorizedOperations = true, true
		}), grants: []right{describeTopic, describeCluster}},
		{key: kmsg.DescribeCluster, fill: as(func(_ *aclWalk, r *kmsg.DescribeClusterRequest) {
			r.EndpointType, r.IncludeClusterAuthorizedOperations = 1, true
		}), grants: []right{describeCluster}},
		{key: kmsg.DescribeTopicPartitions, name: "named", fill: sweepFill, grants: []right{describeTopic}},
		{key: kmsg.DescribeTopicPartitions, name: "all", fill: as(func(_ *aclWalk, r *kmsg.DescribeTopicPartitionsRequest) { r.ResponsePartitionLimit = 2000 }), grants: []right{describeTopic}},
		{key: kmsg.Produce, fill: sweepFill, grants: []right{writeTopic}},
		{key: kmsg.Produce, name: "in a transaction", fill: as(func(w *aclWalk, r *kmsg.ProduceRequest) {
			sweepFill(w, r)
			r.TransactionID = kmsg.StringPtr("sweep-x")
			for i := range r.Topics {
				for j := range r.Topics[i].Partitions {
					r.Topics[i].Partitions[j].Records = newBatch(func(b *kmsg.RecordBatch) {
						b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1<<4, 1<<40, 0, 0
					}, "v")
				}
			}
		}), grants: []right{writeTopic, writeTxn}},
		{key: kmsg.Fetch, fill: sweepFill, grants: []right{readTopic}},
		{key: kmsg.Fetch, name: "as a replica", to: 14, fill: as(func(w *aclWalk, r *kmsg.FetchRequest) { sweepFill(w, r); r.ReplicaID = 7 }), grants: []right{clusterAction}},
		{key: kmsg.ListOffsets, fill: sweepFill, grants: []right{describeTopic}},
		{key: kmsg.OffsetForLeaderEpoch, fill: sweepFill, grants: []right{describeTopic}},
		{key: kmsg.OffsetForLeaderEpoch, name: "as a replica", fill: sweepFill, grants: []right{clusterAction}},
		{key: kmsg.DescribeProducers, fill: sweepFill, grants: []right{readTopic}},
		{key: kmsg.DescribeConfigs, name: "topics and a broker", fill: sweepFill, grants: []right{{acl.DescribeConfigs, acl.Topic}, {acl.DescribeConfigs, acl.Cluster}}},
		{key: kmsg.DescribeConfigs, name: "group", from: 2, fill: as(func(_ *aclWalk, r *kmsg.DescribeConfigsRequest) {
			r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: ofGroup, ResourceName: "sweep"}}
		}), grants: []right{{acl.DescribeConfigs, acl.Group}}},
		{key: kmsg.ListConfigResources, fill: sweepFill, grants: []right{{acl.DescribeConfigs, acl.Cluster}}},
		{key: kmsg.DescribeLogDirs, fill: as(func(w *aclWalk, r *kmsg.DescribeLogDirsRequest) { sweepFill(w, r) }), grants: []right{describeCluster}},
		{key: kmsg.DescribeQuorum, fill: sweepFill, grants: []right{describeCluster}},
		{key: kmsg.ListPartitionReassignments, fill: sweepFill, grants: []right{describeCluster}},
		{key: kmsg.DescribeACLs, fill: as(func(_ *aclWalk, r *kmsg.DescribeACLsRequest) {
			anyACL(r)
			r.ResourceName = kmsg.StringPtr("sweep-none")
		}), grants: []right{describeCluster}},
		{key: kmsg.DescribeDelegationToken, fill: sweepFill},
		{key: kmsg.RenewDelegationToken, fill: sweepFill},
		{key: kmsg.ExpireDelegationToken, fill: sweepFill},
		{key: kmsg.CreateDelegationToken, name: "for another", from: 3, fill: as(func(_ *aclWalk, r *kmsg.CreateDelegationTokenRequest) {
			r.OwnerPrincipalType, r.OwnerPrincipalName = kmsg.StringPtr("User"), kmsg.StringPtr("sweep")
		}), grants: []right{{acl.CreateTokens, acl.User}}},
		{key: kmsg.CreateDelegationToken, name: "for oneself"},
		{key: kmsg.DescribeClientQuotas, grants: []right{{acl.DescribeConfigs, acl.Cluster}}},
		{key: kmsg.DescribeUserSCRAMCredentials, fill: as(func(_ *aclWalk, r *kmsg.DescribeUserSCRAMCredentialsRequest) {
			r.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "sweep"}} // for none Kafka answers nothing to whom it denies it
		}), grants: []right{describeCluster}},
		{key: kmsg.SASLAuthenticate},
		{key: kmsg.SASLHandshake, fill: as(func(_ *aclWalk, r *kmsg.SASLHandshakeRequest) { r.Mechanism = "PLAIN" })},
	}
}

func walkGroups() []walkCase {
	return []walkCase{
		{key: kmsg.FindCoordinator, name: "group", fill: as(func(_ *aclWalk, r *kmsg.FindCoordinatorRequest) {
			r.CoordinatorKey, r.CoordinatorKeys = "sweep", []string{"sweep"}
		}), grants: []right{describeGroup}},
		{key: kmsg.FindCoordinator, name: "transactional ID", from: 1, fill: as(func(_ *aclWalk, r *kmsg.FindCoordinatorRequest) {
			r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = 1, "sweep-x", []string{"sweep-x"}
		}), grants: []right{describeTxn}},
		{key: kmsg.OffsetCommit, fill: sweepFill, grants: []right{readGroup, readTopic}},
		{key: kmsg.OffsetFetch, name: "named", fill: as(func(w *aclWalk, r *kmsg.OffsetFetchRequest) {
			sweepFill(w, r)
			r.Groups = r.Groups[:1]
		}), grants: []right{describeGroup, describeTopic}},
		{key: kmsg.OffsetFetch, name: "all", from: 2, fill: as(func(w *aclWalk, r *kmsg.OffsetFetchRequest) {
			sweepFill(w, r)
			r.Topics, r.Groups = nil, r.Groups[:1]
			r.Groups[0].Topics = nil
		}), grants: []right{describeGroup, describeTopic}},
		{key: kmsg.JoinGroup, fill: as(func(w *aclWalk, r *kmsg.JoinGroupRequest) { sweepFill(w, r); r.MemberID = "nobody" }), grants: []right{readGroup}},
		{key: kmsg.Heartbeat, fill: sweepFill, grants: []right{readGroup}},
		{key: kmsg.LeaveGroup, fill: sweepFill, grants: []right{readGroup}},
		{key: kmsg.SyncGroup, fill: sweepFill, grants: []right{readGroup}},
		{key: kmsg.DescribeGroups, fill: as(func(_ *aclWalk, r *kmsg.DescribeGroupsRequest) {
			r.Groups, r.IncludeAuthorizedOperations = []string{"sweep"}, true
		}), grants: []right{describeGroup}},
		{key: kmsg.ListGroups, grants: []right{describeGroup}},
		{key: kmsg.ListGroups, name: "by the cluster", grants: []right{describeCluster}},
		{key: kmsg.OffsetDelete, fill: as(func(w *aclWalk, r *kmsg.OffsetDeleteRequest) { sweepFill(w, r); r.Topics = r.Topics[:1] }), grants: []right{{acl.Delete, acl.Group}, readTopic}},
		{key: kmsg.ConsumerGroupHeartbeat, fill: sweepFill, grants: []right{readGroup, describeTopic}},
		{key: kmsg.ConsumerGroupDescribe, fill: as(func(_ *aclWalk, r *kmsg.ConsumerGroupDescribeRequest) { r.Groups = []string{"sweep-none"} }), grants: []right{describeGroup}},
		{key: kmsg.DeleteGroups, fill: sweepFill, grants: []right{{acl.Delete, acl.Group}}},
		{key: kmsg.InitProducerID, name: "idempotent", fill: as(noProducer), grants: []right{{acl.IdempotentWrite, acl.Cluster}}},
		{key: kmsg.InitProducerID, name: "idempotent, by a topic", fill: as(noProducer), grants: []right{writeTopic}},
		{key: kmsg.InitProducerID, name: "transactional", fill: as(func(w *aclWalk, r *kmsg.InitProducerIDRequest) {
			noProducer(w, r)
			r.TransactionalID, r.TransactionTimeoutMillis = kmsg.StringPtr("sweep-x"), 60_000
		}), grants: []right{writeTxn}},
		{key: kmsg.AddPartitionsToTxn, to: 3, fill: as(func(w *aclWalk, r *kmsg.AddPartitionsToTxnRequest) {
			r.TransactionalID, r.ProducerID = "sweep-x", 1<<40
			for _, name := range w.names {
				r.Topics = append(r.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name, Partitions: []int32{0}})
			}
		}), grants: []right{writeTxn, writeTopic}},
		{key: kmsg.AddPartitionsToTxn, name: "as a broker", from: 4, fill: as(func(w *aclWalk, r *kmsg.AddPartitionsToTxnRequest) {
			t := kmsg.NewAddPartitionsToTxnRequestTransaction()
			t.TransactionalID, t.ProducerID = "sweep-x", 1<<40
			t.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: w.names[0], Partitions: []int32{0}}}
			r.Transactions = append(r.Transactions, t)
		}), grants: []right{clusterAction}},
		{key: kmsg.AddOffsetsToTxn, fill: as(func(_ *aclWalk, r *kmsg.AddOffsetsToTxnRequest) {
			r.TransactionalID, r.ProducerID, r.Group = "sweep-x", 1<<40, "sweep"
		}), grants: []right{writeTxn, readGroup}},
		{key: kmsg.EndTxn, fill: as(func(_ *aclWalk, r *kmsg.EndTxnRequest) { r.TransactionalID, r.ProducerID = "sweep-x", 1<<40 }), grants: []right{writeTxn}},
		{key: kmsg.TxnOffsetCommit, fill: as(func(w *aclWalk, r *kmsg.TxnOffsetCommitRequest) {
			r.TransactionalID, r.ProducerID, r.Group, r.Generation = "sweep-x", 1<<40, "sweep", -1
			for i, name := range w.names {
				p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
				r.Topics = append(r.Topics, kmsg.TxnOffsetCommitRequestTopic{Topic: name, TopicID: w.ids[i], Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}})
			}
		}), grants: []right{writeTxn, readGroup, readTopic}},
		{key: kmsg.WriteTxnMarkers, fill: sweepFill, grants: []right{clusterAction}},
		{key: kmsg.WriteTxnMarkers, name: "as an admin", fill: sweepFill, grants: []right{alterCluster}},
		{key: kmsg.DescribeTransactions, fill: as(func(_ *aclWalk, r *kmsg.DescribeTransactionsRequest) { r.TransactionalIDs = []string{"sweep-x"} }), grants: []right{describeTxn}},
		{key: kmsg.ListTransactions, grants: []right{describeTxn}},
	}
}

func noProducer(_ *aclWalk, r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = -1, -1 }

func walkChanges() []walkCase {
	creates := as(func(w *aclWalk, r *kmsg.CreateTopicsRequest) {
		r.TimeoutMillis = 20_000
		r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: w.fresh("sweep-c"), NumPartitions: 1, ReplicationFactor: 1}}
	})
	deletes := as(func(w *aclWalk, r *kmsg.DeleteTopicsRequest) {
		w.doom()
		r.TimeoutMillis, r.TopicNames = 20_000, []string{w.doomed}
		r.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: w.doomedID}, {Topic: kmsg.StringPtr("sweep-none")}}
	})
	return []walkCase{
		{key: kmsg.DeleteRecords, fill: sweepFill, grants: []right{{acl.Delete, acl.Topic}}},
		{key: kmsg.AlterConfigs, name: "topics and a broker", fill: as(func(w *aclWalk, r *kmsg.AlterConfigsRequest) { sweepFill(w, r); r.Resources[0].ResourceName = "0" }), grants: []right{{acl.AlterConfigs, acl.Topic}, {acl.AlterConfigs, acl.Cluster}}},
		{key: kmsg.IncrementalAlterConfigs, name: "topics and a broker", fill: sweepFill, grants: []right{{acl.AlterConfigs, acl.Topic}, {acl.AlterConfigs, acl.Cluster}}},
		{key: kmsg.IncrementalAlterConfigs, name: "group", fill: as(func(_ *aclWalk, r *kmsg.IncrementalAlterConfigsRequest) {
			session := "50000"
			r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: ofGroup, ResourceName: "sweep",
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: projections.GroupSessionTimeout, Value: &session}}}}
		}), grants: []right{{acl.AlterConfigs, acl.Group}}},
		{key: kmsg.IncrementalAlterConfigs, name: "client metrics", fill: as(func(_ *aclWalk, r *kmsg.IncrementalAlterConfigsRequest) {
			interval := "5000"
			r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeClientMetrics, ResourceName: "sweep",
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "interval.ms", Value: &interval}}}}
		}), grants: []right{{acl.AlterConfigs, acl.Cluster}}},
		{key: kmsg.AlterReplicaLogDirs, fill: sweepFill, grants: []right{alterCluster}},
		{key: kmsg.ElectLeaders, fill: sweepFill, grants: []right{alterCluster}},
		{key: kmsg.AlterPartitionAssignments, fill: sweepFill, grants: []right{alterCluster}},
		{key: kmsg.UpdateFeatures, fill: as(func(_ *aclWalk, r *kmsg.UpdateFeaturesRequest) {
			r.FeatureUpdates = append(r.FeatureUpdates, featureUpdate("group.version", 1, 1))
		}), grants: []right{alterCluster}},
		{key: kmsg.UnregisterBroker, fill: sweepFill, grants: []right{alterCluster}},
		{key: kmsg.CreateACLs, fill: as(func(w *aclWalk, r *kmsg.CreateACLsRequest) {
			r.Creations = append(r.Creations, creation(allow("nobody", acl.Read, acl.Topic, "sweep-none")))
		}), grants: []right{alterCluster}},
		{key: kmsg.DeleteACLs, fill: as(func(w *aclWalk, r *kmsg.DeleteACLsRequest) {
			f := anyFilter()
			f.ResourceName = kmsg.StringPtr("sweep-neither")
			r.Filters = append(r.Filters, f)
		}), grants: []right{alterCluster}},
		{key: kmsg.AlterClientQuotas, fill: as(func(_ *aclWalk, r *kmsg.AlterClientQuotasRequest) {
			r.ValidateOnly = true
			e := kmsg.NewAlterClientQuotasRequestEntry()
			e.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: kmsg.StringPtr("sweep")}}
			e.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1 << 30}}
			r.Entries = append(r.Entries, e)
		}), grants: []right{{acl.AlterConfigs, acl.Cluster}}},
		{key: kmsg.AlterUserSCRAMCredentials, fill: as(func(_ *aclWalk, r *kmsg.AlterUserSCRAMCredentialsRequest) {
			r.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "sweep", Mechanism: 1}}
		}), grants: []right{alterCluster}},
		{key: kmsg.CreatePartitions, fill: as(func(w *aclWalk, r *kmsg.CreatePartitionsRequest) {
			w.ensure("sweep-p")
			r.TimeoutMillis, r.ValidateOnly = 20_000, true
			r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "sweep-p", Count: 2}, {Topic: "sweep-none", Count: 2}}
		}), grants: []right{{acl.Alter, acl.Topic}}},
		{key: kmsg.CreateTopics, fill: creates, grants: []right{{acl.Create, acl.Topic}, {acl.DescribeConfigs, acl.Topic}}},
		{key: kmsg.CreateTopics, name: "by the cluster", fill: creates, grants: []right{{acl.Create, acl.Cluster}}},
		{key: kmsg.DeleteTopics, fill: deletes, grants: []right{{acl.Delete, acl.Topic}}},
		{key: kmsg.DeleteTopics, name: "that may be described", fill: deletes, grants: []right{describeTopic}},
		{key: kmsg.DeleteTopics, name: "by the cluster", fill: deletes, grants: []right{{acl.Delete, acl.Cluster}}},
		{key: kmsg.Metadata, name: "to be made", from: 4, fill: as(func(w *aclWalk, r *kmsg.MetadataRequest) {
			name := w.fresh("sweep-m")
			r.AllowAutoTopicCreation, r.Topics = true, []kmsg.MetadataRequestTopic{{Topic: &name}}
		}), grants: []right{describeTopic, {acl.Create, acl.Topic}}},
		{key: kmsg.Metadata, name: "to be made, by the cluster", from: 4, fill: as(func(w *aclWalk, r *kmsg.MetadataRequest) {
			name := w.fresh("sweep-m")
			r.AllowAutoTopicCreation, r.Topics = true, []kmsg.MetadataRequestTopic{{Topic: &name}}
		}), grants: []right{describeTopic, {acl.Create, acl.Cluster}}},
	}
}

// namesOrIDs asks for topics by name and, where that may be, by ID.
func namesOrIDs(w *aclWalk, r *kmsg.MetadataRequest) {
	for i := range w.names {
		t := kmsg.MetadataRequestTopic{Topic: &w.names[i]}
		if r.Version >= 12 {
			t = kmsg.MetadataRequestTopic{TopicID: w.ids[i]}
		}
		r.Topics = append(r.Topics, t)
	}
}

// sweepFill fills a request as the sweep does.
func sweepFill(w *aclWalk, req kmsg.Request) { w.fill(w.t, w.admin, req) }

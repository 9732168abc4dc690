package main

// intended are the differences that are there on purpose. Each is met in a run, or the run
// fails. A test writes them into docs/compatibility.md, those with the same text once.
var intended = []intention{
	// What is there.
	{api: `ApiVersions.*`, path: `\.ApiKeys\[(7[6-9]|8\d|9\d)\]`, kaas: `\(none\)`, what: fewer, why: fewerWhy},
	{api: `ApiVersions.*`, path: `\.(Supported|Finalized)Features\["(streams.version|share.version|eligible.leader.replicas.version|kraft.version)"\]`, kaas: `\(none\)`, what: fewer, why: fewerWhy},
	{api: `ApiVersions.*`, path: `\.ApiKeys\[(62|63|67)\]`, kafka: `\(none\)`,
		what: "Where brokers and clients share a listener, ApiVersions tells the APIs between brokers, too.", why: "Brokers look there."},
	{path: `.*\["__(consumer_offsets|transaction_state)"[^]]*\]`, kaas: `\(none\)`, what: inner, why: innerWhy},
	{script: `.*(inner topic|inner name).*`, kafka: `17|36`, what: inner, why: innerWhy},
	{script: `versions: epochs.*`, path: `.*Epoch`,
		what: "The first leader epoch of a partition, and the first member epoch of a group, is another.", why: "Only their order means something. Further ones are compared relative to them."},
	{path: `.*\[order\]`, what: "Lists that Kafka gives in the order of a hash table are in some other order.", why: "Neither order means anything."},

	// Messages and codes.
	{path: `.*\.(ErrorMessage|ErrorRecords)`, kafka: `null|""`, kaas: `<text>|\[.*`, what: "More errors come with a message, and with the records that are to blame.", why: "Who reads it knows more."},
	{api: `FindCoordinator.*`, path: `.*\.ErrorMessage`, kafka: `<text>|""`, kaas: `null`, what: silent, why: silentWhy},
	{path: `.*\.ErrorMessage`, kafka: `""`, kaas: `null`, what: silent, why: silentWhy},
	{path: `.*\.ErrorMessage`, kafka: `null`, kaas: `""`, what: silent, why: silentWhy},
	{path: `.*\.ErrorCode`, kafka: `-1`,
		what: "What Kafka answers with UNKNOWN_SERVER_ERROR gets an error that says what is wrong, or is taken for what it was meant to be.", why: "Nobody can act on that code."},

	// Topics.
	{script: `create topics: too many replicas.*`, path: `.*\.ErrorCode`, kafka: `38`, kaas: `0`,
		what: "A replication factor above the number of brokers is taken.", why: "The volume keeps the copies; applications ask for three and are to work on one broker."},
	{script: `create topics: .*on trial`, path: `.*\.TopicID`, kaas: `0`,
		what: "A topic that is created on trial has no ID.", why: "There is none: Kafka tells one that no topic will have."},
	{script: `metadata: to be made`, path: `.*\.ErrorCode`, kafka: `3`, kaas: `0`,
		what: "Metadata waits for the topics that it makes.", why: "The client is spared a second request."},

	{script: `metadata: neither ID nor name`, api: `Metadata v12`, what: "Metadata for neither a name nor an ID is INVALID_REQUEST for that topic alone.", why: "Kafka fails as a whole, with UNKNOWN_SERVER_ERROR."},

	// Configurations.
	{api: `(DescribeConfigs|CreateTopics).*`, path: `.*\["min.insync.replicas".*`, what: minISR, why: minISRWhy},
	{script: `describe configs: 4 "".*`, path: `.*\.Configs`, kafka: `.*"min.insync.replicas".*`, what: minISR, why: minISRWhy},
	{script: `alter configs: all brokers'`, api: `AlterConfigs.*`, kafka: `40`, kaas: `0`, what: minISR, why: minISRWhy},
	{api: `DescribeConfigs.*`, path: `.*\["(flush.messages|log.flush.interval.messages)"\].*`,
		what: "log.flush.interval.messages is 1 unless it is set.", why: "What is acknowledged is on stable storage; Kafka counts on replicas instead."},
	{api: `DescribeConfigs.*`, path: `.*\["(log.retention.ms|log.retention.minutes|log.roll.ms|log.roll.hours|segment.ms|broker.rack|inter.broker.listener.name|advertised.listeners|sasl.jaas.config)"\]\.(Value|ReadOnly|IsDefault|Source|IsSensitive|ConfigSynonyms.*)`,
		what: "Keys that Kafka shows as null have a value, or are among the synonyms.", why: "It is what acts."},
	{api: `DescribeConfigs.*`, path: `.*\["(listener.security.protocol.map|listeners|log.dirs|node.id|queued.max.request.bytes|offsets.topic.num.partitions|transaction.state.log.num.partitions|sasl[^"]*|ssl[^"]*)"\]\.(Value|ReadOnly|IsDefault|Source|IsSensitive|ConfigSynonyms.*)`,
		what: "Some of a broker's keys have another default, or cannot be changed while it runs.", why: "They are of listeners, of the volume, or of memory: what suits Kafka's does not suit kaas."},
	{script: `describe configs: 32 .*`, path: `.*\["consumer.ass[^"]*"\].*`,
		what: "consumer.assignment.interval.ms and consumer.assignor.offload.enable of a group have no broker's default.", why: "A new assignment is made at once."},
	{script: `alter configs: added twice`, kafka: `0`, kaas: `40`, what: lists, why: listsWhy},
	{script: `alter configs: added nothing`, kafka: `40`, kaas: `0`, what: lists, why: listsWhy},
	{api: `DescribeConfigs.*`, script: `.*(4 "1"|4 "").*`, path: `.*\.Configs\[[^]]*\]`, kaas: `\(none\)`, what: keys, why: keysWhy},
	{api: `DescribeConfigs.*`, script: `.*(4 "1"|4 "").*`, path: `.*\.Configs\[[^]]*\]`, kafka: `\(none\)`, what: keys, why: keysWhy},
	{script: `alter configs: a broker's unknown`, kafka: `0`, kaas: `40`,
		what: "A broker key that is unknown is INVALID_CONFIG.", why: "It would be kept and do nothing."},
	{script: `alter configs: a broker's with a zero.*|describe configs: 4 "01".*`, kafka: `0`, kaas: `42`,
		what: "Brokers are named as they are shown: 01 is not 1.", why: "One broker is to have one name."},
	{script: `alter configs: (a broker's topic default out of bounds|no pause of the cleaner|no bytes for the cleaner)`, kafka: `0`, kaas: `42`,
		what: "log.retention.ms below -1, log.cleaner.backoff.ms of 0 and log.cleaner.io.max.bytes.per.second of 0 are refused.", why: "They mean nothing, or that the cleaner spins or stands still."},
	{script: `alter configs: a broker's too many`, kafka: `42`, kaas: `0`,
		what: "log.cleaner.threads may grow to any number at once.", why: "Kafka resizes a pool by a factor of two at most; there is none."},

	// Produce.
	{script: `produce: a (partition|topic) twice|transactions, wrong: two producers`, path: `.*#2\]`, kafka: `\(none\)`,
		what: "A partition that stands twice in a Produce request gets both batches, or both answers.", why: "Kafka drops the first batch without a word."},
	{script: `produce bad batches: (a byte too many|a batch and a half|a producer without an epoch|offsets that skip|the broker's time)`, kafka: `0|no answer`, kaas: `87|32|closed`, what: strict, why: strictWhy},
	{script: `transactions, wrong: no producer`, api: `Produce.*`, path: `.*\.ErrorCode`, kafka: `0`, kaas: `49`, what: strict, why: strictWhy},
	{script: `fetch: a partition twice`, path: `.*`,
		what: "A partition that stands twice in a Fetch request gets two answers.", why: "Each is right."},
	{script: `produce in sequence: .*`, path: `.*\.LogAppendTime`, kaas: `-1`,
		what: "A batch that is sent again is answered with LogAppendTime -1 where the topic keeps the producer's times.", why: "Kafka tells the producer's own time there."},
	{api: `DescribeProducers.*`, path: `.*\.LastTimestamp`, kaas: `<now>`,
		what: "DescribeProducers tells when the broker heard from a producer.", why: "A producer's own time may be anything; forgetting a producer goes by the broker's."},

	// Fetch and offsets.
	{api: `Fetch.*`, path: `.*\.RecordBatches\[\d+\]`, kafka: `a part of a batch.*`, kaas: `\(none\)`,
		what: "Fetch answers hold whole batches.", why: "Clients throw a part away."},
	{api: `Fetch.*`, path: `.*\.(HighWatermark|LogStartOffset)`, kafka: `-1`,
		what: "OFFSET_OUT_OF_RANGE comes with the real high watermark and log start.", why: "Who is told can tell where it is."},
	{script: `fetch: (as an unknown follower|last fetched epoch.*)`, path: `.*\.ErrorCode`, kafka: `1|6`, kaas: `0`,
		what: "What only followers say in Fetch is not looked at.", why: "There are no followers."},
	{script: `fetch in sessions: (deleted|made again|as the new one)`, path: `.*\.ErrorCode`, kafka: `3|103`, kaas: `100`,
		what: "In a fetch session a topic that is deleted is UNKNOWN_TOPIC_ID.", why: "A session by ID knows no name that another topic could have."},
	{script: `fetch( in sessions)?: (wrong and right|out of range)`, path: `.*(\[9\]|#2\])`, what: "Partitions of one topic stand together in a Fetch answer.", why: "Kafka begins a topic anew where another comes between."},
	{script: `ends of epochs: .*epoch -2 at.*`, path: `.*\.(LeaderEpoch|EndOffset)`, what: "A leader epoch below -1 is unknown.", why: "There is none before the first."},
	{script: `fetch of nothing: .*`, what: "A full fetch of nothing opens no session.", why: "There is nothing to remember."},
	{script: `delete records: (at the end|before it|in the middle.*)`, api: `ListOffsets.*`, path: `.*\.(Offset|Timestamp|LeaderEpoch)`,
		what: "The record with the largest timestamp is one that is still there.", why: "Kafka tells the offset of a deleted one."},

	// Groups and transactions.
	{script: `offsets: no partitions|markers: no topics`, kafka: `null`, what: "A topic without partitions in OffsetCommit, or a marker without topics, is answered as such.", why: "Kafka leaves it out."},
	{script: `groups listed and deleted: .*`, path: `.*\["(wrong|offsets-\d+|)"[^]]*\].*`,
		what: "A group whose last offsets went with their topic, or that nobody has entered, is gone at once.", why: "There is nothing to keep; Kafka looks for such groups every ten minutes."},
	{script: `transactions: .*init meanwhile`, path: `\.ErrorCode`, kafka: `51`, kaas: `0`,
		what: "InitProducerId waits for the transaction that it aborts.", why: "A client is spared CONCURRENT_TRANSACTIONS and another try."},
	{api: `TxnOffsetCommit.*`, path: `.*\.ErrorCode`, kafka: `47`, kaas: `90`,
		what: "TxnOffsetCommit of a producer that is fenced is PRODUCER_FENCED.", why: "As from the transaction's coordinator; clients take INVALID_PRODUCER_EPOCH there for the same."},

	{script: `transactions, wrong: .*`, api: `TxnOffsetCommit v6`, path: `.*\.ErrorCode`, kafka: `69`, kaas: `22`,
		what: "TxnOffsetCommit of a member of an unknown group is ILLEGAL_GENERATION in every version.", why: "Kafka tells GROUP_ID_NOT_FOUND from version 6 on; clients end the transaction for either."},

	// The cluster.
	{api: `DescribeQuorum.*`, path: `.*\.(LeaderEpoch|HighWatermark|LogEndOffset)|.*\.Listeners\[.*`,
		what: "DescribeQuorum tells of the controller's stream on the volume, and of the listeners of brokers.", why: "There are no voters, and no listeners of controllers."},
	{script: `quotas: a kind twice`, path: `.*#2\]`, kafka: `\(none\)`, what: "An entity of quotas that names a kind twice is told as it was sent.", why: "It is refused; Kafka's answer leaves one out."},
	{api: `UpdateFeatures.*`, path: `.*\.ErrorCode`, kafka: `0`, kaas: `95`, what: "Features are not downgraded.", why: "Their levels are the build's."},
	{script: `consumer groups: empty`, path: `.*\.AssignmentEpoch`, what: "A group that has lost its members keeps the assignment epoch.", why: "There is nobody to assign to."},
}

const (
	silent    = "Where there is no error its message may be null, where Kafka has an empty one or NONE."
	silentWhy = "No client tells them apart."
	minISR    = "min.insync.replicas has no default of the cluster that is always set."
	minISRWhy = "Kafka keeps it for eligible leader replicas; there are none."
	lists     = "A list of a configuration holds each item once, and no empty one."
	listsWhy  = "Kafka takes compact,compact in AlterConfigs; and what is empty adds nothing."
	strict    = "Batches are refused that Kafka stores or cuts: bytes behind the batch, offsets out of step, a producer ID without an epoch, append times from a producer, a transaction without a producer."
	strictWhy = "They lose records or confuse consumers. No known client sends them."
	fewer     = "Fewer APIs and features are told."
	fewerWhy  = "They are in the table of what is left out."
	inner     = "There are no topics __consumer_offsets and __transaction_state."
	innerWhy  = "Groups and transactions are kept in streams on the volume."
	keys      = "A broker shows the keys that this build has."
	keysWhy   = "A key that nothing acts on would lie."
)

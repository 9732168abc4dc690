package main

// intended are the differences that are there on purpose. Each is met in a run, or the run
// fails. A test writes them into docs/compatibility.md, those with the same text once.
var intended = []intention{
	// What is there.
	{api: `ApiVersions.*`, path: `\.ApiKeys\[(17|29|30|31|36|48|49|50|51|7[6-9]|8\d|9\d)\]`, kaas: `\(none\)`, what: fewer, why: fewerWhy},
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
	{path: `.*\.?ErrorMessage`, kafka: `""`, kaas: `null`, what: "Where there is no error its message may be null instead of empty.", why: "No client tells them apart."},
	{path: `.*\.ErrorCode`, kafka: `-1`,
		what: "What Kafka answers with UNKNOWN_SERVER_ERROR gets an error that says what is wrong, or is taken for what it was meant to be.", why: "Nobody can act on that code."},

	// Topics.
	{script: `create topics: too many replicas.*`, path: `.*\.ErrorCode`, kafka: `38`, kaas: `0`,
		what: "A replication factor above the number of brokers is taken.", why: "The volume keeps the copies; applications ask for three and are to work on one broker."},
	{script: `create topics: .*on trial`, path: `.*\.TopicID`, kaas: `0`,
		what: "A topic that is created on trial has no ID.", why: "There is none: Kafka tells one that no topic will have."},
	{script: `metadata: to be made`, path: `.*\.ErrorCode`, kafka: `3`, kaas: `0`,
		what: "Metadata waits for the topics that it makes.", why: "The client is spared a second request."},

	// Configurations.
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
	{script: `produce: a (partition|topic) twice`, path: `.*#2\]`, kafka: `\(none\)`,
		what: "A partition that stands twice in a Produce request gets both batches, or both answers.", why: "Kafka drops the first batch without a word."},
	{script: `produce bad batches: (a byte too many|a batch and a half|a producer without an epoch|offsets that skip|the broker's time)`, kaas: `87|32|closed`,
		what: "Batches are refused that Kafka stores or cuts: bytes behind the batch, offsets that are not in step, a producer ID without an epoch, append times from a producer.", why: "They lose records or confuse consumers. No known client sends them."},
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
	{script: `fetch in sessions: (an|of an) empty.*`, what: "A full fetch of nothing opens no session.", why: "There is nothing to remember."},
	{script: `delete records: (at the end|before it|in the middle.*)`, api: `ListOffsets.*`, path: `.*\.(Offset|Timestamp|LeaderEpoch)`,
		what: "The record with the largest timestamp is one that is still there.", why: "Kafka tells the offset of a deleted one."},

	// The cluster.
	{api: `DescribeQuorum.*`, path: `.*\.(LeaderEpoch|HighWatermark|LogEndOffset)|.*\.Listeners\[.*`,
		what: "DescribeQuorum tells of the controller's stream on the volume, and of the listeners of brokers.", why: "There are no voters, and no listeners of controllers."},
	{api: `UpdateFeatures.*`, path: `.*\.ErrorCode`, kafka: `0`, kaas: `95`, what: "Features are not downgraded.", why: "Their levels are the build's."},
	{script: `consumer groups: empty`, path: `.*\.AssignmentEpoch`, what: "A group that has lost its members keeps the assignment epoch.", why: "There is nobody to assign to."},
}

const (
	fewer    = "Fewer APIs and features are told."
	fewerWhy = "They are in the table of what is left out."
	inner    = "There are no topics __consumer_offsets and __transaction_state."
	innerWhy = "Groups and transactions are kept in streams on the volume."
	keys     = "A broker shows the keys that this build has."
	keysWhy  = "A key that nothing acts on would lie."
)

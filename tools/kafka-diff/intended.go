package main

// intended are the differences that are there on purpose. Each is met in a run, or the run
// fails. The page docs/compatibility.md tells them; a test keeps it so. Those with the same
// text are told once.
var intended = []intention{
	{api: `.*`, path: `.*\.(ErrorMessage|ErrorRecords)`, kafka: `null|""`, kaas: `<text>|\[.*`,
		what: "More errors come with a message.", why: "Who reads it knows more."},
	{api: `ApiVersions.*`, path: `\.ApiKeys\[(17|29|30|31|36|48|49|50|51|7[6-9]|8\d|9\d)\]`, kaas: `\(none\)`,
		what: "Fewer APIs.", why: "They are in the table of what is left out."},
	{api: `ApiVersions.*`, path: `\.ApiKeys\[(62|63|67)\]`, kafka: `\(none\)`,
		what: "APIs between brokers are told.", why: "Brokers talk on the listener of their own where there is one; clients do not use them."},
	{api: `ApiVersions.*`, path: `\.(Supported|Finalized)Features\["(streams.version|share.version|eligible.leader.replicas.version|kraft.version)"\]`, kaas: `\(none\)`,
		what: "Fewer features.", why: "What they stand for is left out."},
	{path: `.*\[order\]`, api: `(ApiVersions|DescribeConfigs|AlterReplicaLogDirs|Produce|CreateTopics).*`,
		what: "Lists that Kafka gives in the order of a hash table are in order.", why: "Kafka's order means nothing."},
	{api: `DescribeConfigs.*`, script: `.*4 "1".*`, path: `.*\.Configs\[[^]]*\]`, kaas: `\(none\)`,
		what: "A broker shows the keys that this build has.", why: "A key that nothing acts on would lie."},
	{api: `DescribeConfigs.*`, script: `.*4 "1".*`, path: `.*\.Configs\[[^]]*\]`, kafka: `\(none\)`,
		what: "A broker shows the keys that this build has.", why: "A key that nothing acts on would lie."},
	{api: `Fetch.*`, path: `.*\.RecordBatches\[\d+\]`, kafka: `a part of a batch.*`, kaas: `\(none\)`,
		what: "Fetch answers hold whole batches.", why: "Clients throw a part away."},
	{api: `Fetch.*`, path: `.*\.HighWatermark`, kafka: `-1`,
		what: "OFFSET_OUT_OF_RANGE comes with the real high watermark and log start.", why: "A client may use them."},
	{path: `.*\.ErrorCode`, kafka: `-1`,
		what: "What Kafka answers with UNKNOWN_SERVER_ERROR gets an error that says what is wrong, or is taken as it was meant.", why: "Nobody can act on that code."},
	{api: `UpdateFeatures.*`, path: `.*\.ErrorCode`, kafka: `0`, kaas: `95`,
		what: "Features are not downgraded.", why: "Their levels are the build's."},
}

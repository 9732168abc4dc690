package check

import (
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
)

// The kinds of findings beyond those of streams and of partitions' files.
const (
	kindVolume           = "volume-id"
	kindSession          = "session-damaged"
	kindSessionMissing   = "session-missing"
	kindShardMissing     = "shard-missing"
	kindShardAbove       = "shard-above"
	kindShardUnmade      = "shard-unmade"
	kindTopicMissing     = "topic-missing"
	kindTopicUnknown     = "topic-unknown"
	kindTopicUnnamed     = "topic-unnamed"
	kindPartitionMissing = "partition-missing"
	kindPartitionAbove   = "partition-above"
	kindEpochAhead       = "epoch-ahead"
	kindLeftover         = "leftover"
	kindDeleted          = "being-deleted"
	kindNFS              = "nfs-removed"
	kindUnknown          = "not-ours"
	kindOtherMeta        = "other-volume"
	kindElection         = "election-record"
)

// Kind is what a kind of finding means, and what to do about it.
type Kind struct{ What, Advice string }

// copyBack is what helps where a file of the volume is damaged or gone.
const copyBack = "stop the brokers and put it back from a copy of the storage, if one has it exactly as it was (verify again before they start); "

// backInTime is what helps where the cluster stream is older than what it rules.
const backInTime = "start no broker: what it would decide on is too old; put the missing epoch's directory back from a copy of the storage, or follow \"rebuild\" of kaas-meta, which makes the cluster's state from the partitions' manifests"

// Kinds are all kinds of findings by name.
var Kinds = map[string]Kind{
	kindVolume: {"the volume's ID is missing or cannot be read",
		copyBack + "the ID is the name of the directory below meta/. Where nothing is left of it, kaas-meta rebuild gives the volume a new one"},
	kindSession: {"a session's token is missing, doubled or damaged",
		"nothing is lost: its process is fenced, or will be. If a broker of that session runs, restart it; leave the directory, sessions are never removed"},
	kindSessionMissing: {"a session that has claimed an epoch is gone",
		"nothing is lost: a session that is not there counts as sealed. Find out what removes directories below sessions/, for a living broker's would stop it"},
	kindShardMissing: {"a shard of groups or transactions has no files",
		"start no broker, whose next owner would begin it empty; " + copyBack + "otherwise its groups' offsets, or its transactions, are lost: kaas-meta restore takes them from a backup"},
	kindShardAbove: {"a shard beyond the number that the cluster has",
		"nobody reads it. If the number was fixed anew by mistake, put the cluster stream right; otherwise move the directory out of the volume"},
	kindShardUnmade: {"a shard was given to its first owner, who has not made it",
		"nothing, if the cluster is new or a broker was just started; its owner makes it when it runs. If groups or transactions were served before, treat it as shard-missing"},
	kindTopicMissing: {"a topic of the cluster has no files",
		copyBack + "otherwise its records are lost: delete the topic, and make it again"},
	kindTopicUnknown: {"files of a topic that the cluster has lost", backInTime},
	kindTopicUnnamed: {"a topic or partition whose creation was not finished",
		"nothing: it has no records. If it is still there when no broker is making topics, it may be removed"},
	kindPartitionMissing: {"a partition of the cluster has no files",
		copyBack + "otherwise its records are lost: delete the topic, and make it again"},
	kindPartitionAbove: {"a partition beyond the number that the cluster has, which was led", backInTime},
	kindEpochAhead:     {"a stream has an epoch that the cluster has not given out", backInTime},
	kindLeftover: {"something was begun and never put in place",
		"nothing: it counts nowhere. Brokers remove what a sealed session has left when they next come by; what is still there when no broker runs may be removed"},
	kindDeleted: {"something is on its way out",
		"nothing while brokers run: the controller goes on with it. What is still there when no broker runs may be removed"},
	kindNFS: {"a removed file that some process holds open",
		"nothing: it goes with the last close. One that stays is held by something else on that host (look with lsof), such as a tail -f"},
	kindUnknown: {"a name that kaas does not know",
		"nothing: it is left alone. The volume is for kaas alone, so find out who put it there"},
	kindOtherMeta: {"metadata of another volume ID",
		"nothing: it counts nowhere. It is what the volume was before a rebuild or a return to a snapshot; keep it until all is well, then remove it"},
	kindElection: {"a record of the election cannot be read",
		"nothing: the next election goes on without it"},

	metalog.KindUnreadable: {"the volume refuses to read or list it",
		"read it by hand as the user that the brokers run as, and look at its owner, its mode and the server's log: brokers meet the same error"},
	metalog.KindName: {"a name in the form of ours that is none, or names the wrong kind of file",
		"find out who put it there. A file of ours under a wrong name goes back by a rename, with the brokers stopped; anything else goes out of the volume"},
	metalog.KindStream: {"a stream's directory or all of its entries are gone",
		copyBack + "otherwise: the cluster stream comes back by kaas-meta rebuild, a shard of groups or txns by kaas-meta restore from a backup, and a partition is lost: delete its topic"},
	metalog.KindEpochMissing: {"the directory of an epoch is gone",
		copyBack + "if the stream's newest entry is above it, only history is lost, and the directory with its claim may be left out: brokers do not look there"},
	metalog.KindEpochEmpty: {"an epoch's directory has lost its claim and entries",
		"no broker takes the stream over; " + copyBack + "otherwise kaas-meta restore of this stream from a backup"},
	metalog.KindClaimMissing: {"an epoch has entries and no claim",
		"no broker takes the stream over; " + copyBack + "otherwise kaas-meta restore of this stream from a backup"},
	metalog.KindClaim: {"a claim is damaged",
		"no broker takes the stream over if the epoch is its newest; " + copyBack + "otherwise kaas-meta restore of this stream from a backup"},
	metalog.KindEntry: {"an entry is damaged",
		copyBack + "if a base above it is whole, only history is lost. Otherwise kaas-meta restore --at the position before it, or from a backup"},
	metalog.KindEntryMissing: {"an entry is gone, or has lost its bytes",
		copyBack + "if a base above it is whole, only history is lost. Otherwise kaas-meta restore --at the position before it, or from a backup"},
	metalog.KindChain: {"an entry does not follow what it says it follows",
		"keep the volume as it is, stop the brokers, and look at the stream with kaas-meta log: two histories are mixed, as when parts of a snapshot were copied over. Put one of them back whole"},
	metalog.KindOwner: {"an entry is not of the session that its epoch belongs to",
		"keep the volume as it is, stop the brokers, and look at the stream with kaas-meta log: two histories are mixed, as when parts of a snapshot were copied over. Put one of them back whole"},
	metalog.KindState: {"a base holds another state than the entries before it give",
		"keep the volume as it is and report it: a broker has written what does not follow. kaas-meta diff of the two positions shows in what they differ"},
	metalog.KindEvent: {"an event of a type that this build does not know",
		"nothing, if newer brokers run; use their kaas-meta. Older brokers cannot own this stream any more"},
	metalog.KindPruned: {"some of the history below the newest base is gone",
		"nothing: history is removed by age and number, and a crash may leave it in pieces"},
	metalog.KindDisowned: {"an entry of a fenced owner that its successor did not continue from",
		"nothing: it was never acknowledged, and counts nowhere"},
	metalog.KindHead: {"a HEAD file cannot be read",
		"nothing: it is a hint for followers, and the owner's next change replaces it"},

	partition.KindManifest: {"a partition's manifest is another's, or contradicts itself or the cluster",
		"keep the volume as it is, and stop the brokers: directories were exchanged or copied. Put the partition's directory back where it belongs"},
	partition.KindSegmentMissing: {"a segment is gone",
		copyBack + "otherwise its records are lost: the topic's other partitions are sound; kaas-meta show names the offsets"},
	partition.KindSegmentShort: {"a segment has lost its end",
		copyBack + "otherwise the records of the missing bytes are lost; consumers meet an error there"},
	partition.KindSegment: {"records are damaged",
		copyBack + "otherwise consumers meet an error there: have them go on behind it (kafka-consumer-groups --reset-offsets), or delete the records up to there (kafka-delete-records)"},
	partition.KindTail: {"the newest records of a leader that has ended are damaged, with whole ones behind",
		"before a broker opens this partition, " + copyBack + "otherwise its next leader goes on from the damage, and keeps the file under a name that ends in .damaged"},
	partition.KindSegmentAhead: {"a segment of a leader that the manifest does not know",
		"the manifest has gone back, and no broker opens the partition: put the missing epochs of its meta/ back from a copy of the storage. Without one, move the file out of the volume, and its records are lost"},
	partition.KindIndex: {"an index is damaged",
		"remove the file: it is made again from the records. As long as it is there it is not used, and reading from the segment takes longer"},
	partition.KindTxnIndex: {"a list of aborted transactions is damaged",
		"remove the file: it is made again from the records. As long as it is there it is not used, and reading committed records from the segment takes longer"},
	partition.KindIndexTorn: {"an index is not whole, or of a fenced leader",
		"nothing has to be done; where reading from the segment takes long, remove the file, and it is made again from the records"},
	partition.KindUnnamed: {"a file of a segment that no manifest names",
		"nothing: it is a fenced leader's, or was dropped; its bytes do not exist. The partition's next leader removes it"},
	partition.KindPutAside: {"the tail of a segment was damaged at a takeover, and the file kept",
		"look at what it holds with Kafka's dump tool, under a name that ends in .log and away from the volume; remove it when it is not needed"},
	partition.KindTorn: {"the newest segment ends in a part of a batch",
		"nothing: it was never acknowledged, and the partition's next leader leaves it out"},
}

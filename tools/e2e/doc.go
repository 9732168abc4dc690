// Package e2e runs whole broker processes, one or three on one directory, against clients
// that people use: kcat, a Go client, librdkafka, and the Java tools of Apache Kafka. It has
// no code of its own but tests.
//
// # Use
//
//	KAAS_E2E=1 go test ./tools/e2e      runs what this machine has the tools for, and says what it skips
//	KAAS_E2E=all go test ./tools/e2e    a missing tool is a failure; this is what .ci/run does
//	KAAS_E2E_MB=200                     megabytes of text to send; 50 unless told otherwise
//	KAAS_E2E_CLASSPATH=...              jars with the Java tools; java/pom.xml names them, Maven finds them
//	KAAS_E2E_EXACT=1                    TestHostileClients and TestQuotaShared with their bounds as they are, for a quiet machine; else wider ones
//	KAAS_E2E_SEED=N                     seed of what groups do by chance, as a run has printed it
//	KAAS_E2E_EOS=90s                    for how long TestExactlyOnceOfAllMakes makes faults: 5 minutes where all is run, or 45 seconds
//	KAAS_E2E_EOS_KILL=1                 it kills a broker that runs in ours' place, too, instead of asking it to end
//	KAAS_E2E_KINDS=...                  names of the groups of TestGroupsOfAllMakes, or of the makes of TestExactlyOnceOfAllMakes,
//	                                    to run; all unless given
//	KAAS_E2E_BROKER=FILE                a program that runs in the broker's place: with ../as-kafka, the tests of
//	                                    groups and transactions show that they ask for nothing that Apache Kafka does not do
//
// Without KAAS_E2E every test skips, so that "go test ./..." needs only Go.
//
// # What is shown
//
//   - What went in comes out, byte for byte, in order.
//   - After kill -9 in the middle of producing, every acknowledged line is there,
//     in order of first appearance. A line whose answer was lost may stand twice, but
//     not if its producer is idempotent: then every line is there once, in order.
//   - Kafka's own tools make, grow, alter and describe topics and brokers' defaults.
//   - Kafka's dump tool reads the segments and finds what a consumer is given.
//   - An idempotent producer's record is at the offset that was acknowledged.
//   - Producers and consumers of three makes outlive the kill, the stop and the pause of
//     brokers of a cluster, each line once and in order, and nothing that a client is told
//     goes back.
//   - A cluster without a controller goes on serving, and has another soon.
//   - A second process of a node.id replaces the first, which ends with code 3.
//   - A topic made again under its name has nothing of the old one.
//   - Consumer groups of three makes of clients, under both protocols, process every
//     record and begin nowhere behind what is committed, while members come and go and
//     the broker is killed; and they settle within seconds.
//   - What a group has committed survives sweeps and restarts; a deleted group does not.
//   - Topics are copied in transactions, each record once and no aborted one, while brokers and
//     coordinators are killed: by franz-go's group sessions and by Kafka's own copier. A zombie
//     is refused by every partition, and Kafka's tool ends what is left open.
//   - franz-go, librdkafka and Kafka Streams do so side by side while processes of theirs are
//     stopped until others have their place, and go on: each of these is turned away.
//   - One broker coordinates a group, and its loss ends no member's session.
//   - An acks=all answer is sent only after write, fdatasync and the Check's rename,
//     each finished before the next began, as the kernel saw them.
package e2e

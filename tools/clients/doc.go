// Package clients runs other people's clients and tools against kaas, one broker and three, by
// scripts that say what is expected. It has no code of its own but tests; the programs that the
// scripts run are in the directories beside it.
//
// # Use
//
//	KAAS_CLIENTS=1 go test                     all scripts; what a script needs must be installed
//	KAAS_CLIENTS=1 go test -run '/one/topics'  testdata/topics.txtar against one broker
//	KAAS_CLIENTS_BROKER=FILE                   a program that runs in the broker's place: with
//	                                           ../as-kafka the scripts show that they expect what
//	                                           Apache Kafka does
//	KAAS_CLIENTS_RUNNING='A;B,C,D'             runs the scripts against brokers that run already
//	KAAS_CLIENTS_CLASSPATH=...                 jars of Kafka; java/pom.xml names them, Maven finds them
//	KAAS_CLIENTS_UPDATE=1                      writes what was printed into the scripts where a cmp fails
//
// At the end stands a list of the scripts: how long each took, or why it was skipped.
//
// # Scripts
//
// A script is testdata/NAME.txtar in the language of github.com/rogpeppe/go-internal/testscript.
// Every one runs against one broker and against three, but for those with a line "# only one" or
// "# only three". Scripts run side by side: names of topics and groups begin with $T.
//
//	exec kafka-topics --bootstrap-server $BOOTSTRAP --create --topic $T-a
//	stdout '^Created topic '$T'-a\.$'
//
// What exec finds, besides what is installed:
//
//   - every one of Kafka's tools, by the name of its script without .sh, and kafka-run-class, which
//     runs any class of the class path and of the directory java. They share a JVM, so that names
//     of files must be absolute ($WORK/f); with "env KAFKA_TOOLS=own" one has a JVM of its own;
//   - every main package of this module, by the name of its directory. It is built if a script
//     names it;
//   - kaas-meta;
//   - the programs in python, js and rust, by the names in languages_test.go. The packages that
//     they need are installed in the user's cache, once for what their directory pins.
//
// The environment has:
//
//   - BOOTSTRAP, the brokers of this run as a list, and BROKERS, 1 or 3;
//   - ONE and THREE, the brokers of both runs, for scripts that need two clusters;
//   - T, a prefix that no other script has;
//   - VOLUME, a directory to be made for brokers of this script's own: they outlive $WORK;
//   - SUITE, this directory; KAFKA_CLASSPATH, the jars, for a JVM of one's own;
//   - what a file adds to it by the list of hooks named setups.
//
// Commands and conditions besides testscript's:
//
//	until PATTERN PROGRAM ARG …   runs the program until its standard output matches, since what one
//	                              broker was told another learns later
//	until @FILE PROGRAM ARG …     the same, as by shows -any
//	shows [-any] FILE             the last standard output is the file, but for blanks: $NAME is the
//	                              environment's, {{…}} a pattern; with -any in any order
//	expand FILE                   puts the environment's values where $NAME is in the file
//	cluster NAME N [KEY=VALUE …]  starts N more brokers of this script's own and sets $NAME to their list;
//	                              @FILE is settings, a line each. With listeners=A,B there are these,
//	                              $NAME being for the first, and $NAME_A and $NAME_B for each
//	keys DIR NAME …               makes an authority ca.pem in DIR, keys and certificates of each name by
//	                              it (NAME.key, NAME.crt, NAME.pem for both), jwks.json, and NAME.token
//	served ADDR FILE              waits until a listener shows the first certificate of the file
//	progress DIR N PROGRAM …      waits until each of the programs that run steady has had N more records
//	                              acknowledged in every way, and stopped by none
//	skip 'reason'                 is listed with its reason, which it must have
//	[one] [three]                 which run it is
//	[rotation]                    KAAS_CLIENTS_ROTATION is set: rotation.txtar is for idle machines
//	[kafka]                       Apache Kafka runs in the place of kaas
//
// # Clients
//
// For each client there is one program, which does all that package scenario asks for, and
// prints a line for each: ok, or skip and why the client cannot. The scenarios stand in
// scenario for Go, and again, in the same order, in python/scenario.py and js/scenario.mjs;
// rust has those that its client can do. The script shared has all of them write one topic, and
// each read all of it.
package clients

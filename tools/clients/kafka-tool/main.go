// Command kafka-tool is each of Apache Kafka's tools under the name of its script: it has the
// tool's main method run in a JVM that runs already, and is to the caller what the tool's own
// process would be. Java.Tools says how the two speak.
//
//	KAFKA_TOOLS=SOCKET KAFKA_CLASSPATH=JARS kafka-topics --list …
//	KAFKA_TOOLS=SOCKET KAFKA_CLASSPATH=JARS kafka-run-class org.apache.kafka.tools.TopicCommand --list …
//
// The JVM has another working directory: names of files must be absolute. With KAFKA_TOOLS=own,
// and where a tool ends its process or waits for its end in ways that only a process has, there
// is a JVM for the one call.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

const tools = "org.apache.kafka.tools."

// classes are the main classes, by the names of Kafka's scripts.
var classes = map[string]string{
	"kafka-acls":                         tools + "AclCommand",
	"kafka-broker-api-versions":          tools + "BrokerApiVersionsCommand",
	"kafka-client-metrics":               tools + "ClientMetricsCommand",
	"kafka-cluster":                      tools + "ClusterTool",
	"kafka-configs":                      tools + "ConfigCommand",
	"kafka-console-consumer":             tools + "consumer.ConsoleConsumer",
	"kafka-console-producer":             tools + "ConsoleProducer",
	"kafka-console-share-consumer":       tools + "consumer.ConsoleShareConsumer",
	"kafka-consumer-groups":              tools + "consumer.group.ConsumerGroupCommand",
	"kafka-consumer-perf-test":           tools + "ConsumerPerformance",
	"kafka-delegation-tokens":            tools + "DelegationTokenCommand",
	"kafka-delete-records":               tools + "DeleteRecordsCommand",
	"kafka-e2e-latency":                  tools + "EndToEndLatency",
	"kafka-features":                     tools + "FeatureCommand",
	"kafka-get-offsets":                  tools + "GetOffsetShell",
	"kafka-groups":                       tools + "GroupsCommand",
	"kafka-leader-election":              tools + "LeaderElectionCommand",
	"kafka-log-dirs":                     tools + "LogDirsCommand",
	"kafka-metadata-quorum":              tools + "MetadataQuorumCommand",
	"kafka-producer-perf-test":           tools + "ProducerPerformance",
	"kafka-reassign-partitions":          tools + "reassign.ReassignPartitionsCommand",
	"kafka-share-consumer-perf-test":     tools + "ShareConsumerPerformance",
	"kafka-share-groups":                 tools + "consumer.group.ShareGroupCommand",
	"kafka-streams-application-reset":    tools + "StreamsResetter",
	"kafka-streams-groups":               tools + "streams.StreamsGroupCommand",
	"kafka-topics":                       tools + "TopicCommand",
	"kafka-transactions":                 tools + "TransactionsCommand",
	"kafka-verifiable-consumer":          tools + "VerifiableConsumer",
	"kafka-verifiable-producer":          tools + "VerifiableProducer",
	"kafka-verifiable-share-consumer":    tools + "VerifiableShareConsumer",
	"kafka-transactional-message-copier": tools + "TransactionalMessageCopier",
}

// alone are the tools that use the process itself.
var alone = map[string]bool{
	"kafka-transactional-message-copier": true, "kafka-verifiable-consumer": true,
	"kafka-verifiable-producer": true, "kafka-verifiable-share-consumer": true,
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--names" {
		for name := range classes {
			fmt.Println(name)
		}
		fmt.Println("kafka-run-class")
		return
	}
	code, err := run(filepath.Base(os.Args[0]), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka-tool:", err)
		code = 125
	}
	os.Exit(code)
}

func run(name string, args []string) (int, error) {
	class, ok := classes[name]
	if !ok {
		if name != "kafka-run-class" || len(args) == 0 {
			return 0, fmt.Errorf("%s is no tool", name)
		}
		class, args = args[0], args[1:]
	}
	socket := os.Getenv("KAFKA_TOOLS")
	if socket == "own" || alone[name] {
		return 0, own(class, args)
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return (&call{conn: c, out: bufio.NewReader(c)}).run(class, args)
}

// own becomes a JVM that runs the class.
func own(class string, args []string) error {
	java, err := exec.LookPath("java")
	if err != nil {
		return err
	}
	argv := append([]string{
		"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", os.Getenv("KAFKA_CLASSPATH"), class,
	}, args...)
	return syscall.Exec(java, argv, os.Environ())
}

// call is one run of a main method.
type call struct {
	conn net.Conn
	out  *bufio.Reader
	mu   sync.Mutex // for writing
}

func (c *call) run(class string, args []string) (int, error) {
	for _, arg := range append([]string{class}, args...) {
		if err := c.send('A', []byte(arg)); err != nil {
			return 0, err
		}
	}
	if err := c.send('G', nil); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go c.input()
	go func() { // ends with the process
		for s := range signals {
			_ = c.send('T', []byte{128 + byte(s.(syscall.Signal))})
		}
	}()
	return c.output()
}

func (c *call) send(letter byte, b []byte) error {
	frame := append(binary.BigEndian.AppendUint32([]byte{letter}, uint32(len(b))), b...)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.conn.Write(frame)
	return err
}

// input passes on standard input until it or the connection has ended.
func (c *call) input() {
	b := make([]byte, 64<<10)
	for {
		n, err := os.Stdin.Read(b)
		if n > 0 && c.send('I', b[:n]) != nil {
			return
		}
		if err != nil {
			_ = c.send('I', nil)
			return
		}
	}
}

// output passes on what the tool prints, and returns its exit code.
func (c *call) output() (int, error) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(c.out, head[:]); err != nil {
			return 0, errors.Join(errors.New("the JVM that runs the tools has gone"), err)
		}
		n := int64(binary.BigEndian.Uint32(head[1:]))
		var err error
		switch head[0] {
		case 'O':
			_, err = io.CopyN(os.Stdout, c.out, n)
		case 'E':
			_, err = io.CopyN(os.Stderr, c.out, n)
		case 'X':
			code, err := c.out.ReadByte()
			return int(code), err
		default:
			err = fmt.Errorf("a frame %q", head[0])
		}
		if err != nil {
			return 0, err
		}
	}
}

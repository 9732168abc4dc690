// Package kafka runs Apache Kafka where a tool would run a broker of kaas.
//
// A [Node] has a directory of its own, below one that all of a cluster share; it is formatted
// when it is first asked for. Maven finds Kafka, once for each start, unless
// AS_KAFKA_CLASSPATH names its jars. Where the controllers of several nodes listen follows
// from the directory's name.
package kafka

import (
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kaas.dev/kaas/internal/substrate"
)

// Node is one broker, which is a controller, too.
type Node struct {
	ID    string
	Among []string // the IDs of all, itself among them
	// Listeners are those of clients, as in Kafka's setting; the first, which brokers use among
	// themselves, is PLAINTEXT.
	Listeners string
	Dir       *substrate.DirFS // of all brokers
	Settings  []string         // further ones, key=value
}

// Command formats the node's directory, unless that is done, and returns what runs it, the
// command's name first.
func (n *Node) Command() ([]string, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, err
	}
	cp, err := n.classPath()
	if err != nil {
		return nil, err
	}
	config := n.ID + ".properties"
	if _, err := n.Dir.List(n.ID); err != nil { // not formatted
		if err := n.write(config, n.properties()); err != nil {
			return nil, err
		}
		format := exec.Command(java, "-cp", cp, "kafka.tools.StorageTool", "format", "--cluster-id", "YXMta2Fma2EtYXMta2Fma2", "--config", n.path(config))
		if out, err := format.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format the directory: %w\n%s", err, out)
		}
	}
	return []string{
		java, "-Xms256m", "-Xmx768m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", cp, "kafka.Kafka", n.path(config),
	}, nil
}

func (n *Node) path(name string) string { return filepath.Join(n.Dir.Root(), name) }

func (n *Node) write(name string, b []byte) error {
	f, err := n.Dir.CreateExclusive(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, 0)
	return err
}

const firstPort = 10_000

func (n *Node) properties() []byte {
	first := firstPort + 4*(crc32.ChecksumIEEE([]byte(n.Dir.Root()))%400)
	var own string
	var voters []string
	for i, id := range n.Among {
		at := fmt.Sprintf("127.0.0.1:%d", first+uint32(i))
		voters = append(voters, id+"@"+at)
		if id == n.ID {
			own = at
		}
	}
	return fmt.Appendf(nil, `process.roles=broker,controller
node.id=%[1]s
listeners=%[2]s,CONTROLLER://%[3]s
advertised.listeners=%[2]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
controller.quorum.voters=%[4]s
log.dirs=%[5]s
offsets.topic.replication.factor=%[6]d
offsets.topic.num.partitions=16
transaction.state.log.replication.factor=%[6]d
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=%[6]d
share.coordinator.state.topic.min.isr=1
%[7]s
`, n.ID, n.Listeners, own, strings.Join(voters, ","), n.path(n.ID), len(n.Among), strings.Join(n.Settings, "\n"))
}

//go:embed pom.xml
var pom []byte

// classPath has Maven find Kafka.
func (n *Node) classPath() (string, error) {
	if cp := os.Getenv("AS_KAFKA_CLASSPATH"); cp != "" {
		return cp, nil
	}
	name := n.ID + ".pom.xml"
	if err := n.write(name, pom); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	out := n.ID + ".classpath"
	cmd := exec.Command("mvn", "-B", "-q", "-f", n.path(name), "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath",
		"-DincludeScope=runtime", "-Dmdep.outputFile="+n.path(out))
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn: %w\n%s", err, said)
	}
	f, err := n.Dir.Open(out)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

// Command as-kafka runs Apache Kafka where a test would run a broker of kaas: it takes the
// broker's flags. A test that passes with it asks for nothing that Kafka does not do.
//
//	go build -o FILE ./tools/as-kafka
//	KAAS_E2E_BROKER=FILE KAAS_E2E=1 go test -run Group ./tools/e2e
//	go run ./tools/kaas-check run --binary FILE --faults kill,graceful
//
// Every broker has a directory of its own below log.dirs, which is formatted at its first
// start. Without a node.id a broker is alone; otherwise it is one of brokers 1 to 3, each of
// which is a controller, too. Where the controllers listen follows from the directory's name.
// http.listeners is left out; every other setting is Kafka's.
//
// Maven finds Kafka, once for each start, unless AS_KAFKA_CLASSPATH names its jars.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
)

func main() {
	var sets []string
	cmd := &cobra.Command{Use: "as-kafka", Short: "Run Apache Kafka with a broker's flags", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, RunE: func(*cobra.Command, []string) error {
		return run(sets)
	}}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "`key=value`; may be repeated")
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "as-kafka:", err)
		os.Exit(1)
	}
}

// node is one broker.
type node struct {
	id     string
	addr   string
	dir    *substrate.DirFS // of all brokers
	others []string         // further settings
}

const alone = "0"

func run(sets []string) error {
	n, err := parse(sets)
	if err != nil {
		return err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return err
	}
	cp, err := n.classPath()
	if err != nil {
		return err
	}
	config := n.id + ".properties"
	if _, err := n.dir.List(n.id); err != nil { // not formatted
		if err := n.write(config, n.properties()); err != nil {
			return err
		}
		format := exec.Command(java, "-cp", cp, "kafka.tools.StorageTool", "format", "--cluster-id", "YXMta2Fma2EtYXMta2Fma2", "--config", n.path(config))
		if out, err := format.CombinedOutput(); err != nil {
			return fmt.Errorf("format the directory: %w\n%s", err, out)
		}
	}
	args := []string{
		"java", "-Xms256m", "-Xmx768m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", cp, "kafka.Kafka", n.path(config),
	}
	return syscall.Exec(java, args, os.Environ()) // signals are Kafka's own from here on
}

func parse(sets []string) (*node, error) {
	n := &node{id: alone}
	var dir string
	for _, set := range sets {
		key, value, ok := strings.Cut(set, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("--set %s: not key=value", set)
		case key == "node.id":
			n.id = value
		case key == "listeners":
			n.addr = strings.TrimPrefix(value, "PLAINTEXT://")
		case key == "log.dirs":
			dir = value
		case key == "http.listeners":
		default:
			n.others = append(n.others, set)
		}
	}
	if n.addr == "" || dir == "" {
		return nil, errors.New("listeners and log.dirs are to be set")
	}
	var err error
	n.dir, err = substrate.MakeDir(dir)
	return n, err
}

func (n *node) path(name string) string { return filepath.Join(n.dir.Root(), name) }

func (n *node) write(name string, b []byte) error {
	f, err := n.dir.CreateExclusive(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, 0)
	return err
}

const firstPort = 10_000

func (n *node) properties() []byte {
	ids := []string{"1", "2", "3"}
	if n.id == alone {
		ids = []string{alone}
	}
	first := firstPort + 4*(crc32.ChecksumIEEE([]byte(n.dir.Root()))%400)
	var own string
	var voters []string
	for i, id := range ids {
		at := fmt.Sprintf("127.0.0.1:%d", first+uint32(i))
		voters = append(voters, id+"@"+at)
		if id == n.id {
			own = at
		}
	}
	return fmt.Appendf(nil, `process.roles=broker,controller
node.id=%[1]s
listeners=PLAINTEXT://%[2]s,CONTROLLER://%[3]s
advertised.listeners=PLAINTEXT://%[2]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
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
`, n.id, n.addr, own, strings.Join(voters, ","), n.path(n.id), len(ids), strings.Join(n.others, "\n"))
}

//go:embed pom.xml
var pom []byte

// classPath has Maven find Kafka.
func (n *node) classPath() (string, error) {
	if cp := os.Getenv("AS_KAFKA_CLASSPATH"); cp != "" {
		return cp, nil
	}
	name := n.id + ".pom.xml"
	if err := n.write(name, pom); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	out := n.id + ".classpath"
	cmd := exec.Command("mvn", "-B", "-q", "-f", n.path(name), "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath",
		"-DincludeScope=runtime", "-Dmdep.outputFile="+n.path(out))
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn: %w\n%s", err, said)
	}
	f, err := n.dir.Open(out)
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

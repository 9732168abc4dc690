package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/tools/internal/child"
)

// mode is what an acknowledgement promises.
type mode string

const (
	durable   mode = "durable"
	pageCache mode = "page cache"
)

// contender is a server that can be started any number of times.
type contender interface {
	name() string
	start(ctx context.Context, s *scratch, dir string, m mode) (*process, error)
	topicConfigs(m mode) map[string]string
	// deleting says whether files of a deleted topic are still in the directory.
	deleting(s *scratch, dir string) bool
	// transactional is called once, before the first load of transactions.
	transactional(ctx context.Context, t target, m mode) error
}

// kaas makes durability a matter of the broker.
type kaas struct{ binary string }

func (*kaas) name() string { return "kaas" }

func (*kaas) topicConfigs(mode) map[string]string { return nil }

func (*kaas) deleting(s *scratch, dir string) bool {
	return s.has(dir+"/topics", func(name string) bool { return strings.HasPrefix(name, "~deleted~") })
}

func (*kaas) transactional(context.Context, target, mode) error { return nil }

func (k *kaas) start(ctx context.Context, s *scratch, dir string, m mode) (*process, error) {
	addr, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	http, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--set", "listeners=PLAINTEXT://" + addr, "--set", "http.listeners=" + http,
		"--set", "log.dirs=" + s.path(dir), "--set", "auto.create.topics.enable=false",
	}
	if m == pageCache {
		args = append(args, "--set", "log.flush.interval.messages="+strconv.FormatInt(math.MaxInt64, 10))
	}
	return spawn(ctx, addr, k.binary, args...)
}

// buildKaas builds the broker of the module that the working directory is in.
func buildKaas(ctx context.Context, s *scratch) (*kaas, error) {
	binary := s.path("kaas")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "kaas.dev/kaas/server/cmd/kaas")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kaas: %w\n%s", err, out)
	}
	return &kaas{binary: binary}, nil
}

// kafka is Apache Kafka as broker and controller in one process.
type kafka struct{ java, classPath, version string }

func (*kafka) name() string { return "Kafka" }

func (*kafka) topicConfigs(m mode) map[string]string {
	configs := map[string]string{"file.delete.delay.ms": "0"} // what is deleted does not disturb the next cell
	if m == durable {
		configs["flush.messages"] = "1"
	}
	return configs
}

func (*kafka) deleting(s *scratch, dir string) bool {
	return s.has(dir, func(name string) bool { return strings.HasSuffix(name, "-delete") })
}

func (*kafka) transactional(ctx context.Context, t target, m mode) error {
	if m != durable {
		return nil
	}
	return flushTransactions(ctx, t)
}

// The heap and the collector are those of Kafka's own start scripts.
var javaOptions = []string{
	"-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
	"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
	"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
}

func (k *kafka) start(ctx context.Context, s *scratch, dir string, _ mode) (*process, error) {
	addr, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	controller, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	config, err := s.write(dir+".properties", kafkaProperties(addr, controller, s.path(dir)))
	if err != nil {
		return nil, fmt.Errorf("configure Kafka: %w", err)
	}
	defer s.parent.Remove(path.Join(s.name, dir+".properties"))
	format := exec.CommandContext(ctx, k.java, "-cp", k.classPath, "kafka.tools.StorageTool",
		"format", "--cluster-id", kafkaClusterID, "--config", config)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format Kafka's directory: %w\n%s", err, out)
	}
	args := append(append([]string{}, javaOptions...), "-cp", k.classPath, "kafka.Kafka", config)
	return spawn(ctx, addr, k.java, args...)
}

const kafkaClusterID = "a2Fhcy1iZW5jaC1rYWZrYQ"

func kafkaProperties(addr, controller, dir string) []byte {
	return fmt.Appendf(nil, `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
controller.quorum.voters=1@%[2]s
log.dirs=%[3]s
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
`, addr, controller, dir)
}

//go:embed kafka.pom.xml
var kafkaPOM string

// errNoKafka says that this machine cannot run Kafka.
var errNoKafka = errors.New("comparing needs java and mvn")

// resolveKafka has Maven fetch Kafka and what it needs.
func resolveKafka(ctx context.Context, s *scratch, version string) (*kafka, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoKafka, err)
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoKafka, err)
	}
	pom, err := s.write("pom.xml", []byte(strings.ReplaceAll(kafkaPOM, "@KAFKA_VERSION@", version)))
	if err != nil {
		return nil, fmt.Errorf("resolve Kafka: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-B", "-q", "-f", pom,
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath",
		"-DincludeScope=runtime", "-Dmdep.outputFile="+s.path("classpath"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("resolve Kafka %s: %w\n%s", version, err, out)
	}
	cp, err := s.read("classpath")
	if err != nil {
		return nil, fmt.Errorf("resolve Kafka: %w", err)
	}
	return &kafka{java: java, classPath: strings.TrimSpace(string(cp)), version: version}, nil
}

package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Kafka's own tools make, grow, alter and describe a topic and the brokers'
// defaults, and are told what is wrong.
func TestJavaAdminTools(t *testing.T) {
	cp := needJava(t)
	b := startBroker(t)
	tool := func(class string, args ...string) *exec.Cmd {
		return command(t, "java", append([]string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", cp,
			"org.apache.kafka.tools." + class, "--bootstrap-server", b.addr}, args...)...)
	}
	topics := func(args ...string) *exec.Cmd { return tool("TopicCommand", args...) }
	configs := func(args ...string) *exec.Cmd { return tool("ConfigCommand", args...) }
	ofTopic := []string{"--entity-type", "topics", "--entity-name", "orders"}
	ofAll := []string{"--entity-type", "brokers", "--entity-default"}
	ofOne := []string{"--entity-type", "brokers", "--entity-name", "0"}
	with := func(entity []string, args ...string) []string { return append(slices.Clone(args), entity...) }
	for _, step := range []struct {
		cmd   *exec.Cmd
		fails bool
		want  []string // in its output
	}{
		{topics("--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=1000"), false, []string{"Created topic orders"}},
		{topics("--alter", "--topic", "orders", "--partitions", "5"), false, nil},
		{topics("--alter", "--topic", "orders", "--partitions", "5"), true, []string{"5 partitions already"}},
		{topics("--describe", "--topic", "orders"), false, []string{"PartitionCount: 5", "retention.ms=1000", "Partition: 4\tLeader: 0"}},
		{configs(with(ofTopic, "--alter", "--add-config", "segment.bytes=2000000,cleanup.policy=[compact,delete]", "--delete-config", "retention.ms")...), false, []string{"Completed"}},
		{configs(with(ofAll, "--alter", "--add-config", "log.retention.ms=77")...), false, []string{"Completed"}},
		{configs(with(ofOne, "--alter", "--add-config", "log.segment.bytes=3000000")...), false, []string{"Completed"}},
		{configs(with(ofTopic, "--describe")...), false, []string{"cleanup.policy=compact,delete", "segment.bytes=2000000 sensitive=false synonyms={" +
			"DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000, DYNAMIC_BROKER_CONFIG:log.segment.bytes=3000000, DEFAULT_CONFIG:log.segment.bytes=1073741824}"}},
		{configs(with(ofTopic, "--describe", "--all")...), false, []string{"retention.ms=77", "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=77"}},
		{configs(with(ofAll, "--describe")...), false, []string{"log.retention.ms=77"}},
		{configs(with(ofOne, "--describe")...), false, []string{"log.segment.bytes=3000000"}},
		{configs("--describe", "--entity-type", "topics"), false, []string{"Dynamic configs for topic orders"}},
		{configs(with(ofTopic, "--alter", "--add-config", "no.such=1")...), true, []string{"no.such"}},
		{configs(with(ofTopic, "--alter", "--add-config", "retention.ms=soon")...), true, []string{"retention.ms"}},
		{configs(with(ofOne, "--alter", "--delete-config", "log.segment.bytes")...), false, []string{"Completed"}},
	} {
		args := strings.Join(step.cmd.Args[5:], " ")
		out, err := step.cmd.CombinedOutput()
		if (err != nil) != step.fails {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		for _, want := range step.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is missing in:\n%s", args, want, out)
			}
		}
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestToolsAgainstCluster has Kafka's own tools and kcat change and describe a cluster of
// three brokers, with all three as bootstrap servers.
func TestToolsAgainstCluster(t *testing.T) {
	need(t, "kcat")
	cp := needJava(t)
	c := startCluster(t)
	move := reassignment(t, "orders", 0)
	one := c.other(c.controller(1))
	for _, step := range []struct {
		class string
		args  []string
		fails bool
		want  []string // in its output
	}{
		{"TopicCommand", []string{"--create", "--topic", "orders", "--partitions", "3"}, false, []string{"Created topic orders"}},
		{"reassign.ReassignPartitionsCommand", []string{"--reassignment-json-file", move(one), "--execute"}, false, []string{"Successfully started partition reassignment for orders-0"}},
		{"reassign.ReassignPartitionsCommand", []string{"--reassignment-json-file", move(one), "--verify"}, false, []string{"Reassignment of partition orders-0 is completed"}},
		{"TopicCommand", []string{"--describe", "--topic", "orders"}, false, []string{fmt.Sprintf("Partition: 0\tLeader: %d\tReplicas: %[1]d\tIsr: %[1]d", one), "PartitionCount: 3"}},
		{"LeaderElectionCommand", []string{"--election-type", "preferred", "--all-topic-partitions"}, false, nil},
		{"LogDirsCommand", []string{"--describe", "--topic-list", "orders"}, false, []string{`"broker":1`, `"broker":2`, `"broker":3`, `"partition":"orders-0"`}},
		{"ClusterTool", []string{"list-endpoints"}, false, ports(c)},
		{"ClusterTool", []string{"unregister", "--id", fmt.Sprint(one)}, true, []string{"stop it first"}},
		{"TopicCommand", []string{"--delete", "--topic", "orders"}, false, nil},
	} {
		args := append([]string{"--bootstrap-server", c.bootstrap()}, step.args...)
		if step.class == "ClusterTool" { // wants its command first
			args = append([]string{step.args[0], "--bootstrap-server", c.bootstrap()}, step.args[1:]...)
		}
		out, err := java(t, cp, step.class, args...).CombinedOutput()
		if (err != nil) != step.fails {
			t.Errorf("%s %v: %v\n%s", step.class, step.args, err, out)
		}
		for _, want := range step.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s %v: %q is missing in:\n%s", step.class, step.args, want, out)
			}
		}
	}
	out := string(run(t, command(t, "kcat", "-L", "-b", c.bootstrap())))
	for i, addr := range c.addrs() {
		if !strings.Contains(out, fmt.Sprintf("broker %d at %s", i+1, addr)) {
			t.Errorf("broker %d is missing in:\n%s", i+1, out)
		}
	}
	// A broker that has stopped can be forgotten.
	c.broker(one).stop()
	run(t, java(t, cp, "ClusterTool", "unregister", "--bootstrap-server", c.bootstrap(), "--id", fmt.Sprint(one)))
	c.await("it is forgotten", func() bool { return c.known(c.other(one)) == 2 })
	c.broker(one).start() // and comes back as any other
	c.settled()
}

func ports(c *cluster) (out []string) {
	for _, addr := range c.addrs() {
		_, port, _ := strings.Cut(addr, ":")
		out = append(out, " "+port+" ")
	}
	return out
}

// reassignment writes the file that has a partition led by a broker.
func reassignment(t *testing.T, topic string, partition int32) func(to int32) string {
	dir := t.TempDir()
	return func(to int32) string {
		t.Helper()
		name := filepath.Join(dir, "move.json")
		text := fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":%d,"replicas":[%d]}]}`, topic, partition, to)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kaasCluster are brokers of kaas on one directory.
type kaasCluster struct {
	*kaas
	sets []string // further settings, key=value
}

func (k *kaasCluster) prepare(context.Context, *fleet, *node) error { return nil }

func (k *kaasCluster) command(f *fleet, n *node) (string, []string) {
	args := []string{
		"--set", fmt.Sprintf("node.id=%d", n.id),
		"--set", "listeners=PLAINTEXT://" + n.addr, "--set", "http.listeners=" + n.second,
		"--set", "log.dirs=" + f.scratch.path(f.dir), "--set", "auto.create.topics.enable=false",
	}
	for _, s := range k.sets {
		args = append(args, "--set", s)
	}
	return k.binary, args
}

func (k *kaasCluster) topic() (int16, map[string]*string) { return 1, nil }

func (k *kaasCluster) controller(ctx context.Context, ask kmsg.Requestor) (int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := req.RequestWith(ctx, ask)
	if err != nil {
		return -1, fmt.Errorf("ask kaas for its controller: %w", err)
	}
	return resp.ControllerID, nil
}

// even does nothing: a broker that joins is given its share.
func (k *kaasCluster) even(context.Context, *kadm.Client) error { return nil }

// kafkaCluster are brokers of Apache Kafka, each of them a controller too.
type kafkaCluster struct{ *kafka }

func (k *kafkaCluster) file(f *fleet, n *node) string {
	return fmt.Sprintf("%s-%d.properties", f.dir, n.id)
}

func (k *kafkaCluster) prepare(ctx context.Context, f *fleet, n *node) error {
	config, err := f.scratch.write(k.file(f, n), k.properties(f, n))
	if err != nil {
		return fmt.Errorf("configure Kafka: %w", err)
	}
	format := exec.CommandContext(ctx, k.java, "-cp", k.classPath, "kafka.tools.StorageTool",
		"format", "--cluster-id", kafkaClusterID, "--config", config)
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's directory: %w\n%s", err, out)
	}
	return nil
}

// properties leaves all that has nothing to do with who and where a node is at its
// default.
func (k *kafkaCluster) properties(f *fleet, n *node) []byte {
	var voters []string
	for _, v := range f.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", v.id, v.second))
	}
	return fmt.Appendf(nil, `process.roles=broker,controller
node.id=%d
listeners=PLAINTEXT://%[2]s,CONTROLLER://%[3]s
advertised.listeners=PLAINTEXT://%[2]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
controller.quorum.voters=%[4]s
log.dirs=%[5]s
auto.create.topics.enable=false
`, n.id, n.addr, n.second, strings.Join(voters, ","), f.scratch.path(fmt.Sprintf("%s/%d", f.dir, n.id)))
}

func (k *kafkaCluster) command(f *fleet, n *node) (string, []string) {
	return k.java, append(append([]string{}, javaOptions...), "-cp", k.classPath, "kafka.Kafka", f.scratch.path(k.file(f, n)))
}

func (k *kafkaCluster) topic() (int16, map[string]*string) {
	two := "2"
	return 3, map[string]*string{"min.insync.replicas": &two}
}

// controller asks the quorum: Kafka's metadata names any broker.
func (k *kafkaCluster) controller(ctx context.Context, ask kmsg.Requestor) (int32, error) {
	part := kmsg.NewDescribeQuorumRequestTopicPartition()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, part)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, ask)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return -1, fmt.Errorf("ask Kafka for its controller: %w", err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, errors.New("ask Kafka for its controller: the answer names no quorum")
	}
	p := resp.Topics[0].Partitions[0]
	return p.LeaderID, kerr.ErrorForCode(p.ErrorCode)
}

// even makes the preferred replicas the leaders: by itself Kafka looks for that
// every five minutes.
func (k *kafkaCluster) even(ctx context.Context, adm *kadm.Client) error {
	_, err := adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil)
	return err
}

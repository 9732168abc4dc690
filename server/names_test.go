package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func hostileNames() []string {
	return []string{
		"", ".", "..", "../x", "../../x", "../canary", "..\\x", "/", "/etc/passwd", "/tmp/x", "a/b", "a\\b", "./a", "a/..", "a/../..",
		"~new~x", "~deleted~x", "a b", "a\x00b", "\x00", "\n", "a\nb", "caf\u00e9", "\xff\xfe", "*", "$HOME", "%2e%2e%2f", "a:b", "con?", "topics/..",
		strings.Repeat("a", 250), strings.Repeat("../", 100), strings.Repeat("a", 30000),
	}
}

func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// no name from the wire reaches outside the data directory, or into a path at all.
func TestHostileNames(t *testing.T) {
	root := t.TempDir()
	canary := filepath.Join(root, "canary")
	if err := os.WriteFile(canary, []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := served(t, startNode(t, filepath.Join(root, "data")))
	c := dial(t, n.Addr())
	topics := filepath.Join(root, "data", "topics")
	before := tree(t, topics)
	invalid := kerr.InvalidTopicException.Code
	for _, name := range hostileNames() {
		check := func(what string, code int16, want ...int16) {
			t.Helper()
			if !slices.Contains(want, code) {
				t.Errorf("%s of %.40q: error %d, want %v", what, name, code, want)
			}
		}
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 7, 5000
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, ct)
		check("CreateTopics", c.ask(create).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, invalid)

		meta := kmsg.NewPtrMetadataRequest()
		meta.Version, meta.AllowAutoTopicCreation = 9, true
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = &name
		meta.Topics = append(meta.Topics, mt)
		check("Metadata", c.ask(meta).(*kmsg.MetadataResponse).Topics[0].ErrorCode, invalid)

		code, _ := c.produce(name, newBatch(nil, "v"))
		check("Produce", code, kerr.UnknownTopicOrPartition.Code) // as by Kafka, which looks for the topic alone
		check("Fetch", c.fetch(name, 0).ErrorCode, 3)

		list := kmsg.NewPtrListOffsetsRequest()
		list.Version = 5
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic, lt.Partitions = name, []kmsg.ListOffsetsRequestTopicPartition{kmsg.NewListOffsetsRequestTopicPartition()}
		list.Topics = append(list.Topics, lt)
		check("ListOffsets", c.ask(list).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode, 3)

		epoch := kmsg.NewPtrOffsetForLeaderEpochRequest()
		epoch.Version = 3
		et := kmsg.NewOffsetForLeaderEpochRequestTopic()
		et.Topic, et.Partitions = name, []kmsg.OffsetForLeaderEpochRequestTopicPartition{kmsg.NewOffsetForLeaderEpochRequestTopicPartition()}
		epoch.Topics = append(epoch.Topics, et)
		check("OffsetForLeaderEpoch", c.ask(epoch).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0].ErrorCode, 3)

		for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeGroupConfig} {
			desc := kmsg.NewPtrDescribeConfigsRequest()
			desc.Version = 4
			dr := kmsg.NewDescribeConfigsRequestResource()
			dr.ResourceType, dr.ResourceName = kind, name
			desc.Resources = append(desc.Resources, dr)
			got := c.ask(desc).(*kmsg.DescribeConfigsResponse).Resources[0]
			switch {
			case kind == kmsg.ConfigResourceTypeGroupConfig && name != "": // any group may be configured
				check("DescribeConfigs", got.ErrorCode, 0)
			case kind != kmsg.ConfigResourceTypeBroker || name != "": // the empty broker name is all brokers
				check("DescribeConfigs", got.ErrorCode, invalid, 3, 42)
			}
		}
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKeys = 4, []string{name}
		c.ask(find)
		init := kmsg.NewPtrInitProducerIDRequest()
		init.Version, init.TransactionalID, init.TransactionTimeoutMillis = 4, &name, 60_000
		want := int16(0)
		if name == "" {
			want = 42
		}
		check("InitProducerId", c.ask(init).(*kmsg.InitProducerIDResponse).ErrorCode, want)

		del := kmsg.NewPtrDeleteTopicsRequest()
		del.Version, del.TimeoutMillis, del.TopicNames = 5, 5000, []string{name}
		check("DeleteTopics", c.ask(del).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, 3)
	}
	if after := tree(t, topics); !slices.Equal(before, after) {
		t.Errorf("topics/ changed: %v", after)
	}
	if es, err := os.ReadDir(root); err != nil || len(es) != 2 {
		t.Errorf("beside the data directory: %v, %v", es, err)
	}
	if b, err := os.ReadFile(canary); err != nil || string(b) != "alive" {
		t.Errorf("canary: %q, %v", b, err)
	}
}

// Legal names that are easily mangled work everywhere, and are told apart.
func TestLegalNames(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	names := []string{"UPPER", "upper", "a.b.c", "...", "-dash", "_under", "0", "CON", strings.Repeat("z", 249)}
	for i, name := range names {
		c.create(name, 1)
		for range i + 1 {
			if code, _ := c.produce(name, newBatch(nil, name)); code != 0 {
				t.Errorf("produce to %q: error %d", name, code)
			}
		}
	}
	for i, name := range names {
		if got := c.end(name); got != int64(i+1) {
			t.Errorf("end of %q: %d, want %d", name, got, i+1)
		}
	}
}

package reconcile

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
	"kaas.dev/kaas/server/auth/jaas"
)

func TestPlanTopic(t *testing.T) {
	have := &kafka.Topic{Partitions: 3, Configs: map[string]kafka.Setting{
		"retention.ms": {Value: "1000", Type: kmsg.ConfigTypeLong}, "cleanup.policy": {Value: "compact,delete", Type: kmsg.ConfigTypeList},
		"preallocate": {Value: "false", Type: kmsg.ConfigTypeBoolean}, "min.cleanable.dirty.ratio": {Value: "0.5", Type: kmsg.ConfigTypeDouble},
		"leader.replication.throttled.replicas": {Value: "0:1", Type: kmsg.ConfigTypeList}, "compression.type": {Value: "zstd", Type: kmsg.ConfigTypeString},
	}}
	same := map[string]string{"retention.ms": " 01000 ", "cleanup.policy": "compact , delete", "preallocate": "FALSE", "min.cleanable.dirty.ratio": "0.50", "compression.type": "zstd"}
	less := maps.Clone(same)
	delete(less, "preallocate")
	delete(less, "retention.ms")
	other := maps.Clone(same)
	other["compression.type"], other["segment.ms"] = "ZSTD", "1"
	for _, tc := range []struct {
		name    string
		spec    v1alpha1.KafkaTopicSpec
		managed []string
		want    topicPlan
	}{
		{"the same", v1alpha1.KafkaTopicSpec{Partitions: new(int32(3)), Configs: same}, nil, topicPlan{}},
		{"any number", v1alpha1.KafkaTopicSpec{Configs: same}, nil, topicPlan{}},
		{"more", v1alpha1.KafkaTopicSpec{Partitions: new(int32(4)), Configs: same}, nil, topicPlan{grow: 4}},
		{"fewer", v1alpha1.KafkaTopicSpec{Partitions: new(int32(1)), Configs: same}, nil, topicPlan{shrinks: true}},
		{"less", v1alpha1.KafkaTopicSpec{Configs: less}, nil, topicPlan{reset: []string{"preallocate", "retention.ms"}}},
		{"less, others kept", v1alpha1.KafkaTopicSpec{Configs: less, OtherConfigs: v1alpha1.KeepOthers}, []string{"retention.ms", "gone"}, topicPlan{reset: []string{"retention.ms"}}},
		{"other", v1alpha1.KafkaTopicSpec{Configs: other}, nil, topicPlan{set: map[string]string{"compression.type": "ZSTD", "segment.ms": "1"}}},
	} {
		got := planTopic(&tc.spec, tc.managed, have)
		if got.grow != tc.want.grow || got.shrinks != tc.want.shrinks || !maps.Equal(got.set, tc.want.set) || !slices.Equal(got.reset, tc.want.reset) || len(got.settings) != len(got.set)+len(got.reset) {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
	if got := names([]string{"b", "c"}, map[string]string{"c": "", "a": ""}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
}

// Whatever can be said of ACLs has a meaning, and what is said twice is one.
func TestACLsOf(t *testing.T) {
	var spec v1alpha1.KafkaUserSpec
	ops := []v1alpha1.Operation{"All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite"}
	for _, kind := range []v1alpha1.ResourceType{v1alpha1.Topic, v1alpha1.Group, v1alpha1.Cluster, v1alpha1.TransactionalID} {
		for _, pattern := range []v1alpha1.PatternType{"", v1alpha1.Literal, v1alpha1.Prefixed} {
			for _, permission := range []v1alpha1.Permission{"", v1alpha1.Allow, v1alpha1.Deny} {
				spec.ACLs = append(spec.ACLs, v1alpha1.ACL{Permission: permission, Host: "*", Operations: ops, Resource: v1alpha1.ACLResource{Type: kind, Name: "x", PatternType: pattern}})
			}
		}
	}
	got, err := aclsOf(&spec)
	if err != nil || len(got) != 4*2*2*len(ops) {
		t.Fatal(len(got), err)
	}
	kinds, operations := map[kmsg.ACLResourceType]bool{}, map[kmsg.ACLOperation]bool{}
	for _, a := range got {
		kinds[a.Resource], operations[a.Operation] = true, true
		if (a.Resource == kmsg.ACLResourceTypeCluster) != (a.Name == "kafka-cluster") {
			t.Error(a)
		}
	}
	if len(kinds) != 4 || len(operations) != len(ops) {
		t.Error(kinds, operations)
	}
	missing, extra := differ(got[:3], got[1:4])
	if !slices.Equal(missing, got[:1]) || !slices.Equal(extra, got[3:4]) {
		t.Error(missing, extra)
	}
}

func TestPlanQuotas(t *testing.T) {
	want := quotasOf(&v1alpha1.Quotas{ProducerByteRate: new(int64(1)), ConsumerByteRate: new(int64(2)), RequestPercentage: new(int32(3)), ControllerMutationRate: new(int32(4))})
	if !maps.Equal(want, map[string]float64{"producer_byte_rate": 1, "consumer_byte_rate": 2, "request_percentage": 3, "controller_mutation_rate": 4}) {
		t.Error(want)
	}
	set, remove := planQuotas(want, map[string]float64{"producer_byte_rate": 1, "consumer_byte_rate": 9, "other": 1})
	if !maps.Equal(set, map[string]float64{"consumer_byte_rate": 2, "request_percentage": 3, "controller_mutation_rate": 4}) || !slices.Equal(remove, []string{"other"}) {
		t.Error(set, remove)
	}
	if set, remove := planQuotas(quotasOf(nil), nil); len(set)+len(remove) > 0 {
		t.Error(set, remove)
	}
}

func TestPasswords(t *testing.T) {
	for p, ok := range map[string]bool{"": false, "x\n": false, "\t": false, "x\x7F": false, "with blanks, and ümläuts": true} {
		if err := checkPassword([]byte(p)); (err == nil) != ok {
			t.Errorf("%q: %v", p, err)
		}
	}
	u := &v1alpha1.KafkaUser{}
	u.Spec.UserName = `O"Neil\`
	data := secretData(u, `it's; "quoted" \`)
	e, err := jaas.Parse(string(data[keyJAAS]))
	if err != nil || e.Options["username"] != u.Spec.UserName || e.Options["password"] != `it's; "quoted" \` || !strings.HasSuffix(e.Module, "ScramLoginModule") {
		t.Errorf("%v: %q", err, e.Options)
	}
}

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var configScripts = []script{
	{"describe configs", describeScript},
	{"alter configs", alterScript},
	{"live configs", liveScript},
	{"resources", resourcesScript},
}

type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

const (
	topicKind   = kmsg.ConfigResourceTypeTopic
	brokerKind  = kmsg.ConfigResourceTypeBroker
	loggerKind  = kmsg.ConfigResourceTypeBrokerLogger
	metricsKind = kmsg.ConfigResourceTypeClientMetrics
	groupKind   = kmsg.ConfigResourceTypeGroupConfig
)

func describeScript(s *side) {
	s.create("configs", 1, "retention.bytes", "77", "cleanup.policy", "compact,delete")
	s.create("typed", 1, "retention.bytes", "+77", "cleanup.policy", "compact , delete", "unclean.leader.election.enable", "FALSE", "flush.ms", "007")
	describe := func(label string, on resource, names ...string) {
		for _, more := range []bool{false, true} {
			each(s, fmt.Sprint(label, ", with synonyms ", more), func(r *kmsg.DescribeConfigsRequest) {
				r.IncludeSynonyms, r.IncludeDocumentation = more, more
				r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: on.kind, ResourceName: on.name, ConfigNames: names}}
			})
		}
	}
	for _, on := range []resource{
		{topicKind, "configs"}, {topicKind, "typed"}, {topicKind, "no-such"}, {topicKind, "a b"}, {topicKind, ""},
		{brokerKind, "1"}, {brokerKind, ""}, {brokerKind, "2"}, {brokerKind, "x"}, {brokerKind, "01"}, {brokerKind, "-1"},
		{groupKind, "some-group"}, {groupKind, ""}, {metricsKind, "some-metrics"}, {metricsKind, ""},
		{loggerKind, "2"}, {loggerKind, ""}, {loggerKind, "x"}, {0, "a"}, {3, "a"}, {99, "a"}, {-1, "a"},
	} {
		describe(fmt.Sprintf("%d %q", on.kind, on.name), on)
	}
	describe("some", resource{topicKind, "configs"}, "retention.ms", "no.such", "retention.ms", "")
	describe("some of a broker", resource{brokerKind, "1"}, "log.retention.ms", "no.such", "node.id")
	each(s, "no names", func(r *kmsg.DescribeConfigsRequest) {
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: topicKind, ResourceName: "configs", ConfigNames: []string{}}}
	})
	each(s, "nothing", func(r *kmsg.DescribeConfigsRequest) {})
	each(s, "twice", func(r *kmsg.DescribeConfigsRequest) {
		d := kmsg.DescribeConfigsRequestResource{ResourceType: topicKind, ResourceName: "configs", ConfigNames: []string{"retention.ms"}}
		r.Resources = []kmsg.DescribeConfigsRequestResource{d, d}
	})
}

// op is a change of one configuration.
type op struct {
	name  string
	kind  kmsg.IncrementalAlterConfigOp
	value *string
}

const (
	set      = kmsg.IncrementalAlterConfigOpSet
	unset    = kmsg.IncrementalAlterConfigOpDelete
	add      = kmsg.IncrementalAlterConfigOpAppend
	subtract = kmsg.IncrementalAlterConfigOpSubtract
)

func incremental(on resource, only bool, ops ...op) func(*kmsg.IncrementalAlterConfigsRequest) {
	return func(r *kmsg.IncrementalAlterConfigsRequest) {
		out := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: on.kind, ResourceName: on.name}
		for _, o := range ops {
			out.Configs = append(out.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: o.name, Op: o.kind, Value: o.value})
		}
		r.ValidateOnly, r.Resources = only, []kmsg.IncrementalAlterConfigsRequestResource{out}
	}
}

func replaced(on resource, only bool, ops ...op) func(*kmsg.AlterConfigsRequest) {
	return func(r *kmsg.AlterConfigsRequest) {
		out := kmsg.AlterConfigsRequestResource{ResourceType: on.kind, ResourceName: on.name}
		for _, o := range ops {
			out.Configs = append(out.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: o.name, Value: o.value})
		}
		r.ValidateOnly, r.Resources = only, []kmsg.AlterConfigsRequestResource{out}
	}
}

// shown compares what is set for a resource, once a change can be seen.
func (s *side) shown(label string, on resource, name, want string) {
	ask := newest(s, func(r *kmsg.DescribeConfigsRequest) {
		r.IncludeSynonyms = true
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: on.kind, ResourceName: on.name, ConfigNames: []string{name}}}
	})
	s.until(label, func() bool {
		resp, ok := s.quiet(ask).(*kmsg.DescribeConfigsResponse)
		if !ok || len(resp.Resources) == 0 || len(resp.Resources[0].Configs) == 0 {
			return want == "" && ok
		}
		v := resp.Resources[0].Configs[0].Value
		return v != nil && *v == want || v == nil && want == ""
	})
	s.ask(label, ask)
}

func alterScript(s *side) {
	s.create("changed", 1)
	topic, missing := resource{topicKind, "changed"}, resource{topicKind, "no-such"}
	broker, all := resource{brokerKind, "1"}, resource{brokerKind, ""}
	for _, c := range []struct {
		label string
		on    resource
		ops   []op
	}{
		{"nothing", topic, nil},
		{"a value", topic, []op{{"retention.ms", set, ptr("5000")}}},
		{"a bad value", topic, []op{{"retention.ms", set, ptr("x")}}},
		{"a value out of bounds", topic, []op{{"segment.bytes", set, ptr("-5")}}},
		{"an empty value", topic, []op{{"retention.ms", set, ptr("")}}},
		{"a null value", topic, []op{{"retention.ms", set, nil}}},
		{"blanks around", topic, []op{{"retention.ms", set, ptr(" 5000 ")}}},
		{"an unknown name", topic, []op{{"no.such", set, ptr("1")}}},
		{"an unknown name deleted", topic, []op{{"no.such", unset, nil}}},
		{"no name", topic, []op{{"", set, ptr("1")}}},
		{"a name twice", topic, []op{{"retention.ms", set, ptr("1")}, {"retention.ms", set, ptr("2")}}},
		{"deleted", topic, []op{{"retention.ms", unset, nil}}},
		{"deleted with a value", topic, []op{{"retention.ms", unset, ptr("3")}}},
		{"added to what is no list", topic, []op{{"retention.ms", add, ptr("3")}}},
		{"subtracted from what is no list", topic, []op{{"retention.ms", subtract, ptr("3")}}},
		{"added", topic, []op{{"cleanup.policy", add, ptr("compact")}}},
		{"added twice", topic, []op{{"cleanup.policy", add, ptr("compact,compact")}}},
		{"added what is there", topic, []op{{"cleanup.policy", add, ptr("delete")}}},
		{"added nothing", topic, []op{{"cleanup.policy", add, ptr("")}}},
		{"added null", topic, []op{{"cleanup.policy", add, nil}}},
		{"added what is none", topic, []op{{"cleanup.policy", add, ptr("burn")}}},
		{"subtracted", topic, []op{{"cleanup.policy", subtract, ptr("delete")}}},
		{"subtracted what is not there", topic, []op{{"cleanup.policy", subtract, ptr("compact")}}},
		{"an unknown operation", topic, []op{{"retention.ms", 9, ptr("1")}}},
		{"a negative operation", topic, []op{{"retention.ms", -1, ptr("1")}}},
		{"of no topic", missing, []op{{"retention.ms", set, ptr("1")}}},
		{"wrong, of no topic", missing, []op{{"retention.ms", set, ptr("x")}}},
		{"of a bad name", resource{topicKind, "a b"}, []op{{"retention.ms", set, ptr("1")}}},
		{"of topics", resource{topicKind, ""}, []op{{"retention.ms", set, ptr("1")}}},
		{"lags that do not fit", topic, []op{{"min.compaction.lag.ms", set, ptr("10")}, {"max.compaction.lag.ms", set, ptr("5")}}},
		{"tiers", topic, []op{{"remote.storage.enable", set, ptr("true")}}},
		{"a broker's", broker, []op{{"log.cleaner.threads", set, ptr("2")}}},
		{"a broker's too many", broker, []op{{"log.cleaner.threads", set, ptr("50")}}},
		{"all brokers'", all, []op{{"log.cleaner.threads", set, ptr("2")}}},
		{"a broker's that is read-only", broker, []op{{"node.id", set, ptr("2")}}},
		{"all brokers' that is read-only", all, []op{{"log.dirs", set, ptr("/x")}}},
		{"a broker's that is read-only deleted", broker, []op{{"node.id", unset, nil}}},
		{"a broker's bad value", broker, []op{{"log.cleaner.threads", set, ptr("x")}}},
		{"a broker's unknown", broker, []op{{"no.such", set, ptr("1")}}},
		{"another broker's", resource{brokerKind, "9"}, []op{{"log.cleaner.threads", set, ptr("2")}}},
		{"a broker of no number", resource{brokerKind, "x"}, []op{{"log.cleaner.threads", set, ptr("2")}}},
		{"a broker's with a zero in front", resource{brokerKind, "01"}, []op{{"log.cleaner.threads", set, ptr("2")}}},
		{"a broker's topic default", broker, []op{{"log.retention.ms", set, ptr("1000")}}},
		{"a broker's topic default out of bounds", broker, []op{{"log.retention.ms", set, ptr("-2")}}},
		{"no pause of the cleaner", broker, []op{{"log.cleaner.backoff.ms", set, ptr("0")}}},
		{"no bytes for the cleaner", broker, []op{{"log.cleaner.io.max.bytes.per.second", set, ptr("0")}}},
		{"connections of addresses", broker, []op{{"max.connections.per.ip.overrides", set, ptr("127.0.0.1:5")}}},
		{"connections of a bad address", broker, []op{{"max.connections.per.ip.overrides", set, ptr("x:y")}}},
		{"a group's", resource{groupKind, "g"}, []op{{"consumer.session.timeout.ms", set, ptr("50000")}}},
		{"a group's out of bounds", resource{groupKind, "g"}, []op{{"consumer.session.timeout.ms", set, ptr("5")}}},
		{"a group's bad value", resource{groupKind, "g"}, []op{{"consumer.session.timeout.ms", set, ptr("x")}}},
		{"a group's unknown", resource{groupKind, "g"}, []op{{"no.such", set, ptr("1")}}},
		{"a group's list", resource{groupKind, "g"}, []op{{"consumer.session.timeout.ms", add, ptr("1")}}},
		{"no group's", resource{groupKind, ""}, []op{{"consumer.session.timeout.ms", set, ptr("50000")}}},
		{"metrics", resource{metricsKind, "m"}, []op{{"interval.ms", set, ptr("1000")}}},
		{"metrics out of bounds", resource{metricsKind, "m"}, []op{{"interval.ms", set, ptr("1")}}},
		{"metrics' bad value", resource{metricsKind, "m"}, []op{{"match", set, ptr("x=y")}}},
		{"metrics' unknown", resource{metricsKind, "m"}, []op{{"no.such", set, ptr("1")}}},
		{"metrics added to", resource{metricsKind, "m"}, []op{{"metrics", add, ptr("a")}}},
		{"no metrics'", resource{metricsKind, ""}, []op{{"interval.ms", set, ptr("1000")}}},
		{"a logger that is not there", resource{loggerKind, "1"}, []op{{"no.such", set, ptr("DEBUG")}}},
		{"another broker's logger", resource{loggerKind, "2"}, []op{{"root", set, ptr("DEBUG")}}},
		{"all brokers' logger", resource{loggerKind, ""}, []op{{"root", set, ptr("DEBUG")}}},
		{"a kind that is unknown", resource{99, "m"}, []op{{"a", set, ptr("1")}}},
		{"kind 0", resource{0, "m"}, []op{{"a", set, ptr("1")}}},
	} {
		each(s, c.label, incremental(c.on, true, c.ops...))
		each(s, c.label, replaced(c.on, true, c.ops...))
	}
	each(s, "no resources", func(r *kmsg.IncrementalAlterConfigsRequest) {})
	each(s, "no resources", func(r *kmsg.AlterConfigsRequest) {})
	// Of AlterConfigs Kafka does not answer that.
	each(s, "a resource twice", func(r *kmsg.IncrementalAlterConfigsRequest) {
		incremental(topic, true, op{"retention.ms", set, ptr("1")})(r)
		r.Resources = append(r.Resources, r.Resources[0])
	})
	each(s, "right and wrong", func(r *kmsg.IncrementalAlterConfigsRequest) {
		incremental(topic, true, op{"retention.ms", set, ptr("1")})(r)
		r.Resources = append(r.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: topicKind, ResourceName: "no-such"})
	})
}

// liveScript makes changes and looks at what they have come to.
func liveScript(s *side) {
	s.create("lively", 1)
	topic, broker, all := resource{topicKind, "lively"}, resource{brokerKind, "1"}, resource{brokerKind, ""}
	group, metrics := resource{groupKind, "lively"}, resource{metricsKind, "lively"}
	for _, c := range []struct {
		label      string
		on         resource
		op         op
		name, want string
		seen       resource
	}{
		{"a topic's", topic, op{"segment.bytes", set, ptr("5000000")}, "segment.bytes", "5000000", topic},
		{"a topic's list", topic, op{"cleanup.policy", add, ptr("compact")}, "cleanup.policy", "delete,compact", topic},
		{"less of it", topic, op{"cleanup.policy", subtract, ptr("delete")}, "cleanup.policy", "compact", topic},
		{"none of it", topic, op{"cleanup.policy", unset, nil}, "cleanup.policy", "delete", topic},
		{"all brokers'", all, op{"log.segment.bytes", set, ptr("7000000")}, "log.segment.bytes", "7000000", broker},
		{"a broker's", broker, op{"log.segment.bytes", set, ptr("6000000")}, "log.segment.bytes", "6000000", broker},
		{"over the topic's", topic, op{"segment.bytes", set, ptr("8000000")}, "segment.bytes", "8000000", topic},
		{"not the topic's any more", topic, op{"segment.bytes", unset, nil}, "segment.bytes", "6000000", topic},
		{"not the broker's any more", broker, op{"log.segment.bytes", unset, nil}, "segment.bytes", "7000000", topic},
		{"nobody's", all, op{"log.segment.bytes", unset, nil}, "segment.bytes", "1073741824", topic},
		{"a group's", group, op{"consumer.session.timeout.ms", set, ptr("50000")}, "consumer.session.timeout.ms", "50000", group},
		{"not the group's", group, op{"consumer.session.timeout.ms", unset, nil}, "consumer.session.timeout.ms", "45000", group},
		{"metrics", metrics, op{"interval.ms", set, ptr("1000")}, "interval.ms", "1000", metrics},
		{"matching metrics", metrics, op{"match", set, ptr("client_id=a.*")}, "match", "client_id=a.*", metrics},
	} {
		s.ask(c.label, newest(s, incremental(c.on, false, c.op)))
		s.shown(c.label, c.seen, c.name, c.want)
	}
	each(s, "with metrics", func(r *kmsg.ListConfigResourcesRequest) {})
	each(s, "metrics alone", func(r *kmsg.ListConfigResourcesRequest) { r.ResourceTypes = []int8{int8(metricsKind)} })
	for _, name := range []string{"interval.ms", "match"} {
		s.ask("metrics deleted", newest(s, incremental(metrics, false, op{name, unset, nil})))
	}
	s.ask("all at once", newest(s, replaced(topic, false, op{"retention.ms", set, ptr("9000")}, op{"max.message.bytes", set, ptr("5000")})))
	s.shown("all at once", topic, "retention.ms", "9000")
	s.ask("and the others not", newest(s, replaced(topic, false, op{"max.message.bytes", set, ptr("6000")})))
	s.shown("and the others not", topic, "retention.ms", "-1")
}

func resourcesScript(s *side) {
	s.create("resource", 1)
	for kind := range int8(33) {
		if kind != 2 { // the topics of other scripts
			from(s, 1, fmt.Sprint("of type ", kind), func(r *kmsg.ListConfigResourcesRequest) { r.ResourceTypes = []int8{kind} })
		}
	}
	from(s, 1, "of several types", func(r *kmsg.ListConfigResourcesRequest) { r.ResourceTypes = []int8{4, 4, 16} })
	from(s, 1, "of unknown types", func(r *kmsg.ListConfigResourcesRequest) { r.ResourceTypes = []int8{4, 99, -1} })
	each(s, "of none", func(r *kmsg.ListConfigResourcesRequest) {})
}

package server

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	ofTopic  = kmsg.ConfigResourceTypeTopic
	ofBroker = kmsg.ConfigResourceTypeBroker
)

// alter asks for one resource's change: ops are "SET key=value", "DELETE key",
// "APPEND key=value", "SUBTRACT key=value".
func (c *client) alter(kind kmsg.ConfigResourceType, name string, only bool, ops ...string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, only
	req.Resources = append(req.Resources, c.altered(kind, name, ops...))
	got := c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	if (got.ErrorCode == 0) != (got.ErrorMessage == nil) || got.ResourceType != kind || got.ResourceName != name {
		c.t.Fatalf("%v: %+v", ops, got)
	}
	return got.ErrorCode
}

func (c *client) altered(kind kmsg.ConfigResourceType, name string, ops ...string) kmsg.IncrementalAlterConfigsRequestResource {
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kind, name
	for _, op := range ops {
		word, rest, _ := strings.Cut(op, " ")
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Op = map[string]kmsg.IncrementalAlterConfigOp{"SET": 0, "DELETE": 1, "APPEND": 2, "SUBTRACT": 3, "SHRED": 4}[word]
		key, value, ok := strings.Cut(rest, "=")
		rc.Name = key
		if ok {
			rc.Value = &value
		}
		rr.Configs = append(rr.Configs, rc)
	}
	return rr
}

// replace asks with the legacy request for the whole set of one resource.
func (c *client) replace(kind kmsg.ConfigResourceType, name string, only bool, pairs ...string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version, req.ValidateOnly = 2, only
	rr := kmsg.NewAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kind, name
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		rc := kmsg.AlterConfigsRequestResourceConfig{Name: key}
		if ok {
			rc.Value = &value
		}
		rr.Configs = append(rr.Configs, rc)
	}
	req.Resources = append(req.Resources, rr)
	return c.ask(req).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode
}

func (c *client) describe(kind kmsg.ConfigResourceType, name string) []kmsg.DescribeConfigsResponseResourceConfig {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = 4, true
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kind, name
	req.Resources = append(req.Resources, rr)
	got := c.ask(req).(*kmsg.DescribeConfigsResponse).Resources[0]
	if got.ErrorCode != 0 {
		c.t.Fatalf("describe %v %q: error %d", kind, name, got.ErrorCode)
	}
	return got.Configs
}

// set is what is set for a resource itself.
func (c *client) set(kind kmsg.ConfigResourceType, name string) map[string]string {
	c.t.Helper()
	own := kmsg.ConfigSourceDynamicTopicConfig
	if kind == ofBroker {
		own = kmsg.ConfigSourceDynamicBrokerConfig
		if name == "" {
			own = kmsg.ConfigSourceDynamicDefaultBrokerConfig
		}
	}
	out := map[string]string{}
	for _, v := range c.describe(kind, name) {
		for _, s := range v.ConfigSynonyms {
			if s.Source == own {
				out[v.Name] = *s.Value
			}
		}
	}
	return out
}

func pairs(kv ...string) map[string]string {
	out := map[string]string{}
	for _, s := range kv {
		k, v, _ := strings.Cut(s, "=")
		out[k] = v
	}
	return out
}

// what each request does to a set that has two keys.
func TestAlterConfigs(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.cleanup.policy=compact")
	c := dial(t, n.Addr())
	base := []string{"retention.ms=1000", "cleanup.policy=delete"}
	type alterCase struct {
		what   string
		legacy bool
		ops    []string
		code   int16
		want   []string // nil: nothing changes
	}
	for i, tc := range []alterCase{
		{"set touches what it names", false, []string{"SET segment.bytes=1048576"}, 0, []string{"retention.ms=1000", "cleanup.policy=delete", "segment.bytes=1048576"}},
		{"set changes", false, []string{"SET retention.ms=5"}, 0, []string{"retention.ms=5", "cleanup.policy=delete"}},
		{"set trims", false, []string{"SET retention.ms= 5 "}, 0, []string{"retention.ms=5", "cleanup.policy=delete"}},
		{"set the same", false, []string{"SET retention.ms=1000"}, 0, base},
		{"nothing", false, nil, 0, base},
		{"delete", false, []string{"DELETE retention.ms"}, 0, base[1:]},
		{"delete with a value", false, []string{"DELETE retention.ms=7"}, 0, base[1:]},
		{"delete what is not set", false, []string{"DELETE segment.ms"}, 0, base},
		{"delete what is not known", false, []string{"DELETE no.such"}, 0, base},
		{"append", false, []string{"APPEND cleanup.policy=compact"}, 0, []string{"retention.ms=1000", "cleanup.policy=delete,compact"}},
		{"append what is there", false, []string{"APPEND cleanup.policy=delete"}, 0, base},
		{"append to an unset list", false, []string{"APPEND leader.replication.throttled.replicas=0:1,1:1"}, 0, append([]string{"leader.replication.throttled.replicas=0:1,1:1"}, base...)},
		{"subtract", false, []string{"SUBTRACT cleanup.policy=delete"}, 0, []string{"retention.ms=1000", "cleanup.policy="}},
		{"subtract what is not there", false, []string{"SUBTRACT cleanup.policy=compact"}, 0, base},
		{"several", false, []string{"SET segment.ms=9", "DELETE retention.ms", "APPEND cleanup.policy=compact"}, 0, []string{"segment.ms=9", "cleanup.policy=delete,compact"}},
		{"append to a number", false, []string{"APPEND retention.ms=1"}, 40, nil},
		{"subtract from a word", false, []string{"SUBTRACT compression.type=gzip"}, 40, nil},
		{"append to the unknown", false, []string{"APPEND no.such=1"}, 40, nil},
		{"append a bad item", false, []string{"APPEND cleanup.policy=shred"}, 40, nil},
		{"unknown key", false, []string{"SET retention.ms=5", "SET no.such=1"}, 40, nil},
		{"bad value", false, []string{"SET segment.ms=9", "SET retention.ms=soon"}, 40, nil},
		{"below the least", false, []string{"SET segment.bytes=1048575"}, 40, nil},
		{"keys that disagree", false, []string{"SET min.compaction.lag.ms=9", "SET max.compaction.lag.ms=8"}, 40, nil},
		{"tiered storage", false, []string{"SET remote.storage.enable=true"}, 40, nil},
		{"gone since 4.0", false, []string{"SET message.downconversion.enable=true"}, 40, nil},
		{"key twice", false, []string{"SET retention.ms=5", "DELETE retention.ms"}, 42, nil},
		{"null value", false, []string{"SET retention.ms"}, 42, nil},
		{"null to append", false, []string{"APPEND cleanup.policy"}, 42, nil},
		{"unknown operation", false, []string{"SHRED retention.ms=1"}, 42, nil},
		{"legacy replaces", true, []string{"segment.ms=9"}, 0, []string{"segment.ms=9"}},
		{"legacy keeps what it names", true, []string{"segment.ms=9", "retention.ms=1000"}, 0, []string{"segment.ms=9", "retention.ms=1000"}},
		{"legacy with nothing", true, nil, 0, []string{}},
		{"legacy unknown key", true, []string{"segment.ms=9", "no.such=1"}, 40, nil},
		{"legacy bad value", true, []string{"retention.ms=soon"}, 40, nil},
		{"legacy key twice", true, []string{"segment.ms=9", "segment.ms=9"}, 42, nil},
		{"legacy null value", true, []string{"segment.ms"}, 42, nil},
	} {
		t.Run(tc.what, func(t *testing.T) {
			c := dial(t, n.Addr())
			topic := fmt.Sprintf("t%d", i)
			c.create(topic, 2, "retention.ms", "1000", "cleanup.policy", "delete")
			ask := func(only bool) int16 {
				if tc.legacy {
					return c.replace(ofTopic, topic, only, tc.ops...)
				}
				return c.alter(ofTopic, topic, only, tc.ops...)
			}
			if code := ask(true); code != tc.code {
				t.Errorf("validated with error %d, want %d", code, tc.code)
			}
			if got := c.set(ofTopic, topic); !maps.Equal(got, pairs(base...)) {
				t.Errorf("validation changed the topic to %v", got)
			}
			if code := ask(false); code != tc.code {
				t.Errorf("error %d, want %d", code, tc.code)
			}
			want := pairs(tc.want...)
			if tc.want == nil && tc.code != 0 {
				want = pairs(base...)
			}
			if got := c.set(ofTopic, topic); !maps.Equal(got, want) {
				t.Errorf("the topic has %v, want %v", got, want)
			}
		})
	}
	// An unset list is changed as it is inherited.
	c.create("bare", 1)
	if code := c.alter(ofTopic, "bare", false, "APPEND cleanup.policy=delete"); code != 0 {
		t.Error(code)
	}
	if got := c.set(ofTopic, "bare")["cleanup.policy"]; got != "compact,delete" {
		t.Errorf("appended to the broker's default: %q", got)
	}
}

// Every configuration of topics takes its default, and what Kafka refuses is refused
// with the key's name and leaves the broker answering.
func TestAlterEveryTopicConfig(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	for _, v := range c.describe(ofTopic, "t") {
		if code := c.alter(ofTopic, "t", false, "SET "+v.Name+"="+*v.Value); code != 0 {
			t.Errorf("%s=%s: error %d", v.Name, *v.Value, code)
		}
		if got, ok := c.set(ofTopic, "t")[v.Name]; !ok || got != *v.Value {
			t.Errorf("%s is not echoed: %q", v.Name, got)
		}
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = append(req.Resources, c.altered(ofTopic, "t", "SET "+v.Name+"=\x00?"))
		got := c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
		if got.ErrorCode != 40 || !strings.Contains(*got.ErrorMessage, v.Name) {
			t.Errorf("%s with nonsense: %+v", v.Name, got)
		}
	}
	if got := len(c.set(ofTopic, "t")); got < 35 {
		t.Errorf("%d keys are set", got)
	}
}

func TestAlterConfigsResources(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	for what, tc := range map[string]struct {
		kind kmsg.ConfigResourceType
		name string
		op   string
		code int16
	}{
		"unknown topic":        {ofTopic, "none", "SET retention.ms=1", 3},
		"unknown topic, bad":   {ofTopic, "none", "SET retention.ms=x", 40},
		"no topic":             {ofTopic, "", "SET retention.ms=1", 42},
		"bad name":             {ofTopic, "a/b", "SET retention.ms=1", 17},
		"other broker":         {ofBroker, "1", "SET log.retention.ms=1", 42},
		"no broker":            {ofBroker, "zero", "SET log.retention.ms=1", 42},
		"broker, unknown key":  {ofBroker, "0", "SET no.such=1", 40},
		"broker, bad value":    {ofBroker, "0", "SET log.retention.ms=x", 42},
		"broker, fixed key":    {ofBroker, "0", "SET node.id=1", 42},
		"brokers, fixed key":   {ofBroker, "", "SET num.partitions=1", 42},
		"broker, append to no": {ofBroker, "0", "APPEND log.retention.ms=1", 40},
		"group, bad value":     {kmsg.ConfigResourceTypeGroupConfig, "g", "SET consumer.session.timeout.ms=1", 40},
		"group, unknown key":   {kmsg.ConfigResourceTypeGroupConfig, "g", "SET session.timeout.ms=50000", 40},
		"group, append to no":  {kmsg.ConfigResourceTypeGroupConfig, "g", "APPEND consumer.session.timeout.ms=50000", 40},
		"groups":               {kmsg.ConfigResourceTypeGroupConfig, "", "SET consumer.session.timeout.ms=50000", 42},
		"client metrics":       {kmsg.ConfigResourceTypeClientMetrics, "m", "SET interval.ms=1", 42},
		"logger":               {kmsg.ConfigResourceTypeBrokerLogger, "9", "SET root=DEBUG", 42},
		"unknown kind":         {99, "x", "SET a=1", 42},
	} {
		if code := c.alter(tc.kind, tc.name, false, tc.op); code != tc.code {
			t.Errorf("%s: error %d, want %d", what, code, tc.code)
		}
		if strings.HasSuffix(what, "append to no") {
			continue
		}
		if code := c.replace(tc.kind, tc.name, false, strings.TrimPrefix(tc.op, "SET ")); code != tc.code {
			t.Errorf("%s, legacy: error %d, want %d", what, code, tc.code)
		}
	}
	// A resource that stands twice is refused both times; the others are changed.
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, name := range []string{"t", "u", "t"} {
		req.Resources = append(req.Resources, c.altered(ofTopic, name, "SET retention.ms=1"))
	}
	req.Resources = append(req.Resources, c.altered(ofBroker, "0", "SET log.retention.ms=7"))
	for i, got := range c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if want := []int16{42, 3, 42, 0}[i]; got.ErrorCode != want || got.ResourceName != req.Resources[i].ResourceName {
			t.Errorf("resource %d: %+v, want error %d", i, got, want)
		}
	}
	if got := c.set(ofTopic, "t"); len(got) != 0 {
		t.Errorf("t has %v", got)
	}
}

// Where a value comes from is told in Kafka's order, and taking one source away
// shows the next.
func TestConfigSynonyms(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.segment.bytes=3000000")
	c := dial(t, n.Addr())
	c.create("t", 1, "segment.bytes", "1500000")
	for _, tc := range [][2]string{{"", "4000000"}, {"0", "5000000"}} {
		if code := c.alter(ofBroker, tc[0], false, "SET log.segment.bytes="+tc[1]); code != 0 {
			t.Fatal(code)
		}
	}
	find := func(kind kmsg.ConfigResourceType, name, key string) kmsg.DescribeConfigsResponseResourceConfig {
		t.Helper()
		for _, v := range c.describe(kind, name) {
			if v.Name == key {
				return v
			}
		}
		return kmsg.DescribeConfigsResponseResourceConfig{}
	}
	told := func(v kmsg.DescribeConfigsResponseResourceConfig) (s string) {
		for _, y := range v.ConfigSynonyms {
			s += fmt.Sprintf("%s=%s from %d; ", y.Name, *y.Value, y.Source)
		}
		if len(v.ConfigSynonyms) > 0 && (v.ConfigSynonyms[0].Source != v.Source || *v.ConfigSynonyms[0].Value != *v.Value) {
			t.Errorf("%s is %s from %d, and its first synonym is another", v.Name, *v.Value, v.Source)
		}
		return s
	}
	rest := "log.segment.bytes=3000000 from 4; log.segment.bytes=1073741824 from 5; "
	all := "log.segment.bytes=4000000 from 3; " + rest
	own := "log.segment.bytes=5000000 from 2; " + all
	if got, want := told(find(ofTopic, "t", "segment.bytes")), "segment.bytes=1500000 from 1; "+own; got != want {
		t.Errorf("topic: %s, want %s", got, want)
	}
	if v := find(ofBroker, "0", "log.segment.bytes"); told(v) != own || v.ReadOnly {
		t.Errorf("broker: %+v", v)
	}
	if vs := c.describe(ofBroker, ""); len(vs) != 1 || told(vs[0]) != "log.segment.bytes=4000000 from 3; " || vs[0].ReadOnly {
		t.Errorf("all brokers: %+v", vs)
	}
	if v := find(ofBroker, "0", "node.id"); !v.ReadOnly {
		t.Errorf("node.id: %+v", v)
	}
	for _, step := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want string
	}{{ofTopic, "t", own}, {ofBroker, "0", all}, {ofBroker, "", rest}} {
		if code := c.replace(step.kind, step.name, false); code != 0 {
			t.Fatal(code)
		}
		if got := told(find(ofTopic, "t", "segment.bytes")); got != step.want {
			t.Errorf("without %v %q: %s, want %s", step.kind, step.name, got, step.want)
		}
	}
}

func TestListConfigResources(t *testing.T) {
	n := startNode(t, t.TempDir(), "node.id=3")
	c := dial(t, n.Addr())
	c.create("b", 1)
	c.create("a", 1)
	for _, name := range []string{"n", "m"} {
		if code := c.alter(kmsg.ConfigResourceTypeClientMetrics, name, false, "SET metrics="); code != 0 {
			t.Fatal(code)
		}
	}
	for _, tc := range []struct {
		version int16
		kinds   []int8
		code    int16
		want    string
	}{
		{0, nil, 0, "16m 16n "}, {1, nil, 0, "2a 2b 43 83 16m 16n "}, {1, []int8{2, 2}, 0, "2a 2b "}, {1, []int8{4, 16}, 0, "43 16m 16n "},
		{1, []int8{8, 32}, 0, "83 "}, {1, []int8{2, 99}, 35, ""}, {1, []int8{0}, 35, ""},
	} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = tc.version, tc.kinds
		resp := c.ask(req).(*kmsg.ListConfigResourcesResponse)
		got := ""
		for _, r := range resp.ConfigResources {
			got += fmt.Sprintf("%d%s ", r.Type, r.Name)
		}
		if resp.ErrorCode != tc.code || got != tc.want {
			t.Errorf("version %d of %v: error %d, %q", tc.version, tc.kinds, resp.ErrorCode, got)
		}
	}
}

// A request that changes very many configurations changes none, as in Kafka.
func TestTooManyConfigurations(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	ask := func(only bool, n int) (codes map[int16]int) {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version, req.ValidateOnly = 1, only
		for i := range n / 2 {
			req.Resources = append(req.Resources, c.altered(kmsg.ConfigResourceTypeGroupConfig, fmt.Sprint("g", i), "SET consumer.session.timeout.ms=50000", "SET consumer.heartbeat.interval.ms=5000"))
		}
		codes = map[int16]int{}
		for _, rr := range c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources {
			codes[rr.ErrorCode]++
		}
		return codes
	}
	for _, tc := range []struct {
		only  bool
		n     int
		codes map[int16]int
	}{
		{true, mostConfigured, map[int16]int{0: mostConfigured / 2}},
		{true, mostConfigured + 2, map[int16]int{44: mostConfigured/2 + 1}},
		{false, mostConfigured + 2, map[int16]int{44: mostConfigured/2 + 1}},
	} {
		if got := ask(tc.only, tc.n); !maps.Equal(got, tc.codes) {
			t.Errorf("%d changes, only validated: %v: %v, want %v", tc.n, tc.only, got, tc.codes)
		}
	}
	if got := n.broker.View().ConfiguredGroups(); len(got) > 0 {
		t.Errorf("%d groups are configured", len(got))
	}
}

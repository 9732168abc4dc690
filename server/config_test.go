package server

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/projections"
)

func writeFile(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConfigPrecedence(t *testing.T) {
	file := writeFile(t, "# comment\nnum.partitions=2\nnode.id = 7\nlog.dirs=/a/${HOME}\nlog.retention.ms=5\n")
	src := Sources{
		File:    file,
		Environ: []string{"KAAS_NUM_PARTITIONS=3", "KAAS_LOG_RETENTION_MS=6", "HOME=/root", "KAAS_SERVICE_HOST=10.0.0.1", "KAAS_PORT=tcp://10.0.0.1:9092", "KAAS_PORT_9092_TCP_ADDR=10.0.0.1"},
		Sets:    []string{"num.partitions=4"},
	}
	c, err := LoadConfig(src)
	if err != nil {
		t.Fatal(err)
	}
	if c.NumPartitions != 4 || c.NodeID != 7 || c.LogDir != "/a/${HOME}" || c.topicDefaults["retention.ms"] != "6" {
		t.Errorf("got %+v", c)
	}
	if got := c.settings["log.retention.ms"].source; got != "environment KAAS_LOG_RETENTION_MS" {
		t.Errorf("source %q", got)
	}
	if got := c.notActed(); len(got) != 0 {
		t.Errorf("not acted on: %v", got)
	}
}

func TestConfigBadInput(t *testing.T) {
	for _, tc := range []struct {
		set  string // key=value
		want string
	}{
		{"no.such.key=1", "unknown name"},
		{"node.id=", "whole number"},
		{"node.id=-1", "not from"},
		{"node.id=2147483648", "not from"},
		{"node.id=x", "whole number"},
		{"listeners=", "NAME://HOST:PORT"},
		{"security.inter.broker.protocol=TLS", "not one of PLAINTEXT"},
		{"security.inter.broker.protocol=SSL", "none that is called SSL"},
		{"listener.name.inside.ssl.client.auth=none", "none that is called INSIDE"},
		{"listener.name.plaintext.ssl.no.such=1", "unknown name"},
		{"listener.name.plaintext.node.id=1", "unknown name"},
		{"listeners=PLAINTEXT://:9092,plaintext://:9093", "twice"},
		{"listeners=INSIDE://:9092", "no protocol"},
		{"listeners=PLAINTEXT://:9092,", "NAME://HOST:PORT"},
		{"listener.security.protocol.map=PLAINTEXT", "NAME:PROTOCOL"},
		{"listener.security.protocol.map=A:TLS", "NAME:PROTOCOL"},
		{"inter.broker.listener.name=INSIDE", "none that is called INSIDE"},
		{"advertised.listeners=OUTSIDE://a:1", "none that is called OUTSIDE"},
		{"listeners=PLAINTEXT://:99999", "port"},
		{"listeners=PLAINTEXT://nohost", "NAME://HOST:PORT"},
		{"advertised.listeners=PLAINTEXT://:9092", "no host"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:9092", "no host"},
		{"advertised.listeners=PLAINTEXT://a:0", "port"},
		{"log.dirs=a,b", "exactly one"},
		{"log.dirs=", "exactly one"},
		{"http.listeners=8080", "HOST:PORT"},
		{"auto.create.topics.enable=yes", "neither true nor false"},
		{"num.partitions=0", "not from"},
		{"log.flush.interval.messages=0", "not from"},
		{"log.flush.interval.messages=sometimes", "whole number"},
		{"log.segment.bytes=10", "must be"},
		{"log.message.timestamp.type=Mine", "must be one of"},
		{"log.retention.ms=-2", "must be"},
		{"metadata.poll.interval.ms=0", "not from"},
		{"queued.max.request.bytes=0", "not from"},
		{"queued.max.response.bytes=0", "not from"},
		{"socket.request.max.bytes=-5", "not from"},
		{"max.connections=0", "not from"},
		{"log.level=loud", "debug, info"},
	} {
		key, value, _ := strings.Cut(tc.set, "=")
		env := envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		file := writeFile(t, tc.set+"\n")
		for source, src := range map[string]Sources{
			"--set":              {Sets: []string{tc.set}},
			"environment " + env: {Environ: []string{env + "=" + value}},
			file:                 {File: file},
		} {
			_, err := LoadConfig(src)
			if err == nil {
				t.Errorf("%s from %s: accepted", tc.set, source)
				continue
			}
			msg := err.Error()
			if !strings.Contains(msg, key) || !strings.Contains(msg, source) || !strings.Contains(msg, tc.want) || strings.Contains(msg, "\n") {
				t.Errorf("%s from %s: unclear error %q", tc.set, source, msg)
			}
		}
	}
	for _, src := range []Sources{{File: "/no/such/file"}, {Sets: []string{"node.id"}}} {
		if _, err := LoadConfig(src); err == nil {
			t.Errorf("%+v: accepted", src)
		}
	}
}

// keyRow is a value for a key, and whether it has reached something.
type keyRow struct {
	value string
	ok    func(*Config) bool
}

// Every key's value must reach something that is not the parsed text (P-01): here the
// field it sets, which the tests named beside it see acting.
func TestConfigEveryKeyReachesSomething(t *testing.T) {
	topic := &projections.Topic{}
	table := map[string]keyRow{
		"node.id":                     {"5", func(c *Config) bool { return (&Node{cfg: c}).options().NodeID == 5 }},
		"broker.rack":                 {"r1", func(c *Config) bool { return (&Node{cfg: c}).options().Rack == "r1" }},
		"listeners":                   {"PLAINTEXT://h:1", func(c *Config) bool { return c.Listeners[0].address() == "h:1" }},
		"advertised.listeners":        {"PLAINTEXT://h:2", func(c *Config) bool { return c.Advertised[0].address() == "h:2" && !c.advertisesUsed(&c.Listeners[0]) }},
		"advertised.services":         {"PLAINTEXT://s:9", func(c *Config) bool { return c.Services[0].address() == "s:9" }}, // TestStartWaitsForItsAddress
		"log.dirs":                    {"/x", func(c *Config) bool { return c.LogDir == "/x" }},                              // TestProcessRefusals
		"http.listeners":              {"h:3", func(c *Config) bool { return c.HTTP == "h:3" }},                              // TestHTTP
		"cluster.id":                  {"abc", func(c *Config) bool { return c.ClusterID == "abc" }},                         // TestProcessRefusals
		"log.level":                   {"warn", func(c *Config) bool { return c.LogLevel == 4 }},                             // cmd/kaas
		"auto.create.topics.enable":   {"false", func(c *Config) bool { return !c.AutoCreateTopics }},                        // TestAutoCreate
		"num.partitions":              {"9", func(c *Config) bool { return c.NumPartitions == 9 }},                           // TestAutoCreate
		"log.flush.interval.messages": {"2", func(c *Config) bool { return c.partitionConfig(topic).FlushMessages == 2 }},
		"producer.id.expiration.ms":   {"3000", func(c *Config) bool { return c.partitionConfig(topic).ProducerExpiry == 3*time.Second }},
		"transactional.id.expiration.ms": {"4000", func(c *Config) bool {
			o := (&Node{cfg: c}).options()
			return o.FenceExpiry == 4*time.Second && o.Txns.ForgetAfter == 4*time.Second
		}},
		"transaction.max.timeout.ms":                                  {"5000", func(c *Config) bool { return (&Node{cfg: c}).options().Txns.MaxTimeout == 5*time.Second }},
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": {"6000", func(c *Config) bool { return (&Node{cfg: c}).options().Txns.AbortEvery == 6*time.Second }},
		"transaction.remove.expired.transaction.cleanup.interval.ms":  {"7000", func(c *Config) bool { return (&Node{cfg: c}).options().Txns.CleanEvery == 7*time.Second }},
		"storage.min.free.bytes":                                      {"3", func(c *Config) bool { return (&Node{cfg: c}).options().MinFree == 3 }},
		"storage.ballast.bytes":                                       {"4", func(c *Config) bool { return (&Node{cfg: c}).options().Ballast == 4 }},
		"storage.stall.timeout.ms":                                    {"106", func(c *Config) bool { return c.ProbeStall == 106*time.Millisecond }},
		"storage.hang.timeout.ms":                                     {"105", func(c *Config) bool { return c.partitionConfig(topic).StallAfter == 105*time.Millisecond }},
		"log.recovery.bytes.total":                                    {"1048578", func(c *Config) bool { return (&Node{cfg: c}).options().RecoveryBytes == 1048578 }},
		"metadata.poll.interval.ms":                                   {"7", func(c *Config) bool { return (&Node{cfg: c}).options().CheckInterval == 7*time.Millisecond }},
		"metadata.history.retention.ms":                               {"8", func(c *Config) bool { return (&Node{cfg: c}).options().HistoryAge == 8*time.Millisecond }},
		"metadata.history.retention.entries":                          {"9", func(c *Config) bool { return (&Node{cfg: c}).options().HistoryEntries == 9 }},
		"queued.max.request.bytes":                                    {"10", func(c *Config) bool { return c.QueuedMaxBytes == 10 }},           // Start makes the budgets
		"queued.max.response.bytes":                                   {"10", func(c *Config) bool { return c.AnswersMaxBytes == 10 }},          // TestUnreadAnswersAreBounded
		"socket.request.max.bytes":                                    {"11", func(c *Config) bool { return c.RequestMaxBytes == 11 }},          // TestRequestMaxBytes
		"fetch.max.bytes":                                             {"2048", func(c *Config) bool { return c.FetchMaxBytes == 2048 }},        // TestFetchLimits
		"connections.max.idle.ms":                                     {"12", func(c *Config) bool { return c.MaxIdle == 12*time.Millisecond }}, // TestIdle
		"max.connections":                                             {"13", func(c *Config) bool { return c.MaxConnections == 13 }},           // TestMaxConnections
		"log.segment.bytes":                                           {"1048577", func(c *Config) bool { return c.partitionConfig(topic).SegmentBytes == 1048577 }},
		"log.retention.minutes":                                       {"3", func(c *Config) bool { return c.topicDefaults["retention.ms"] == "180000" }},
		"log.retention.hours":                                         {"2", func(c *Config) bool { return c.topicDefaults["retention.ms"] == "7200000" }},
		"log.roll.hours":                                              {"2", func(c *Config) bool { return c.topicDefaults["segment.ms"] == "7200000" }},
		"log.roll.ms":                                                 {"14", func(c *Config) bool { return c.partitionConfig(topic).SegmentAge == 14*time.Millisecond }},
		"log.index.interval.bytes":                                    {"15", func(c *Config) bool { return c.partitionConfig(topic).IndexIntervalBytes == 15 }},
		"max.decompressed.message.bytes":                              {"15", func(c *Config) bool { return c.partitionConfig(topic).MaxInflated == 15 }},
		"max.connections.per.ip":                                      {"13", func(c *Config) bool { return c.MaxPerIP == 13 }},       // TestConnectionsPerIP
		"max.connections.per.ip.overrides":                            {"[::1]:9", func(c *Config) bool { return len(c.PerIP) == 1 }}, // likewise
		"message.max.bytes":                                           {"16", func(c *Config) bool { return c.partitionConfig(topic).MaxMessageBytes == 16 }},
		"log.message.timestamp.type":                                  {"LogAppendTime", func(c *Config) bool { return c.partitionConfig(topic).LogAppendTime }},
		"log.message.timestamp.after.max.ms":                          {"17", func(c *Config) bool { return c.partitionConfig(topic).TimestampAfterMax == 17*time.Millisecond }},

		"log.message.timestamp.before.max.ms":       {"18", func(c *Config) bool { return c.partitionConfig(topic).TimestampBeforeMax == 18*time.Millisecond }},
		"max.incremental.fetch.session.cache.slots": {"18", func(c *Config) bool { return c.FetchSessions == 18 }},                    // TestFetchSessionsEvict
		"min.incremental.fetch.session.eviction.ms": {"19", func(c *Config) bool { return c.FetchSessionAge == 19*time.Millisecond }}, // likewise
	}
	for name, row := range cleanerKeys(topic) {
		table[name] = row
	}
	maps.Copy(table, quotaKeyRows())
	maps.Copy(table, clusterKeyRows())
	maps.Copy(table, tlsKeyRows(t))
	maps.Copy(table, groupKeyRows())
	maps.Copy(table, aclKeyRows())
	maps.Copy(table, saslKeyRows())
	for _, k := range configKeys {
		name := k.name
		if k.scope == onlyMechanism {
			name = listenerPrefix + "plaintext.plain." + name
		}
		if _, ok := table[name]; !ok && (k.topic == "" || acted[k.topic]) {
			t.Errorf("%s: nothing shows that it reaches anything", k.name)
		}
	}
	for name, tc := range table {
		src := Sources{Sets: []string{"listeners=PLAINTEXT://:0", name + "=" + tc.value}}
		c, err := LoadConfig(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name != "listeners" {
			c.Listeners = nil // nothing is bound in this test
		}
		if name == "advertised.listeners" {
			c.Listeners = []Endpoint{{Name: "PLAINTEXT"}}
		}
		if !tc.ok(c) {
			t.Errorf("%s=%s reaches nothing", name, tc.value)
		}
	}
}

// Keys that the build does not act on are told at start, never passed over.
func TestConfigEveryKeyIsActedOnOrTold(t *testing.T) {
	c, err := LoadConfig(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range configKeys {
		if k.topic == "" || acted[k.topic] {
			continue
		}
		c.settings[k.name] = setting{k.def, "test"}
		if got := c.notActed(); len(got) != 1 || got[0] != k.name {
			t.Errorf("%s: told %v", k.name, got)
		}
		delete(c.settings, k.name)
	}
}

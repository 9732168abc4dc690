package server

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The level of what a broker logs is told and changed as that of Kafka's root logger.
func TestLoggers(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	const kind = kmsg.ConfigResourceTypeBrokerLogger
	shown := func() string {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version, req.Resources = 4, []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: n.cfg.id()}}
		r := c.ask(req).(*kmsg.DescribeConfigsResponse).Resources[0]
		if r.ErrorCode != 0 || len(r.Configs) != 1 || r.Configs[0].Name != "root" || r.Configs[0].ReadOnly || r.Configs[0].Source != kmsg.ConfigSourceDynamicBrokerLoggerConfig {
			t.Fatalf("%+v", r)
		}
		return *r.Configs[0].Value
	}
	if got := shown(); got != "INFO" {
		t.Fatal(got)
	}
	set, unset, add := kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend
	for _, tc := range []struct {
		broker, name, value string
		op                  kmsg.IncrementalAlterConfigOp
		only                bool
		want                int16
		level               string
	}{
		{n.cfg.id(), "root", "DEBUG", set, true, 0, "INFO"},
		{n.cfg.id(), "root", "DEBUG", set, false, 0, "DEBUG"},
		{n.cfg.id(), "root", "TRACE", set, false, 0, "TRACE"},
		{n.cfg.id(), "root", "FATAL", set, false, 0, "FATAL"},
		{n.cfg.id(), "root", "ERROR", set, false, 0, "ERROR"},
		{n.cfg.id(), "root", "WARN", set, false, 0, "WARN"},
		{n.cfg.id(), "root", "debug", set, false, 40, "WARN"},
		{n.cfg.id(), "root", " DEBUG", set, false, 40, "WARN"},
		{n.cfg.id(), "root", "", set, false, 40, "WARN"},
		{n.cfg.id(), "root", "LOUD", set, false, 40, "WARN"},
		{n.cfg.id(), "kafka.server", "DEBUG", set, false, 40, "WARN"},
		{n.cfg.id(), "root", "", unset, false, 42, "WARN"},
		{n.cfg.id(), "root", "DEBUG", add, false, 42, "WARN"},
		{"99", "root", "DEBUG", set, false, 42, "WARN"},
		{"", "root", "DEBUG", set, false, 42, "WARN"},
	} {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version, req.ValidateOnly = 1, tc.only
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind, ResourceName: tc.broker, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
			{Name: tc.name, Op: tc.op, Value: &tc.value},
		}}}
		got := c.ask(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
		if level := shown(); got != tc.want || level != tc.level {
			t.Errorf("%+v: error %d, then %s", tc, got, level)
		}
	}
	if got := n.cfg.Logging.Level(); got != slog.LevelWarn {
		t.Errorf("the broker logs from %v on", got)
	}
	for name, least := range map[string]slog.Level{"TRACE": slog.LevelDebug, "FATAL": slog.LevelError} {
		if l := loggerLevels[name]; l > least || l <= least-4 {
			t.Errorf("%s is %v, and does not let through what is %v", name, l, least)
		}
	}
	old := kmsg.NewPtrAlterConfigsRequest()
	level := "DEBUG"
	old.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kind, ResourceName: n.cfg.id(), Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "root", Value: &level}}}}
	if got := c.ask(old).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode; got != 42 || shown() != "WARN" {
		t.Errorf("all levels at once: error %d", got)
	}
	list := kmsg.NewPtrListConfigResourcesRequest()
	list.Version, list.ResourceTypes = 1, []int8{int8(kind)}
	if got := c.ask(list).(*kmsg.ListConfigResourcesResponse).ConfigResources; len(got) != 1 || got[0].Name != n.cfg.id() || got[0].Type != int8(kind) {
		t.Errorf("%+v", got)
	}
}

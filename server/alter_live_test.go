package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/testport"
)

// segmentFiles counts the segments of partition 0.
func segmentFiles(t *testing.T, dir string, id [16]byte) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "topics", hex.EncodeToString(id[:]), "0", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return string(b)
}

// a smaller segment.bytes acts on the next append, whether the topic, this
// broker or all brokers say so, and taking it back does too.
func TestSegmentBytesActsLive(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	id := c.create("t", 1)
	fill := func() {
		t.Helper()
		for range 4 {
			if code, _ := c.produce("t", newBatch(nil, noise(700<<10))); code != 0 {
				t.Fatal(code)
			}
		}
	}
	change := func(kind kmsg.ConfigResourceType, name, op string) {
		t.Helper()
		if code := c.alter(kind, name, false, op); code != 0 {
			t.Fatalf("%s: error %d", op, code)
		}
	}
	for _, level := range []struct {
		kind      kmsg.ConfigResourceType
		name, key string
	}{{ofTopic, "t", "segment.bytes"}, {ofBroker, "0", "log.segment.bytes"}, {ofBroker, "", "log.segment.bytes"}} {
		before := segmentFiles(t, dir, id)
		change(level.kind, level.name, "SET "+level.key+"=1048576")
		fill()
		small := segmentFiles(t, dir, id)
		if small < before+3 {
			t.Errorf("%v %q: %d segments, then %d", level.kind, level.name, before, small)
		}
		change(level.kind, level.name, "DELETE "+level.key)
		fill()
		if large := segmentFiles(t, dir, id); large != small {
			t.Errorf("%v %q taken back: %d segments, then %d", level.kind, level.name, small, large)
		}
	}
	// The topic's own value stands over the broker's.
	change(ofTopic, "t", "SET segment.bytes=100000000")
	change(ofBroker, "0", "SET log.segment.bytes=1048576")
	before := segmentFiles(t, dir, id)
	fill()
	if got := segmentFiles(t, dir, id); got != before {
		t.Errorf("%d segments, then %d", before, got)
	}
}

// P-02: the limit is the topic's, of the batch as sent, and goes up and down live.
func TestMaxMessageBytesActsLive(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1, "max.message.bytes", "51200")
	c.create("other", 1)
	cl := kgoClient(t, n.Addr(), kgo.ProducerBatchMaxBytes(20<<20), kgo.BrokerMaxWriteBytes(100<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.DisableIdempotentWrite())
	send := func(value []byte) error {
		return cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t", Value: value}).FirstErr()
	}
	large := []byte(noise(100 << 10))
	for _, step := range []struct {
		op   string
		want error
	}{
		{"", kerr.MessageTooLarge}, {"SET max.message.bytes=200000", nil}, {"SET max.message.bytes=51200", kerr.MessageTooLarge}, {"DELETE max.message.bytes", nil},
		{"SET max.message.bytes=51200", kerr.MessageTooLarge},
	} {
		if step.op != "" {
			if code := c.alter(ofTopic, "t", false, step.op); code != 0 {
				t.Fatal(code)
			}
		}
		end := c.end("t")
		if err := send(large); !errors.Is(err, step.want) {
			t.Fatalf("after %q: %v, want %v", step.op, err, step.want)
		}
		if moved := c.end("t") != end; moved != (step.want == nil) {
			t.Errorf("after %q: the end moved: %v", step.op, moved)
		}
	}
	if err := send(bytes.Repeat([]byte("a"), 10<<20)); err != nil {
		t.Errorf("10 MiB that compress well: %v", err)
	}
	resp := c.ask(produceReq(-1, "t", newBatch(nil, noise(100<<10)), "other", newBatch(nil, noise(100<<10)))).(*kmsg.ProduceResponse)
	if a, b := resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[1].Partitions[0].ErrorCode; a != 10 || b != 0 {
		t.Errorf("errors %d and %d, want 10 and 0", a, b)
	}
	// The broker's default, changed live, holds for topics without a value.
	if code := c.alter(ofBroker, "", false, "SET message.max.bytes=51200"); code != 0 {
		t.Fatal(code)
	}
	if code, _ := c.produce("other", newBatch(nil, noise(100<<10))); code != 10 {
		t.Errorf("the changed default: error %d", code)
	}
}

func TestTimestampConfigsActLive(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	at := func(ts int64) []byte {
		return newBatch(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = ts, ts }, "a", "b")
	}
	send := func(version int16, ts int64) kmsg.ProduceResponseTopicPartition {
		t.Helper()
		req := produceReq(-1, "t", at(ts))
		req.Version = version
		return c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	}
	old, future := time.Now().Add(-time.Hour).UnixMilli(), time.Now().Add(2*time.Hour).UnixMilli()
	if got := send(9, old); got.ErrorCode != 0 || got.LogAppendTime != -1 {
		t.Errorf("before any change: %+v", got)
	}
	if got := send(9, future); got.ErrorCode != 32 {
		t.Errorf("far future: %+v", got)
	}
	if code := c.alter(ofTopic, "t", false, "SET message.timestamp.before.max.ms=1000", "SET message.timestamp.after.max.ms=86400000"); code != 0 {
		t.Fatal(code)
	}
	if got := send(9, future); got.ErrorCode != 0 {
		t.Errorf("far future, allowed: %+v", got)
	}
	for version := int16(3); version <= 12; version++ {
		got := send(version, old)
		if got.ErrorCode != 32 {
			t.Errorf("version %d: %+v", version, got)
		}
		if version < 8 {
			continue
		}
		if len(got.ErrorRecords) != 2 || got.ErrorRecords[1].RelativeOffset != 1 || *got.ErrorRecords[1].ErrorMessage == "" || *got.ErrorMessage == "" {
			t.Errorf("version %d: records %+v", version, got.ErrorRecords)
		}
	}
	if code := c.alter(ofTopic, "t", false, "SET message.timestamp.type=LogAppendTime"); code != 0 {
		t.Fatal(code)
	}
	got := send(9, old)
	if got.ErrorCode != 0 || time.Since(time.UnixMilli(got.LogAppendTime)).Abs() > time.Minute {
		t.Fatalf("LogAppendTime: %+v", got)
	}
	var b kmsg.RecordBatch
	if err := b.ReadFrom(c.fetch("t", got.BaseOffset).RecordBatches); err != nil || b.MaxTimestamp != got.LogAppendTime || b.Attributes&8 == 0 {
		t.Errorf("stored with time %d, attributes %b: %v", b.MaxTimestamp, b.Attributes, err)
	}
	if code := c.alter(ofTopic, "t", false, "SET message.timestamp.type=CreateTime", "DELETE message.timestamp.before.max.ms"); code != 0 {
		t.Fatal(code)
	}
	if got := send(9, old); got.ErrorCode != 0 || got.LogAppendTime != -1 {
		t.Errorf("back to CreateTime: %+v", got)
	}
}

// What was changed is there, and acts, after a stop and after a kill.
func TestAlteredConfigsSurvive(t *testing.T) {
	dir := t.TempDir()
	addr := testport.Addr(t)
	p := spawn(t, dir, addr)
	p.awaitServing()
	c := dial(t, addr)
	c.create("t", 1, "retention.ms", "1000")
	want := pairs("max.message.bytes=5000", "segment.bytes=1048576")
	for _, op := range [][]string{{"DELETE retention.ms"}, {"SET max.message.bytes=5000", "SET segment.bytes=1048576"}} {
		if code := c.alter(ofTopic, "t", false, op...); code != 0 {
			t.Fatal(code)
		}
	}
	if code := c.alter(ofBroker, "", false, "SET log.roll.ms=12345"); code != 0 {
		t.Fatal(code)
	}
	if code := c.grow("t", 3, false); code != 0 {
		t.Fatal(code)
	}
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		_ = p.cmd.Process.Signal(sig)
		<-p.done
		p = spawn(t, dir, addr)
		p.awaitServing()
		c = dial(t, addr)
		if got := c.set(ofTopic, "t"); !maps.Equal(got, want) {
			t.Errorf("after %v: %v", sig, got)
		}
		if got := c.set(ofBroker, ""); !maps.Equal(got, pairs("log.roll.ms=12345")) {
			t.Errorf("after %v: brokers have %v", sig, got)
		}
		code, _ := c.produceOnceOpen("t", newBatch(nil, noise(6000)))
		if code != 10 {
			t.Errorf("after %v: error %d", sig, code)
		}
		if got := c.ask(metadataReq(12, false, "t")).(*kmsg.MetadataResponse).Topics[0]; len(got.Partitions) != 3 {
			t.Errorf("after %v: %d partitions", sig, len(got.Partitions))
		}
	}
}

// A client that does not wait for answers has its changes made in its order.
func TestChangesOfAConnectionAreOrdered(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 20_000
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "t", 1, 1
	create.Topics = append(create.Topics, ct)
	reqs := []kmsg.Request{create}
	for i := range 10 {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = append(req.Resources, c.altered(ofTopic, "t", fmt.Sprintf("SET retention.ms=%d", i)))
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Version, grow.TimeoutMillis = 3, 20_000
		gt := kmsg.NewCreatePartitionsRequestTopic()
		gt.Topic, gt.Count = "t", int32(i+2)
		grow.Topics = append(grow.Topics, gt)
		reqs = append(reqs, req, grow)
	}
	var raw []byte
	for i, req := range reqs {
		raw = append(raw, frame(req, int32(i))...)
	}
	if _, err := c.nc.Write(raw); err != nil {
		t.Fatal(err)
	}
	for i, req := range reqs {
		corr, b := c.receive()
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		c.decode(resp, b)
		var code int16
		switch r := resp.(type) {
		case *kmsg.CreateTopicsResponse:
			code = r.Topics[0].ErrorCode
		case *kmsg.IncrementalAlterConfigsResponse:
			code = r.Resources[0].ErrorCode
		case *kmsg.CreatePartitionsResponse:
			code = r.Topics[0].ErrorCode
		}
		if corr != int32(i) || code != 0 {
			t.Errorf("answer %d is number %d: error %d", i, corr, code)
		}
	}
	if got := c.set(ofTopic, "t")["retention.ms"]; got != "9" {
		t.Errorf("the last change is %s", got)
	}
}

// What Go's admin client offers comes round.
func TestAdminClientRoundTrip(t *testing.T) {
	n := startNode(t, t.TempDir())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	adm := kadm.NewClient(kgoClient(t, n.Addr()))
	value := func(name, key string) string {
		t.Helper()
		rs, err := adm.DescribeTopicConfigs(ctx, name)
		if err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		for _, c := range rs[0].Configs {
			if c.Key == key {
				return c.MaybeValue()
			}
		}
		return ""
	}
	if _, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("5")}, "t"); err != nil {
		t.Fatal(err)
	}
	check := func(what string, rs kadm.AlterConfigsResponses, err error) {
		t.Helper()
		if err != nil || len(rs) != 1 || rs[0].Err != nil {
			t.Fatalf("%s: %v, %+v", what, err, rs)
		}
	}
	rs, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, "t")
	check("incremental", rs, err)
	if value("t", "cleanup.policy") != "delete,compact" || value("t", "retention.ms") != "5" {
		t.Errorf("appended: %q, %q", value("t", "cleanup.policy"), value("t", "retention.ms"))
	}
	rs, err = adm.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "segment.ms", Value: kadm.StringPtr("9")}}, "t")
	check("legacy", rs, err)
	if value("t", "cleanup.policy") != "delete" || value("t", "segment.ms") != "9" {
		t.Errorf("replaced: %q, %q", value("t", "cleanup.policy"), value("t", "segment.ms"))
	}
	rs, err = adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "log.retention.ms", Value: kadm.StringPtr("77")}})
	check("all brokers", rs, err)
	if got := value("t", "retention.ms"); got != "77" {
		t.Errorf("the brokers' default: %q", got)
	}
	ps, err := adm.CreatePartitions(ctx, 3, "t") // 3 more
	if err != nil || ps["t"].Err != nil {
		t.Fatal(err, ps)
	}
	if got, err := adm.ListTopics(ctx, "t"); err != nil || len(got["t"].Partitions) != 5 {
		t.Errorf("%v, %+v", err, got)
	}
	if _, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "no.such", Value: kadm.StringPtr("1")}}, "t"); err != nil {
		t.Error(err)
	}
	if !strings.Contains(value("t", "segment.ms"), "9") {
		t.Error("a refused change changed something")
	}
}

// The broker's own keys that can be changed act live, too: TestReconfigureFlush in
// partition sees the syncs.
func TestLiveBrokerKeys(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	id := c.create("t", 1)
	flush := func() int64 {
		view := n.broker.View()
		return n.cfg.livePartitionConfig(view, view.TopicByID(id)).FlushMessages
	}
	for _, step := range []struct {
		op   string
		want int64
	}{{"SET log.flush.interval.messages=1000", 1000}, {"DELETE log.flush.interval.messages", 1}} {
		if code := c.alter(ofBroker, "0", false, step.op); code != 0 || flush() != step.want {
			t.Errorf("%s: error %d, %d", step.op, code, flush())
		}
	}
	if code := c.alter(ofBroker, "", false, "SET producer.id.expiration.ms=5000"); code != 0 {
		t.Error(code)
	}
	view := n.broker.View()
	if got := n.cfg.livePartitionConfig(view, view.TopicByID(id)).ProducerExpiry; got != 5*time.Second {
		t.Errorf("producer.id.expiration.ms: %v", got)
	}
	if code := c.alter(ofBroker, "0", false, "SET log.cleaner.threads=3"); code != 0 || n.broker.CleanerStats().Threads != 3 {
		t.Errorf("log.cleaner.threads: error %d, %d threads", code, n.broker.CleanerStats().Threads)
	}
	if code := c.alter(ofBroker, "", false, "SET max.connections=1"); code != 0 {
		t.Fatal(code)
	}
	dial(t, n.Addr()).closed()
	if code := c.alter(ofBroker, "", false, "SET max.connections=2"); code != 0 {
		t.Fatal(code)
	}
	dial(t, n.Addr()).create("u", 1)
	for key := range liveKeys {
		if keyNamed(key) == nil {
			t.Errorf("%s is no key", key)
		}
	}
}

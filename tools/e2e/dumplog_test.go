package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// dumped is a record as Kafka's dump tool prints it.
type dumped struct {
	offset, timestamp int64
	kind              string // CreateTime or LogAppendTime
	key, value        string
}

// TestKafkaReadsTheSegments has Apache Kafka's own dump tool read what kaas has
// written: every codec, idempotent and plain producers, several rolls, append time, and
// what compaction has left. The tool takes the files under the names that kaas gave
// them: it looks only at what stands before the first dot and after the last.
func TestKafkaReadsTheSegments(t *testing.T) {
	cp := needJava(t)
	b := startBroker(t, "log.cleaner.backoff.ms=200", "log.retention.check.interval.ms=500")
	small := "1048576" // the least that Kafka allows
	for _, topic := range []struct {
		name   string
		config map[string]string
		opts   []kgo.Opt
	}{
		{"none", nil, nil},
		{"plain", nil, []kgo.Opt{kgo.DisableIdempotentWrite()}},
		{"gzip", nil, []kgo.Opt{kgo.ProducerBatchCompression(kgo.GzipCompression())}},
		{"snappy", nil, []kgo.Opt{kgo.ProducerBatchCompression(kgo.SnappyCompression())}},
		{"lz4", nil, []kgo.Opt{kgo.ProducerBatchCompression(kgo.Lz4Compression())}},
		{"zstd", nil, []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression())}},
		{"broker-gzip", map[string]string{"compression.type": "gzip"}, nil},
		{"broker-snappy", map[string]string{"compression.type": "snappy"}, nil},
		{"broker-lz4", map[string]string{"compression.type": "lz4"}, nil},
		{"broker-zstd", map[string]string{"compression.type": "zstd"}, nil},
		{"append-time", map[string]string{"message.timestamp.type": "LogAppendTime"}, nil},
		{"append-time-zstd", map[string]string{"message.timestamp.type": "LogAppendTime"}, []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression())}},
		{"compacted", map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "0"}, nil},
		{"compacted-lz4", map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "0"},
			[]kgo.Opt{kgo.ProducerBatchCompression(kgo.Lz4Compression())}},
	} {
		config := map[string]*string{"segment.bytes": &small}
		for k, v := range topic.config {
			config[k] = &v
		}
		opts := append([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DefaultProduceTopic(topic.name), kgo.ProducerBatchMaxBytes(16 << 10)}, topic.opts...)
		writeForDump(t, b, topic.name, config, opts...)
	}
	dirs := topicDirs(t, b)
	awaitCompaction(t, dirs["compacted"], dirs["compacted-lz4"])
	want := map[string][]dumped{}
	for name := range dirs {
		want[name] = readForDump(t, b, name)
	}
	b.stop()
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) { dumpAgrees(t, cp, name, dir, want[name]) })
	}
}

// writeForDump makes a topic and fills several segments of it: 300 keys, of which
// some are deleted in the end.
func writeForDump(t *testing.T, b *broker, name string, config map[string]*string, opts ...kgo.Opt) {
	t.Helper()
	cl := newClient(t, b.addr, opts...)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, config, name); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 12 {
		records := make([]*kgo.Record, 0, 300)
		for key := range 300 {
			r := &kgo.Record{Key: fmt.Appendf(nil, "key-%d", key)}
			if round < 11 || key%10 > 0 {
				r.Value = fmt.Appendf(nil, "%d-%d ", round, key)
				for range 90 + key%9 { // every codec makes it smaller, none less than a quarter
					r.Value = fmt.Appendf(r.Value, "%016[1]x%016[1]x", random.Uint64())
				}
			}
			records = append(records, r)
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// topicDirs are the directories of the only partition of each topic.
func topicDirs(t *testing.T, b *broker) map[string]string {
	t.Helper()
	cl := newClient(t, b.addr)
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{}
	for name, topic := range topics {
		dirs[name] = filepath.Join(b.dir, "topics", fmt.Sprintf("%x", topic.ID[:]), "0")
	}
	return dirs
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// awaitCompaction waits until the logs have become far smaller and stay as they are.
func awaitCompaction(t *testing.T, dirs ...string) {
	t.Helper()
	deadline := time.Now().Add(startTime)
	for before, same := "", 0; same < 5; time.Sleep(300 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the logs are not compacted:\n%s", before)
		}
		now, small := "", true
		for _, dir := range dirs {
			sum := int64(0)
			for _, name := range segments(t, dir) {
				if fi, err := os.Stat(name); err == nil {
					sum += fi.Size()
				}
				now += name + "\n"
			}
			small = small && sum < 2_200_000 // more than 5 MB when it was written
		}
		if now != before || !small {
			before, same = now, 0
			continue
		}
		same++
	}
}

func readForDump(t *testing.T, b *broker, name string) (out []dumped) {
	t.Helper()
	cl := newClient(t, b.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(name, 0)
	for next := int64(0); next < end.Offset; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatalf("%s at offset %d of %d: %v", name, next, end.Offset, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			kind := "CreateTime"
			if r.Attrs.TimestampType() == 1 {
				kind = "LogAppendTime"
			}
			value := string(r.Value)
			if r.Value == nil {
				value = "null"
			}
			out = append(out, dumped{r.Offset, r.Timestamp.UnixMilli(), kind, string(r.Key), value})
			next = r.Offset + 1
		})
	}
	return out
}

var (
	dumpedBatch  = regexp.MustCompile(`^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*producerId: (-?\d+) .*compresscodec: (\w+) .*isvalid: (\w+)`)
	dumpedRecord = regexp.MustCompile(`^\| offset: (\d+) (CreateTime|LogAppendTime): (-?\d+) .*?key: (.*?)( payload: (.*))?$`)
)

// dumpAgrees fails unless the tool reads all segments without a complaint and finds
// the records that a consumer was given.
func dumpAgrees(t *testing.T, cp, name, dir string, want []dumped) {
	files := segments(t, dir)
	if len(files) < 3 && !strings.HasPrefix(name, "compacted") || len(want) < 100 {
		t.Fatalf("%d segments with %d records: too few to show anything", len(files), len(want))
	}
	if strings.HasPrefix(name, "append-time") && want[0].kind != "LogAppendTime" {
		t.Fatalf("the records have %s", want[0].kind)
	}
	cmd := command(t, "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", cp, "org.apache.kafka.tools.DumpLogSegments",
		"--deep-iteration", "--print-data-log", "--files", strings.Join(files, ","))
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(text, 4096))
	}
	var got []dumped
	codecs, producers, batches := map[string]int{}, map[string]int{}, 0
	for _, line := range strings.Split(string(text), "\n") {
		switch m, r := dumpedBatch.FindStringSubmatch(line), dumpedRecord.FindStringSubmatch(line); {
		case m != nil:
			if m[6] != "true" {
				t.Errorf("not valid: %s", line)
			}
			batches++
			codecs[m[5]]++
			producers[m[4]]++
		case r != nil:
			offset, _ := strconv.ParseInt(r[1], 10, 64)
			ts, _ := strconv.ParseInt(r[3], 10, 64)
			value := "null"
			if r[5] != "" {
				value = r[6]
			}
			got = append(got, dumped{offset, ts, r[2], r[4], value})
		case line == "", strings.HasPrefix(line, "Dumping "), strings.HasPrefix(line, "Log starting offset: "):
		case strings.HasPrefix(line, "Non-consecutive offsets in "), startsAbove.MatchString(line):
		case strings.HasPrefix(name, "compacted") && isHole.MatchString(line):
		default:
			t.Errorf("the tool says: %.300s", line)
		}
	}
	t.Logf("%d segments, %d batches, %d records, codecs %v, producers %v", len(files), batches, len(got), codecs, producers)
	codec := name[strings.LastIndex(name, "-")+1:] // a client leaves a batch as it is that would not become smaller
	if !slices.Contains([]string{"gzip", "snappy", "lz4", "zstd"}, codec) {
		codec = "none"
	}
	if codecs[codec] < batches*9/10 {
		t.Errorf("%d of %d batches are %s", codecs[codec], batches, codec)
	}
	if len(got) != len(want) {
		t.Errorf("the tool reads %d records, a consumer %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("record %d:\nthe tool %.200v\nconsumer %.200v", i, got[i], want[i])
		}
	}
}

// The tool calls offsets consecutive if each is one more than the last one in the file,
// beginning at 0, so it has something to say of each file that begins later and of each
// offset that compaction has taken out. All other pairs are faults.
var (
	startsAbove = regexp.MustCompile(`^\s+-1 is followed by \d+$`)
	isHole      = regexp.MustCompile(`^\s+\d+ is followed by \d+$`)
)

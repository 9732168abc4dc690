package e2e

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
)

// txnBatch encodes a transactional batch of one record.
func txnBatch(id int64, epoch int16, seq int32, value string) []byte {
	r := kmsg.Record{Key: []byte("k"), Value: []byte(value)}
	r.Length = int32(len(r.AppendTo(nil)) - 1) // less than 64, so its own length stays 1
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords, b.Attributes = 2, 1, 1<<4
	b.FirstTimestamp = time.Now().UnixMilli()
	b.MaxTimestamp = b.FirstTimestamp
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = id, epoch, seq
	b.Records = r.AppendTo(nil)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

var (
	dumpedMarker = regexp.MustCompile(`^\| offset: (\d+) .*endTxnMarker: (\w+) coordinatorEpoch: (\d+)`)
	dumpedAbort  = regexp.MustCompile(`^version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)$`)
)

// TestKafkaReadsTransactions has Kafka's dump tool read markers, and the lists of aborted
// transactions beside them.
func TestKafkaReadsTransactions(t *testing.T) {
	cp := needJava(t)
	dir := t.TempDir()
	fs, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, err := substrate.OpenVolume(fs, "")
	if err != nil {
		t.Fatal(err)
	}
	id := [16]byte{1}
	if err := partition.BuildTopic(v, "setup", id, "txns", 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData})
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.Open(t.Context(), s, id, "txns", 0, 1, partition.Config{SegmentBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	markers, aborts := writeTxns(t, p)
	if err := p.Relinquish(t.Context()); err != nil {
		t.Fatal(err)
	}
	where := filepath.Join(dir, filepath.FromSlash(partition.Dir(id, 0)))
	logs, indexes := segments(t, where), matching(t, where, "*.txnindex")
	if len(logs) < 3 || len(indexes) < 3 {
		t.Fatalf("%d segments, %d lists", len(logs), len(indexes))
	}
	cmd := command(t, "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", cp, "org.apache.kafka.tools.DumpLogSegments",
		"--deep-iteration", "--print-data-log", "--files", strings.Join(append(logs, indexes...), ","))
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(text, 4096))
	}
	var gotMarkers, gotAborts []string
	for _, line := range strings.Split(string(text), "\n") {
		m, a, b := dumpedMarker.FindStringSubmatch(line), dumpedAbort.FindStringSubmatch(line), dumpedBatch.FindStringSubmatch(line)
		switch {
		case m != nil:
			gotMarkers = append(gotMarkers, strings.Join(m[1:], " "))
		case a != nil:
			gotAborts = append(gotAborts, strings.Join(a[1:], " "))
		case b != nil && b[6] != "true", strings.Contains(line, "rror"):
			t.Errorf("the tool says: %s", line)
		}
	}
	if !slices.Equal(gotMarkers, markers) {
		t.Errorf("markers %q, want %q", gotMarkers, markers)
	}
	if !slices.Equal(gotAborts, aborts) {
		t.Errorf("aborted %q, want %q", gotAborts, aborts)
	}
}

func matching(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// writeTxns runs transactions of two producers that overlap, and returns what the tool is
// to say of them.
func writeTxns(t *testing.T, p *partition.Partition) (markers, aborts []string) {
	t.Helper()
	wait := func(a *partition.Appended, err error) int64 {
		t.Helper()
		if err == nil {
			err = a.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return a.BaseOffset
	}
	add := func(id int64, epoch int16, seq int32) int64 {
		g, _ := p.StartVerification(id, epoch, seq, true)
		return wait(p.AppendTxn(t.Context(), txnBatch(id, epoch, seq, fmt.Sprint(id, epoch, seq)), g))
	}
	for i := range int16(60) {
		first, other := add(1, i, 0), add(2, i, 0)
		add(1, i, 1)
		end := func(id, began int64, commit bool, stable func(at int64) int64) {
			at := wait(p.WriteMarker(t.Context(), partition.Marker{ProducerID: id, ProducerEpoch: i + 1, Commit: commit, CoordinatorEpoch: 7, Version: 2}))
			word := "COMMIT"
			if !commit {
				word = "ABORT"
				aborts = append(aborts, fmt.Sprintf("0 %d %d %d %d", id, began, at, stable(at)))
			}
			markers = append(markers, fmt.Sprintf("%d %s 7", at, word))
		}
		end(1, first, i%3 > 0, func(int64) int64 { return other })
		end(2, other, i%2 > 0, func(at int64) int64 { return at + 1 })
	}
	return markers, aborts
}

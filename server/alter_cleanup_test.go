package server

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Retention and cleanup.policy are altered under a running partition, and act at once.
func TestCleanupAlteredLive(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.cleaner.backoff.ms=20", "log.retention.check.interval.ms=20", "log.segment.delete.delay.ms=0")
	c := dial(t, n.Addr())
	c.create("t", 1)
	for range 3 {
		if code, _ := c.produce("t", newBatch(nil, "v")); code != 0 {
			t.Fatalf("error %d", code)
		}
	}
	if code := c.alter(kmsg.ConfigResourceTypeTopic, "t", false, "SET retention.ms=1"); code != 0 {
		t.Fatalf("alter: error %d", code)
	}
	for deadline := time.Now().Add(patience); c.fetch("t", 0).ErrorCode != 1; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("retention.ms=1 has no effect")
		}
	}
	if code := c.alter(kmsg.ConfigResourceTypeTopic, "t", false, "SET cleanup.policy=compact", "SET compression.type=gzip"); code != 0 {
		t.Fatalf("alter: error %d", code)
	}
	if code, _ := c.produce("t", newBatch(nil, "no key")); code != 87 {
		t.Errorf("a record without a key on a topic that has become compacted: error %d", code)
	}
	if code, _ := c.deleteRecords(2, "t", -1); code != 44 {
		t.Errorf("DeleteRecords: error %d", code)
	}
}

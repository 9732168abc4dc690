package main

import (
	"fmt"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gone is how long files that were removed may stay, as .nfs… or otherwise.
const gone = 10 * time.Second

// TestRemovedFilesAreGone: with consumers reading, retention and the deletion of a topic
// give the room back, and leave no .nfs… file.
func TestRemovedFilesAreGone(t *testing.T) {
	l, _ := hosts(t)
	if l.Kernel() {
		t.Skip("looks at the volume beneath the server, which is another host's")
	}
	c := newCluster(t, l, "log.retention.check.interval.ms=500")
	const parts, each, size = 3, 96, 64 << 10 // 6 MiB each
	c.topic("going", parts, "segment.bytes=1048576", "retention.ms=-1", "file.delete.delay.ms=1000")
	for p := range int32(parts) {
		recs := make([]*kgo.Record, each)
		for i := range recs {
			recs[i] = &kgo.Record{Topic: "going", Partition: p, Value: []byte(strings.Repeat(strconv.Itoa(i%10), size))}
		}
		cl := c.client(c.addrs(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err := cl.ProduceSync(c.within(time.Minute), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	var reads sync.Map
	for i := range 2 {
		wg.Go(func() { reads.Store(i, c.readAgainAndAgain("going", stop)) })
	}
	full := c.used()

	if err := c.alter(1, "going", "retention.bytes", "2097152"); err != nil {
		t.Fatal(err)
	}
	cut := c.await(allow(2*gone), "retention gives room back", func() error {
		if now := c.used(); now > full/2 {
			return fmt.Errorf("%d KiB of %d; there are %s", now, full, c.onServer("find . -name '*.log' -o -name '.nfs*' 2>/dev/null || true"))
		}
		return nil
	})
	silly := c.await(allow(gone), "no .nfs file after retention", c.nothingSilly)
	t.Logf("retention: %d KiB became less than half within %v; no .nfs file %v later", full, cut.Round(time.Millisecond), silly.Round(time.Millisecond))

	if _, err := c.admin().DeleteTopic(c.within(time.Minute), "going"); err != nil {
		t.Fatal(err)
	}
	took := c.await(allow(gone), "the topic is gone from the volume", func() error {
		if err := c.nothingSilly(); err != nil {
			return err
		}
		if left := c.onServer("ls topics"); left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
	t.Logf("deletion: nothing was left %v after the answer; %d KiB are used", took.Round(time.Millisecond), c.used())
	end()
	reads.Range(func(i, n any) bool {
		t.Logf("consumer %v read %v records meanwhile", i, n)
		if n.(int) == 0 {
			t.Error("it read nothing")
		}
		return true
	})
}

// readAgainAndAgain reads a topic from its start until nothing more comes, and again.
func (c *cluster) readAgainAndAgain(topic string, stop <-chan struct{}) (n int) {
	for {
		cl := c.client(c.addrs(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
		for quiet := 0; quiet < 3; {
			select {
			case <-stop:
				cl.Close()
				return n
			default:
			}
			fs := cl.PollFetches(c.within(time.Second))
			if n += fs.NumRecords(); fs.NumRecords() == 0 {
				quiet++
			}
		}
		cl.Close()
	}
}

// onServer runs a command on the volume beneath the server, where nobody's caches are
// between.
func (c *cluster) onServer(command string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.within(time.Minute), "bash", "-c", command)
	cmd.Dir = path.Join(c.lab.Export(), path.Base(c.dir))
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(string(out))
}

// used is the size of all topics, in KiB.
func (c *cluster) used() int {
	c.t.Helper()
	out, _, _ := strings.Cut(c.onServer("du -sk --apparent-size topics 2>/dev/null || true"), "\t")
	n, err := strconv.Atoi(out)
	if err != nil {
		c.t.Fatalf("du says %q", out)
	}
	return n
}

// nothingSilly is an error that names the .nfs files that are there.
func (c *cluster) nothingSilly() error {
	c.t.Helper()
	if out := c.onServer("find . -name '.nfs*' 2>/dev/null || true"); out != "" {
		return fmt.Errorf("there is %s", out)
	}
	return nil
}

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestFailedCallsAreNeverAcknowledged makes system calls of a running broker fail as a
// sick volume does (CASES N-02, N-03): what was not acknowledged in that time is not
// there, what was acknowledged is, offsets have no gap, and the broker goes on by itself.
func TestFailedCallsAreNeverAcknowledged(t *testing.T) {
	need(t, "strace")
	for _, inject := range []string{
		"fdatasync:error=EIO:when=1", // of every thread
		"fdatasync:error=ENOSPC:when=2",
		"fdatasync:error=EDQUOT",
		"pwrite64:error=ENOSPC:when=1+2",
		"pwrite64:error=EIO",
		"close:error=EIO:when=1+3",
		"renameat:error=ENOSPC:when=3+5",
	} {
		t.Run(inject, func(t *testing.T) { failCalls(t, inject) })
	}
}

func failCalls(t *testing.T, inject string) {
	b := startBroker(t)
	cl := newClient(t, b.addr, kgo.DefaultProduceTopic(topic), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0),
		kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordDeliveryTimeout(10*time.Second))
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	acked, failed, codes := map[int64]string{}, map[string]bool{}, map[string]int{}
	put := func(value string) error {
		r := kgo.StringRecord(value)
		err := cl.ProduceSync(t.Context(), r).FirstErr()
		if err == nil {
			acked[r.Offset] = value
			return nil
		}
		failed[value] = true
		var ke *kerr.Error
		if errors.As(err, &ke) {
			codes[ke.Message]++
		}
		return err
	}
	for i := range 20 {
		if err := put(fmt.Sprintf("before-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	stop := injected(t, b, inject)
	for i, end := 0, time.Now().Add(3*time.Second); time.Now().Before(end); i++ {
		if put(fmt.Sprintf("during-%d", i)) != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	stop()
	back := time.Now()
	for i := 0; ; i++ {
		if put(fmt.Sprintf("after-%d", i)) == nil {
			break
		}
		if time.Since(back) > startTime {
			t.Fatal("the partition does not come back")
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d acknowledged, %d failed: %v; back after %v", len(acked), len(failed), codes, time.Since(back).Round(time.Millisecond))
	shown := 0
	for off, value := range consumeAll(t, b.addr) {
		if want, ok := acked[off]; ok && want != value {
			t.Errorf("offset %d holds %q, acknowledged was %q", off, value, want)
		}
		if failed[value] {
			shown++ // answered with an error and there: allowed where only the Check failed
		}
		delete(acked, off)
	}
	if len(acked) > 0 {
		t.Errorf("%d acknowledged records are missing: %v", len(acked), acked)
	}
	if shown > 0 && (strings.HasPrefix(inject, "pwrite64") || strings.HasPrefix(inject, "fdatasync")) {
		t.Errorf("%d records that failed are shown", shown)
	}
	b.stop()
}

// injected has strace make the broker's calls fail until stop.
func injected(t *testing.T, b *broker, inject string) (stop func()) {
	t.Helper()
	call, _, _ := strings.Cut(inject, ":")
	cmd := exec.Command("strace", "-f", "-o", os.DevNull, "-e", "trace="+call, "-e", "inject="+inject, "-p", strconv.Itoa(b.cmd.Process.Pid))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil || !strings.Contains(first, "attached") {
		_ = cmd.Wait() // its message says more than its code
		t.Skipf("strace cannot attach: %s", first)
	}
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // strace then detaches and ends with a code of its own
		_ = cmd.Wait()
	})
}

// consumeAll reads the topic from its start to its end, by offset; the offsets have no gap.
func consumeAll(t *testing.T, addr string) map[int64]string {
	t.Helper()
	cl := newClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	end := awaitEnd(ctx, kadm.NewClient(cl))
	out := map[int64]string{}
	for next := int64(0); next < end; {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("at offset %d of %d: %v", next, end, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset != next {
				t.Errorf("offset %d follows %d", r.Offset, next-1)
			}
			out[r.Offset], next = string(r.Value), r.Offset+1
		})
	}
	return out
}

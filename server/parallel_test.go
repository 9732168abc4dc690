package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestInParallel(t *testing.T) {
	var did atomic.Int64
	inParallel(1000, func(i int) { did.Add(int64(i)) })
	if got := did.Load(); got != 999*1000/2 {
		t.Errorf("sum %d", got)
	}
	defer func() {
		if v := fmt.Sprint(recover()); !strings.HasPrefix(v, "on purpose") || did.Load() != 999*1000/2+99 {
			t.Errorf("panic %q, after the others: %v", v, did.Load())
		}
	}()
	inParallel(100, func(i int) {
		if i == 50 {
			panic("on purpose")
		}
		did.Add(1)
	})
}

// Large requests in flight on one connection wait for one another's answers and
// all get theirs.
func TestLargeRequestsInFlight(t *testing.T) {
	n := startNode(t, t.TempDir(), "auto.create.topics.enable=false", "queued.max.request.bytes=1000000")
	c := dial(t, n.Addr())
	var names []string
	for i := range 40_000 {
		names = append(names, fmt.Sprintf("topic-with-a-name-of-some-length-to-fill-the-request-%d", i))
	}
	req := metadataReq(12, false, names...)
	const count = 4
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range count {
			c.send(req)
		}
	}()
	for i := range int32(count) {
		corr, b := c.receive()
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version = 12
		c.decode(resp, b)
		if corr != i+1 || len(resp.Topics) != len(names) || resp.Topics[7].ErrorCode != 3 {
			t.Errorf("answer %d to request %d: %d topics", i, corr, len(resp.Topics))
		}
	}
	<-done
}

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/projections/groups"
)

// allocated is how many MiB f takes, those of this client among them.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) >> 20
}

// What stands a thousand times in a request is answered once.
func TestRepeatsAreAnsweredOnce(t *testing.T) {
	large := strings.Repeat("m", 1<<20)
	member := classic.MemberDescription{MemberID: "m", Metadata: []byte(large), Assignment: []byte(large)}
	f := &fakeShard{described: map[string]groupshard.Description{"g": {Classic: &classic.Description{State: "Stable", Members: []classic.MemberDescription{member}}}}}
	c, _, id := dialFake(t, f, nil)
	f.group = &groups.Group{ID: "g", Offsets: groups.Offsets{id: {0: {Metadata: large[:4096]}}}}
	f.described["n"] = groupshard.Description{Consumer: &groups.Consumer{Members: map[string]*groups.ConsumerMember{"m": {ID: "m", ClientID: large[:4096]}}}}

	parts := func(resp kmsg.Response) (n int) {
		switch r := resp.(type) {
		case *kmsg.DescribeConfigsResponse:
			return len(r.Resources)
		case *kmsg.DescribeGroupsResponse:
			return len(r.Groups)
		case *kmsg.ConsumerGroupDescribeResponse:
			return len(r.Groups)
		case *kmsg.OffsetFetchResponse:
			return len(r.Groups)
		case *kmsg.FindCoordinatorResponse:
			return len(r.Coordinators)
		case *kmsg.DescribeTransactionsResponse:
			return len(r.TransactionStates)
		case *kmsg.DescribeProducersResponse:
			for _, topic := range r.Topics {
				n += len(topic.Partitions)
			}
		}
		return n
	}
	const times = 500
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.IncludeSynonyms, configs.IncludeDocumentation = true, true
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	configs.Resources = slices.Repeat([]kmsg.DescribeConfigsRequestResource{one}, 20*times)
	groupsOf := kmsg.NewPtrDescribeGroupsRequest()
	groupsOf.Groups = slices.Repeat([]string{"g"}, times)
	next := kmsg.NewPtrConsumerGroupDescribeRequest()
	next.Groups = slices.Repeat([]string{"n"}, 20*times)
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Groups = slices.Repeat([]kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}, 20*times)
	txn := kmsg.NewPtrDescribeTransactionsRequest()
	txn.TransactionalIDs = slices.Repeat([]string{"x"}, times)
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = slices.Repeat([]kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 0}}}, times)
	coordinators := kmsg.NewPtrFindCoordinatorRequest()
	coordinators.CoordinatorKeys = slices.Repeat([]string{"g"}, 600*times)
	for _, tc := range []struct {
		req     kmsg.Request
		version int16
	}{{configs, 4}, {groupsOf, 5}, {next, 0}, {offsets, 8}, {txn, 0}, {producers, 0}, {coordinators, 4}} {
		tc.req.SetVersion(tc.version)
		var n int
		if got := allocated(func() { n = parts(c.ask(tc.req)) }); n != 1 || got > 64 {
			t.Errorf("%s: answered %d times, %d MiB", kmsg.NameForKey(tc.req.Key()), n, got)
		}
	}
}

// An answer that is longer than clients read is not made: its connection ends.
func TestAnswerHasABound(t *testing.T) {
	member := classic.MemberDescription{MemberID: "m", Metadata: make([]byte, 1<<20), Assignment: make([]byte, 1<<20)}
	f := &fakeShard{described: map[string]groupshard.Description{}}
	c, _, _ := dialFake(t, f, nil)
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = 5
	for i := range 500 {
		name := fmt.Sprint("g", i)
		f.described[name] = groupshard.Description{Classic: &classic.Description{State: "Stable", Members: []classic.MemberDescription{member}}}
		req.Groups = append(req.Groups, name)
	}
	all := req.Groups
	req.Groups = all[:40] // 80 MiB, which is more than the room for all
	if resp := c.ask(req).(*kmsg.DescribeGroupsResponse); len(resp.Groups) != 40 || len(resp.Groups[39].Members[0].ProtocolMetadata) != 1<<20 {
		t.Errorf("%d groups", len(resp.Groups))
	}
	req.Groups = all
	got := allocated(func() {
		c.send(req)
		if _, err := c.nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("an answer of 1000 MiB: %v", err)
		}
	})
	if got > 64 {
		t.Errorf("it takes %d MiB", got)
	}
}

// newTelling is an answer of a connection of its own.
func newTelling(t *testing.T, b *budget) *request {
	c := &conn{}
	c.ctx, c.cancel = context.WithCancelCause(t.Context())
	return &request{conn: c, telling: &telling{budget: b, conn: c}}
}

// Long answers wait for room, small ones do not. Who reads slowly keeps others from it for 10 s,
// and who has gone has nothing made.
func TestAnswersShareRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10 << 20)
		slow := newTelling(t, b)
		if !slow.room(20<<20) || b.mu.used != 80<<20 { // alone it may have more than there is
			t.Fatalf("no room in an empty budget: %d used", b.mu.used)
		}
		slow.telling.made(20 << 20)
		if b.mu.used != 20<<20 || b.mu.whole != b.mu.used {
			t.Errorf("%d used by an answer on its way", b.mu.used)
		}
		small, gone, large, many := newTelling(t, b), newTelling(t, b), newTelling(t, b), newTelling(t, b)
		began := time.Now()
		if !small.room(freeAnswer) || time.Since(began) != 0 {
			t.Errorf("a small answer waits %v", time.Since(began))
		}
		gone.conn.cancel(io.EOF)
		if gone.room(1) || !errors.Is(gone.telling.failed(), io.EOF) {
			t.Errorf("an answer is made for nobody: %v", gone.telling.failed())
		}
		if many.room(mostAnswer+1) || !errors.Is(many.telling.failed(), errAnswer) || many.room(1) {
			t.Errorf("an answer has no bound: %v", many.telling.failed())
		}
		waits := newTelling(t, b)
		ended := make(chan bool)
		go func() { ended <- waits.room(1 << 20) }()
		time.Sleep(2 * time.Second)
		waits.conn.cancel(io.EOF)
		if <-ended {
			t.Error("there was room")
		}
		done := make(chan bool)
		go func() { done <- large.room(1 << 20) }()
		<-slow.conn.ctx.Done()
		if took := time.Since(began); took < slowReader || took > slowReader+2*time.Second || !errors.Is(context.Cause(slow.conn.ctx), errSlow) {
			t.Errorf("after %v: %v", took, context.Cause(slow.conn.ctx))
		}
		slow.telling.release()
		if !<-done {
			t.Error(large.telling.failed())
		}
		for _, r := range []*request{slow, small, gone, large, many, waits} {
			r.telling.release()
			r.telling.release()
		}
		if b.mu.used != 0 || b.mu.whole != 0 || b.mu.reading.Len() != 0 || b.mu.sending.Len() != 0 {
			t.Errorf("%d used, %d whole, %d made, %d on their way", b.mu.used, b.mu.whole, b.mu.reading.Len(), b.mu.sending.Len())
		}
	})
}

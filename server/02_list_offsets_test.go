package server

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The leader epoch of an answer is the epoch of what it names: of the start that which
// wrote there, of the end the leader's own, of a record its batch's.
func TestListOffsetsLeaderEpochs(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // a leadership each, and a record
		n, err := Open(context.Background(), testConfig(t, dir), testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, n.Addr())
		if n.broker.View().Topic("t") == nil {
			c.create("t", 1)
			c.create("empty", 1)
		}
		awaitReady(t, n)
		if code, _ := c.produce("t", newBatch(nil, "v")); code != 0 {
			t.Fatal(code)
		}
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	n := startNode(t, dir)
	awaitReady(t, n)
	c := dial(t, n.Addr())
	first, last := int32(1), n.broker.View().Topic("t").Partitions[0].Epoch
	if last < 3 {
		t.Fatalf("the third leadership has epoch %d", last)
	}
	for _, tc := range []struct {
		topic         string
		ts            int64
		version       int16
		offset        int64
		lowest, upper int32 // of the epoch
	}{
		{"t", -2, 3, 0, -1, -1},
		{"t", -2, 4, 0, first, first},
		{"t", -2, 11, 0, first, first},
		{"t", -4, 8, 0, first, first},
		{"t", -1, 4, 2, last, last},
		{"t", -3, 7, 1, first + 1, last - 1},
		{"t", 0, 7, 0, first, first},
		{"t", -5, 9, -1, -1, -1},
		{"empty", -2, 4, 0, last, last},
		{"empty", -1, 4, 0, last, last},
		{"empty", -3, 7, -1, -1, -1},
	} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = tc.version, -1
		rt, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		rt.Topic, p.Timestamp = tc.topic, tc.ts
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		got := c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || got.Offset != tc.offset || got.LeaderEpoch < tc.lowest || got.LeaderEpoch > tc.upper {
			t.Errorf("%s at %d, version %d: error %d, offset %d, epoch %d; want offset %d, epoch %d to %d",
				tc.topic, tc.ts, tc.version, got.ErrorCode, got.Offset, got.LeaderEpoch, tc.offset, tc.lowest, tc.upper)
		}
	}
}

// An end that is told after a fetch is no older than what the fetch has told: a consumer that
// waits for records asks for the end on the same connection.
func TestListOffsetsAfterFetch(t *testing.T) {
	n := startNode(t, t.TempDir())
	other := dial(t, n.Addr())
	other.create("t", 1)
	looked := make(chan struct{}, 1)
	c := dial(t, serveAlso(t, &looking{broker{n.broker}, looked}, n.server.clusterID)[0])
	c.send(fetchReq("t", 0, time.Minute))
	c.send(endReq("t"))
	select { // whoever looks before the fetch is answered does so by now
	case <-looked:
	case <-time.After(200 * time.Millisecond):
	}
	other.produce("t", newBatch(nil, "v"))
	fetched, ended := kmsg.NewPtrFetchResponse(), kmsg.NewPtrListOffsetsResponse()
	fetched.Version, ended.Version = 12, 5
	_, body := c.receive()
	c.decode(fetched, body)
	_, body = c.receive()
	c.decode(ended, body)
	high, end := fetched.Topics[0].Partitions[0].HighWatermark, ended.Topics[0].Partitions[0].Offset
	if high != 1 || end != 1 {
		t.Fatalf("the end is %d after a high watermark of %d", end, high)
	}
}

// looking tells of Checks that answers wait for.
type looking struct {
	Backend
	looked chan struct{}
}

func (l *looking) CheckFresh(ctx context.Context) error {
	err := l.Backend.CheckFresh(ctx)
	select {
	case l.looked <- struct{}{}:
	default:
	}
	return err
}

package server

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/quota"
)

const (
	evadedRate = 200_000 // bytes a second
	evadedSize = 50_000  // of a request
	evadedTime = 3 * time.Second
)

// hostileProduce is a request by a client that calls itself so.
func hostileProduce(client string) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, produceOf(evadedSize, -1), 1)
}

// evade has a user with a quota send as it likes for a while, and checks what got through: a
// second's worth at once, what the quota gives in that time, and a request that each of those
// who send at the same time may have begun before anybody was counted.
func evade(t *testing.T, together int, send func(t *testing.T, addr string, i int, until time.Time)) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.quota("user=ANONYMOUS", fmt.Sprint("producer_byte_rate=", evadedRate))
	got, rounds, began := int64(0), int64(0), time.Now()
	for got == 0 && time.Since(began) < patience { // a machine may have no time for them at first
		var wg sync.WaitGroup
		until := time.Now().Add(evadedTime)
		for i := range together {
			wg.Go(func() { send(t, n.Addr(), i, until) })
		}
		wg.Wait()
		got, rounds = c.end("t")*evadedSize, rounds+1
	}
	passed := time.Since(began) // what came with the last requests is within it
	most := int64(evadedRate*(passed.Seconds()+1)) + rounds*int64(together)*evadedSize
	if t.Logf("%d bytes in %v, at most %d", got, passed, most); got > most || got == 0 {
		t.Errorf("%d bytes got through in %v, more than %d", got, passed, most)
	}
}

// once sends one request on a connection of its own, and waits for the answer or hangs up.
func produceOnce(t *testing.T, addr, client string, wait time.Duration) {
	c := dial(t, addr)
	defer c.nc.Close()
	if _, err := c.nc.Write(hostileProduce(client)); err != nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(wait))
	_, _ = io.ReadFull(c.nc, make([]byte, 4))
}

// Whoever has a quota gains nothing by calling himself something else in every request.
func TestQuotaOfManyClientIDs(t *testing.T) {
	evade(t, 10, func(t *testing.T, addr string, i int, until time.Time) {
		c := dial(t, addr)
		_ = c.nc.SetDeadline(until)
		go func() { _, _ = io.Copy(io.Discard, c.nc) }()
		for n := 0; time.Now().Before(until); n++ {
			if _, err := c.nc.Write(hostileProduce(fmt.Sprint("c", i, "-", n))); err != nil {
				break
			}
		}
		c.nc.Close()
	})
}

// Nor by hanging up while he is muted, and coming again.
func TestQuotaOfWhoComesAgain(t *testing.T) {
	evade(t, 4, func(t *testing.T, addr string, i int, until time.Time) {
		for n := 0; time.Now().Before(until); n++ {
			produceOnce(t, addr, fmt.Sprint("c", n), 200*time.Millisecond)
		}
	})
}

// Half a request is charged nothing, and keeps nobody waiting who has sent whole ones.
func TestHalfRequestsAndQuotas(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.quota("user=ANONYMOUS", fmt.Sprint("producer_byte_rate=", evadedRate))
	c.ask(produceOf(1000, -1))
	for range 50 {
		half := dial(t, n.Addr())
		raw := hostileProduce("half")
		if _, err := half.nc.Write(raw[:len(raw)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.ask(produceOf(1000, -1)).(*kmsg.ProduceResponse); got.ThrottleMillis != 0 || got.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("who sends a whole one: %+v", got)
	}
}

// A user with a quota for new connections, or for time, is slowed down however many there are:
// see TestConnectionRates for addresses.
func TestRequestTimeOfManyConnections(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 100)
	c.quota("user=ANONYMOUS", "request_percentage=0.01")
	began, asked := time.Now(), 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := dial(t, n.Addr())
			for time.Since(began) < 2*time.Second {
				req := kmsg.NewPtrMetadataRequest()
				req.Version = 9
				_, _ = c.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(fmt.Sprint("c", i))).AppendRequest(nil, req, 1))
				c.receive()
				mu.Lock()
				asked++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if t.Logf("%d requests", asked); asked > 2000 {
		t.Errorf("%d requests in %v", asked, time.Since(began))
	}
}

// Nor does whoever hangs up while he is muted for the time that his requests take, and comes
// again, or who sends the next before he is told: there is one request a second either way.
func TestRequestTimeOfWhoComesAgain(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.quota("user=ANONYMOUS", "request_percentage=0.000001")
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	dial(t, n.Addr()).ask(req) // from now on he owes for days
	takes(t, 2*time.Second, "two connections", func() {
		for range 2 {
			d := dial(t, n.Addr())
			d.ask(req)
			d.nc.Close()
		}
	})
	takes(t, 3*time.Second, "three requests at once, each by another name", func() {
		d := dial(t, n.Addr())
		for i := range 3 {
			if _, err := d.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(fmt.Sprint("c", i))).AppendRequest(nil, req, int32(i))); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			d.receive()
		}
	})
	takes(t, 3*time.Second, "three requests at once", func() {
		d := dial(t, n.Addr())
		for range 3 {
			d.send(req)
		}
		for range 3 {
			d.receive()
		}
	})
}

// What a request takes counts though its answer is never sent, and while it waits.
func TestRequestTimeOfWhoHangsUp(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.quota("client-id=hangs-up", "request_percentage=0.000001")
	c.ask(metadataReq(9, false, "t")) // that of another
	owes := func() bool {
		return n.server.quota.Owes(n.server.quotas(), quota.Client{User: "ANONYMOUS", ID: "hangs-up"}) > 0
	}
	if owes() {
		t.Fatal("who has asked for nothing owes time")
	}
	d := dial(t, n.Addr())
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.MaxWaitMillis = 12, 1, 1<<20, 600_000
	of := kmsg.NewFetchRequestTopic()
	of.Topic, of.Partitions = "t", []kmsg.FetchRequestTopicPartition{{CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: 1 << 20}}
	req.Topics = append(req.Topics, of)
	if _, err := d.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("hangs-up")).AppendRequest(nil, req, 1)); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "a fetch that waits counts", owes)
	d.nc.Close()
}

// What a client's patterns take is time of its requests.
func TestTimeOfPatterns(t *testing.T) {
	f := &fakeShard{spends: 10 * time.Second}
	c, n, _ := dialFake(t, f, nil)
	dial(t, n.Addr()).quota("client-id=test", "request_percentage=50") // 5 s in ten
	pattern := "t.*"
	got := c.ask(&kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: "g", MemberID: "m", MemberEpoch: 1, SubscribedTopicRegex: &pattern}).(*kmsg.ConsumerGroupHeartbeatResponse)
	if got.ThrottleMillis != 1000 || got.ErrorCode != 0 {
		t.Errorf("a heartbeat whose pattern takes 10 s: %+v", got)
	}

	s := &Server{cfg: &Config{}}
	r := &request{conn: &conn{s: s}}
	if err := r.checkPattern("a.*"); err != nil || r.took <= 0 {
		t.Errorf("to judge a pattern takes %v, %v", r.took, err)
	}
	before := r.took
	if match := matchVisible(t.Context(), r, "a.*"); !match("abc") || r.took <= before {
		t.Errorf("to match it takes %v", r.took-before)
	}
}

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// scrape is what a node tells of its metrics.
func scrape(n *Node) string {
	rec := httptest.NewRecorder()
	httpHandler(n.metrics, func() error { return nil }).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	return rec.Body.String()
}

// scraped is what a series of the plain listener tells; its name ends so.
func scraped(t *testing.T, n *Node, name string) float64 {
	t.Helper()
	_, rest, _ := strings.Cut(scrape(n), name+`{listener="PLAINTEXT"} `)
	text, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// takes fails unless f takes at least that long.
func takes(t *testing.T, least time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if d := time.Since(began); d < least {
		t.Errorf("%s took %v, less than %v", what, d, least)
	}
}

func produceOf(size int, acks int16) *kmsg.ProduceRequest {
	return produceReq(acks, "t", newBatch(nil, strings.Repeat("x", size)))
}

// A producer above its quota is told so at once, and nothing more is read from it until it
// has waited, whatever it sends meanwhile. Others are not kept waiting.
func TestProducersAreMuted(t *testing.T) {
	n := startNode(t, t.TempDir())
	c, other := dial(t, n.Addr()), dial(t, n.Addr())
	c.create("t", 1)
	c.quota("user=ANONYMOUS", "producer_byte_rate=10000")
	for _, acks := range []int16{-1, 0} {
		c := dial(t, n.Addr())
		takes(t, 400*time.Millisecond, "a request after one that was too large", func() {
			c.send(produceOf(15_000, acks))
			if acks != 0 {
				resp := kmsg.NewPtrProduceResponse()
				resp.Version = 9
				_, b := c.receive()
				c.decode(resp, b)
				if resp.ThrottleMillis < 400 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
					t.Errorf("acks=%d: %+v", acks, resp)
				}
			}
			c.ask(kmsg.NewPtrMetadataRequest())
		})
		if got := other.ask(kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse); got.ThrottleMillis != 0 {
			t.Errorf("somebody else waits %d ms", got.ThrottleMillis)
		}
	}
	c.quota("user=ANONYMOUS", "-producer_byte_rate")
	if got := c.ask(produceOf(15_000, -1)).(*kmsg.ProduceResponse); got.ThrottleMillis != 0 {
		t.Errorf("without the quota: %d ms", got.ThrottleMillis)
	}
	if !strings.Contains(scrape(n), "kafka_server_produce_throttle_time_seconds_count 2") {
		t.Error("the metrics do not tell of two waits")
	}
}

// A stop does not wait for those who are muted.
func TestStopWhileMuted(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.quota("client-id", "producer_byte_rate=1")
	if got := c.ask(produceOf(1000, -1)).(*kmsg.ProduceResponse); got.ThrottleMillis < 500_000 {
		t.Errorf("throttled for %d ms", got.ThrottleMillis)
	}
	c.send(kmsg.NewPtrMetadataRequest())
}

// A consumer above its quota gets nothing, as if there were nothing, and can go on from
// where it was; a session is neither opened nor changed by that.
func TestConsumersAreSentNothing(t *testing.T) {
	n := startNode(t, t.TempDir())
	for version, who := range map[int16]string{6: "client-id=test", 12: "user=ANONYMOUS", 18: "user=ANONYMOUS client-id=test"} {
		c := &sessionClient{client: dial(t, n.Addr()), version: version, ids: map[string][16]byte{}}
		topic := "t" + string(rune('a'+version))
		c.ids[topic] = c.create(topic, 1)
		for range 3 {
			c.produceTo(topic, 0, strings.Repeat("x", 4000))
		}
		c.quota(who, "consumer_byte_rate=100")
		epoch := int32(0)
		if version < 7 {
			epoch = -1
		}
		where := []at{{topic, 0, 0}}
		first := c.fetch(0, epoch, time.Second, where)
		if c.told(first) != topic+"0+" || first.ThrottleMillis != 0 || len(first.Topics[0].Partitions[0].RecordBatches) > 5000 {
			t.Fatalf("version %d: the first batch is to be sent alone: %s, %d ms", version, c.told(first), first.ThrottleMillis)
		}
		id := first.SessionID
		where[0].offset = 1
		for _, session := range []int32{0, id} {
			if session != 0 {
				epoch = 1
			}
			d := dial(t, n.Addr())
			refused := (&sessionClient{client: d, version: version, ids: c.ids}).fetch(session, epoch, time.Second, where)
			if refused.ThrottleMillis < 500 || len(refused.Topics) != 0 || refused.SessionID != session || refused.ErrorCode != 0 {
				t.Errorf("version %d: the next is to be nothing: %+v", version, refused)
			}
		}
		c.quota(who, "-consumer_byte_rate")
		if id != 0 {
			epoch = 2
		}
		if next := c.fetch(id, epoch, time.Second, nil); id != 0 && c.told(next) != topic+"0+" {
			t.Errorf("version %d: after the wait: %s", version, c.told(next))
		}
	}
}

// muted fails if the connection is answered soon.
func (c *client) muted() {
	c.t.Helper()
	c.send(kmsg.NewPtrApiVersionsRequest())
	_ = c.nc.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := c.nc.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("the connection is answered: %v", err)
	}
}

// Old versions of those who make, grow and delete topics are made to wait, newer ones are
// refused, whichever broker they ask.
func TestMutationsAreBounded(t *testing.T) {
	n := startNode(t, t.TempDir())
	f := startFollower(t, n)
	for name, addr := range map[string]string{"user=ANONYMOUS": n.Addr(), "client-id=test": f.addr} {
		t.Run(name, func(t *testing.T) { mutationsAreBounded(t, addr, name) })
	}
}

func mutationsAreBounded(t *testing.T, addr, who string) {
	const late = 89 // THROTTLING_QUOTA_EXCEEDED
	prefix := strings.ReplaceAll(who, "=", ".")
	c := dial(t, addr)
	for _, topic := range []string{"grown", "gone", "kept"} {
		c.create(prefix+topic, 1)
	}
	create := func(version int16, topics ...string) *kmsg.CreateTopicsRequest {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = version, 20_000
		for _, topic := range topics {
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = prefix+topic, 4, 1
			req.Topics = append(req.Topics, rt)
		}
		return req
	}
	told := func(req kmsg.Request, throttle int32, codes ...int16) {
		t.Helper()
		c := dial(t, addr)
		resp := c.ask(req)
		var got []int16
		switch r := resp.(type) {
		case *kmsg.CreateTopicsResponse:
			for _, rt := range r.Topics {
				got = append(got, rt.ErrorCode)
			}
		default:
			got = codesIn(resp)
		}
		ms, _ := resp.(kmsg.ThrottleResponse).Throttle()
		if ms < throttle || !slices.Equal(got, codes) {
			t.Errorf("%s version %d: codes %v, throttled for %d ms, want %v and at least %d", kmsg.NameForKey(req.Key()), req.GetVersion(), got, ms, codes, throttle)
		}
		c.muted()
	}
	c.quota(who, "controller_mutation_rate=0.05") // half a partition at once
	told(create(7, "a", "b", "c"), 50_000, 0, late, late)
	told(create(6, "d"), 40_000, late)
	told(create(5, "d"), 120_000, 0)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.TimeoutMillis = 3, 20_000
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: prefix + "grown", Count: 2}}
	told(grow, 120_000, late)
	for version, topic := range map[int16]string{5: "kept", 4: "gone"} {
		drop := kmsg.NewPtrDeleteTopicsRequest()
		drop.Version, drop.TimeoutMillis, drop.TopicNames = version, 20_000, []string{prefix + topic}
		told(drop, 120_000, map[int16]int16{5: late, 4: 0}[version])
	}
	auto := kmsg.NewPtrMetadataRequest()
	auto.Version, auto.AllowAutoTopicCreation = 9, true
	made := prefix + "auto"
	auto.Topics = []kmsg.MetadataRequestTopic{{Topic: &made}}
	if got := c.ask(auto).(*kmsg.MetadataResponse).Topics[0]; got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("%+v", got)
	}
	c.quota(who, "-controller_mutation_rate")
}

// The time that requests take counts, too, and none waits longer than a sample takes.
func TestRequestTimeIsBounded(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.quota("client-id=test", "request_percentage=0.000001")
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	takes(t, time.Second, "two requests", func() {
		for range 2 {
			if got := c.ask(req).(*kmsg.MetadataResponse).ThrottleMillis; got != 1000 {
				t.Errorf("throttled for %d ms", got)
			}
		}
	})
}

// Connections that come too often wait, or, of an address that makes too many, are closed.
func TestConnectionRates(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.quota("ip=127.0.0.1", "connection_creation_rate=1")
	served, closed, waited, began := 0, 0.0, 0.0, time.Now()
	for closed < 2 && time.Since(began) < patience {
		one := time.Now()
		c := dial(t, n.Addr())
		_, _ = c.nc.Write(frame(kmsg.NewPtrMetadataRequest(), 1)) // it may be closed by now
		if _, err := io.ReadFull(c.nc, make([]byte, 4)); err == nil {
			served++
			continue
		}
		closed, waited = closed+1, waited+time.Since(one).Seconds()
	}
	const waits = "_ip_connection_accept_throttle_time_seconds_"
	count, sum, most := scraped(t, n, waits+"count"), scraped(t, n, waits+"sum"), 11+time.Since(began).Seconds()
	if float64(served) > most || closed < 2 || closed != count || sum <= 0 || waited < sum {
		t.Errorf("%d were served, at most %v; %v were closed after %v s together, and %v are told to have waited %v s", served, most, closed, waited, count, sum)
	}
	c.quota("ip=127.0.0.1", "-connection_creation_rate")
	if code := c.alter(ofBroker, "0", false, "SET max.connection.creation.rate=2"); code != 0 {
		t.Fatal(code)
	}
	takes(t, 2*time.Second, "25 connections", func() {
		for range 25 {
			dial(t, n.Addr()).ask(kmsg.NewPtrMetadataRequest())
		}
	})
}

// A listener has its own rate of new connections, and keeps no other waiting.
func TestConnectionRateOfAListener(t *testing.T) {
	n := startNode(t, t.TempDir(), twoListeners, "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
		"listener.name.outside.max.connection.creation.rate=2")
	waited := func(listener string) bool {
		return strings.Contains(scrape(n), `_connection_accept_throttle_time_seconds_count{listener="`+listener+`"}`)
	}
	for range 25 {
		dial(t, n.lns[0].Addr().String()).ask(kmsg.NewPtrMetadataRequest())
	}
	if waited("INSIDE") {
		t.Error("a listener without a rate waited")
	}
	takes(t, 2*time.Second, "25 connections", func() {
		for range 25 {
			dial(t, n.lns[1].Addr().String()).ask(kmsg.NewPtrMetadataRequest())
		}
	})
	if !waited("OUTSIDE") || waited("INSIDE") {
		t.Errorf("OUTSIDE waited: %v, INSIDE waited: %v", waited("OUTSIDE"), waited("INSIDE"))
	}
}

// A connection that is muted for longer than it may idle is closed.
func TestMutedForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipeServer(t, "connections.max.idle.ms=5000")
		mine, theirs := net.Pipe()
		defer mine.Close()
		c := s.newConn(&s.cfg.Listeners[0], theirs)
		c.mute(time.Second)
		began := time.Now()
		if err := c.awaitUnmuted(); err != nil || time.Since(began) != time.Second {
			t.Errorf("muted for a second: %v after %v", err, time.Since(began))
		}
		c.mute(time.Hour)
		if err := c.awaitUnmuted(); err == nil || time.Since(began) != 6*time.Second {
			t.Errorf("muted for an hour: %v after %v", err, time.Since(began))
		}
		c.mute(time.Hour)
		c.cancel(context.Canceled)
		if err := c.awaitUnmuted(); err == nil {
			t.Error("the connection has ended, and is waited for")
		}
	})
}

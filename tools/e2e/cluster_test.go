package e2e

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is brokers 1 to 3, each a process, on one directory.
type cluster struct {
	t       *testing.T
	brokers []*broker
	asked   []*kgo.Client // of each broker alone, so that it is known who answers
	cl      *kgo.Client   // of all
}

func startCluster(t *testing.T, sets ...string) *cluster {
	t.Helper()
	c := &cluster{t: t}
	dir := filepath.Join(t.TempDir(), "data")
	for id := 1; id <= 3; id++ {
		b := newBroker(t, dir, append(slices.Clip(sets), "node.id="+strconv.Itoa(id))...)
		b.launch()
		c.brokers = append(c.brokers, b)
		c.asked = append(c.asked, c.newClient(kgo.SeedBrokers(b.addr)))
	}
	c.cl = c.newClient(kgo.SeedBrokers(c.addrs()...))
	c.settled()
	return c
}

func (c *cluster) addrs() (addrs []string) {
	for _, b := range c.brokers {
		addrs = append(addrs, b.addr)
	}
	return addrs
}

func (c *cluster) bootstrap() string { return strings.Join(c.addrs(), ",") }

// newClient looks for who leads as often as it needs to.
func (c *cluster) newClient(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.addrs()...), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(20 * time.Millisecond)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

func (c *cluster) broker(id int32) *broker { return c.brokers[id-1] }

// ask asks one broker, and no other; again where a connection of its last process may have
// been in the way.
func (c *cluster) ask(id int32, req kmsg.Request) (resp kmsg.Response, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 15*time.Second)
	defer cancel()
	for range 2 {
		if resp, err = c.asked[id-1].SeedBrokers()[0].Request(ctx, req); err == nil {
			break
		}
	}
	return resp, err
}

// metadata is what one broker tells of topics, nil if it does not answer.
func (c *cluster) metadata(id int32, topics ...string) *kmsg.MetadataResponse {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, topic := range topics {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &topic})
	}
	resp, err := c.ask(id, req)
	if err != nil {
		return nil
	}
	return resp.(*kmsg.MetadataResponse)
}

// await waits until ok, for two minutes of kaas.
func (c *cluster) await(what string, ok func() bool) {
	c.t.Helper()
	c.awaitFor(time.Minute+startTime, what, ok)
}

func (c *cluster) awaitFor(most time.Duration, what string, ok func() bool) {
	c.t.Helper()
	late := time.After(most)
	for !ok() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			c.t.Fatalf("not within %v: %s", most, what)
		}
	}
}

// settled waits until all three brokers serve what they lead, and show one another.
func (c *cluster) settled() {
	c.t.Helper()
	c.await("all brokers serve", func() bool {
		for i, b := range c.brokers {
			select {
			case <-b.done:
				c.t.Fatalf("broker %d has ended: %v\n%s", i+1, b.cmd.ProcessState, tail(b.log.Bytes(), 4096))
			default:
			}
			if !b.isReady() {
				return false
			}
			if m := c.metadata(int32(i + 1)); m == nil || len(m.Brokers) != 3 {
				return false
			}
		}
		return true
	})
}

func (b *broker) isReady() bool {
	if foreign != "" {
		return true // it is when its metadata says so
	}
	cl := http.Client{Timeout: time.Second}
	resp, err := cl.Get("http://" + b.http + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// leader is who leads partition 0 of a topic, as one of the brokers that answer sees it;
// 0 if none does.
func (c *cluster) leader(topic string, as int32) int32 {
	m := c.metadata(as, topic)
	if m == nil || m.Topics[0].ErrorCode != 0 || m.Topics[0].Partitions[0].Leader < 0 {
		return 0
	}
	return m.Topics[0].Partitions[0].Leader
}

// controller is who is it, as a broker sees it.
func (c *cluster) controller(as int32) int32 {
	if m := c.metadata(as); m != nil {
		return m.ControllerID
	}
	return 0
}

// aController is controller, when there is one.
func (c *cluster) aController(as int32) (id int32) {
	c.t.Helper()
	c.await("a controller is known", func() bool {
		id = c.controller(as)
		return id > 0
	})
	return id
}

// known is how many brokers a broker knows to serve, 0 if it does not answer.
func (c *cluster) known(as int32) int {
	if m := c.metadata(as); m != nil {
		return len(m.Brokers)
	}
	return 0
}

// admin asks for what may take a while on a busy machine: kadm's own limit is 15 s.
func (c *cluster) admin() *kadm.Client { return patient(c.cl) }

func patient(cl *kgo.Client) *kadm.Client {
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(startTime.Milliseconds()))
	return adm
}

// other is a broker that is none of these.
func (c *cluster) other(ids ...int32) int32 {
	for id := int32(1); ; id++ {
		taken := false
		for _, not := range ids {
			taken = taken || id == not
		}
		if !taken {
			return id
		}
	}
}

func (c *cluster) create(topic string, partitions int32, configs map[string]*string) {
	c.t.Helper()
	if _, err := c.admin().CreateTopic(c.t.Context(), partitions, 1, configs, topic); err != nil {
		c.t.Fatalf("create %s: %v", topic, err)
	}
}

// lead has a broker lead partition 0 of topics, and returns when it serves them. It asks
// again while a cluster that one has just come to makes itself even, which undoes it.
func (c *cluster) lead(id int32, topics ...string) {
	c.t.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	for _, topic := range topics {
		req.Assign(topic, 0, []int32{id})
	}
	var asked time.Time
	c.await("it is led there", func() bool {
		if time.Since(asked) > time.Second {
			rs, err := c.admin().AlterPartitionAssignments(c.t.Context(), req)
			if err == nil {
				err = rs.Error()
			}
			if err != nil {
				c.t.Fatalf("reassign %v to %d: %v", topics, id, err)
			}
			asked = time.Now()
		}
		for _, topic := range topics {
			if c.leader(topic, id) != id || c.end(id, topic) < 0 {
				return false
			}
		}
		return true
	})
}

// end is the end of partition 0 as a broker that leads it tells it; -1 if it does not.
func (c *cluster) end(id int32, topic string) int64 {
	resp, err := c.ask(id, listOffsets(topic, -1))
	if err != nil {
		return -1
	}
	if p := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode == 0 {
		return p.Offset
	}
	return -1
}

func listOffsets(topic string, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.CurrentLeaderEpoch, p.Timestamp = -1, timestamp
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return req
}

// grows waits until records come to the topics that were not there when it was called.
func (c *cluster) grows(topics ...string) {
	c.t.Helper()
	for _, topic := range topics {
		now := func() int64 {
			end := int64(-1)
			for id := range int32(3) {
				if c.isUp(id + 1) {
					end = max(end, c.end(id+1, topic))
				}
			}
			return end
		}
		var from int64
		c.await(topic+" is served", func() bool { from = now(); return from >= 0 })
		c.await(topic+" goes on", func() bool { return now() > from })
	}
}

// isUp reports that a broker's process runs and is not stopped.
func (c *cluster) isUp(id int32) bool {
	b := c.broker(id)
	select {
	case <-b.done:
		return false
	default:
		return !b.paused
	}
}

// pause and resume are SIGSTOP and SIGCONT.
func (b *broker) pause() { b.signal(syscall.SIGSTOP, true) }

func (b *broker) resume() { b.signal(syscall.SIGCONT, false) }

func (b *broker) signal(s syscall.Signal, paused bool) {
	b.t.Helper()
	b.paused = paused
	if err := b.cmd.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

func code(t *testing.T, what string, got int16, want *kerr.Error) {
	t.Helper()
	if want == nil && got != 0 || want != nil && got != want.Code {
		t.Errorf("%s: error %d (%v), want %v", what, got, kerr.ErrorForCode(got), want)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kaas.dev/kaas/tools/nfslab/lab"
)

// cluster is a broker on each of three hosts, on a volume of their own.
type cluster struct {
	t    *testing.T
	lab  *lab.Lab
	bin  string
	dir  string // of the volume, on every host
	sets []string
	all  []*lab.Broker // broker N at N-1
	cl   *kgo.Client   // one that knows all of them
}

// clusterSize is how many brokers a cluster has.
const clusterSize = 3

// newCluster starts a cluster on the common lab, or on l.
func newCluster(t *testing.T, l *lab.Lab, sets ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, lab: l, sets: sets, dir: path.Join("/mnt/data", t.Name())}
	ctx := c.within(allow(2 * time.Minute))
	var err error
	if c.bin, err = l.BuildBroker(ctx); err == nil {
		c.all, err = l.StartBrokers(ctx, clusterSize, c.bin, c.args()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	c.cl = c.client(c.addrs())
	c.awaitReady(allow(time.Minute))
	return c
}

func (c *cluster) args() (out []string) {
	for _, s := range append([]string{"log.dirs=" + c.dir}, c.sets...) {
		out = append(out, "--set", s)
	}
	return out
}

// end kills what still runs, once, for the tests that follow.
func (c *cluster) end() {
	ctx, cancel := context.WithTimeout(context.Background(), allow(30*time.Second))
	defer cancel()
	for _, b := range c.all {
		if c.t.Failed() {
			c.t.Logf("calls of %s's broker that the kernel has not answered:\n%s", b.Host.Name(), waiting(ctx, b))
		}
		if err := b.Kill(ctx); err != nil {
			c.t.Logf("%s: %v", b.Host.Name(), err) // gone, with its host perhaps
		}
	}
	if c.t.Failed() {
		for _, b := range c.all {
			c.t.Logf("broker of %s said last:\n%s", b.Host.Name(), b.End())
		}
	}
	c.all = nil
}

// waiting is where in the kernel's NFS client a broker's threads are.
func waiting(ctx context.Context, b *lab.Broker) string {
	const stacks = `for s in /proc/%d/task/*/stack; do if grep -q nfs $s; then echo; cut -d' ' -f2 $s | grep -E 'nfs|sys_' | tr '\n' ' '; fi; done`
	out, err := b.Host.Exec(ctx, fmt.Sprintf(stacks, b.PID))
	if err != nil {
		return err.Error()
	}
	return out
}

// start starts broker n again.
func (c *cluster) start(n int) {
	c.t.Helper()
	b, err := c.lab.StartBroker(c.within(allow(2*time.Minute)), n, c.bin, c.args()...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.all[n-1] = b
}

func (c *cluster) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	c.t.Cleanup(cancel)
	return ctx
}

func (c *cluster) addrs() (out []string) {
	for _, b := range c.all {
		out = append(out, b.Addr)
	}
	return out
}

// client makes a client whose requests name topics, and that is told of trouble soon.
func (c *cluster) client(seeds []string, opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	v := kversion.Stable()
	v.SetMaxKeyVersion(0, 12) // Produce
	v.SetMaxKeyVersion(1, 12) // Fetch
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.AlwaysRetryEOF(), kgo.MaxVersions(v), kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			return c.lab.DialContext(ctx, network, addr)
		}),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// admin gives what it asks for more than kadm's own 15 s.
func (c *cluster) admin() *kadm.Client {
	adm := kadm.NewClient(c.cl)
	adm.SetTimeoutMillis(60_000)
	return adm
}

// topic makes a topic; configs are key=value.
func (c *cluster) topic(name string, partitions int32, configs ...string) {
	c.t.Helper()
	all := map[string]*string{}
	for _, kv := range configs {
		k, v, _ := strings.Cut(kv, "=")
		all[k] = &v
	}
	if _, err := c.admin().CreateTopic(c.within(time.Minute), partitions, -1, all, name); err != nil {
		c.t.Fatal(err)
	}
}

// get asks broker n over HTTP, and has two seconds.
func (c *cluster) get(n int, what string) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), allow(2*time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.all[n-1].HTTP+what, nil)
	if err != nil {
		return err
	}
	hc := &http.Client{Transport: &http.Transport{DialContext: c.lab.DialContext, DisableKeepAlives: true}}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("broker %d, %s: %s: %s", n, what, resp.Status, strings.TrimSpace(string(text)))
	}
	return err
}

// await waits until there is no error, and returns how long that took.
func (c *cluster) await(most time.Duration, what string, look func() error) time.Duration {
	c.t.Helper()
	began := time.Now()
	for {
		err := look()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > most {
			c.t.Fatalf("%s: not within %v: %v", what, most, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// awaitReady waits until every broker is.
func (c *cluster) awaitReady(most time.Duration) time.Duration {
	c.t.Helper()
	return c.await(most, "every broker is ready", func() (err error) {
		for n := range c.all {
			err = errors.Join(err, c.get(n+1, "/readyz"))
		}
		return err
	})
}

// metadata is what broker n knows of a topic and the controller.
func (c *cluster) metadata(n int, topic string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(n, req, 2*time.Second)
	if err != nil {
		return nil, err
	}
	m, ok := resp.(*kmsg.MetadataResponse)
	if !ok || len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 {
		return nil, fmt.Errorf("metadata of %s by broker %d: %+v", topic, n, resp)
	}
	return m, nil
}

// newest is who leads a partition, and in which epoch, as the broker knows it that knows
// the newest of those that answer soon; -1 where none does.
func (c *cluster) newest(topic string, partition int32) (leader, epoch int32) {
	answers := make(chan *kmsg.MetadataResponse, clusterSize)
	for n := range clusterSize {
		go func() { // ends with the answer
			m, _ := c.metadata(n+1, topic)
			answers <- m
		}()
	}
	leader, epoch = -1, -1
	soon := time.After(300 * time.Millisecond)
	for range clusterSize {
		select {
		case m := <-answers:
			if m == nil {
				continue
			}
			for _, p := range m.Topics[0].Partitions {
				if p.Partition == partition && p.LeaderEpoch > epoch {
					leader, epoch = p.Leader, p.LeaderEpoch
				}
			}
		case <-soon:
			return leader, epoch
		}
	}
	return leader, epoch
}

// controller is who it is, as broker n knows it.
func (c *cluster) controller(n int) (int32, error) {
	resp, err := c.ask(n, kmsg.NewPtrMetadataRequest(), 2*time.Second)
	if err != nil {
		return -1, err
	}
	return resp.(*kmsg.MetadataResponse).ControllerID, nil
}

// ask sends a request to broker n, once.
func (c *cluster) ask(n int, req kmsg.Request, most time.Duration) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), most)
	defer cancel()
	return c.cl.Broker(n).Request(ctx, req)
}

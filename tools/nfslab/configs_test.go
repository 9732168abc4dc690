package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// setting is a topic's setting that the tests change.
const setting = "retention.ms"

// alter changes a topic's setting through broker n.
func (c *cluster) alter(n int, topic, key, value string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r, kv := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	kv.Name, kv.Value = key, &value
	r.Configs = append(r.Configs, kv)
	req.Resources = append(req.Resources, r)
	got, err := c.ask(n, req, 20*time.Second)
	if err != nil {
		return err
	}
	resp := got.(*kmsg.IncrementalAlterConfigsResponse)
	if len(resp.Resources) != 1 {
		return fmt.Errorf("alter: %+v", resp)
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

// described is the setting as broker n goes by it.
func (c *cluster) described(n int, topic string) (int, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{setting}
	req.Resources = append(req.Resources, r)
	got, err := c.ask(n, req, 2*time.Second)
	if err != nil {
		return 0, err
	}
	resp := got.(*kmsg.DescribeConfigsResponse)
	if len(resp.Resources) != 1 || len(resp.Resources[0].Configs) != 1 || resp.Resources[0].Configs[0].Value == nil {
		return 0, fmt.Errorf("describe: %+v", resp)
	}
	return strconv.Atoi(*resp.Resources[0].Configs[0].Value)
}

// TestChangesReachTheOthers: what is changed through one broker is gone by on the
// others within a second.
func TestChangesReachTheOthers(t *testing.T) {
	want := allow(time.Second)
	l, _ := hosts(t)
	c := newCluster(t, l)
	c.topic("watched", 1)
	for run := range 2 { // the machine may have been busy for a while
		p99 := c.measureChanges(t, base*(run+1))
		if p99 <= want {
			return
		}
		if l.Kernel() { // a server within a host is slow, and no measure
			t.Skipf("p99 is %v, with a server that is a host of the lab itself", p99)
		}
	}
	t.Errorf("p99 is above %v, twice", want)
}

// base keeps the numbers of changes apart from the setting's other values.
const base = 1_000_000_000

// measureChanges makes changes through each broker in turn and returns the 99th
// percentile of the time from the acknowledgement until each other broker goes by it.
func (c *cluster) measureChanges(t *testing.T, base int) time.Duration {
	var mu sync.Mutex
	seen := [clusterSize]map[int]time.Time{}
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	for i := range seen {
		seen[i] = map[int]time.Time{}
		wg.Go(func() {
			for last := -1; ; <-time.After(10 * time.Millisecond) {
				select {
				case <-stop:
					return
				default:
				}
				v, err := c.described(i+1, "watched")
				now := time.Now()
				mu.Lock()
				for n := last + 1; err == nil && n <= v-base; n++ {
					seen[i][n], last = now, n
				}
				mu.Unlock()
			}
		})
	}
	var made [changes]time.Time
	for n := range changes {
		if err := c.alter(n%clusterSize+1, "watched", setting, strconv.Itoa(base+n)); err != nil {
			t.Fatal(err)
		}
		made[n] = time.Now()
		<-time.After(20*time.Millisecond + rand.N(100*time.Millisecond)) // in step with no poll
	}
	c.await(allow(30*time.Second), "all changes are seen", func() error {
		mu.Lock()
		defer mu.Unlock()
		for i := range seen {
			if _, ok := seen[i][changes-1]; !ok {
				return fmt.Errorf("broker %d has seen %d of %d", i+1, len(seen[i]), changes)
			}
		}
		return nil
	})
	close(stop)
	wg.Wait()
	var took []time.Duration
	for n, at := range made {
		for i := range seen {
			if i != n%clusterSize {
				took = append(took, max(0, seen[i][n].Sub(at)))
			}
		}
	}
	p50, p99, worst := quantiles(took)
	t.Logf("%d changes, gone by on both other brokers after they were acknowledged: p50 %v, p99 %v, worst %v", changes, p50, p99, worst)
	return p99
}

package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFrozenLeader: a leader's host is frozen with requests under way until another
// leads, and thawed. Whatever it then acknowledges is in the log, and whoever reads
// under its old epoch is refused.
func TestFrozenLeader(t *testing.T) {
	l, _ := hosts(t)
	c := newCluster(t, l)
	const topic, inFlight = "frozen", 50
	c.topic(topic, 1)
	var old, epoch int32
	c.await(time.Minute, "somebody leads it", func() error {
		if old, epoch = c.newest(topic, 0); old < 1 {
			return fmt.Errorf("led by %d", old)
		}
		return nil
	})
	var keep acked
	var mu sync.Mutex
	sent, answered, late := 0, 0, 0
	var thawed time.Time
	var wg sync.WaitGroup
	stop := make(chan struct{})
	begun := make(chan struct{})
	for range inFlight {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				sent++
				value := fmt.Sprintf("record %d", sent)
				mu.Unlock()
				off, err := c.produce(old, topic, 0, value, 30*time.Second)
				if err != nil {
					<-time.After(5 * time.Millisecond)
					continue
				}
				keep.add(0, off, value)
				mu.Lock()
				if answered++; answered == 4*inFlight {
					close(begun)
				}
				if !thawed.IsZero() {
					late++
				}
				mu.Unlock()
			}
		})
	}
	<-begun
	host := c.lab.Host(int(old))
	frozen := time.Now()
	if err := host.Pause(); err != nil {
		t.Fatal(err)
	}
	now := old
	took := c.await(allow(time.Minute), "another leads and acknowledges", func() error {
		leader, e := c.newest(topic, 0)
		if leader < 1 || leader == old || e <= epoch {
			return fmt.Errorf("led by %d in epoch %d", leader, e)
		}
		off, err := c.produce(leader, topic, 0, "the successor's first", time.Second)
		if err == nil {
			keep.add(0, off, "the successor's first")
			now = leader
		}
		return err
	})
	mu.Lock()
	thawed = time.Now()
	mu.Unlock()
	if err := host.Resume(); err != nil {
		t.Fatal(err)
	}
	asked, fetches := 0, map[string]int{}
	for time.Since(thawed) < 5*time.Second {
		for what, err := range map[string]error{"fetch": c.fetch(old, topic, epoch), "end": c.endOf(old, topic, epoch)} {
			asked++
			if err == nil {
				t.Errorf("%s under epoch %d was answered %v after the thaw", what, epoch, time.Since(thawed))
			} else {
				fetches[what+": "+err.Error()]++
			}
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("broker %d was frozen for %v; %d led after %v; %d questions under the old epoch were refused: %v; %d records were acknowledged, %d of them after the thaw",
		old, thawed.Sub(frozen).Round(10*time.Millisecond), now, took.Round(10*time.Millisecond), asked, fetches, keep.count(), late)
	c.awaitReady(allow(time.Minute))
	c.wantAll(topic, &keep)
}

// fetch reads from broker n as one who knows a leader epoch.
func (c *cluster) fetch(n int32, topic string, epoch int32) error {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = -1, 0, 1000, -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, p.CurrentLeaderEpoch, p.PartitionMaxBytes = topic, epoch, 1000
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, err := c.ask(int(n), req, 2*time.Second)
	if err != nil {
		return err
	}
	resp := got.(*kmsg.FetchResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("fetch: %+v", resp)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// endOf asks broker n for the end as one who knows a leader epoch.
func (c *cluster) endOf(n int32, topic string, epoch int32) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	t.Topic, p.CurrentLeaderEpoch, p.Timestamp = topic, epoch, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, err := c.ask(int(n), req, 2*time.Second)
	if err != nil {
		return err
	}
	resp := got.(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("list offsets: %+v", resp)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

package server

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func growTo(topic string, count int32, assign ...[]int32) kmsg.CreatePartitionsRequestTopic {
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, count
	for _, a := range assign {
		rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: a})
	}
	return rt
}

func (c *client) growAll(only bool, topics ...kmsg.CreatePartitionsRequestTopic) []kmsg.CreatePartitionsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis, req.ValidateOnly, req.Topics = 3, 20_000, only, topics
	return c.ask(req).(*kmsg.CreatePartitionsResponse).Topics
}

func (c *client) grow(topic string, count int32, only bool) int16 {
	c.t.Helper()
	return c.growAll(only, growTo(topic, count))[0].ErrorCode
}

func (c *client) partitions(topic string) []kmsg.MetadataResponseTopicPartition {
	c.t.Helper()
	return c.ask(metadataReq(12, false, topic)).(*kmsg.MetadataResponse).Topics[0].Partitions
}

func TestCreatePartitions(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	id := c.create("t", 3)
	if code, _ := c.produce("t", newBatch(nil, "v")); code != 0 {
		t.Fatal(code)
	}
	for what, tc := range map[string]struct {
		topic kmsg.CreatePartitionsRequestTopic
		code  int16
	}{
		"same":                {growTo("t", 3), 37},
		"fewer":               {growTo("t", 2), 37},
		"none":                {growTo("t", 0), 37},
		"negative":            {growTo("t", -1), 37},
		"absurd":              {growTo("t", 1<<31-1), 44},
		"unknown topic":       {growTo("none", 4), 3},
		"no topic":            {growTo("", 4), 3},
		"hostile name":        {growTo("../t", 4), 3},
		"assignment short":    {growTo("t", 5, []int32{0}), 39},
		"assignment long":     {growTo("t", 4, []int32{0}, []int32{0}), 39},
		"assignment stranger": {growTo("t", 4, []int32{7}), 39},
		"assignment nobody":   {growTo("t", 4, []int32{}), 39},
		"assignment twice":    {growTo("t", 4, []int32{0, 0}), 39},
		"same, assigned":      {growTo("t", 3, []int32{0}), 37},
	} {
		for _, only := range []bool{true, false} {
			if got := c.growAll(only, tc.topic)[0]; got.ErrorCode != tc.code || got.ErrorMessage == nil {
				t.Errorf("%s: %+v, want error %d", what, got, tc.code)
			}
		}
	}
	if code := c.grow("t", 5, true); code != 0 || len(c.partitions("t")) != 3 {
		t.Errorf("validated: error %d, %d partitions", code, len(c.partitions("t")))
	}
	es, err := os.ReadDir(filepath.Join(dir, "topics", hex.EncodeToString(id[:])))
	if err != nil || len(es) != 3 {
		t.Errorf("refusals left %v, %v", es, err)
	}
	if code := c.growAll(false, growTo("t", 5, []int32{0}, []int32{0}))[0].ErrorCode; code != 0 {
		t.Fatal(code)
	}
	ps := c.partitions("t")
	if len(ps) != 5 {
		t.Fatalf("%d partitions", len(ps))
	}
	for _, p := range ps {
		req := produceReq(-1, "t", newBatch(nil, "v"))
		req.Topics[0].Partitions[0].Partition = p.Partition
		got := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if want := map[bool]int64{true: 1, false: 0}[p.Partition == 0]; got.ErrorCode != 0 || got.BaseOffset != want || p.LeaderEpoch < 1 {
			t.Errorf("partition %d at once: error %d, offset %d, epoch %d", p.Partition, got.ErrorCode, got.BaseOffset, p.LeaderEpoch)
		}
	}
	c.create("u", 1)
	got := c.growAll(false, growTo("t", 6), growTo("u", 2), growTo("t", 7))
	if len(got) != 2 || got[0].ErrorCode != 42 || got[1].ErrorCode != 0 || len(c.partitions("t")) != 5 {
		t.Errorf("named twice: %+v", got)
	}
}

// Of many who ask at once for the same, one is told that it was done, and whatever
// order larger ones come in, the count never falls.
func TestCreatePartitionsAtOnce(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	codes := make([]int16, 8)
	var wg sync.WaitGroup
	for i := range codes {
		cl := dial(t, n.Addr())
		wg.Go(func() { codes[i] = cl.grow("t", 4, false) })
	}
	wg.Wait()
	won := 0
	for _, code := range codes {
		if code == 0 {
			won++
		} else if code != 37 {
			t.Errorf("error %d", code)
		}
	}
	if won != 1 || len(c.partitions("t")) != 4 {
		t.Errorf("%d were told that they did it, %d partitions", won, len(c.partitions("t")))
	}
	for i := range codes {
		cl := dial(t, n.Addr())
		wg.Go(func() { codes[i] = cl.grow("t", int32(5+i), false) })
	}
	wg.Wait()
	if codes[7] != 0 || len(c.partitions("t")) != 12 {
		t.Errorf("errors %v, %d partitions", codes, len(c.partitions("t")))
	}
}

package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

const (
	closely   = 5 * time.Millisecond
	loosely   = 50 * time.Millisecond
	closeMany = 3 // partitions that are watched closely
)

// observer asks the leader of each partition for its end, last stable offset, high watermark
// and log start, one question after the other. A client has one view: it sends the leader epoch that
// it knows, so that an older leader does not answer it.
type observer struct {
	env    *Env
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (o *observer) Start() (err error) {
	if o.cl, err = o.env.raw(); err != nil {
		return err
	}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(context.Background())
	for i, at := range o.env.places(nil) {
		every := loosely
		if i%2 == 0 && i/2 < closeMany {
			every = closely
		}
		w := &watch{env: o.env, cl: o.cl, at: at, lead: newLeaders(o.cl, o.env.Topics), proc: o.env.Log.Proc(fmt.Sprintf("observer of %s/%d", at.topic, at.index), history.Observer)}
		o.wg.Go(func() {
			for sleep.For(ctx, every) {
				w.ask(ctx)
			}
		})
	}
	return nil
}

func (o *observer) Stop(context.Context) {
	o.cancel()
	o.wg.Wait()
	o.cl.Close()
}

// watch is what looks at one partition.
type watch struct {
	env   *Env
	cl    *kgo.Client
	at    place
	lead  *leaders
	proc  int32
	high  int64
	asked int
}

const askTime = time.Second

func (w *watch) ask(ctx context.Context) {
	node, epoch, ok := w.lead.of(ctx, w.at)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	field, level := history.End, int8(0)
	if w.asked++; w.asked%2 == 0 {
		field, level = history.Stable, 1
	}
	if !w.askEnd(ctx, node, epoch, field, level) || !w.askFetch(ctx, node, epoch) {
		w.lead.forget()
	}
}

// askEnd asks for the end, as it is for an isolation level.
func (w *watch) askEnd(ctx context.Context, node, epoch int32, field history.Field, level int8) bool {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, level
	t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	t.Topic, p.Partition, p.CurrentLeaderEpoch, p.Timestamp = w.at.topic, w.at.index, epoch, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	invoke := w.env.Log.Now()
	got, err := w.cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return false
	}
	resp, ok := got.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return false
	}
	w.env.Log.Observe(w.proc, w.at.part, field, resp.Topics[0].Partitions[0].Offset, epoch, invoke)
	return true
}

func (w *watch) askFetch(ctx context.Context, node, epoch int32) bool {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, 0, 0, 1, -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, p.Partition, p.CurrentLeaderEpoch, p.FetchOffset, p.PartitionMaxBytes = w.at.topic, w.at.index, epoch, w.high, 1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	invoke := w.env.Log.Now()
	got, err := w.cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return false
	}
	resp, ok := got.(*kmsg.FetchResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return false
	}
	a := &resp.Topics[0].Partitions[0]
	if a.ErrorCode != 0 {
		return false
	}
	w.high = max(w.high, a.HighWatermark)
	w.env.Log.Observe(w.proc, w.at.part, history.HighWatermark, a.HighWatermark, epoch, invoke)
	w.env.Log.Observe(w.proc, w.at.part, history.LogStart, a.LogStartOffset, epoch, invoke)
	return true
}

// views asks each broker for the leader epochs that it knows.
type views struct {
	env    *Env
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (v *views) Start() (err error) {
	if v.cl, err = v.env.raw(); err != nil {
		return err
	}
	var ctx context.Context
	ctx, v.cancel = context.WithCancel(context.Background())
	v.wg.Go(func() { v.follow(ctx) })
	return nil
}

// follow watches each broker that is met, in a goroutine of its own.
func (v *views) follow(ctx context.Context) {
	watched := map[int32]bool{}
	for sleep.For(ctx, time.Second/2) {
		once, cancel := context.WithTimeout(ctx, askTime)
		resp, err := metadata(nil).RequestWith(once, v.cl)
		cancel()
		if err != nil {
			continue
		}
		for _, b := range resp.Brokers {
			if id := b.NodeID; !watched[id] {
				watched[id] = true
				proc := v.env.Log.Proc(fmt.Sprintf("metadata of broker %d", id), history.Observer)
				v.wg.Go(func() { v.watch(ctx, id, proc) })
			}
		}
	}
}

func (v *views) watch(ctx context.Context, node, proc int32) {
	places := v.env.places(nil)
	topics := newLeaders(v.cl, v.env.Topics).topics
	for sleep.For(ctx, 4*closely) {
		invoke := v.env.Log.Now()
		once, cancel := context.WithTimeout(ctx, askTime)
		got, err := v.cl.Broker(int(node)).Request(once, metadata(topics))
		cancel()
		resp, ok := got.(*kmsg.MetadataResponse)
		if err != nil || !ok {
			continue
		}
		eachPartition(resp, func(topic string, p *kmsg.MetadataResponseTopicPartition) {
			if at, ok := find(places, topic, p.Partition); ok {
				v.env.Log.Observe(proc, at.part, history.LeaderEpoch, int64(p.LeaderEpoch), p.LeaderEpoch, invoke)
			}
		})
	}
}

func (v *views) Stop(context.Context) {
	v.cancel()
	v.wg.Wait()
	v.cl.Close()
}

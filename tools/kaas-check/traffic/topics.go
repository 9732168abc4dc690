package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

// trimmer deletes records from the start of the trimmed topics.
type trimmer struct {
	env    *Env
	proc   int32
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const (
	trimEvery = 2 * time.Second
	trimLeave = 300 // records
)

func (t *trimmer) Start() (err error) {
	if t.cl, err = t.env.client(); err != nil {
		return err
	}
	t.proc = t.env.Log.Proc("trimmer", history.Other)
	places := t.env.places(func(t Topic) bool { return t.Trimmed })
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.wg.Go(func() {
		for sleep.For(ctx, trimEvery) {
			for _, p := range places {
				t.trim(ctx, p)
			}
		}
	})
	return nil
}

func (t *trimmer) trim(ctx context.Context, p place) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	end, ok := t.env.listed(ctx, t.cl, t.proc, p, history.End)
	if !ok || end <= trimLeave {
		return
	}
	var before kadm.Offsets
	before.AddOffset(p.topic, p.index, end-trimLeave, -1)
	invoke := t.env.Log.Now()
	answers, err := kadm.NewClient(t.cl).DeleteRecords(ctx, before)
	if a, ok := answers.Lookup(p.topic, p.index); err == nil && ok && a.Err == nil {
		t.env.Log.Observe(t.proc, p.part, history.LogStart, a.LowWatermark, -1, invoke)
	}
}

func (t *trimmer) Stop(context.Context) {
	t.cancel()
	t.wg.Wait()
	t.cl.Close()
}

// churn makes a topic, writes into it, reads it, deletes it, and makes it again under
// the same name. A topic never has a record of one before it, unless that was on its way still
// and nobody was told of it. The readers name it, and not
// its ID: a client that a broker which has stood still tells of the topic before would never
// let go of that one's ID, as is its right.
type churn struct {
	env    *Env
	proc   int32 // makes and deletes
	writer int32
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
	sent   int64
}

const (
	churnTopic   = "churn"
	churnRecords = 20
	churnTime    = 3 * time.Minute // that the reading may take
)

func (c *churn) Start() (err error) {
	if c.cl, err = c.env.raw(); err != nil {
		return err
	}
	c.proc = c.env.Log.Proc("topic maker", history.Other)
	c.writer = c.env.Log.Proc("writer of churn", history.Plain)
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(func() {
		for made := int32(0); sleep.For(ctx, time.Second) && c.life(ctx, made); made++ {
		}
	})
	return nil
}

// life is one topic's, from being made to being deleted. It reports false where ctx ended within it.
func (c *churn) life(ctx context.Context, made int32) bool {
	at := place{churnTopic, 0, c.env.Log.Part(history.Part{Topic: churnTopic, Made: made})}
	adm := kadm.NewClient(c.cl)
	if !c.until(ctx, at, "make the topic", kerr.TopicAlreadyExists, func(ctx context.Context) error {
		_, err := adm.CreateTopic(ctx, 1, 1, nil, churnTopic)
		return err
	}) {
		return false
	}
	c.write(ctx, at)
	once, cancel := context.WithTimeout(context.Background(), churnTime) // a reading that is given up would look like a loss
	_ = c.env.readAll(once, c.env.raw, history.Proc{Name: fmt.Sprintf("reader of churn %d", made), Role: history.Final}, []place{at})
	cancel()
	return c.until(ctx, at, "delete the topic", kerr.UnknownTopicOrPartition, func(ctx context.Context) error {
		_, err := adm.DeleteTopic(ctx, churnTopic)
		return err
	})
}

// until does something until it is done, or an error says that an earlier try had done it.
func (c *churn) until(ctx context.Context, at place, what string, done error, do func(context.Context) error) bool {
	for {
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := do(once)
		cancel()
		if err == nil || errors.Is(err, done) {
			c.env.Log.Note(c.proc, at.part, history.OK, what+": done")
			return true
		}
		if !sleep.For(ctx, 100*time.Millisecond) {
			return false
		}
	}
}

func (c *churn) write(ctx context.Context, at place) {
	lead := newLeaders(c.cl, []Topic{{Name: churnTopic}})
	for i := 0; i < churnRecords && sleep.For(ctx, loosely); i++ {
		if leader, _, ok := lead.of(ctx, at); ok {
			c.sent++
			op := sendOnce(c.cl, c.env.Log, leader, at, -1, c.writer, c.sent, Batch(encode(history.Value(c.writer, c.sent))))
			if op.Outcome != history.OK {
				lead.forget()
			}
		}
	}
}

func (c *churn) Stop(context.Context) {
	c.cancel()
	c.wg.Wait()
	c.cl.Close()
}

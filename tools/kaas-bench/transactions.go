package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnLoad commits transactions one after the other, each producer under a transactional
// ID of its own. A transaction is a few records over the topic's partitions by turns.
type txnLoad struct {
	target
	window
	Size         byteSize
	Producers    int
	Records      int   // of a transaction
	Transactions int64 // of all producers; 0 goes by time
}

func (l *txnLoad) String() string {
	return fmt.Sprintf("commit transactions of %d records of %s over %d partitions, %d producers", l.Records, &l.Size, l.Partitions, l.Producers)
}

// run returns the figures of the committed transactions. What the others call a record
// is a transaction here, and its latency is from its begin to the answer that it is committed.
func (l *txnLoad) run(ctx context.Context) (*result, error) {
	if l.Producers < 1 || l.Records < 1 || l.Size < 1 {
		return nil, errors.New("a load needs a producer, and its transactions a record of a byte")
	}
	m, err := newMeter(l.Producers, kmsg.EndTxn.Int16(), &l.target, l.progress)
	if err != nil {
		return nil, err
	}
	defer m.close()
	w := l.window
	if l.Transactions > 0 {
		w = window{}
	}
	if err := m.ready(w); err != nil {
		return nil, err
	}
	done, stop, err := l.start(ctx, m.lanes)
	if err != nil {
		return nil, err
	}
	defer stop()
	r, err := m.measure(ctx, w, done)
	if err != nil {
		return nil, err
	}
	r.Load = l.String()
	return r, nil
}

// start begins the load. done is closed when all of it is committed; stop gives up the rest.
func (l *txnLoad) start(ctx context.Context, lanes []*lane) (done <-chan struct{}, stop func(), err error) {
	clients := make([]*kgo.Client, len(lanes))
	for i, lane := range lanes {
		if clients[i], err = l.producer(i, lane); err != nil {
			for _, cl := range clients[:i] {
				cl.Close()
			}
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var load sync.WaitGroup
	for i, cl := range clients {
		load.Go(func() {
			defer cl.Close()
			l.commit(ctx, cl, lanes[i], share(l.Transactions, l.Producers, i))
		})
	}
	ended := make(chan struct{})
	go func() { // stop waits for it
		defer close(ended)
		load.Wait()
	}()
	return ended, func() { cancel(); <-ended }, nil
}

func (l *txnLoad) producer(i int, lane *lane) (*kgo.Client, error) {
	return l.client(
		kgo.TransactionalID(fmt.Sprintf("bench-%s-%d", l.Topic, i)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.WithHooks(lane),
	)
}

// commit goes on until the quota is committed or ctx ends. A transaction that ctx
// ends is left open: the server aborts it when the next one begins or in its time.
func (l *txnLoad) commit(ctx context.Context, cl *kgo.Client, lane *lane, quota int64) {
	gen := newGenerator(l.Topic, int(l.Size), 0, false)
	at := int32(0)
	for n := int64(0); quota == 0 || n < quota; n++ {
		began := time.Now()
		records := make([]*kgo.Record, l.Records)
		for i := range records {
			records[i] = gen.next(began)
			records[i].Partition = at
			at = (at + 1) % l.Partitions
		}
		if err := transaction(ctx, cl, records); err != nil {
			if ctx.Err() == nil {
				lane.fail(err)
			}
			return
		}
		lane.took(time.Since(began), l.Records*int(l.Size))
	}
}

func transaction(ctx context.Context, cl *kgo.Client, records []*kgo.Record) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

// flushTransactions has Kafka sync the topic in which it keeps transactions, as kaas syncs
// what it keeps of them in every mode. Kafka makes that topic for the first producer.
func flushTransactions(ctx context.Context, t target) error {
	cl, err := t.client(kgo.TransactionalID("bench-first"))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, adminTime)
	defer cancel()
	if _, _, err := cl.ProducerID(ctx); err != nil {
		return fmt.Errorf("first transactional producer: %w", err)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	topic := kmsg.NewIncrementalAlterConfigsRequestResource()
	topic.ResourceType, topic.ResourceName = kmsg.ConfigResourceTypeTopic, "__transaction_state"
	flush := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	flush.Name, flush.Value = "flush.messages", kmsg.StringPtr("1")
	topic.Configs = append(topic.Configs, flush)
	req.Resources = append(req.Resources, topic)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("sync the topic of transactions: %w", err)
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

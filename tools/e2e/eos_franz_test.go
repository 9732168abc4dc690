package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franzCopierArg as the first argument makes a process of this test one that copies a topic as
// tools/clients/rdkafka-copier does, with its flags and words, by franz-go.
const franzCopierArg = "franz-copier"

const (
	franzOpen       = 200 * time.Millisecond // of a transaction, once its records are written
	franzAbortEvery = 7
)

const refusedByGroup = "refused the group has given its partitions to another"

type franzCopier struct {
	bootstrap, group, in, out, id string
	timeout                       time.Duration
}

func franzCopierMain(args []string) int {
	var c franzCopier
	f := flag.NewFlagSet(franzCopierArg, flag.ExitOnError)
	f.StringVar(&c.bootstrap, "bootstrap", "", "")
	f.StringVar(&c.group, "group", "", "")
	f.StringVar(&c.in, "in", "", "")
	f.StringVar(&c.out, "out", "", "")
	f.StringVar(&c.id, "id", "", "")
	f.DurationVar(&c.timeout, "timeout", 0, "")
	_ = f.Parse(args) // it exits
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := c.run(ctx); err != nil && ctx.Err() == nil {
		fmt.Println(franzWord(err), err)
	}
	return 0
}

// franzWord says what an error is to who ends because of it. To a zombie that commits what was
// aborted because of its time, the coordinator says that its state is another.
func franzWord(err error) string {
	for _, fenced := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.FencedInstanceID} {
		if errors.Is(err, fenced) {
			return "fenced"
		}
	}
	return "again"
}

func (c *franzCopier) run(ctx context.Context) error {
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(c.bootstrap), kgo.AlwaysRetryEOF(), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.TransactionalID(c.id), kgo.TransactionTimeout(c.timeout), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.in), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(eosSession), kgo.HeartbeatInterval(500*time.Millisecond), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { fmt.Println(refusedByGroup) }))
	if err != nil {
		return err
	}
	defer s.Close()
	for n := 1; ; n++ {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fs := s.PollRecords(poll, 500)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fs.NumRecords() == 0 {
			continue
		}
		if err := c.transaction(s, fs, n%franzAbortEvery == 0); err != nil {
			return err
		}
	}
}

// transaction copies what was polled. Its error is one that the session is not gone on with.
func (c *franzCopier) transaction(s *kgo.GroupTransactSession, fs kgo.Fetches, abort bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	e := kgo.AbortingFirstErrPromise(s.Client())
	fs.EachRecord(func(r *kgo.Record) {
		value := string(r.Value)
		if abort {
			value = mustNotBeSeen + value
		}
		s.Produce(ctx, &kgo.Record{Topic: c.out, Partition: r.Partition, Value: []byte(value)}, e.Promise())
	})
	failed := e.Err()
	if failed == nil && abort {
		failed = s.Client().Flush(ctx) // that there is something to abort
	}
	wait(ctx, franzOpen)
	ok, err := s.End(ctx, kgo.TransactionEndTry(failed == nil && !abort))
	switch {
	case failed != nil && franzWord(failed) == "fenced":
		return fmt.Errorf("produce: %w", failed)
	case err != nil:
		return fmt.Errorf("end: %w", err)
	case !ok && failed == nil && !abort:
		fmt.Println(refusedByGroup)
	}
	return nil
}

package e2e

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestZombieIsFencedEverywhere has a transaction of six partitions on all brokers, kills its
// coordinator, and has another producer take the transactional ID over. No partition takes
// anything of the first one from then on, nor does what it left open stay in the way
// (CASES T-05).
func TestZombieIsFencedEverywhere(t *testing.T) {
	need(t)
	needKaas(t)
	c := startCluster(t, quickLoss...)
	c.create("six", 6, nil)
	c.create("other", 3, nil) // of which the transaction has nothing
	const id = "zombie"
	c.await("the topic is on all brokers", func() bool { return len(c.leaders("six")) == 3 })
	old := c.initProducer(id, 60_000)
	var seq [6]int32
	for p := range int32(6) {
		if code := c.produceTxn("six", p, id, old, seq[p]); code != 0 {
			t.Fatalf("produce to partition %d: error %d", p, code)
		}
		seq[p]++
	}
	was := c.txnCoordinator(id)
	c.broker(was).kill()
	began := time.Now()
	now := c.initProducer(id, 60_000)
	t.Logf("broker %d was killed; InitProducerId was answered after %v", was, time.Since(began).Round(time.Millisecond))
	answered := time.Now()
	if now.ID != old.ID || now.Epoch <= old.Epoch {
		t.Errorf("producer %+v follows %+v, which has another ID or no lower epoch", now, old)
	}
	// The partitions of the transaction refuse it at once. The others go by what they hear, every
	// metadata.poll.interval.ms, and refuse it from then on.
	for _, after := range []time.Duration{0, 500 * time.Millisecond, time.Second, 5 * time.Second} {
		time.Sleep(time.Until(answered.Add(after)))
		var wg sync.WaitGroup
		for p := range int32(6) {
			wg.Go(func() {
				code := c.produceTxn("six", p, id, old, seq[p])
				if code != kerr.InvalidProducerEpoch.Code && code != kerr.ProducerFenced.Code {
					t.Errorf("%v after the answer partition %d says %d to the old epoch", time.Since(answered).Round(time.Millisecond), p, code)
				}
			})
		}
		if after == 0 {
			wg.Wait()
			for p := range int32(3) {
				c.await("another topic hears of it", func() bool { return c.producePlain("other", p, old, 0) == kerr.InvalidProducerEpoch.Code })
			}
			t.Logf("another topic has heard of it after %v", time.Since(answered).Round(time.Millisecond))
			continue
		}
		for p := range int32(3) {
			wg.Go(func() {
				if code := c.producePlain("other", p, old, 0); code != kerr.InvalidProducerEpoch.Code {
					t.Errorf("%v after the answer partition %d of another topic says %d to the old epoch", time.Since(answered).Round(time.Millisecond), p, code)
				}
			})
		}
		wg.Wait()
	}
	for p := range int32(6) {
		if code := c.produceTxn("six", p, id, now, 0); code != 0 {
			t.Errorf("the new producer is told %d by partition %d", code, p)
		}
	}
	c.broker(was).start()
	c.settled()
	if code := c.endTxn(id, old, true); code != kerr.ProducerFenced.Code && code != kerr.InvalidProducerEpoch.Code {
		t.Errorf("the old producer commits, and is told %d", code)
	}
	if code := c.endTxn(id, now, true); code != 0 {
		t.Errorf("the new producer commits, and is told %d", code)
	}
	c.await("nothing is open any more", func() bool {
		stable, err := kadm.NewClient(c.cl).ListCommittedOffsets(t.Context(), "six")
		ends, err2 := kadm.NewClient(c.cl).ListEndOffsets(t.Context(), "six")
		if err != nil || err2 != nil {
			return false
		}
		ok := true
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := stable.Lookup("six", o.Partition)
			ok = ok && s.Offset == o.Offset && o.Offset == 4 // a record, its abort, a record, its commit
		})
		return ok
	})
}

// TestAbandonedTransaction has a producer go away. Its transaction is aborted when its time is
// up, and it is not let go on (CASES T-02).
func TestAbandonedTransaction(t *testing.T) {
	need(t)
	c := startCluster(t, append([]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms=500"}, quickLoss...)...)
	c.create(topic, 3, nil)
	const id, timeout = "abandoned", 10 * time.Second
	p := c.initProducer(id, int32(timeout.Milliseconds()))
	began := time.Now()
	for i := range int32(3) {
		if code := c.produceTxn(topic, i, id, p, 0); code != 0 {
			t.Fatalf("produce: error %d", code)
		}
	}
	c.stable(topic)
	took := time.Since(began)
	t.Logf("aborted after %v", took.Round(time.Millisecond))
	if took < timeout {
		t.Errorf("it was aborted %v after its begin, before its time", took)
	}
	for i := range int32(3) {
		if code := c.produceTxn(topic, i, id, p, 1); code != kerr.InvalidProducerEpoch.Code && code != kerr.ProducerFenced.Code {
			t.Errorf("its producer goes on, and is told %d", code)
		}
	}
	// To its coordinator it may be the producer that asks for an end again, with another outcome.
	if code := c.endTxn(id, p, true); code != kerr.InvalidTxnState.Code {
		t.Errorf("its producer commits, and is told %d", code)
	}
	c.stable(topic)
}

// TestProducerIDsAreUnique asks all brokers for producer IDs while they are killed (T-06).
func TestProducerIDsAreUnique(t *testing.T) {
	need(t)
	needKaas(t)
	c := startCluster(t, quickLoss...)
	var (
		mu   sync.Mutex
		by   = map[int64]string{}
		done = make(chan struct{})
		wg   sync.WaitGroup
	)
	for id := int32(1); id <= 3; id++ {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				req := kmsg.NewPtrInitProducerIDRequest()
				req.ProducerID, req.ProducerEpoch = -1, -1
				txn := fmt.Sprintf("unique-%d-%d", id, n)
				if n%10 == 0 {
					req.TransactionalID, req.TransactionTimeoutMillis = &txn, 60_000
				}
				resp, err := c.once(id, 2*time.Second, req)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				r := resp.(*kmsg.InitProducerIDResponse)
				if r.ErrorCode != 0 {
					continue
				}
				who := fmt.Sprintf("answer %d of broker %d", n, id)
				mu.Lock()
				if before, again := by[r.ProducerID]; again {
					t.Errorf("%s has the ID %d, as %s had", who, r.ProducerID, before)
				}
				by[r.ProducerID] = who
				mu.Unlock()
			}
		})
	}
	for id := int32(1); id <= 3; id++ {
		time.Sleep(time.Second) // IDs before the next kill
		c.broker(id).kill()
		c.broker(id).start()
	}
	c.settled()
	c.await("a thousand IDs", func() bool { // fewer show nothing
		mu.Lock()
		defer mu.Unlock()
		return len(by) >= 1000
	})
	close(done)
	wg.Wait()
	t.Logf("%d IDs", len(by))
}

// TestLateProduceOpensNothing sends a record of a transaction that has ended (T-08).
func TestLateProduceOpensNothing(t *testing.T) {
	need(t)
	c := startCluster(t, quickLoss...)
	c.create(topic, 3, nil)
	const id = "late"
	for _, version := range []int16{4, 5} { // of EndTxn: transaction versions 1 and 2
		p := c.initProducer(id, 60_000)
		if version == 4 {
			c.addPartitions(id, p, topic, 0, 1, 2)
		}
		for i := range int32(3) {
			if code := c.produceTxnV(c.produceVersion(version), topic, i, id, p, 0); code != 0 {
				t.Fatalf("version %d: produce: error %d", version, code)
			}
		}
		if code := c.endTxnV(version, id, p, false); code != 0 {
			t.Fatalf("version %d: abort: error %d", version, code)
		}
		c.stable(topic)
		for i := range int32(3) {
			switch code := c.produceTxnV(c.produceVersion(version), topic, i, id, p, 1); code {
			case kerr.InvalidTxnState.Code, kerr.InvalidProducerEpoch.Code, kerr.TransactionAbortable.Code:
			default:
				t.Errorf("version %d: a late record is told %d", version, code)
			}
		}
		c.stable(topic)
	}
	for _, timeout := range []int32{-1, 0, 900_001} {
		if _, err := c.tryInitProducer(id, timeout); !errors.Is(err, kerr.InvalidTransactionTimeout) {
			t.Errorf("timeout %d: %v", timeout, err)
		}
	}
}

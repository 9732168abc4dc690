package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnCoordinators are those of transactional IDs as one broker tells them; nil if it does not
// know them all.
func (c *cluster) txnCoordinators(as int32, ids ...string) (brokers []int32, err error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = 1, ids
	resp, err := c.ask(as, req)
	if err != nil {
		return nil, err
	}
	by := map[string]int32{}
	for _, found := range resp.(*kmsg.FindCoordinatorResponse).Coordinators {
		if found.ErrorCode == 0 {
			by[found.Key] = found.NodeID
		}
	}
	for _, id := range ids {
		b, ok := by[id]
		if !ok {
			return nil, nil
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

// txnCoordinator is that of a transactional ID, as a broker has it that runs.
func (c *cluster) txnCoordinator(id string) (broker int32) {
	c.t.Helper()
	c.await("the transactional ID "+id+" has a coordinator", func() bool {
		for as := int32(1); as <= 3; as++ {
			if !c.isUp(as) {
				continue
			}
			if ids, err := c.txnCoordinators(as, id); err == nil && len(ids) == 1 && ids[0] > 0 {
				broker = ids[0]
				return true
			}
		}
		return false
	})
	return broker
}

// txnProducer is a producer of a transactional ID.
type txnProducer struct {
	ID    int64
	Epoch int16
}

// initProducer asks for a producer until there is one.
func (c *cluster) initProducer(id string, timeout int32) (p txnProducer) {
	c.t.Helper()
	c.await("a producer of "+id, func() (ok bool) {
		var err error
		p, err = c.tryInitProducer(id, timeout)
		if err != nil && !kerr.IsRetriable(err) && !errors.Is(err, kerr.ConcurrentTransactions) && isCode(err) {
			c.t.Fatalf("InitProducerId of %s: %v", id, err)
		}
		return err == nil
	})
	return p
}

func isCode(err error) bool {
	var ke *kerr.Error
	return errors.As(err, &ke)
}

func (c *cluster) tryInitProducer(id string, timeout int32) (p txnProducer, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, timeout, -1, -1
	resp, err := c.askTxnCoordinator(id, req)
	if err != nil {
		return p, err
	}
	r := resp.(*kmsg.InitProducerIDResponse)
	return txnProducer{r.ProducerID, r.ProducerEpoch}, kerr.ErrorForCode(r.ErrorCode)
}

// askTxnCoordinator asks the coordinator of a transactional ID, once.
func (c *cluster) askTxnCoordinator(id string, req kmsg.Request) (kmsg.Response, error) {
	return c.once(c.txnCoordinator(id), 10*time.Second, req)
}

func (c *cluster) endTxn(id string, p txnProducer, commit bool) int16 {
	c.t.Helper()
	return c.endTxnV(5, id, p, commit)
}

// endTxnV ends a transaction, and asks again where it is told to.
func (c *cluster) endTxnV(version int16, id string, p txnProducer, commit bool) (code int16) {
	c.t.Helper()
	c.await("the end of a transaction of "+id, func() bool {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, p.ID, p.Epoch, commit
		resp, err := c.askTxnCoordinator(id, capped{req, version})
		if err != nil {
			return false
		}
		code = resp.(*kmsg.EndTxnResponse).ErrorCode
		return !again(code)
	})
	return code
}

func again(code int16) bool {
	return code != 0 && (kerr.IsRetriable(kerr.ErrorForCode(code)) || code == kerr.ConcurrentTransactions.Code)
}

func (c *cluster) addPartitions(id string, p txnProducer, topic string, partitions ...int32) {
	c.t.Helper()
	c.await("partitions of a transaction of "+id, func() bool {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, p.ID, p.Epoch
		rt := kmsg.NewAddPartitionsToTxnRequestTopic()
		rt.Topic, rt.Partitions = topic, partitions
		req.Topics = append(req.Topics, rt)
		resp, err := c.askTxnCoordinator(id, capped{req, 3})
		if err != nil {
			return false
		}
		code := resp.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
		if code != 0 && !again(code) {
			c.t.Fatalf("AddPartitionsToTxn of %s: error %d", id, code)
		}
		return code == 0
	})
}

// leaders are the brokers that lead partitions of a topic, with those that each leads.
func (c *cluster) leaders(topic string) map[int32][]int32 {
	out := map[int32][]int32{}
	for as := int32(1); as <= 3; as++ {
		if !c.isUp(as) {
			continue
		}
		m := c.metadata(as, topic)
		if m == nil || m.Topics[0].ErrorCode != 0 {
			continue
		}
		for _, p := range m.Topics[0].Partitions {
			out[p.Leader] = append(out[p.Leader], p.Partition)
		}
		return out
	}
	return nil
}

// newProduce is the version from which on a record makes its partition part of a transaction;
// the one before wants it added.
const newProduce = 12

func (c *cluster) produceVersion(endTxn int16) int16 {
	if endTxn >= 5 {
		return newProduce
	}
	return newProduce - 1
}

func (c *cluster) produceTxn(topic string, partition int32, id string, p txnProducer, seq int32) int16 {
	return c.produceTxnV(newProduce, topic, partition, id, p, seq)
}

// produceTxnV sends a record of a transaction to whoever leads the partition, until the answer
// is no retriable one.
func (c *cluster) produceTxnV(version int16, topic string, partition int32, id string, p txnProducer, seq int32) (code int16) {
	return c.produceBatch(version, topic, partition, &id, txnBatch(p.ID, p.Epoch, seq, fmt.Sprint(p, seq)))
}

// producePlain sends a record of no transaction.
func (c *cluster) producePlain(topic string, partition int32, p txnProducer, seq int32) int16 {
	b := txnBatch(p.ID, p.Epoch, seq, fmt.Sprint(p, seq))
	binary.BigEndian.PutUint16(b[21:], 0)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return c.produceBatch(newProduce, topic, partition, nil, b)
}

func (c *cluster) produceBatch(version int16, topic string, partition int32, id *string, batch []byte) (code int16) {
	late := time.Now().Add(startTime)
	for code = -1; time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		req := kmsg.NewPtrProduceRequest()
		req.TransactionID, req.Acks, req.TimeoutMillis = id, -1, 5000
		rt, rp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		rt.Topic, rp.Partition, rp.Records = topic, partition, batch
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		for leader, ps := range c.leaders(topic) {
			for _, q := range ps {
				if q != partition || leader < 1 || !c.isUp(leader) {
					continue
				}
				ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
				resp, err := c.asked[leader-1].SeedBrokers()[0].Request(ctx, capped{req, version})
				cancel()
				if err == nil {
					code = resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
				}
			}
		}
		if code >= 0 && !again(code) {
			return code
		}
	}
	return code
}

// stable waits until no transaction is open on a topic.
func (c *cluster) stable(topic string) {
	c.t.Helper()
	adm := kadm.NewClient(c.cl)
	c.await("no transaction is open on "+topic, func() bool {
		stable, err := adm.ListCommittedOffsets(c.t.Context(), topic)
		ends, err2 := adm.ListEndOffsets(c.t.Context(), topic)
		ok := err == nil && err2 == nil
		ends.Each(func(o kadm.ListedOffset) {
			s, _ := stable.Lookup(topic, o.Partition)
			ok = ok && s.Err == nil && o.Err == nil && s.Offset == o.Offset
		})
		return ok
	})
}

// stableEnds are the last stable offsets of the copy's partitions 0 and 1.
func (l *copying) stableEnds() (ends [2]int64) {
	l.t.Helper()
	os, err := kadm.NewClient(l.client()).ListCommittedOffsets(l.t.Context(), "copy")
	if err != nil {
		l.t.Fatal(err)
	}
	for p := range ends {
		o, _ := os.Lookup("copy", int32(p))
		ends[p] = o.Offset
	}
	return ends
}

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"kaas.dev/kaas/tools/clients/scenario"
)

// transactor makes transactions of the requests that kafka-go's Client has for them. It has
// no producer of transactions: what a batch says of its producer is written in here, and
// when a request is to be sent again is decided here, too.
type transactor struct {
	s    *client
	id   string
	as   kafka.ProducerSession
	next map[place]int32 // sequence numbers
}

type place struct {
	topic     string
	partition int32
}

func (s *client) transactor(ctx context.Context, id string) (scenario.Transactor, error) {
	t := &transactor{s: s, id: id, next: map[place]int32{}}
	err := insist(ctx, func() error {
		r, err := s.adm.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
		if err == nil {
			t.as, err = *r.Producer, r.Error
		}
		return err
	})
	return t, err
}

// insist tries again what fails for now: a coordinator is elsewhere or not ready, or the
// transaction before is not yet done.
func insist(ctx context.Context, try func() error) error {
	for {
		switch err := try(); code(err) {
		case 14, 15, 16, 51:
			select {
			case <-ctx.Done():
				return err
			case <-time.After(20 * time.Millisecond):
			}
		default:
			return err
		}
	}
}

func (t *transactor) Begin() error { return nil }

func (t *transactor) Produce(ctx context.Context, topic string, partition int32, records []scenario.Record) error {
	err := insist(ctx, func() error {
		r, err := t.s.adm.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
			TransactionalID: t.id, ProducerID: t.as.ProducerID, ProducerEpoch: t.as.ProducerEpoch,
			Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: int(partition)}}},
		})
		if err != nil {
			return err
		}
		if len(r.Topics[topic]) != 1 {
			return fmt.Errorf("%d answers for %s", len(r.Topics[topic]), topic)
		}
		return r.Topics[topic][0].Error
	})
	if err != nil {
		return err
	}
	at := place{topic, partition}
	batch, err := t.batch(records, t.next[at])
	if err != nil {
		return err
	}
	r, err := t.s.adm.RawProduce(ctx, &kafka.RawProduceRequest{
		TransactionalID: t.id, Topic: topic, Partition: int(partition), RequiredAcks: kafka.RequireAll,
		RawRecords: protocol.RawRecordSet{Reader: bytes.NewReader(batch)},
	})
	if err != nil {
		return err
	}
	t.next[at] += int32(len(records))
	return r.Error
}

// batch is one that kafka-go encodes, with what it leaves out: whose it is, and its sequence.
func (t *transactor) batch(records []scenario.Record, sequence int32) ([]byte, error) {
	var all []kafka.Record
	for _, r := range records { // transactions' have no headers
		all = append(all, kafka.Record{Key: kafka.NewBytes(r.Key), Value: kafka.NewBytes(r.Value), Time: r.Time})
	}
	var out bytes.Buffer
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Transactional, Records: kafka.NewRecordReader(all...)}
	if _, err := set.WriteTo(&out); err != nil {
		return nil, err
	}
	b := out.Bytes()
	head := b[4:] // behind the size
	binary.BigEndian.PutUint64(head[43:], uint64(t.as.ProducerID))
	binary.BigEndian.PutUint16(head[51:], uint16(t.as.ProducerEpoch))
	binary.BigEndian.PutUint32(head[53:], uint32(sequence))
	binary.BigEndian.PutUint32(head[17:], crc32.Checksum(head[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b, nil
}

func (t *transactor) Offsets(ctx context.Context, group, topic string, partition int32, offset int64) error {
	err := insist(ctx, func() error {
		r, err := t.s.adm.AddOffsetsToTxn(ctx, &kafka.AddOffsetsToTxnRequest{TransactionalID: t.id, ProducerID: t.as.ProducerID, ProducerEpoch: t.as.ProducerEpoch, GroupID: group})
		return errors.Join(err, told(r, func() error { return r.Error }))
	})
	if err != nil {
		return err
	}
	return insist(ctx, func() error {
		r, err := t.s.adm.TxnOffsetCommit(ctx, &kafka.TxnOffsetCommitRequest{
			TransactionalID: t.id, GroupID: group, ProducerID: t.as.ProducerID, ProducerEpoch: t.as.ProducerEpoch, GenerationID: -1,
			Topics: map[string][]kafka.TxnOffsetCommit{topic: {{Partition: int(partition), Offset: offset}}},
		})
		return errors.Join(err, told(r, func() error { return r.Topics[topic][0].Error }))
	})
}

func (t *transactor) End(ctx context.Context, commit bool) error {
	return insist(ctx, func() error {
		r, err := t.s.adm.EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: t.id, ProducerID: t.as.ProducerID, ProducerEpoch: t.as.ProducerEpoch, Committed: commit})
		return errors.Join(err, told(r, func() error { return r.Error }))
	})
}

// told is the error in an answer, if there is one.
func told[R any](r *R, in func() error) error {
	if r == nil {
		return nil
	}
	return in()
}

func (t *transactor) Close() {}

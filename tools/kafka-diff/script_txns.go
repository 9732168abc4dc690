package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var txnScripts = []script{
	{"producers", producersScript},
	{"transactions", txnScript},
	{"transactions that the broker opens", implicitScript},
	{"transactions, wrong", txnWrongScript},
	{"markers", markersScript},
	{"transactions told", txnsToldScript},
}

func initTxn(version int16, id string, edit func(*kmsg.InitProducerIDRequest)) *kmsg.InitProducerIDRequest {
	return request(version, func(r *kmsg.InitProducerIDRequest) {
		r.TransactionalID, r.TransactionTimeoutMillis = &id, 60_000
		if edit != nil {
			edit(r)
		}
	})
}

// producer is one that has begun.
type producer struct {
	s     *side
	txn   string
	id    int64
	epoch int16
}

func (s *side) producer(txn string) *producer {
	p := &producer{s: s, txn: txn}
	s.until("a producer", func() bool {
		r, ok := s.quiet(initTxn(s.common[kmsg.InitProducerID.Int16()].max, txn, nil)).(*kmsg.InitProducerIDResponse)
		if ok {
			p.id, p.epoch = r.ProducerID, r.ProducerEpoch
		}
		return ok && r.ErrorCode == 0
	})
	s.symbols.number("ProducerID", p.id)
	return p
}

func (p *producer) batch(seq int32, transactional bool, vs ...string) []byte {
	return batch(func(b *kmsg.RecordBatch) {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = p.id, p.epoch, seq
		if transactional {
			b.Attributes = 0x10
		}
	}, values(vs...)...)
}

func (p *producer) put(version int16, topic string, id [16]byte, partition, seq int32, vs ...string) *kmsg.ProduceRequest {
	r := put(version, -1, topic, id, partition, p.batch(seq, true, vs...))
	r.TransactionID = &p.txn
	return r
}

func (p *producer) add(version int16, topic string, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	return request(version, func(r *kmsg.AddPartitionsToTxnRequest) {
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = p.txn, p.id, p.epoch
		r.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: partitions}}
		t := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: p.txn, ProducerID: p.id, ProducerEpoch: p.epoch}
		t.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic, Partitions: partitions}}
		r.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{t}
	})
}

func (p *producer) end(version int16, committed bool) *kmsg.EndTxnRequest {
	return request(version, func(r *kmsg.EndTxnRequest) {
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = p.txn, p.id, p.epoch, committed
	})
}

// ended takes a producer's next epoch from the answer.
func (p *producer) ended(resp kmsg.Response) {
	if r, ok := resp.(*kmsg.EndTxnResponse); ok && r.Version >= 5 && r.ErrorCode == 0 {
		p.id, p.epoch = r.ProducerID, r.ProducerEpoch
	}
}

func (p *producer) addOffsets(version int16, group string) *kmsg.AddOffsetsToTxnRequest {
	return request(version, func(r *kmsg.AddOffsetsToTxnRequest) {
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = p.txn, p.id, p.epoch, group
	})
}

func (p *producer) offsets(version int16, group, topic string, id [16]byte, partition int32, offset int64) *kmsg.TxnOffsetCommitRequest {
	return request(version, func(r *kmsg.TxnOffsetCommitRequest) {
		r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = p.txn, p.id, p.epoch, group
		o := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		o.Partition, o.Offset, o.Metadata = partition, offset, ptr("in it")
		r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, TopicID: id, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{o}}}
	})
}

// settled waits until a transaction is complete.
func (s *side) settled(txn string) {
	s.until("the end of the transaction "+txn, func() bool {
		r, ok := s.quiet(request(0, func(r *kmsg.DescribeTransactionsRequest) { r.TransactionalIDs = []string{txn} })).(*kmsg.DescribeTransactionsResponse)
		return ok && len(r.TransactionStates) == 1 && (r.TransactionStates[0].State == "CompleteCommit" || r.TransactionStates[0].State == "CompleteAbort" || r.TransactionStates[0].State == "Empty")
	})
}

func producersScript(s *side) {
	for _, v := range s.served(kmsg.InitProducerID.Int16()) {
		txn := fmt.Sprint("begun-", v)
		s.ask("an idempotent one", request(v, func(r *kmsg.InitProducerIDRequest) {}))
		s.ask("no name", initTxn(v, "", nil))
		s.ask("no time", initTxn(v, "no-time", func(r *kmsg.InitProducerIDRequest) { r.TransactionTimeoutMillis = 0 }))
		s.ask("a negative time", initTxn(v, "no-time", func(r *kmsg.InitProducerIDRequest) { r.TransactionTimeoutMillis = -1 }))
		s.ask("too much time", initTxn(v, "no-time", func(r *kmsg.InitProducerIDRequest) { r.TransactionTimeoutMillis = 1_000_000_000 }))
		a := s.ask("first", initTxn(v, txn, nil)).(*kmsg.InitProducerIDResponse)
		b := s.ask("second", initTxn(v, txn, nil)).(*kmsg.InitProducerIDResponse)
		as := func(id int64, epoch int16) func(*kmsg.InitProducerIDRequest) {
			return func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = id, epoch }
		}
		s.ask("as the first", initTxn(v, txn, as(a.ProducerID, a.ProducerEpoch)))
		s.ask("as the second", initTxn(v, txn, as(b.ProducerID, b.ProducerEpoch)))
		s.ask("as the second again", initTxn(v, txn, as(b.ProducerID, b.ProducerEpoch)))
		s.ask("as one to come", initTxn(v, txn, as(b.ProducerID, b.ProducerEpoch+9)))
		s.ask("as another", initTxn(v, txn, as(foreignProducer, 0)))
		s.ask("with no epoch", initTxn(v, txn, as(b.ProducerID, -1)))
		s.ask("with no ID", initTxn(v, txn, as(-1, 3)))
		s.ask("as one, of a new name", initTxn(v, txn+"-new", as(foreignProducer, 3)))
		s.ask("an idempotent one with an epoch", request(v, func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = foreignProducer, 3 }))
	}
}

func txnScript(s *side) {
	id := s.create("txn", 2)
	for _, v := range s.served(kmsg.AddPartitionsToTxn.Int16()) {
		for _, committed := range []bool{true, false} {
			what := fmt.Sprint("commit ", committed, ": ")
			p := s.producer(fmt.Sprint("txn-", v, "-", committed))
			at := func(key kmsg.Key, most int16) int16 {
				return min(s.common[key.Int16()].max, max(s.common[key.Int16()].min, v), most)
			}
			ended := at(kmsg.EndTxn, 4)
			s.ask(what+"produce before it is part", p.put(11, "txn", id, 0, 0, "a"))
			s.ask(what+"add", p.add(v, "txn", 0))
			s.ask(what+"add again", p.add(v, "txn", 0))
			s.ask(what+"add an unknown partition", p.add(v, "txn", 1, 9))
			s.ask(what+"produce", p.put(11, "txn", id, 0, 0, "a", "b"))
			s.ask(what+"produce what is not part", p.put(11, "txn", id, 1, 0, "a", "b"))
			plain := put(11, -1, "txn", id, 0, p.batch(2, false, "c"))
			s.ask(what+"produce outside of it", plain)
			s.ask(what+"the producers", newest(s, func(r *kmsg.DescribeProducersRequest) {
				r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "txn", Partitions: []int32{0, 1}}}
			}))
			for _, isolation := range []int8{0, 1} {
				g := get(12, "txn", [16]byte{}, 0, 0)
				g.IsolationLevel, g.Topics[0].Partitions[0].PartitionMaxBytes = isolation, 1
				s.ask(what+fmt.Sprint("fetched with isolation ", isolation), g)
				s.ask(what+fmt.Sprint("the end with isolation ", isolation), newest(s, func(r *kmsg.ListOffsetsRequest) {
					r.ReplicaID, r.IsolationLevel, r.Topics = -1, isolation, offsetsOf("txn", 0, -1)
				}))
			}
			group := fmt.Sprint("txn-group-", v, "-", committed)
			s.ask(what+"offsets before they are part", p.offsets(at(kmsg.TxnOffsetCommit, 4), group, "txn", id, 0, 3))
			s.ask(what+"add offsets", p.addOffsets(at(kmsg.AddOffsetsToTxn, 9), group))
			s.ask(what+"offsets", p.offsets(at(kmsg.TxnOffsetCommit, 4), group, "txn", id, 0, 3))
			for _, fv := range s.served(kmsg.OffsetFetch.Int16()) {
				for _, stable := range []bool{false, true} {
					s.ask(what+fmt.Sprint("offsets while it is open, stable ", stable), fetchOffsets(fv, group, stable, kmsg.OffsetFetchRequestGroupTopic{Topic: "txn", TopicID: id, Partitions: []int32{0, 1}}))
				}
			}
			s.ask(what+"described", newest(s, func(r *kmsg.DescribeTransactionsRequest) { r.TransactionalIDs = []string{p.txn, "no-such", ""} }))
			s.ask(what+"end", p.end(ended, committed))
			s.settled(p.txn)
			s.ask(what+"end again", p.end(ended, committed))
			s.ask(what+"end in the other way", p.end(ended, !committed))
			s.ask(what+"described at the end", newest(s, func(r *kmsg.DescribeTransactionsRequest) { r.TransactionalIDs = []string{p.txn} }))
			s.until("the marker", func() bool {
				r, ok := s.quiet(request(5, func(r *kmsg.ListOffsetsRequest) {
					r.ReplicaID, r.IsolationLevel, r.Topics = -1, 1, offsetsOf("txn", 0, -1)
				})).(*kmsg.ListOffsetsResponse)
				t, also := s.quiet(request(5, func(r *kmsg.ListOffsetsRequest) { r.ReplicaID, r.Topics = -1, offsetsOf("txn", 0, -1) })).(*kmsg.ListOffsetsResponse)
				return ok && also && r.Topics[0].Partitions[0].Offset == t.Topics[0].Partitions[0].Offset
			})
			for _, isolation := range []int8{0, 1} {
				g := get(12, "txn", [16]byte{}, 0, 0)
				g.IsolationLevel = isolation
				s.ask(what+fmt.Sprint("the log with isolation ", isolation), g)
			}
			s.ask(what+"offsets at the end", fetchOffsets(8, group, true, kmsg.OffsetFetchRequestGroupTopic{Topic: "txn", Partitions: []int32{0}}))
			// The next one of the same producer, and one that a successor aborts.
			s.ask(what+"add for the next", p.add(v, "txn", 1))
			s.ask(what+"produce in the next", p.put(11, "txn", id, 1, 0, "x"))
			s.ask(what+"init meanwhile", initTxn(min(v, 5), p.txn, nil))
			s.settled(p.txn)
			q := s.producer(p.txn)
			s.ask(what+"the old one adds", p.add(v, "txn", 0))
			s.ask(what+"the old one produces", p.put(11, "txn", id, 1, 1, "x"))
			s.ask(what+"the old one ends", p.end(ended, true))
			s.ask(what+"the old one adds offsets", p.addOffsets(at(kmsg.AddOffsetsToTxn, 9), group))
			s.ask(what+"the old one's offsets", p.offsets(at(kmsg.TxnOffsetCommit, 4), group, "txn", id, 0, 9))
			s.ask(what+"the new one ends nothing", q.end(ended, true))
			s.ask(what+"the new one aborts nothing", q.end(ended, false))
		}
	}
}

// implicitScript is about the newest protocol, in which a batch opens a transaction.
func implicitScript(s *side) {
	id := s.create("implicit", 2)
	for _, v := range s.produceVersions() {
		if v < 12 {
			continue
		}
		for _, committed := range []bool{true, false} {
			what := fmt.Sprint("commit ", committed, ": ")
			p := s.producer(fmt.Sprint("implicit-", v, "-", committed))
			group := p.txn + "-group"
			s.ask(what+"nothing to end", p.end(5, committed))
			s.ask(what+"produce", p.put(v, "implicit", id, 0, 0, "a"))
			s.ask(what+"produce on", p.put(v, "implicit", id, 0, 1, "b"))
			s.ask(what+"produce to another", p.put(v, "implicit", id, 1, 0, "c"))
			s.ask(what+"produce with a gap", p.put(v, "implicit", id, 1, 7, "c"))
			for _, ov := range s.served(kmsg.TxnOffsetCommit.Int16()) {
				if ov >= 5 {
					s.ask(what+"offsets", p.offsets(ov, group, "implicit", id, 0, 3))
				}
			}
			s.ask(what+"described", newest(s, func(r *kmsg.DescribeTransactionsRequest) { r.TransactionalIDs = []string{p.txn} }))
			old := *p
			p.ended(s.ask(what+"end", p.end(5, committed)))
			s.settled(p.txn)
			s.ask(what+"end again, as before", old.end(5, committed))
			s.ask(what+"end in the other way, as before", old.end(5, !committed))
			s.ask(what+"produce as before", old.put(v, "implicit", id, 0, 2, "z"))
			s.ask(what+"produce next", p.put(v, "implicit", id, 0, 0, "d"))
			p.ended(s.ask(what+"end the next", p.end(5, !committed)))
			s.settled(p.txn)
			s.ask(what+"described at the end", newest(s, func(r *kmsg.DescribeTransactionsRequest) { r.TransactionalIDs = []string{p.txn} }))
			s.ask(what+"offsets at the end", fetchOffsets(8, group, true, kmsg.OffsetFetchRequestGroupTopic{Topic: "implicit", Partitions: []int32{0}}))
			for _, isolation := range []int8{0, 1} {
				g := get(v+4, "implicit", id, 0, 0)
				g.IsolationLevel = isolation
				s.ask(what+fmt.Sprint("the log with isolation ", isolation), g)
			}
		}
	}
}

func txnWrongScript(s *side) {
	id := s.create("txn-wrong", 1)
	p := s.producer("wrong")
	unknown := &producer{s, "no-such", foreignProducer, 0}
	other := &producer{s, "wrong", foreignProducer, 0}
	none := &producer{s, "", p.id, p.epoch}
	later := &producer{s, "wrong", p.id, p.epoch + 5}
	negative := &producer{s, "wrong", -1, -1}
	for _, c := range []struct {
		label string
		p     *producer
	}{{"an unknown name", unknown}, {"another producer", other}, {"no name", none}, {"an epoch to come", later}, {"no producer", negative}} {
		for _, v := range s.served(kmsg.AddPartitionsToTxn.Int16()) {
			s.ask(c.label, c.p.add(v, "txn-wrong", 0))
		}
		for _, v := range s.served(kmsg.AddOffsetsToTxn.Int16()) {
			s.ask(c.label, c.p.addOffsets(v, "wrong-group"))
		}
		for _, v := range s.served(kmsg.EndTxn.Int16()) {
			s.ask(c.label, c.p.end(v, true))
			s.ask(c.label+" aborts", c.p.end(v, false))
		}
		for _, v := range s.served(kmsg.TxnOffsetCommit.Int16()) {
			s.ask(c.label, c.p.offsets(v, "wrong-group", "txn-wrong", id, 0, 3))
		}
		for _, v := range s.produceVersions() {
			s.ask(c.label, c.p.put(v, "txn-wrong", id, 0, 0, "a"))
		}
	}
	for _, v := range s.served(kmsg.AddPartitionsToTxn.Int16()) {
		s.ask("an unknown topic", p.add(v, "no-such", 0))
		s.ask("a bad name", p.add(v, "a b", 0))
		s.ask("an unknown topic and a known one", request(v, func(r *kmsg.AddPartitionsToTxnRequest) {
			*r = *p.add(v, "no-such", 0)
			r.Topics = append(r.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: "txn-wrong", Partitions: []int32{0}})
			r.Transactions[0].Topics = append(r.Transactions[0].Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: "txn-wrong", Partitions: []int32{0}})
		}))
		s.ask("no topics", request(v, func(r *kmsg.AddPartitionsToTxnRequest) {
			*r = *p.add(v, "no-such", 0)
			r.Topics, r.Transactions[0].Topics = nil, nil
		}))
		if v >= 4 {
			s.ask("only asked", request(v, func(r *kmsg.AddPartitionsToTxnRequest) {
				*r = *p.add(v, "txn-wrong", 0)
				r.Transactions[0].VerifyOnly = true
			}))
		}
	}
	for _, v := range s.served(kmsg.AddOffsetsToTxn.Int16()) {
		s.ask("no group", p.addOffsets(v, ""))
	}
	for _, v := range s.served(kmsg.TxnOffsetCommit.Int16()) {
		one := func(label, group, topic string, tid [16]byte, partition int32, edit func(*kmsg.TxnOffsetCommitRequest)) {
			r := p.offsets(v, group, topic, tid, partition, 3)
			if edit != nil {
				edit(r)
			}
			s.ask(label, r)
		}
		one("no group", "", "txn-wrong", id, 0, nil)
		one("an unknown topic", "wrong-group", "no-such", forged(1), 0, nil)
		one("an unknown partition", "wrong-group", "txn-wrong", id, 9, nil)
		one("no topics", "wrong-group", "txn-wrong", id, 0, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics = nil })
		one("an unknown member", "wrong-group", "txn-wrong", id, 0, func(r *kmsg.TxnOffsetCommitRequest) { r.MemberID, r.Generation = ownMember+"x", 3 })
		one("a generation without a member", "wrong-group", "txn-wrong", id, 0, func(r *kmsg.TxnOffsetCommitRequest) { r.Generation = 3 })
	}
	for _, v := range s.produceVersions() {
		nameless := p.put(v, "txn-wrong", id, 0, 0, "a")
		nameless.TransactionID = nil
		s.ask("a transaction without a name", nameless)
		two := p.put(v, "txn-wrong", id, 0, 0, "a")
		two.Topics[0].Partitions = append(two.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 0, Records: unknown.batch(0, true, "b")})
		s.ask("two producers", two)
	}
}

func markersScript(s *side) {
	id := s.create("marked", 1)
	for _, v := range s.served(kmsg.WriteTxnMarkers.Int16()) {
		p := s.producer(fmt.Sprint("marked-", v))
		s.ask("add", p.add(3, "marked", 0))
		s.ask("produce", p.put(11, "marked", id, 0, 0, "a"))
		mark := func(label string, edit func(*kmsg.WriteTxnMarkersRequestMarker)) {
			s.ask(label, request(v, func(r *kmsg.WriteTxnMarkersRequest) {
				m := kmsg.NewWriteTxnMarkersRequestMarker()
				m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch = p.id, p.epoch, -1
				m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "marked", Partitions: []int32{0}}}
				edit(&m)
				r.Markers = []kmsg.WriteTxnMarkersRequestMarker{m}
			}))
		}
		mark("an unknown topic", func(m *kmsg.WriteTxnMarkersRequestMarker) { m.Topics[0].Topic = "no-such" })
		mark("an unknown partition", func(m *kmsg.WriteTxnMarkersRequestMarker) { m.Topics[0].Partitions = []int32{9} })
		mark("an old epoch", func(m *kmsg.WriteTxnMarkersRequestMarker) { m.ProducerEpoch = p.epoch - 1 })
		mark("no topics", func(m *kmsg.WriteTxnMarkersRequestMarker) { m.Topics = nil })
		mark("aborted", func(m *kmsg.WriteTxnMarkersRequestMarker) {})
		s.ask("the log", get(12, "marked", [16]byte{}, 0, 0))
		s.ask("no markers", request(v, func(r *kmsg.WriteTxnMarkersRequest) {}))
	}
}

func txnsToldScript(s *side) {
	s.create("told", 1)
	p := s.producer("told-open")
	s.producer("told-idle")
	s.ask("add", p.add(3, "told", 0))
	all := func(label string, edit func(*kmsg.ListTransactionsRequest)) {
		each(s, label, func(r *kmsg.ListTransactionsRequest) {
			r.DurationFilterMillis = -1
			r.ProducerIDFilters = nil
			edit(r)
		})
	}
	for _, states := range [][]string{{"Ongoing"}, {"ongoing"}, {"no such"}, {"Ongoing", "no such"}, {""}} {
		all(fmt.Sprintf("in states %q", states), func(r *kmsg.ListTransactionsRequest) { r.StateFilters = states })
	}
	all("of a producer", func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{p.id} })
	all("of no producer", func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = []int64{foreignProducer} })
	from(s, 1, "open for no time", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis, r.ProducerIDFilters = 0, []int64{p.id} })
	from(s, 1, "open for long", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 3_600_000 })
	from(s, 1, "open for less than no time", func(r *kmsg.ListTransactionsRequest) {
		r.DurationFilterMillis, r.StateFilters = -5, []string{"Ongoing"}
	})
	for _, pattern := range []string{"told.*", "told", "", "[", "no-such.*"} {
		from(s, 2, fmt.Sprintf("like %q", pattern), func(r *kmsg.ListTransactionsRequest) {
			r.TransactionalIDPattern, r.DurationFilterMillis = &pattern, -1
			if pattern == "" {
				r.StateFilters = []string{"Ongoing"}
			}
		})
	}
	from(s, 2, "like told, open for a time", func(r *kmsg.ListTransactionsRequest) {
		r.TransactionalIDPattern, r.DurationFilterMillis = ptr("told.*"), 0
	})
	for _, ids := range [][]string{{}, {"told-open"}, {"told-idle"}, {"no-such"}, {""}, {"told-open", "told-open"}} {
		each(s, fmt.Sprintf("described %q", ids), func(r *kmsg.DescribeTransactionsRequest) { r.TransactionalIDs = ids })
	}
	p.ended(s.ask("end", p.end(4, false)))
	s.settled("told-open")
}

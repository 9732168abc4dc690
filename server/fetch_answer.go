package server

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
)

// fetchAnswer is a fetch response whose records may still lie in their files.
type fetchAnswer struct {
	kmsg.FetchResponse
	files map[*kmsg.FetchResponseTopicPartition]*partition.Region

	memory *answers
	held   int64 // of memory
}

func newFetchAnswer(version int16, memory *answers) *fetchAnswer {
	a := &fetchAnswer{memory: memory}
	a.Default()
	a.Version = version
	return a
}

// take makes the answer of what is not left out, topic by topic.
func (a *fetchAnswer) take(from []fetchFrom) {
	type named struct {
		name string
		id   [16]byte
	}
	at, count := map[named]int{}, []int(nil)
	for i := range from {
		f := &from[i]
		if f.unchanged {
			continue
		}
		n, ok := at[named{f.name, f.id}]
		if !ok {
			n = len(a.Topics)
			at[named{f.name, f.id}] = n
			t := kmsg.NewFetchResponseTopic()
			t.Topic, t.TopicID = f.name, f.id
			a.Topics, count = append(a.Topics, t), append(count, 0)
		}
		count[n]++
	}
	for n := range a.Topics { // of the right size: files are kept by address
		a.Topics[n].Partitions = make([]kmsg.FetchResponseTopicPartition, 0, count[n])
	}
	for i := range from {
		f := &from[i]
		if f.unchanged {
			continue
		}
		t := &a.Topics[at[named{f.name, f.id}]]
		t.Partitions = append(t.Partitions, f.out)
		if f.recs != nil {
			if a.files == nil {
				a.files = map[*kmsg.FetchResponseTopicPartition]*partition.Region{}
			}
			a.files[&t.Partitions[len(t.Partitions)-1]] = f.recs
		}
	}
}

// hold takes memory for n bytes of records, if there is any for them.
func (a *fetchAnswer) hold(n int64) bool {
	if n <= inlined {
		n *= 2 // they are copied
	}
	if a.held+n > answerMemory || !a.memory.hold(n) {
		return false
	}
	a.held += n
	return true
}

// release lets go of the files and of the memory. Further calls do nothing.
func (a *fetchAnswer) release() {
	if a.held > 0 {
		a.memory.release(a.held)
		a.held = 0
	}
	for _, r := range a.files {
		r.Release()
	}
}

// payload is records that belong after byte at of the encoded answer.
type payload struct {
	at   int
	mem  []byte
	file *partition.Region // or nil
}

func (p *payload) size() int {
	if p.file != nil {
		return int(p.file.Size())
	}
	return len(p.mem)
}

// inlined is the most of records that is copied into the answer: cheaper than a write
// of their own.
const inlined = 16 << 10

// encode appends the answer without the records that are returned beside it, in order.
func (a *fetchAnswer) encode(dst []byte) ([]byte, []payload) {
	e := fetchEncoder{dst: dst, version: a.Version, flexible: a.Version >= 12}
	e.i32(a.ThrottleMillis)
	if e.version >= 7 {
		e.i16(a.ErrorCode)
		e.i32(a.SessionID)
	}
	e.array(len(a.Topics))
	for i := range a.Topics {
		t := &a.Topics[i]
		if e.version >= 13 {
			e.dst = append(e.dst, t.TopicID[:]...)
		} else {
			e.str(t.Topic)
		}
		e.array(len(t.Partitions))
		for j := range t.Partitions {
			e.partition(&t.Partitions[j], a.files[&t.Partitions[j]])
		}
		e.tags(0)
	}
	e.brokers(a.Brokers)
	return e.dst, e.payloads
}

// fetchEncoder writes what [kmsg.FetchResponse] does, but for records, which it does
// not copy.
type fetchEncoder struct {
	dst      []byte
	version  int16
	flexible bool
	payloads []payload
}

func (e *fetchEncoder) i16(v int16) { e.dst = binary.BigEndian.AppendUint16(e.dst, uint16(v)) }
func (e *fetchEncoder) i32(v int32) { e.dst = binary.BigEndian.AppendUint32(e.dst, uint32(v)) }
func (e *fetchEncoder) i64(v int64) { e.dst = binary.BigEndian.AppendUint64(e.dst, uint64(v)) }

// length of an array, of bytes or, with short, of a string; -1 is null.
func (e *fetchEncoder) length(n int, short bool) {
	switch {
	case e.flexible:
		e.dst = binary.AppendUvarint(e.dst, uint64(n+1))
	case short:
		e.i16(int16(n))
	default:
		e.i32(int32(n))
	}
}

func (e *fetchEncoder) array(n int) { e.length(n, false) }

func (e *fetchEncoder) str(s string) {
	e.length(len(s), true)
	e.dst = append(e.dst, s...)
}

// tags begins a section of n tags, where there are any.
func (e *fetchEncoder) tags(n int) {
	if e.flexible {
		e.dst = binary.AppendUvarint(e.dst, uint64(n))
	}
}

func (e *fetchEncoder) partition(p *kmsg.FetchResponseTopicPartition, file *partition.Region) {
	e.i32(p.Partition)
	e.i16(p.ErrorCode)
	e.i64(p.HighWatermark)
	e.i64(p.LastStableOffset)
	if e.version >= 5 {
		e.i64(p.LogStartOffset)
	}
	e.aborted(p.AbortedTransactions)
	if e.version >= 11 {
		e.i32(p.PreferredReadReplica)
	}
	e.records(payload{mem: p.RecordBatches, file: file})
	if p.CurrentLeader.LeaderID == -1 && p.CurrentLeader.LeaderEpoch == -1 {
		e.tags(0)
		return
	}
	e.tags(1)
	if e.flexible {
		e.dst = append(e.dst, 1, 9) // tag 1, of 9 bytes
		e.i32(p.CurrentLeader.LeaderID)
		e.i32(p.CurrentLeader.LeaderEpoch)
		e.tags(0)
	}
}

func (e *fetchEncoder) aborted(ts []kmsg.FetchResponseTopicPartitionAbortedTransaction) {
	if ts == nil {
		e.array(-1)
		return
	}
	e.array(len(ts))
	for i := range ts {
		e.i64(ts[i].ProducerID)
		e.i64(ts[i].FirstOffset)
		e.tags(0)
	}
}

func (e *fetchEncoder) records(p payload) {
	if p.file == nil && p.mem == nil {
		e.length(-1, false)
		return
	}
	e.length(p.size(), false)
	if p.file == nil && len(p.mem) <= inlined {
		e.dst = append(e.dst, p.mem...)
		return
	}
	p.at = len(e.dst)
	e.payloads = append(e.payloads, p)
}

// brokers are the response's only tag.
func (e *fetchEncoder) brokers(bs []kmsg.FetchResponseBroker) {
	if !e.flexible || len(bs) == 0 {
		e.tags(0)
		return
	}
	in := fetchEncoder{version: e.version, flexible: true}
	in.array(len(bs))
	for i := range bs {
		b := &bs[i]
		in.i32(b.NodeID)
		in.str(b.Host)
		in.i32(b.Port)
		if b.Rack == nil {
			in.length(-1, true)
		} else {
			in.str(*b.Rack)
		}
		in.tags(0)
	}
	e.tags(1)
	e.dst = append(e.dst, 0)
	e.dst = binary.AppendUvarint(e.dst, uint64(len(in.dst)))
	e.dst = append(e.dst, in.dst...)
}

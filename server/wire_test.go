package server

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// client is a raw connection that decodes strictly.
type client struct {
	t    testing.TB
	nc   net.Conn
	corr int32
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return &client{t: t, nc: nc}
}

func frame(req kmsg.Request, corr int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, corr)
}

func (c *client) send(req kmsg.Request) {
	c.t.Helper()
	c.corr++
	if _, err := c.nc.Write(frame(req, c.corr)); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads one answer: correlation ID and the bytes after it.
func (c *client) receive() (int32, []byte) {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		c.t.Fatalf("read answer: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, b); err != nil {
		c.t.Fatalf("read answer: %v", err)
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:]
}

// decode reads a body strictly: the response header of its version, all of the
// body, nothing behind it, and encoded again it is the same bytes.
func (c *client) decode(resp kmsg.Response, b []byte) {
	c.t.Helper()
	if resp.IsFlexible() && resp.Key() != 18 {
		if len(b) == 0 || b[0] != 0 {
			c.t.Fatalf("%s v%d: no empty tag section in the response header", kmsg.NameForKey(resp.Key()), resp.GetVersion())
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(resp.Key()), resp.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); string(again) != string(b) {
		c.t.Fatalf("%s v%d: %d bytes were sent, %d are understood", kmsg.NameForKey(resp.Key()), resp.GetVersion(), len(b), len(again))
	}
}

// ask sends a request and returns its answer.
func (c *client) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	c.send(req)
	corr, b := c.receive()
	if corr != c.corr {
		c.t.Fatalf("answer to request %d instead of %d", corr, c.corr)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	c.decode(resp, b)
	return resp
}

// closed fails unless the broker closes the connection.
func (c *client) closed() {
	c.t.Helper()
	if n, err := io.Copy(io.Discard, c.nc); err != nil && n > 0 {
		c.t.Fatalf("connection: %d bytes, %v", n, err)
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		c.t.Fatal("the connection stays open")
	}
}

// create makes a topic and waits until it is usable.
func (c *client) create(topic string, partitions int32, configs ...string) [16]byte {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 20_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, -1
	for i := 0; i+1 < len(configs); i += 2 {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, rc)
	}
	req.Topics = append(req.Topics, t)
	resp := c.ask(req).(*kmsg.CreateTopicsResponse)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		c.t.Fatalf("create %s: %v: %v", topic, kerr.ErrorForCode(code), *resp.Topics[0].ErrorMessage)
	}
	return resp.Topics[0].TopicID
}

// newBatch encodes one record batch. edit, if any, changes it before its checksum.
func newBatch(edit func(*kmsg.RecordBatch), values ...string) []byte {
	var records []byte
	for i, v := range values {
		r := kmsg.NewRecord()
		r.OffsetDelta, r.Value = int32(i), []byte(v)
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		for { // the length is a varint before what it counts
			b := r.AppendTo(nil)
			body := len(b) - len(binary.AppendVarint(nil, int64(r.Length)))
			if int32(body) == r.Length {
				records = append(records, b...)
				break
			}
			r.Length = int32(body)
		}
	}
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords, b.LastOffsetDelta = 2, int32(len(values)), int32(len(values)-1)
	b.FirstTimestamp, b.MaxTimestamp = time.Now().UnixMilli(), time.Now().UnixMilli()
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.Records = records
	if edit != nil {
		edit(&b)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// produceReq is a request of version 9 for partition 0 of topics, with one batch each.
func produceReq(acks int16, topicBatch ...any) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 10_000
	for i := 0; i+1 < len(topicBatch); i += 2 {
		t := kmsg.NewProduceRequestTopic()
		t.Topic = topicBatch[i].(string)
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = topicBatch[i+1].([]byte)
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// produce sends one batch and returns its error code and base offset.
func (c *client) produce(topic string, batch []byte) (int16, int64) {
	c.t.Helper()
	resp := c.ask(produceReq(-1, topic, batch)).(*kmsg.ProduceResponse)
	p := resp.Topics[0].Partitions[0]
	return p.ErrorCode, p.BaseOffset
}

// produceOnceOpen does so when the partition is open.
func (c *client) produceOnceOpen(topic string, batch []byte) (code int16, offset int64) {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		if code, offset = c.produce(topic, batch); code != kerr.NotLeaderForPartition.Code {
			break
		}
	}
	return code, offset
}

// end is the end offset of partition 0.
func (c *client) end(topic string) int64 {
	c.t.Helper()
	got := c.ask(endReq(topic)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		c.t.Fatalf("end of %s: %v", topic, kerr.ErrorForCode(got.ErrorCode))
	}
	return got.Offset
}

func endReq(topic string) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 5, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func fetchReq(topic string, offset int64, maxWait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, int32(maxWait.Milliseconds()), 1, 50<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = offset, 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func (c *client) fetch(topic string, offset int64) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return c.ask(fetchReq(topic, offset, 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

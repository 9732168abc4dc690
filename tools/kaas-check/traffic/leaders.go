package traffic

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaders is what a client knows of who leads what. It never goes back to an older
// leader epoch. One goroutine uses it.
type leaders struct {
	cl     *kgo.Client
	topics []string
	known  map[place]leader // by topic and index
	asked  time.Time
	stale  bool
}

type leader struct{ node, epoch int32 }

const (
	askMost  = 50 * time.Millisecond // between two questions
	askLeast = time.Second
)

func newLeaders(cl *kgo.Client, topics []Topic) *leaders {
	l := &leaders{cl: cl, known: map[place]leader{}, stale: true}
	for _, t := range topics {
		l.topics = append(l.topics, t.Name)
	}
	return l
}

// of is the leader of a partition and its epoch. It asks where that is not known, or
// was forgotten, or is old.
func (l *leaders) of(ctx context.Context, at place) (node, epoch int32, ok bool) {
	at.part = 0
	have, ok := l.known[at]
	since := time.Since(l.asked)
	if (l.stale || !ok) && since > askMost || since > askLeast {
		l.ask(ctx)
		have, ok = l.known[at]
	}
	return have.node, have.epoch, ok && have.node >= 0
}

// forget has the leaders asked for again.
func (l *leaders) forget() { l.stale = true }

func (l *leaders) ask(ctx context.Context) {
	l.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := metadata(l.topics).RequestWith(ctx, l.cl)
	if err != nil {
		return
	}
	l.stale = false
	eachPartition(resp, func(topic string, p *kmsg.MetadataResponseTopicPartition) {
		at := place{topic: topic, index: p.Partition}
		if have, ok := l.known[at]; !ok || p.LeaderEpoch >= have.epoch {
			l.known[at] = leader{p.Leader, p.LeaderEpoch}
		}
	})
}

func metadata(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// eachPartition calls do for each partition that is told without an error.
func eachPartition(resp *kmsg.MetadataResponse, do func(topic string, p *kmsg.MetadataResponseTopicPartition)) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.ErrorCode != 0 || t.Topic == nil {
			continue
		}
		for j := range t.Partitions {
			do(*t.Topic, &t.Partitions[j])
		}
	}
}

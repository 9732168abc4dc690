package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// layout are the partitions of a cluster, over topics of about the same size. They
// are numbered through.
type layout struct {
	topics []string
	places []place
	first  map[string]int // number of a topic's first partition
}

type place struct {
	topic     string
	partition int32
}

func newLayout(partitions, topics int) *layout {
	l := &layout{first: map[string]int{}}
	for t := range topics {
		name := fmt.Sprintf("bench-%02d", t)
		l.topics = append(l.topics, name)
		l.first[name] = len(l.places)
		for p := range share(int64(partitions), topics, t) {
			l.places = append(l.places, place{name, int32(p)})
		}
	}
	return l
}

// size is the number of partitions of topic t.
func (l *layout) size(t int) int32 {
	end := len(l.places)
	if t+1 < len(l.topics) {
		end = l.first[l.topics[t+1]]
	}
	return int32(end - l.first[l.topics[t]])
}

// create makes the topics, one after the other.
func (l *layout) create(ctx context.Context, f *fleet) error {
	replicas, configs := f.kind.topic()
	return f.admin(func(adm *kadm.Client) error {
		adm.SetTimeoutMillis(int32(settleMost / time.Millisecond))
		for t, name := range l.topics {
			_, err := adm.CreateTopic(ctx, l.size(t), replicas, configs, name)
			if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // a request that was sent again
				return fmt.Errorf("%s: make topic %s: %w", f.kind.name(), name, err)
			}
		}
		return nil
	})
}

// noLeader stands for a partition without a leader.
const noLeader = -1

// survey is what a broker's metadata says of the layout.
type survey struct {
	leaders []int32
	behind  int // partitions whose replicas are not all in sync
}

func (l *layout) survey(ctx context.Context, ask kmsg.Requestor) (*survey, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range l.topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("ask for metadata: %w", err)
	}
	return l.read(resp), nil
}

func (l *layout) read(resp *kmsg.MetadataResponse) *survey {
	s := &survey{leaders: slices.Repeat([]int32{noLeader}, len(l.places))}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		first, known := l.first[*t.Topic]
		for _, p := range t.Partitions {
			at := first + int(p.Partition)
			if !known || at >= len(l.places) || l.places[at] != (place{*t.Topic, p.Partition}) {
				continue
			}
			if p.ErrorCode == 0 {
				s.leaders[at] = p.Leader
			}
			if len(p.ISR) != len(p.Replicas) {
				s.behind++
			}
		}
	}
	return s
}

// led are the partitions that a broker leads.
func (s *survey) led(by int32) (at []int) {
	for i, l := range s.leaders {
		if l == by {
			at = append(at, i)
		}
	}
	return at
}

// ledWithout says whether every partition has a leader that is not the given one.
func (s *survey) ledWithout(id int32) bool {
	return !slices.Contains(s.leaders, noLeader) && !slices.Contains(s.leaders, id)
}

// counts are the numbers of partitions that each of the nodes leads.
func (s *survey) counts(f *fleet) []int {
	var counts []int
	for _, n := range f.nodes {
		counts = append(counts, len(s.led(n.id)))
	}
	return counts
}

// even says whether all is led, and by each node nearly as much: replicas of topics
// are not placed evenly to the last one by every server.
func (s *survey) even(f *fleet) bool {
	counts := s.counts(f)
	mean := len(s.leaders) / len(counts)
	return s.ledWithout(noLeader) && s.behind == 0 && slices.Min(counts) >= mean-mean/10
}

const (
	// settleMost is how long a cluster may take to be whole and even.
	settleMost = 3 * time.Minute
	// settleAgain is how often it is asked to be even.
	settleAgain = 2 * time.Second
	// settleCalm is how long leaders must not have moved.
	settleCalm = time.Second
)

// settle waits until every partition is led, replicas are in sync, leaders are spread
// evenly, and none has moved for a moment.
func (l *layout) settle(ctx context.Context, f *fleet) (*survey, error) {
	ctx, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	var last *survey
	var err error
	calm := time.Now()
	asked := calm
	until(ctx, 50*time.Millisecond, func() bool {
		var s *survey
		if s, err = l.survey(ctx, f.other(noLeader).ask()); err != nil {
			return false
		}
		if last == nil || !slices.Equal(s.leaders, last.leaders) || !s.even(f) {
			calm = time.Now()
		}
		last = s
		if !s.even(f) && time.Since(asked) > settleAgain {
			asked = time.Now()
			err = f.admin(func(adm *kadm.Client) error { return f.kind.even(ctx, adm) })
		}
		return time.Since(calm) > settleCalm
	})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s is not whole and even after %v: %s: %w", f.kind.name(), settleMost, last.text(f), errors.Join(err, context.Cause(ctx)))
	}
	return last, nil
}

func (s *survey) text(f *fleet) string {
	if s == nil {
		return "no answer"
	}
	return fmt.Sprintf("leaders by broker %v, %d without, %d partitions behind", s.counts(f), len(s.led(noLeader)), s.behind)
}

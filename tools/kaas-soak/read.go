package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readTail follows the partitions of the topic that is not compacted until ctx ends.
func (s *soak) readTail(ctx context.Context) error {
	from := map[int32]kgo.Offset{}
	for _, p := range s.of(logTopic) {
		from[p.index] = kgo.NewOffset().At(0)
	}
	cl, err := s.consumer(map[string]map[int32]kgo.Offset{logTopic: from})
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fs := cl.PollFetches(ctx)
		s.fetchErrors(fs)
		fs.EachRecord(func(r *kgo.Record) {
			p := s.part(r.Topic, r.Partition)
			_, next, _ := p.counts()
			s.checkNext(ctx, p, "the reader at the tail", next, r)
			s.count.skipped.Add(r.Offset - next)
			p.mu.Lock()
			p.mu.read = r.Offset + 1
			p.mu.Unlock()
			s.count.tail.Add(1)
		})
	}
	return nil
}

func (s *soak) consumer(from map[string]map[int32]kgo.Offset) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(s.broker.addr), kgo.AlwaysRetryEOF(), kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.FetchMaxPartitionBytes(1<<20), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
}

// fetchErrors takes a told loss of data as one. A client goes on by itself after
// everything else.
func (s *soak) fetchErrors(fs kgo.Fetches) {
	fs.EachError(func(topic string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		if errors.As(err, &loss) {
			s.violate("%s/%d: a reader is told of lost data: %v", topic, partition, err)
		}
	})
}

// checkNext wants a record of the topic that is not compacted to be the next one, or
// retention to have taken what lies between.
func (s *soak) checkNext(ctx context.Context, p *part, who string, next int64, r *kgo.Record) {
	switch {
	case r.Offset < next:
		s.violate("%s/%d: %s got offset %d again: %d is next", p.topic, p.index, who, r.Offset, next)
	case r.Offset > next:
		start, err := s.logStart(ctx, p)
		if err != nil {
			return // the run is over
		}
		if r.Offset > start {
			s.violate("%s/%d: %s got offset %d where %d is next, and the log starts at %d", p.topic, p.index, who, r.Offset, next, start)
		}
	}
	if !asWritten(r) {
		s.violate("%s/%d: %s got at offset %d what was not written there: key %.20q, value of %d bytes, %.40q", p.topic, p.index, who, r.Offset, r.Key, len(r.Value), r.Value)
	}
}

// sweep reads a partition from its log start to the end it has now.
func (s *soak) sweep(ctx context.Context, p *part) error {
	began := time.Now()
	p.mu.Lock()
	acked, last := p.mu.acked, append([]int64(nil), p.mu.last...)
	p.mu.Unlock()
	start, err := s.logStart(ctx, p)
	if err != nil {
		return nil // the run is over
	}
	end, err := s.listed(ctx, p, -1)
	if err != nil {
		return nil
	}
	if end < acked {
		s.violate("%s/%d: the log ends at %d, and %d records were acknowledged before", p.topic, p.index, end, acked)
		return nil
	}
	seen := make([]int64, len(last))
	for i := range seen {
		seen[i] = -1
	}
	if err := s.readRange(ctx, p, start, end, seen); err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.readOn(ctx, p, end, last, seen); err != nil || ctx.Err() != nil {
		return err
	}
	s.count.sweeps.Add(1)
	if key := firstMissing(p, last, seen, began); key >= 0 {
		s.violate("%s/%d: key %d was acknowledged at offset %d (tombstone: %v), a reader of all from %d to %d and on saw it last at %d (-1 is never)",
			p.topic, p.index, key, last[key], tombstoneAt(p.topic, last[key]), start, end, seen[key])
	}
	return nil
}

// readOn reads further while keys are missing: where compaction took a record out
// before the reader came to it, a later one of that key lies at end or after it. Near
// the head nothing is compacted, so this ends soon.
func (s *soak) readOn(ctx context.Context, p *part, end int64, last, seen []int64) error {
	for range 5 {
		if firstMissing(p, last, seen, time.Now()) < 0 {
			return nil
		}
		next, err := s.listed(ctx, p, -1)
		if err != nil || next == end {
			return nil
		}
		s.count.readOn.Add(1)
		if err := s.readRange(ctx, p, end, next, seen); err != nil || ctx.Err() != nil {
			return err
		}
		end = next
	}
	return nil
}

// firstMissing is the first key of which nothing was seen at or after the offset that
// had been acknowledged, or -1. A tombstone may be gone with all before it; but
// who has seen an older record of its key must see it, if the reading took no longer than
// tombstones are kept.
func firstMissing(p *part, last, seen []int64, began time.Time) int {
	sure := time.Since(began) < tombstoneKeptMs*time.Millisecond/2
	for key, want := range last {
		if seen[key] >= want {
			continue
		}
		if !tombstoneAt(p.topic, want) || seen[key] >= 0 && sure {
			return key
		}
	}
	return -1
}

// readRange reads and checks what lies from start to end; seen takes the last offset
// of each key.
func (s *soak) readRange(ctx context.Context, p *part, start, end int64, seen []int64) error {
	cl, err := s.consumer(map[string]map[int32]kgo.Offset{p.topic: {p.index: kgo.NewOffset().At(start)}})
	if err != nil {
		return err
	}
	defer cl.Close()
	const most = time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	next := start
	for next < end {
		fs := cl.PollFetches(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.violate("%s/%d: a reader from %d to %d stands at %d after %v", p.topic, p.index, start, end, next, most)
		}
		if ctx.Err() != nil {
			return nil
		}
		s.fetchErrors(fs)
		fs.EachRecord(func(r *kgo.Record) {
			if p.topic == keysTopic {
				s.checkKept(p, next, r)
				seen[keyAt(r.Offset)] = r.Offset
			} else {
				s.checkNext(ctx, p, "a reader from the log start", next, r)
			}
			next = r.Offset + 1
			s.count.swept.Add(1)
		})
	}
	return nil
}

// checkKept wants a record of the compacted topic to be as it was written, and later
// than the one before.
func (s *soak) checkKept(p *part, next int64, r *kgo.Record) {
	switch {
	case r.Offset < next:
		s.violate("%s/%d: a reader of all got offset %d after %d", p.topic, p.index, r.Offset, next-1)
	case !asWritten(r):
		s.violate("%s/%d: a reader of all got at offset %d what was not written there: key %.20q, value of %d bytes, %.40q", p.topic, p.index, r.Offset, r.Key, len(r.Value), r.Value)
	}
}

// watchStarts looks at the log starts until ctx ends.
func (s *soak) watchStarts(ctx context.Context) {
	every(ctx, 200*time.Millisecond, func() {
		for _, p := range s.parts {
			if _, err := s.logStart(ctx, p); err != nil {
				return
			}
		}
	})
}

// logStart asks for the log start and checks it. An error says that ctx has ended.
func (s *soak) logStart(ctx context.Context, p *part) (int64, error) {
	_, _, before := p.counts()
	start, err := s.listed(ctx, p, -2)
	if err != nil {
		return 0, err
	}
	end, err := s.listed(ctx, p, -1)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	p.mu.start = max(p.mu.start, start)
	p.mu.held = max(p.mu.held, (p.mu.acked-start)*valueSize)
	p.mu.Unlock()
	switch {
	case start < before:
		s.violate("%s/%d: the log start went back from %d to %d", p.topic, p.index, before, start)
	case p.topic == keysTopic && start > 0:
		s.violate("%s/%d: the log start is %d, and nothing may remove records by retention", p.topic, p.index, start)
	case start > 0 && (end-start)*(valueSize+mostOverhead) < retentionBytes:
		s.violate("%s/%d: the log goes from %d to %d, which is at most %d bytes; retention.bytes is %d",
			p.topic, p.index, start, end, (end-start)*(valueSize+mostOverhead), int64(retentionBytes))
	}
	return start, nil
}

// listed asks for an offset until it is told. An error says that ctx has ended.
func (s *soak) listed(ctx context.Context, p *part, which int64) (int64, error) {
	for {
		offset, err := s.listOnce(ctx, p, which)
		if err == nil {
			return offset, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("ask for an offset: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *soak) listOnce(ctx context.Context, p *part, which int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list := s.admin.ListStartOffsets
	if which == -1 {
		list = s.admin.ListEndOffsets
	}
	offsets, err := list(ctx, p.topic)
	if err != nil {
		return 0, err
	}
	o, ok := offsets.Lookup(p.topic, p.index)
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	return o.Offset, o.Err
}

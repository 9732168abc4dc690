package main

import (
	"sync"
)

// part is what the soak knows of one partition.
type part struct {
	topic string
	index int32
	mu    struct {
		sync.Mutex
		acked int64   // records acknowledged; the next to be is at this offset
		read  int64   // that the reader at the tail is to see next
		start int64   // the log start that was seen last
		last  []int64 // of the compacted topic: by key, the offset acknowledged last, or -1
		held  int64   // most bytes of values above the log start, as seen from outside
	}
}

func newPart(topic string, index int32) *part {
	p := &part{topic: topic, index: index}
	if topic == keysTopic {
		p.mu.last = make([]int64, keysOfEach)
		for i := range p.mu.last {
			p.mu.last[i] = -1
		}
	}
	return p
}

// ack notes an acknowledgement and returns the offset that it had to name.
func (p *part) ack(offset int64) (want int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want = p.mu.acked
	p.mu.acked++
	if p.mu.last != nil {
		p.mu.last[keyAt(offset)] = offset
	}
	return want
}

// counts are the records acknowledged, the next one to read at the tail, and the log start.
func (p *part) counts() (acked, read, start int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.acked, p.mu.read, p.mu.start
}

package classic

import (
	"container/heap"
	"time"
)

const (
	// mostPending bounds the memory of a group's IDs that were handed out, in bytes.
	mostPending = 4 << 20
	// pendingWeight is what such an ID takes besides its own length.
	pendingWeight = 256
)

// pendings are the member IDs that were handed out and have not joined (KIP-394), and until
// when they may. Anybody may ask for one, as often as they like, under a client ID of any
// length: of more than may be the one is forgotten that would be first anyway, and whoever
// comes with it is told that it is unknown, and starts again.
type pendings struct {
	byID  map[string]*pendingID
	due   pendingHeap
	bytes int64
}

type pendingID struct {
	id    string
	until time.Time
	index int // in the heap
}

func (p *pendings) has(id string) bool { return p.byID[id] != nil }

func (p *pendings) add(id string, until time.Time) {
	p.drop(id)
	x := &pendingID{id: id, until: until}
	if p.byID == nil {
		p.byID = map[string]*pendingID{}
	}
	p.byID[id] = x
	heap.Push(&p.due, x)
	for p.bytes += pendingCost(id); p.bytes > mostPending && len(p.due) > 1; {
		p.drop(p.due[0].id)
	}
}

func (p *pendings) drop(id string) {
	x := p.byID[id]
	if x == nil {
		return
	}
	delete(p.byID, id)
	heap.Remove(&p.due, x.index)
	p.bytes -= pendingCost(id)
}

// first is when the first of them is due.
func (p *pendings) first() (time.Time, bool) {
	if len(p.due) == 0 {
		return time.Time{}, false
	}
	return p.due[0].until, true
}

// expire forgets those that are due, and reports whether there were any.
func (p *pendings) expire(now time.Time) (any bool) {
	for len(p.due) > 0 && due(p.due[0].until, now) {
		p.drop(p.due[0].id)
		any = true
	}
	return any
}

func pendingCost(id string) int64 { return int64(len(id)) + pendingWeight }

type pendingHeap []*pendingID

func (h pendingHeap) Len() int           { return len(h) }
func (h pendingHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h pendingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *pendingHeap) Push(x any) {
	p := x.(*pendingID)
	p.index = len(*h)
	*h = append(*h, p)
}

func (h *pendingHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}

package groupshard

import (
	"container/heap"
	"time"
)

// timerKey names a deadline: of a group under the classic protocol as a whole, or of a
// member under the other, which may have two.
type timerKey struct {
	kind          timerKind
	group, member string
}

type timerKind int8

const (
	classicTimer   timerKind = iota // whatever is due first in the group
	sessionTimer                    // the member is not heard
	rebalanceTimer                  // the member does not give up what it must
)

type timer struct {
	key   timerKey
	at    time.Time
	index int // in the heap
}

// timers are deadlines, each key having at most one. Not safe for concurrent use.
type timers struct {
	byTime timerHeap
	byKey  map[timerKey]*timer
}

// set makes at the key's only deadline and reports whether it is the earliest of all.
func (t *timers) set(k timerKey, at time.Time) (first bool) {
	x := t.byKey[k]
	if x == nil {
		if t.byKey == nil {
			t.byKey = map[timerKey]*timer{}
		}
		x = &timer{key: k, at: at}
		t.byKey[k] = x
		heap.Push(&t.byTime, x)
	} else {
		x.at = at
		heap.Fix(&t.byTime, x.index)
	}
	return x.index == 0
}

func (t *timers) has(k timerKey) bool { return t.byKey[k] != nil }

func (t *timers) drop(k timerKey) {
	if x := t.byKey[k]; x != nil {
		delete(t.byKey, k)
		heap.Remove(&t.byTime, x.index)
	}
}

// next is the earliest deadline.
func (t *timers) next() (time.Time, bool) {
	if len(t.byTime) == 0 {
		return time.Time{}, false
	}
	return t.byTime[0].at, true
}

// due takes out what is due.
func (t *timers) due(now time.Time) (ks []timerKey) {
	for len(t.byTime) > 0 && !t.byTime[0].at.After(now) {
		k := t.byTime[0].key
		t.drop(k)
		ks = append(ks, k)
	}
	return ks
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}

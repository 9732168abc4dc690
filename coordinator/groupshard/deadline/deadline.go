// Package deadline keeps deadlines by their keys, with the earliest at hand.
package deadline

import (
	"container/heap"
	"time"
)

// Set is deadlines, each key having at most one. The zero value is empty. It is not safe for
// concurrent use.
type Set[K comparable] struct {
	byTime queue[K]
	byKey  map[K]*entry[K]
}

type entry[K comparable] struct {
	key   K
	at    time.Time
	index int // in the queue
}

// Put makes at the key's only deadline, and reports whether it is the earliest of all.
func (s *Set[K]) Put(k K, at time.Time) (first bool) {
	e := s.byKey[k]
	if e == nil {
		if s.byKey == nil {
			s.byKey = map[K]*entry[K]{}
		}
		e = &entry[K]{key: k, at: at}
		s.byKey[k] = e
		heap.Push(&s.byTime, e)
	} else {
		e.at = at
		heap.Fix(&s.byTime, e.index)
	}
	return e.index == 0
}

// Has reports whether the key has a deadline.
func (s *Set[K]) Has(k K) bool { return s.byKey[k] != nil }

// Len is how many there are.
func (s *Set[K]) Len() int { return len(s.byTime) }

// Drop takes the key's deadline away, and reports whether it had one.
func (s *Set[K]) Drop(k K) bool {
	e := s.byKey[k]
	if e == nil {
		return false
	}
	delete(s.byKey, k)
	heap.Remove(&s.byTime, e.index)
	return true
}

// First is the earliest deadline, and whose it is.
func (s *Set[K]) First() (k K, at time.Time, ok bool) {
	if len(s.byTime) == 0 {
		return k, at, false
	}
	return s.byTime[0].key, s.byTime[0].at, true
}

// Due takes out what is due, the earliest first.
func (s *Set[K]) Due(now time.Time) (ks []K) {
	for len(s.byTime) > 0 && !s.byTime[0].at.After(now) {
		k := s.byTime[0].key
		s.Drop(k)
		ks = append(ks, k)
	}
	return ks
}

// queue implements heap.Interface.
type queue[K comparable] []*entry[K]

func (q queue[K]) Len() int           { return len(q) }
func (q queue[K]) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue[K]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue[K]) Push(x any) {
	e := x.(*entry[K])
	e.index = len(*q)
	*q = append(*q, e)
}

func (q *queue[K]) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}

package assignor

import (
	"slices"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// Topic is a topic whose partitions are to be assigned.
type Topic struct {
	ID         projections.TopicID
	Partitions int32
}

// Member is who may be given partitions.
type Member struct {
	Topics  []int32           // that it subscribes to: positions in the problem's list, ascending
	Current groups.Assignment // its previous target; what cannot stay is left out
}

// Problem is what there is to be assigned, and to whom.
type Problem struct {
	Topics  []Topic
	Members []Member
}

// Func solves a problem: one assignment for each member, in their order, never nil. A
// member whose assignment stays gets the very map that it has.
type Func func(Problem) []groups.Assignment

// The names under which members and configs know the assignors.
const (
	Uniform = "uniform"
	Range   = "range"
)

// Named returns the assignor of that name, nil if there is none.
func Named(name string) Func {
	switch name {
	case Uniform:
		return uniform
	case Range:
		return ranges
	}
	return nil
}

// nobody has a partition that is free.
const nobody = -1

// plan is a solution in the making. Partitions have numbers: those of the first topic,
// then those of the second, and so on.
type plan struct {
	Problem
	base  []int32 // number of each topic's first partition; one more at the end
	topic []int32 // of each partition
	had   []int32 // who has it by the previous targets
	owner []int32 // who gets it
	load  []int32 // of each member
	same  bool    // all members subscribe to the same topics
}

func newPlan(pr Problem) *plan {
	pl := &plan{Problem: pr, base: make([]int32, len(pr.Topics)+1), load: make([]int32, len(pr.Members)), same: true}
	for i, t := range pr.Topics {
		pl.base[i+1] = pl.base[i] + t.Partitions
	}
	n := pl.base[len(pr.Topics)]
	pl.topic, pl.had, pl.owner = make([]int32, n), make([]int32, n), make([]int32, n)
	for i := range pr.Topics {
		for p := pl.base[i]; p < pl.base[i+1]; p++ {
			pl.topic[p], pl.had[p], pl.owner[p] = int32(i), nobody, nobody
		}
	}
	index := make(map[projections.TopicID]int32, len(pr.Topics))
	for i, t := range pr.Topics {
		index[t.ID] = int32(i)
	}
	for m := range pr.Members {
		pl.same = pl.same && slices.Equal(pr.Members[m].Topics, pr.Members[0].Topics)
		pl.recall(int32(m), index)
	}
	return pl
}

// recall notes what a member has of the topics that it subscribes to.
func (pl *plan) recall(m int32, index map[projections.TopicID]int32) {
	for id, ps := range pl.Members[m].Current {
		t, ok := index[id]
		if !ok {
			continue
		}
		if _, ok = slices.BinarySearch(pl.Members[m].Topics, t); !ok {
			continue
		}
		for _, i := range ps {
			if i >= 0 && i < pl.Topics[t].Partitions && pl.had[pl.base[t]+i] == nobody {
				pl.had[pl.base[t]+i] = m
			}
		}
	}
}

// give makes a partition a member's, and takes it from who has it.
func (pl *plan) give(p, m int32) {
	if from := pl.owner[p]; from != nobody {
		pl.load[from]--
	}
	pl.owner[p] = m
	if m != nobody {
		pl.load[m]++
	}
}

// answer is the plan as the members' assignments.
func (pl *plan) answer() []groups.Assignment {
	lists := pl.lists()
	out := make([]groups.Assignment, len(pl.Members))
	for m := range out {
		out[m] = pl.Members[m].Current
		if out[m] == nil || !pl.stays(int32(m), lists[m]) {
			out[m] = pl.assignment(lists[m])
		}
	}
	return out
}

// lists returns the partitions of each member, ascending.
func (pl *plan) lists() [][]int32 {
	all := make([]int32, len(pl.owner))
	lists, at := make([][]int32, len(pl.Members)), int32(0)
	for m, n := range pl.load {
		lists[m] = all[at:at:(at + n)]
		at += n
	}
	for p, m := range pl.owner {
		if m != nobody {
			lists[m] = append(lists[m], int32(p))
		}
	}
	return lists
}

// stays reports whether a list is what the member has.
func (pl *plan) stays(m int32, list []int32) bool {
	n := 0
	for _, ps := range pl.Members[m].Current {
		n += len(ps)
	}
	if n != len(list) {
		return false
	}
	for _, p := range list {
		if pl.had[p] != m {
			return false
		}
	}
	return true
}

func (pl *plan) assignment(list []int32) groups.Assignment {
	out := groups.Assignment{}
	for len(list) > 0 {
		t, n := pl.topic[list[0]], 1
		for n < len(list) && pl.topic[list[n]] == t {
			n++
		}
		ps := make([]int32, n)
		for i := range ps {
			ps[i] = list[i] - pl.base[t]
		}
		out[pl.Topics[t].ID], list = ps, list[n:]
	}
	return out
}

package checker

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// The processes and the group of histories of groups.
const (
	groupNemesis = iota
	groupFinal
	groupObserver
	memberA
	memberB
	memberC
)

const (
	theGroup     = 1
	groupSession = 100
)

// groupHistory is one of a partition with an end, and what a group did, each operation at
// the times that it has.
func groupHistory(end int64, ops ...history.Op) *history.History {
	h := &history.History{
		Procs: []history.Proc{
			{Name: "nemesis"}, {Name: "final", Role: history.Final}, {Name: "observer", Role: history.Observer, Group: theGroup},
			{Name: "A", Role: history.Member, Group: theGroup}, {Name: "B", Role: history.Member, Group: theGroup}, {Name: "C", Role: history.Member, Group: theGroup},
		},
		Groups: []history.Group{{}, {Name: "g", Topics: []string{"t"}, Session: groupSession}},
		Parts:  []history.Part{{Topic: "t"}}, Logs: make([][]history.Record, 1), Ops: ops,
	}
	if end >= 0 {
		h.Ops = append(h.Ops, history.Op{Kind: history.Observe, Outcome: history.OK, Proc: groupFinal, Field: history.End, Offset: end, Count: 1, Invoke: 9000, Complete: 9001, Last: [2]int64{9000, 9001}})
	}
	if end > 0 {
		h.Ops = append(h.Ops, history.Op{Kind: history.Read, Outcome: history.OK, Proc: groupFinal, Count: int32(end), Invoke: 9002, Complete: 9003})
		for i := range end {
			v := history.Value(groupNemesis, i+1)
			h.Logs[0] = append(h.Logs[0], history.Record{Offset: i, Value: v})
			h.Ops = append(h.Ops, history.Op{Kind: history.Produce, Outcome: history.Unknown, Value: v, Offset: -1})
		}
	}
	return h
}

func processed(proc int32, at, from, to int64) history.Op {
	return history.Op{Kind: history.Process, Outcome: history.OK, Proc: proc, Offset: from, Count: int32(to - from), Invoke: at, Complete: at + 1}
}

func committed(proc int32, at, offset int64, generation int32, outcome history.Outcome) history.Op {
	return history.Op{Kind: history.Commit, Outcome: outcome, Proc: proc, Offset: offset, Epoch: generation, Invoke: at, Complete: at + 1}
}

func told(at, offset int64) history.Op {
	return history.Op{Kind: history.Observe, Outcome: history.OK, Proc: groupObserver, Field: history.Committed, Offset: offset, Epoch: -1, Count: 1, Invoke: at, Complete: at + 1, Last: [2]int64{at, at + 1}}
}

func owned(proc int32, from, to, heartbeat int64, outcome history.Outcome) history.Op {
	return history.Op{Kind: history.Own, Outcome: outcome, Proc: proc, Offset: -1, Epoch: -1, Invoke: from, Complete: to, Last: [2]int64{heartbeat, heartbeat}}
}

const (
	ok      = history.OK
	failed  = history.Failed
	unknown = history.Unknown
)

// Each rule finds what it is for, and does not find what may happen.
func TestGroupRules(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  int64
		ops  []history.Op
		want string // rules that find something
	}{
		{"all is well", 4, []history.Op{
			owned(memberA, 1, 20, 10, ok), told(1, -1), processed(memberA, 5, 0, 2), committed(memberA, 7, 2, 1, ok), told(10, 2),
			owned(memberB, 20, 50, 40, ok), processed(memberB, 22, 2, 4), committed(memberB, 24, 4, 2, ok), told(30, 4),
		}, ""},
		{"what is acknowledged is gone", -1, []history.Op{committed(memberA, 1, 5, 1, ok), told(10, -1)}, "commit-gone"},
		{"what is acknowledged goes back", -1, []history.Op{committed(memberA, 1, 4, 1, ok), committed(memberA, 3, 5, 1, ok), told(10, 4)}, "commit-back"},
		{"what was told goes back", -1, []history.Op{committed(memberA, 1, 4, 1, ok), committed(memberA, 3, 5, 1, unknown), told(10, 5), told(20, 4)}, "commit-back"},
		{"what was told is gone", -1, []history.Op{committed(memberA, 3, 5, 1, unknown), told(10, 5), told(20, -1)}, "commit-gone"},
		{"the last of equal answers is too old", -1, []history.Op{committed(memberA, 1, 4, 1, ok), committed(memberA, 10, 5, 1, ok), func() history.Op {
			op := told(5, 4)
			op.Count, op.Last = 2, [2]int64{20, 21}
			return op
		}()}, "commit-back"},
		{"an answer is asked for before the acknowledgement", -1, []history.Op{committed(memberA, 1, 4, 1, ok), committed(memberA, 10, 5, 1, ok), told(11, 4)}, ""},
		{"an unknown commit never happens", -1, []history.Op{committed(memberA, 1, 4, 1, ok), committed(memberA, 3, 5, 1, unknown), told(10, 4)}, ""},
		{"an unknown commit happens late", -1, []history.Op{
			committed(memberA, 1, 4, 1, unknown), committed(memberA, 3, 5, 1, ok), told(10, 4), committed(memberA, 20, 4, 1, ok), told(30, 4),
		}, ""},
		{"an unknown commit of an earlier generation happens late", -1, []history.Op{committed(memberA, 1, 4, 1, unknown), committed(memberB, 3, 5, 2, ok), told(10, 4)}, "commit-back"},
		{"a refused commit is told", -1, []history.Op{committed(memberA, 1, 4, 1, failed), told(10, 4)}, "commit-unmade"},
		{"a commit is told before it is made", -1, []history.Op{told(10, 4), committed(memberA, 20, 4, 1, ok)}, "commit-unmade"},
		{"nobody's commits are known", -1, []history.Op{told(10, 4), told(20, 6)}, ""},
		{"a commit of an old generation is taken", -1, []history.Op{committed(memberB, 1, 4, 2, ok), committed(memberA, 3, 6, 1, ok)}, "old-generation"},
		{"a commit of an old generation is refused", -1, []history.Op{committed(memberB, 1, 4, 2, ok), committed(memberA, 3, 6, 1, failed)}, ""},
		{"commits of two generations at once", -1, []history.Op{committed(memberB, 1, 4, 2, ok), committed(memberA, 2, 6, 1, ok)}, ""},
		{"a record is skipped", 6, []history.Op{processed(memberA, 1, 0, 3), processed(memberB, 3, 4, 6)}, "skipped"},
		{"the first is skipped", 6, []history.Op{processed(memberA, 1, 1, 6)}, "skipped"},
		{"what is committed was not processed", 6, []history.Op{processed(memberA, 1, 0, 3), committed(memberA, 3, 6, 1, ok)}, "skipped"},
		{"the group stands still", 6, []history.Op{processed(memberA, 1, 0, 3)}, "group-stuck"},
		{"the group is never heard of", 6, nil, "group-stuck"},
		{"records are processed twice, in no order", 6, []history.Op{processed(memberB, 1, 2, 6), processed(memberA, 3, 0, 4)}, ""},
		{"what was deleted need not be processed", 6, []history.Op{
			{Kind: history.Observe, Outcome: ok, Proc: groupFinal, Field: history.LogStart, Offset: 2, Count: 1, Invoke: 1, Complete: 2, Last: [2]int64{1, 2}}, processed(memberA, 3, 2, 6),
		}, ""},
		{"a member begins again", -1, []history.Op{
			owned(memberA, 1, 20, 10, ok), processed(memberA, 2, 0, 5), committed(memberA, 4, 5, 1, ok), owned(memberB, 20, 50, 40, ok), processed(memberB, 22, 3, 6),
		}, "read-again"},
		{"a member goes on behind a commit that was not known", -1, []history.Op{
			owned(memberA, 1, 20, 10, ok), processed(memberA, 2, 0, 5), committed(memberA, 4, 5, 1, unknown), owned(memberB, 20, 50, 40, ok), processed(memberB, 22, 0, 6),
		}, ""},
		{"the same member has it again, and begins again", -1, []history.Op{
			owned(memberA, 1, 20, 10, ok), processed(memberA, 2, 0, 5), committed(memberA, 4, 5, 1, ok), owned(memberA, 30, 50, 40, ok), processed(memberA, 32, 0, 6),
		}, "read-again"},
		{"two have it", -1, []history.Op{owned(memberA, 1, 30, 25, ok), owned(memberB, 20, 50, 40, ok)}, "two-owners"},
		{"two have it, and one lets go last of all", -1, []history.Op{owned(memberA, 1, 900, 890, ok), owned(memberB, 20, 25, 22, ok)}, "two-owners"},
		{"it was lost before another had it", -1, []history.Op{owned(memberA, 1, 300, 10, unknown), owned(memberB, 110, 500, 400, ok)}, ""},
		{"it was lost, and another had it before the session ended", -1, []history.Op{owned(memberA, 1, 300, 10, unknown), owned(memberB, 109, 500, 400, ok)}, "two-owners"},
		{"one after the other", -1, []history.Op{owned(memberA, 1, 20, 15, ok), owned(memberB, 20, 50, 40, ok), owned(memberC, 51, 60, 55, ok)}, ""},
	} {
		h := groupHistory(tc.end, tc.ops...)
		rep := Check(h)
		if got := strings.Join(slices.Sorted(maps.Keys(rep.Count)), " "); got != tc.want {
			t.Errorf("%s: found %q, want %q", tc.name, got, tc.want)
			for _, v := range rep.Violations {
				t.Log(v.Text)
			}
		}
		for _, v := range rep.Violations {
			var out strings.Builder
			Story(&out, h, v)
			if len(v.Ops) == 0 || !strings.Contains(out.String(), "group g") {
				t.Errorf("%s: is told with %d operations:\n%s", tc.name, len(v.Ops), out.String())
			}
		}
	}
}

// Of a group without a session it is not promised that a partition has one owner.
func TestOwnersOfAGroupWithoutASession(t *testing.T) {
	h := groupHistory(-1, owned(memberA, 1, 30, 25, ok), owned(memberB, 20, 50, 40, ok))
	h.Groups[theGroup].Session = 0
	if rep := Check(h); rep.Total() != 0 {
		t.Error(rep.Count)
	}
}

// groupModel is a group of three members and one partition that does everything right: one owner
// at a time, which begins at what is committed, and commits what it has processed.
type groupModel struct {
	t                    *rapid.T
	now, next, committed int64
	owner                int32
	since                int64
	generation           int32
	ops                  []history.Op
}

func (m *groupModel) tick() int64 {
	m.now += int64(rapid.IntRange(1, 5).Draw(m.t, "time"))
	return m.now
}

func (m *groupModel) step() {
	switch rapid.IntRange(0, 3).Draw(m.t, "step") {
	case 0: // another owner
		m.give()
	case 1:
		at, n := m.tick(), int64(rapid.IntRange(1, 4).Draw(m.t, "records"))
		m.ops = append(m.ops, processed(m.owner, at, m.next, m.next+n))
		m.next, m.now = m.next+n, at+1
		outcome := rapid.SampledFrom([]history.Outcome{ok, ok, failed, unknown, 0}).Draw(m.t, "outcome") // 0: unknown, and never done
		if op := committed(m.owner, m.tick(), m.next, m.generation, outcome); outcome == 0 {
			op.Outcome = unknown
			m.ops = append(m.ops, op)
		} else {
			m.ops = append(m.ops, op)
			if outcome != failed {
				m.committed = m.next
			}
		}
		m.now++
	default:
		m.ops = append(m.ops, told(m.tick(), m.committed))
		m.now++
	}
}

// give ends an ownership, in order or by the end of a session, and begins another.
func (m *groupModel) give() {
	at := m.tick()
	if m.owner > 0 {
		if rapid.Bool().Draw(m.t, "lost") { // it hears of it later
			heartbeat := m.now
			m.now += groupSession
			at = m.tick()
			m.ops = append(m.ops, owned(m.owner, m.since, at+int64(rapid.IntRange(0, 200).Draw(m.t, "late")), heartbeat, unknown))
		} else {
			m.ops = append(m.ops, owned(m.owner, m.since, at, at, ok))
		}
	}
	m.owner = rapid.Int32Range(memberA, memberC).Filter(func(p int32) bool { return p != m.owner }).Draw(m.t, "owner")
	m.since, m.next = m.tick(), max(m.committed, 0)
	m.generation++
}

// A group that does everything right is found to.
func TestCorrectGroupsPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &groupModel{t: t, committed: -1}
		m.give()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step()
		}
		h := groupHistory(-1, m.ops...)
		if rep := Check(h); rep.Total() > 0 {
			tell(t, h, rep)
			t.Fatal("a correct history does not pass")
		}
	})
}

package assignor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

func id(n int) projections.TopicID { return projections.TopicID{0: 1, 14: byte(n >> 8), 15: byte(n)} }

// problem is one whose topics have those sizes, and to each of which members may subscribe.
func problem(sizes []int32, members ...[]int32) Problem {
	var pr Problem
	for i, n := range sizes {
		pr.Topics = append(pr.Topics, Topic{id(i), n})
	}
	for _, topics := range members {
		pr.Members = append(pr.Members, Member{Topics: topics})
	}
	return pr
}

func text(as []groups.Assignment) string {
	var out []string
	for _, a := range as {
		var one []string
		for _, t := range slices.SortedFunc(maps.Keys(a), func(x, y projections.TopicID) int { return int(x[15]) - int(y[15]) }) {
			one = append(one, fmt.Sprintf("%d%v", t[15], a[t]))
		}
		out = append(out, strings.Join(one, " "))
	}
	return strings.Join(out, " | ")
}

// next is the problem that comes after, with what was assigned.
func next(pr Problem, as []groups.Assignment) Problem {
	pr.Members = slices.Clone(pr.Members)
	for i := range pr.Members {
		pr.Members[i].Current = as[i]
	}
	return pr
}

func TestAssignments(t *testing.T) {
	both := []int32{0, 1}
	for name, c := range map[string]struct {
		with string
		pr   Problem
		want string
	}{
		"nobody":                        {Uniform, problem([]int32{2}), ""},
		"no topics":                     {Uniform, problem(nil, nil, nil), " | "},
		"one has all":                   {Uniform, problem([]int32{2, 1}, both), "0[0 1] 1[0]"},
		"topics are spread":             {Uniform, problem([]int32{2, 2}, both, both), "0[0] 1[0] | 0[1] 1[1]"},
		"the first get what is left":    {Uniform, problem([]int32{5}, []int32{0}, []int32{0}, []int32{0}), "0[0 3] | 0[1 4] | 0[2]"},
		"more members than partitions":  {Uniform, problem([]int32{1}, []int32{0}, []int32{0}), "0[0] | "},
		"who may have less gets it":     {Uniform, problem([]int32{2, 2}, both, []int32{1}), "0[0 1] | 1[0 1]"},
		"what nobody else may have":     {Uniform, problem([]int32{4, 1}, []int32{0}, []int32{1}), "0[0 1 2 3] | 1[0]"},
		"range, one has all":            {Range, problem([]int32{2, 1}, both), "0[0 1] 1[0]"},
		"range, in ranges":              {Range, problem([]int32{5}, []int32{0}, []int32{0}), "0[0 1 2] | 0[3 4]"},
		"range, the same of each":       {Range, problem([]int32{3, 3}, both, both), "0[0 1] 1[0 1] | 0[2] 1[2]"},
		"range, topics of another size": {Range, problem([]int32{3, 2}, both, both), "0[0 1] 1[0] | 0[2] 1[1]"},
		"range, other subscribers":      {Range, problem([]int32{2, 2}, both, []int32{1}), "0[0 1] 1[0] | 1[1]"},
		"range, nobody":                 {Range, problem([]int32{2}), ""},
		"range, more than there is":     {Range, problem([]int32{1}, []int32{0}, []int32{0}), "0[0] | "},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(Named(c.with)(c.pr)); got != c.want {
				t.Fatalf("%q, want %q", got, c.want)
			}
		})
	}
	if Named("sticky") != nil {
		t.Fatal("there is an assignor of a name that is none")
	}
}

func TestLoadsAreEvenedThroughOthers(t *testing.T) {
	// The first can have topic 0 only, the last topic 1 only: what is too much for the
	// first can go to the last through the one between.
	pr := problem([]int32{5, 1}, []int32{0}, []int32{0, 1}, []int32{1})
	pr.Members[0].Current = groups.Assignment{id(0): {0, 1, 2}}
	pr.Members[1].Current = groups.Assignment{id(0): {3, 4}}
	pr.Members[1].Current[id(1)] = []int32{0}
	if got, want := text(uniform(pr)), "0[0 1 2] | 0[3 4] | 1[0]"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	pr = problem([]int32{4, 2}, []int32{0}, []int32{0, 1}, []int32{1})
	pr.Members[0].Current = groups.Assignment{id(0): {0, 1, 2}}
	pr.Members[1].Current = groups.Assignment{id(0): {3}, id(1): {0}}
	pr.Members[2].Current = groups.Assignment{id(1): {1}}
	if got, want := text(uniform(pr)), "0[1 2] | 0[0 3] | 1[0 1]"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

func TestRangeKeepsTopicsTogether(t *testing.T) {
	pr := problem([]int32{4}, []int32{0}, []int32{0})
	pr = next(pr, ranges(pr))
	pr.Members[0], pr.Members[1] = pr.Members[1], pr.Members[0]
	pr.Topics = append(pr.Topics, Topic{id(1), 4}) // a new topic follows the one that is there
	pr.Members[0].Topics, pr.Members[1].Topics = []int32{0, 1}, []int32{0, 1}
	if got, want := text(ranges(pr)), "0[2 3] 1[2 3] | 0[0 1] 1[0 1]"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

// anyProblem draws sizes and subscriptions. Mostly all members subscribe to the same.
func anyProblem(t *rapid.T) Problem {
	sizes := rapid.SliceOfN(rapid.Int32Range(1, 6), 0, 5).Draw(t, "sizes")
	pr := problem(sizes)
	all := make([]int32, len(sizes))
	for i := range all {
		all[i] = int32(i)
	}
	same := rapid.Bool().Draw(t, "same")
	for range rapid.IntRange(0, 7).Draw(t, "members") {
		topics := all
		if !same {
			topics = slices.DeleteFunc(slices.Clone(all), func(int32) bool { return rapid.Bool().Draw(t, "not this") })
		}
		pr.Members = append(pr.Members, Member{Topics: topics})
	}
	return pr
}

// changed is a problem like another, with what was assigned: members come and go, topics grow.
func changed(t *rapid.T, pr Problem, as []groups.Assignment) Problem {
	pr = next(pr, as)
	pr.Topics = slices.Clone(pr.Topics)
	for i := range pr.Topics {
		pr.Topics[i].Partitions += rapid.Int32Range(0, 2).Draw(t, "more")
	}
	if n := len(pr.Members); n > 0 && rapid.Bool().Draw(t, "leave") {
		i := rapid.IntRange(0, n-1).Draw(t, "who")
		pr.Members = slices.Delete(pr.Members, i, i+1)
	}
	if n := len(pr.Members); n > 0 && rapid.Bool().Draw(t, "join") {
		pr.Members = append(pr.Members, Member{Topics: pr.Members[0].Topics})
	}
	return pr
}

func TestLaws(t *testing.T) {
	for _, name := range []string{Uniform, Range} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				pr := anyProblem(t)
				for range 4 {
					as := Named(name)(pr)
					checkComplete(t, pr, as)
					if name == Uniform {
						checkUniform(t, pr, as)
					} else {
						checkRange(t, pr, as)
					}
					if again := Named(name)(pr); text(again) != text(as) {
						t.Fatalf("first %s, then %s", text(as), text(again))
					}
					if stay := Named(name)(next(pr, as)); text(stay) != text(as) {
						t.Fatalf("nothing changed, but %s became %s", text(as), text(stay))
					}
					pr = changed(t, pr, as)
				}
			})
		})
	}
}

// checkComplete fails unless each partition with subscribers is one of theirs.
func checkComplete(t *rapid.T, pr Problem, as []groups.Assignment) {
	owner := map[groups.Partition]int{}
	for m, a := range as {
		for i, topic := range pr.Topics {
			if len(a[topic.ID]) > 0 && !slices.Contains(pr.Members[m].Topics, int32(i)) {
				t.Fatalf("member %d has topic %d, and does not subscribe to it", m, i)
			}
			if !slices.IsSorted(a[topic.ID]) {
				t.Fatalf("not ascending: %v", a[topic.ID])
			}
			for _, p := range a[topic.ID] {
				k := groups.Partition{Topic: topic.ID, Index: p}
				if _, twice := owner[k]; twice || p >= topic.Partitions {
					t.Fatalf("partition %v of member %d", k, m)
				}
				owner[k] = m
			}
		}
	}
	for i, topic := range pr.Topics {
		if !slices.ContainsFunc(pr.Members, func(m Member) bool { return slices.Contains(m.Topics, int32(i)) }) {
			continue
		}
		for p := range topic.Partitions {
			if _, ok := owner[groups.Partition{Topic: topic.ID, Index: p}]; !ok {
				t.Fatalf("partition %d of topic %d is nobody's: %s", p, i, text(as))
			}
		}
	}
}

func size(a groups.Assignment) (n int) {
	for _, ps := range a {
		n += len(ps)
	}
	return n
}

// checkUniform looks for a chain of hand-overs from a member to one with two fewer.
func checkUniform(t *rapid.T, pr Problem, as []groups.Assignment) {
	for from := range as {
		reach, queue := map[int]bool{from: true}, []int{from}
		for len(queue) > 0 {
			x := queue[0]
			queue = queue[1:]
			for y := range as {
				if !reach[y] && slices.ContainsFunc(pr.Members[y].Topics, func(i int32) bool { return len(as[x][pr.Topics[i].ID]) > 0 }) {
					reach[y] = true
					queue = append(queue, y)
				}
			}
		}
		for to := range reach {
			if size(as[from]) >= size(as[to])+2 {
				t.Fatalf("member %d can hand one on to member %d: %s", from, to, text(as))
			}
		}
	}
}

// checkRange fails unless each topic is even, and those of one size and one set of
// subscribers are assigned alike.
func checkRange(t *rapid.T, pr Problem, as []groups.Assignment) {
	alike := map[string]string{}
	for i, topic := range pr.Topics {
		least, most, key, lists := 1<<30, 0, fmt.Sprint(topic.Partitions), ""
		for m := range as {
			if slices.Contains(pr.Members[m].Topics, int32(i)) {
				n := len(as[m][topic.ID])
				least, most = min(least, n), max(most, n)
				key += fmt.Sprint(" ", m)
				lists += fmt.Sprint(as[m][topic.ID])
			}
		}
		if most > least+1 {
			t.Fatalf("topic %d is not even: %s", i, text(as))
		}
		if other, ok := alike[key]; ok && other != lists {
			t.Fatalf("topic %d is not assigned like another: %s", i, text(as))
		}
		alike[key] = lists
	}
}

func TestFewMove(t *testing.T) {
	for _, name := range []string{Uniform, Range} {
		pr := problem([]int32{64}, []int32{0}, []int32{0}, []int32{0}, []int32{0}, []int32{0}, []int32{0}, []int32{0})
		as := Named(name)(pr)
		pr = next(pr, as)
		pr.Members = append(pr.Members, Member{Topics: []int32{0}})
		now := Named(name)(pr)
		if moved := size(now[7]); moved != 8 {
			t.Fatalf("%s: the new member has %d of 64, want 8", name, moved)
		}
		for m := range as {
			for _, p := range now[m][id(0)] {
				if !slices.Contains(as[m][id(0)], p) {
					t.Fatalf("%s: partition %d moved between members that were there", name, p)
				}
			}
		}
		if &now[0] == &as[0] {
			t.Fatal("the same list")
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct {
		name                        string
		members, topics, partitions int
		apart                       bool
	}{
		{"8x64", 8, 1, 64, false}, {"1000x1000", 1000, 1, 1000, false},
		{"1000x1000topics", 1000, 1000, 1, false}, {"1000x1000apart", 1000, 100, 10, true},
	} {
		for _, with := range []string{Uniform, Range} {
			b.Run(with+"/"+c.name, func(b *testing.B) {
				var sizes, all []int32
				for i := range c.topics {
					sizes, all = append(sizes, int32(c.partitions)), append(all, int32(i))
				}
				pr := problem(sizes)
				for m := range c.members {
					topics := all
					if c.apart {
						topics = all[m%50:]
					}
					pr.Members = append(pr.Members, Member{Topics: topics})
				}
				full := next(pr, Named(with)(pr))
				full.Members[0].Current = nil // has just joined in place of another
				b.ReportAllocs()
				for b.Loop() {
					Named(with)(full)
				}
			})
		}
	}
}

package balance

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// anyCluster draws places of a few groups, led by brokers that are live and others.
func anyCluster(t *rapid.T) (places []Place, live []int32) {
	live = rapid.SliceOfNDistinct(rapid.Int32Range(0, 9), 1, 7, rapid.ID).Draw(t, "live")
	leader := rapid.OneOf(rapid.Int32Range(-1, 9), rapid.SampledFrom(live), rapid.Just(live[0]))
	for range rapid.IntRange(0, 60).Draw(t, "places") {
		places = append(places, Place{Group: rapid.IntRange(0, 6).Draw(t, "group"), Leader: leader.Draw(t, "leader")})
	}
	return places, live
}

// after is the places when the moves are made. It fails if a move is not a proper one.
func after(t rapid.TB, places []Place, live []int32, moves []Move) []Place {
	t.Helper()
	out := slices.Clone(places)
	last := -1
	for _, m := range moves {
		if m.Place <= last || m.Place >= len(places) {
			t.Fatalf("place %d moves after place %d, of %d", m.Place, last, len(places))
		}
		last = m.Place
		if !slices.Contains(live, m.To) || places[m.Place].Leader == m.To {
			t.Fatalf("place %d of broker %d moves to %d, live are %v", m.Place, places[m.Place].Leader, m.To, live)
		}
		out[m.Place].Leader = m.To
	}
	return out
}

// loads counts the places of each live broker.
func loads(places []Place, live []int32) map[int32]int {
	n := map[int32]int{}
	for _, b := range live {
		n[b] = 0
	}
	for _, p := range places {
		if slices.Contains(live, p.Leader) {
			n[p.Leader]++
		}
	}
	return n
}

func span(loads map[int32]int) (least, most int) {
	first := true
	for _, n := range loads {
		if first {
			least, most, first = n, n, false
		}
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// groupLoads are the loads counted within each group.
func groupLoads(places []Place, live []int32) map[int]map[int32]int {
	byGroup := map[int][]Place{}
	for _, p := range places {
		byGroup[p.Group] = append(byGroup[p.Group], p)
	}
	out := map[int]map[int32]int{}
	for g, ps := range byGroup {
		out[g] = loads(ps, live)
	}
	return out
}

func TestAssignGivesEveryOrphanALeaderAndMovesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, live := anyCluster(t)
		moves := Assign(places, live)
		end := after(t, places, live, moves)
		for i, p := range end {
			if !slices.Contains(live, p.Leader) {
				t.Fatalf("place %d is led by %d, which is not live", i, p.Leader)
			}
			if was := places[i].Leader; slices.Contains(live, was) && p.Leader != was {
				t.Fatalf("place %d moved from the living %d to %d", i, was, p.Leader)
			}
		}
		// As even as can be: who was given something has at most one more than the least.
		n := loads(end, live)
		least, _ := span(n)
		for _, m := range moves {
			if n[m.To] > least+1 {
				t.Fatalf("broker %d was given places and has %d, another has %d", m.To, n[m.To], least)
			}
		}
	})
}

// fewest is the least number of moves to even loads, by trying who gets the rest.
func fewest(n map[int32]int) int {
	var load []int
	sum := 0
	for _, v := range n {
		load = append(load, v)
		sum += v
	}
	low, rest, best := sum/len(load), sum%len(load), sum
	for set := range 1 << len(load) {
		high, leaving := 0, 0
		for b, v := range load {
			bit := set >> b & 1
			high += bit
			leaving += max(0, v-low-bit)
		}
		if high == rest {
			best = min(best, leaving)
		}
	}
	return best
}

func TestEvenMakesTheFewestMovesToWithinOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, live := anyCluster(t)
		moves := Even(places, live, len(places))
		end := after(t, places, live, moves)
		if least, most := span(loads(end, live)); most > least+1 {
			t.Fatalf("loads are still from %d to %d: %v", least, most, loads(end, live))
		}
		if want := fewest(loads(places, live)); len(moves) != want {
			t.Fatalf("%d moves, want %d", len(moves), want)
		}
		for _, m := range moves {
			if !slices.Contains(live, places[m.Place].Leader) {
				t.Fatalf("place %d has no living leader that could hand it over", m.Place)
			}
		}
	})
}

func TestEvenInStepsIsNoLongerWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, live := anyCluster(t)
		want := fewest(loads(places, live))
		for total := 0; ; {
			most := rapid.IntRange(1, 5).Draw(t, "most")
			_, high := span(loads(places, live))
			moves := Even(places, live, most)
			if len(moves) != min(most, want-total) {
				t.Fatalf("%d moves of at most %d after %d of %d", len(moves), most, total, want)
			}
			if len(moves) == 0 {
				break
			}
			total += len(moves)
			places = after(t, places, live, moves)
			if _, now := span(loads(places, live)); now > high {
				t.Fatalf("the highest load rose from %d to %d", high, now)
			}
		}
		if Even(places, live, 0) != nil || Even(places, live, -1) != nil {
			t.Fatal("moves, where none is allowed")
		}
	})
}

func TestAnEvenClusterStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, live := anyCluster(t)
		places = after(t, places, live, Assign(places, live))
		places = after(t, places, live, Even(places, live, len(places)))
		if a, e := Assign(places, live), Even(places, live, 100); len(a)+len(e) != 0 {
			t.Fatalf("moves on a cluster that is even: %v, %v", a, e)
		}
	})
}

func TestOrderOfBrokersDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, live := anyCluster(t)
		mixed := append(rapid.Permutation(live).Draw(t, "mixed"), live[0]) // one of them twice
		before, given := slices.Clone(places), slices.Clone(mixed)
		if a, b := Assign(places, live), Assign(places, mixed); !slices.Equal(a, b) {
			t.Fatalf("Assign: %v and %v", a, b)
		}
		if a, b := Even(places, live, 9), Even(places, mixed, 9); !slices.Equal(a, b) {
			t.Fatalf("Even: %v and %v", a, b)
		}
		if !slices.Equal(before, places) || !slices.Equal(given, mixed) {
			t.Fatal("the input was changed")
		}
	})
}

// On brokers with equal loads every group is spread as evenly as the loads are.
func TestGroupsAreSpreadOnALevelCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, live := anyCluster(t)
		for i := range places {
			places[i].Leader = -1
		}
		for round := range 3 { // after the first, more groups come to those that are led
			places = after(t, places, live, Assign(places, live))
			for g, n := range groupLoads(places, live) {
				if least, most := span(n); most > least+1 {
					t.Fatalf("round %d: group %d is led %v", round, g, n)
				}
			}
			for g := range rapid.IntRange(0, 3).Draw(t, "new groups") {
				for range rapid.IntRange(1, 20).Draw(t, "size") {
					places = append(places, Place{Group: 10*(round+1) + g, Leader: -1})
				}
			}
		}
	})
}

// A broker that joins takes one of each group, from who has two of it.
func TestJoiningBrokerTakesFromWhereAGroupIsCrowded(t *testing.T) {
	var places []Place
	for g := range 6 {
		for range 4 {
			places = append(places, Place{Group: g, Leader: -1})
		}
	}
	places = after(t, places, []int32{1, 2, 3}, Assign(places, []int32{1, 2, 3}))
	live := []int32{1, 2, 3, 4}
	moves := Even(places, live, 100)
	if len(moves) != 6 {
		t.Fatalf("%d moves, want 6", len(moves))
	}
	places = after(t, places, live, moves)
	for g, n := range groupLoads(places, live) {
		for b, k := range n {
			if k != 1 {
				t.Errorf("broker %d leads %d of group %d", b, k, g)
			}
		}
	}
}

// Where the loads leave a choice, the one who has nothing of the group is taken.
func TestFreeChoiceSpreads(t *testing.T) {
	live := []int32{1, 2, 3}
	places := []Place{{7, 1}, {7, 2}, {8, 3}, {7, -1}}
	if got := Assign(places, live); !slices.Equal(got, []Move{{3, 3}}) {
		t.Errorf("moves are %v, want the place on broker 3", got)
	}
	// Brokers 1 and 2 both may keep two; 2 leads two of a group, so it gives.
	places = []Place{{7, 1}, {8, 1}, {9, 2}, {9, 2}}
	if got := Even(places, live, 9); !slices.Equal(got, []Move{{3, 3}}) {
		t.Errorf("moves are %v, want the second place of group 9 to go to broker 3", got)
	}
}

func TestNothingToDo(t *testing.T) {
	places := []Place{{0, -1}, {0, 5}}
	for name, got := range map[string][]Move{
		"assign, nobody lives": Assign(places, nil),
		"even, nobody lives":   Even(places, nil, 9),
		"assign, no places":    Assign(nil, []int32{1}),
		"even, no places":      Even(nil, []int32{1}, 9),
		"even, one broker":     Even(places, []int32{5}, 9),
	} {
		if got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// BenchmarkBalance: 10,000 places; a broker dies, or all is on one and the others join.
func BenchmarkBalance(b *testing.B) {
	for _, brokers := range []int{3, 20, 100} {
		var live []int32
		for i := range brokers {
			live = append(live, int32(i))
		}
		none := make([]Place, 10_000)
		one := make([]Place, len(none))
		for i := range none {
			none[i], one[i] = Place{i / 6, -1}, Place{i / 6, 0}
		}
		led := after(b, none, live, Assign(none, live))
		for _, c := range []struct {
			name string
			run  func() []Move
		}{
			{"fresh", func() []Move { return Assign(none, live) }},
			{"death", func() []Move { return Assign(led, live[1:]) }},
			{"join", func() []Move { return Even(one, live, len(one)) }},
			{"still", func() []Move { return Even(led, live, len(led)) }},
		} {
			b.Run(fmt.Sprintf("%s-%d", c.name, brokers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}

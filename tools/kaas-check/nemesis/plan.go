// Package nemesis is what troubles a cluster while it is used: a plan of faults made
// from a seed, and the carrying out of it.
//
// A plan is made before it begins and holds all that is chosen but two things: who is
// controller, or coordinates transactions, is asked when its turn comes. A step about a node waits until the one before
// on this node is over; steps about different nodes may overlap, and one about the volume
// overlaps none. Every step ends with the cluster as it was: what it stopped runs again.
package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds. Those after Full need hosts of their own.
const (
	Kill         Kind = "kill"          // SIGKILL, and a start
	Pause        Kind = "pause"         // SIGSTOP, and SIGCONT
	Graceful     Kind = "graceful"      // SIGTERM, and a start
	TakeOver     Kind = "takeover"      // a second process with the same node.id
	PauseTaken   Kind = "pause-taken"   // the same, while the first is stopped
	Controller   Kind = "controller"    // SIGKILL of the controller, and a start
	Coordinator  Kind = "coordinator"   // SIGKILL of who coordinates transactions, and a start
	Rolling      Kind = "rolling"       // SIGTERM and a start of one after the other
	Full         Kind = "full"          // the volume is full
	HostPause    Kind = "host-pause"    // a host is frozen
	Power        Kind = "power"         // power loss of a host, and a boot
	Cut          Kind = "cut"           // a host has no network
	ServerPause  Kind = "server-pause"  // the file server hangs
	ServerKilled Kind = "server-killed" // the file server is killed and started
	Clock        Kind = "clock"         // a host's clock is an hour ahead, or behind
)

// The kinds that need an API server that elects the controller.
const (
	APIPause    Kind = "api-pause"    // SIGSTOP of it, and SIGCONT
	APIKill     Kind = "api-kill"     // SIGKILL, and a start
	APISlow     Kind = "api-slow"     // each call takes two seconds
	APICut      Kind = "api-cut"      // nobody reaches it
	APICutOne   Kind = "api-cut-one"  // the controller does not reach it
	APIRestore  Kind = "api-restore"  // it knows what it knew at the beginning
	LeaseDelete Kind = "lease-delete" // the Lease is deleted
	Holders     Kind = "holders"      // SIGSTOP of the controller until another is elected, and SIGCONT: two hold themselves elected
)

// The kinds that need pods of a chart.
const (
	PodUpgrade Kind = "upgrade" // another image, by helm upgrade
	PodScale   Kind = "scale"   // two brokers more, and after a while two less
	PodEvict   Kind = "evict"   // every pod in turn, by the eviction API
	PodStorm   Kind = "storm"   // SIGKILL of all at once, started again together, and 5 and 10 s apart
)

// PodKinds are those that pods of a chart have unless others are asked for, and OfPods all that
// they can have.
var (
	PodKinds = []Kind{Graceful, Kill, PodUpgrade, PodScale, PodEvict}
	OfPods   = append([]Kind{PodStorm, APIPause, APIKill, APISlow, APICut, LeaseDelete}, PodKinds...)
)

// APIKinds are those.
var APIKinds = []Kind{APIPause, APIKill, APISlow, APICut, APICutOne, APIRestore, LeaseDelete, Holders}

// LocalKinds are the kinds that local processes can have, LabKinds those of hosts of
// their own, which can have a Clock besides: it wants other settings of brokers.
var (
	LocalKinds = []Kind{Kill, Pause, Graceful, TakeOver, PauseTaken, Controller, Coordinator, Rolling, Full}
	LabKinds   = []Kind{Kill, Pause, Graceful, Controller, Coordinator, Rolling, HostPause, Power, Cut, ServerPause, ServerKilled}
)

// Parse reads kinds that are separated by commas. "local", "lab", "api" and "pods" are lists.
func Parse(s string) (out []Kind, err error) {
	all := slices.Concat(LocalKinds, LabKinds[6:], []Kind{Clock}, APIKinds, PodKinds, []Kind{PodStorm})
	for _, name := range strings.Split(s, ",") {
		switch k := Kind(strings.TrimSpace(name)); {
		case k == "" || k == "none":
		case k == "local":
			out = append(out, LocalKinds...)
		case k == "lab":
			out = append(out, LabKinds...)
		case k == "pods":
			out = append(out, PodKinds...)
		case k == "api":
			out = append(out, APIKinds...)
		case slices.Contains(all, k):
			out = append(out, k)
		default:
			return nil, fmt.Errorf("no fault is called %q; there are %v, and the lists local, lab, api and pods", name, all)
		}
	}
	return out, nil
}

// Step is one fault.
type Step struct {
	At   time.Duration // from the beginning
	Kind Kind
	Node int32 // 0 where it is about none, or found out later
	For  time.Duration
	By   time.Duration // of a Clock: how far ahead of the right time it is, or behind
}

func (s Step) String() string {
	out := fmt.Sprintf("%7.1f s  %s", s.At.Seconds(), s.Kind)
	if s.Node > 0 {
		out += fmt.Sprintf(" of broker %d", s.Node)
	}
	if s.By != 0 {
		out += " " + tellClock(s.By)
	}
	if s.For > 0 {
		out += fmt.Sprintf(" for %v", s.For)
	}
	return out
}

// ClockOff is how far a clock is off: more than any time that is promised to somebody who
// says nothing, and less than what is kept for days.
const ClockOff = time.Hour

// tellClock says how a clock is off.
func tellClock(by time.Duration) string {
	if by < 0 {
		return fmt.Sprintf("%v behind", -by)
	}
	return fmt.Sprintf("%v ahead", by)
}

// lasts is from where to where a fault of a kind lasts.
var lasts = map[Kind][2]time.Duration{
	Kill:         {0, 3 * time.Second}, // down
	Pause:        {100 * time.Millisecond, 30 * time.Second},
	PauseTaken:   {100 * time.Millisecond, 10 * time.Second},
	Controller:   {0, 3 * time.Second},
	Coordinator:  {0, 3 * time.Second},
	Full:         {2 * time.Second, 8 * time.Second},
	HostPause:    {time.Second, 30 * time.Second},
	Power:        {0, 5 * time.Second},
	Cut:          {time.Second, 20 * time.Second},
	ServerPause:  {time.Second, 20 * time.Second},
	ServerKilled: {0, 5 * time.Second},
	Clock:        {time.Second, 20 * time.Second},
	APIPause:     {time.Second, 20 * time.Second},
	APISlow:      {8 * time.Second, 20 * time.Second},
	APICut:       {time.Second, 30 * time.Second},
	APICutOne:    {10 * time.Second, 20 * time.Second},
	PodScale:     {5 * time.Second, 15 * time.Second},
	Holders:      {10 * time.Second, 20 * time.Second},
}

// Plan chooses the faults of a run from its seed: about one in every, of each kind at
// least one where the time allows. The last quarter of the time, at most 15 s, has none.
func Plan(seed int64, most, every time.Duration, kinds []Kind, nodes []int32) (out []Step) {
	if len(kinds) == 0 || len(nodes) == 0 || every <= 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 0x6e656d65736973))
	var round []Kind // a shuffled round of all kinds, then another
	for at := every / 2; at < most-min(most/4, 15*time.Second) || len(out) == 0; at += every/2 + time.Duration(rng.Int64N(int64(every))) {
		if len(round) == 0 {
			round = slices.Clone(kinds)
			rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		s := Step{At: at.Round(time.Millisecond), Kind: round[0], For: length(rng, round[0])}
		round = round[1:]
		if needsNode(s.Kind) {
			s.Node = nodes[rng.IntN(len(nodes))]
		}
		if s.Kind == Clock {
			s.chooseClock(rng)
		}
		out = append(out, s)
	}
	return out
}

// chooseClock has every second step be about the controller, whoever that is then.
func (s *Step) chooseClock(rng *rand.Rand) {
	s.By = ClockOff
	if rng.IntN(2) == 0 {
		s.By = -ClockOff
	}
	if rng.IntN(2) == 0 {
		s.Node = 0
	}
}

// Freeze has every pause of a broker or a host, and every trouble of the API server, last as long,
// unless that is 0.
func Freeze(steps []Step, lasts time.Duration) {
	for i := range steps {
		if s := &steps[i]; lasts > 0 && slices.Contains([]Kind{Pause, PauseTaken, HostPause, APIPause, APISlow, APICut, APICutOne}, s.Kind) {
			s.For = lasts
		}
	}
}

// length is short more often than long: as many below a second as above ten.
func length(rng *rand.Rand, k Kind) time.Duration {
	l := lasts[k]
	f := rng.Float64()
	return (l[0] + time.Duration(f*f*f*float64(l[1]-l[0]))).Round(time.Millisecond)
}

func needsNode(k Kind) bool {
	return !slices.Contains(slices.Concat(APIKinds, []Kind{PodUpgrade, PodScale, PodEvict, PodStorm, Controller, Coordinator, Rolling, Full, ServerPause, ServerKilled}), k)
}

package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"kaas.dev/kaas/tools/kaas-check/cluster"
	"kaas.dev/kaas/tools/kaas-check/nemesis"
	"kaas.dev/kaas/tools/kaas-check/traffic"
)

// clocks is what a run has besides whose faults are clocks, too. Nothing of the run goes by a
// clock that is set: the history has the monotonic clock of this process alone.
type clocks struct {
	off    map[int32]time.Duration // of the host whose clock is wrong all the time
	holder *traffic.Holder         // nil where no clock is wrong
	reign  *traffic.Reign          // nil where others than clocks are troubled
}

// ofClocks reports whether clocks are among the faults, and whether nothing else is.
func ofClocks(kinds []nemesis.Kind) (some, only bool) {
	some = slices.Contains(kinds, nemesis.Clock)
	return some, some && !slices.ContainsFunc(kinds, func(k nemesis.Kind) bool { return k != nemesis.Clock })
}

// clockSets are the settings of brokers for it.
func clockSets(kinds []nemesis.Kind) (sets []string) {
	some, only := ofClocks(kinds)
	if some {
		sets = append(sets, traffic.ClockSets(2*time.Second)...)
	}
	if only {
		sets = append(sets, traffic.ReignSets()...)
	}
	return sets
}

// wrongClock has the clock of the last of several hosts be wrong from before its broker starts.
func (r *checkRun) wrongClock(kinds []nemesis.Kind) error {
	c, ok := r.cluster.(cluster.Clocks)
	nodes := r.cluster.Nodes()
	if some, _ := ofClocks(kinds); !some || !ok || len(nodes) < 2 {
		return nil
	}
	last, by := nodes[len(nodes)-1], nemesis.ClockOff
	if r.seed%2 == 0 {
		by = -by
	}
	r.clocks.off = map[int32]time.Duration{last: by}
	fmt.Fprintf(r.out, "the clock of host %d is wrong all the time: ahead by %v\n", last, by)
	return c.SetClock(last, by)
}

func (c *clocks) watch(env *traffic.Env, kinds []nemesis.Kind) {
	some, only := ofClocks(kinds)
	if some {
		c.holder = env.Holder()
	}
	if only {
		c.reign = env.Reign()
	}
}

func (c *clocks) writers() []traffic.Traffic {
	if c.holder == nil {
		return nil
	}
	return []traffic.Traffic{c.holder}
}

func (c *clocks) readers() []traffic.Traffic {
	if c.reign == nil {
		return nil
	}
	return []traffic.Traffic{c.reign}
}

// tell prints what came of it, when all has stopped.
func (c *clocks) tell(w io.Writer) {
	if c.holder != nil {
		fmt.Fprintln(w, c.holder.Told())
	}
	if c.reign != nil {
		fmt.Fprintln(w, c.reign.Told())
	}
}

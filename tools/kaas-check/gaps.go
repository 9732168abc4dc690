package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kaas.dev/kaas/tools/kaas-check/history"
)

const (
	// mostKilled and mostGraceful are how long a partition may go without an acknowledged
	// write where a broker is killed, and where it stops in order.
	mostKilled   = 3 * time.Second
	mostGraceful = 300 * time.Millisecond
	// mostStorm is so where all brokers are killed, from when the first is killed.
	mostStorm = time.Minute
	// echo is for how long after a fault what happens is still its.
	echo = 5 * time.Second
)

// gap is the longest of the stalls around one fault.
type gap struct {
	fault *history.Op
	stall stall
	over  int // stalls longer than allowed
}

func (g gap) length() time.Duration { return time.Duration(g.stall.to - g.stall.from) }

func (g gap) most() time.Duration {
	switch {
	case strings.HasPrefix(g.fault.Text, "all brokers are killed"), strings.HasPrefix(g.fault.Text, "until "):
		return mostStorm
	case strings.Contains(g.fault.Text, "kill"):
		return mostKilled
	}
	return mostGraceful
}

// gapsOf are those of all faults but the last stop, and the longest stall in peace.
func gapsOf(h *history.History) (gaps []gap, peace stall) {
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Fault && !strings.HasPrefix(op.Text, "every broker") && !strings.HasPrefix(op.Text, "all is read") {
			gaps = append(gaps, gap{fault: op})
		}
	}
	for _, s := range allStalls(h) {
		quiet := true
		for i := range gaps {
			g := &gaps[i]
			if s.from > g.fault.Complete+int64(echo) || s.to < g.fault.Invoke {
				continue
			}
			quiet = false
			if s.to-s.from > g.stall.to-g.stall.from {
				g.stall = s
			}
			if time.Duration(s.to-s.from) > g.most() {
				g.over++
			}
		}
		if quiet && s.to-s.from > peace.to-peace.from {
			peace = s
		}
	}
	return gaps, peace
}

// tellGaps prints for each fault how long a partition had no acknowledged write.
func tellGaps(w io.Writer, h *history.History) {
	gaps, peace := gapsOf(h)
	fmt.Fprintf(w, "longest of any partition without an acknowledged write, in peace %v\n", time.Duration(peace.to-peace.from).Round(time.Millisecond))
	slices.SortFunc(gaps, func(a, b gap) int { return int(a.fault.Invoke - b.fault.Invoke) })
	for _, g := range gaps {
		verdict := ""
		if g.over > 0 {
			verdict = fmt.Sprintf("  longer than %v, %d times", g.most(), g.over)
		}
		fmt.Fprintf(w, "  %6.3f s  %s (%s to %s)%s\n", g.length().Seconds(), g.fault.Text, history.TellTime(g.fault.Invoke), history.TellTime(g.fault.Complete), verdict)
	}
}

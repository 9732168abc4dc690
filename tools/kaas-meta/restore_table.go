package main

import (
	"fmt"
	"strings"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/restore"
)

// showPlan tells what is going to be done.
func (a *app) showPlan(from string, p *restore.Plan) {
	fmt.Fprintln(a.out, a.screen.paint(bold, fmt.Sprintf("plan: volume %s to %s", p.Volume, from)))
	var same []string
	for _, s := range p.Streams {
		what := "nothing to be done"
		switch {
		case s.Changes:
			what = "to be restored"
		case s.Silent():
			same = append(same, s.Stream)
			continue
		}
		fmt.Fprintf(a.out, "%s: %s from %s of %s, over %s\n", a.screen.paint(bold, s.Stream), what, s.Then, s.ThenTime.Format(time.RFC3339), s.Now)
		a.showTold(&s.Told)
	}
	if len(same) > 0 {
		fmt.Fprintf(a.out, "nothing to be done in %d stream(s): %s\n", len(same), strings.Join(same, " "))
	}
	for _, o := range p.Sealed {
		fmt.Fprintln(a.out, a.screen.paint(yellow, "sealed: ")+sealed(o))
	}
	for _, n := range p.Notes {
		fmt.Fprintln(a.out, a.screen.paint(dim, "note: ")+n)
	}
	if !p.Changes() {
		fmt.Fprintln(a.out, "there is nothing to restore")
	}
}

func (a *app) showTold(t *restore.Told) {
	for _, part := range []struct {
		name  string
		style style
		lines []string
	}{{"restored", green, t.Restored}, {"raised", cyan, t.Raised}, {"left out", yellow, t.LeftOut}, {"stays", plain, t.Stays}} {
		for _, l := range part.lines {
			fmt.Fprintf(a.out, "  %s%s %s\n", a.screen.paint(part.style, part.name), strings.Repeat(" ", 8-len(part.name)), l)
		}
	}
	var lines [][]string
	for _, g := range t.Groups {
		for _, o := range g.Offsets {
			lines = append(lines, []string{"  ", g.Group, fmt.Sprintf("%s-%d", o.Topic, o.Partition), offset(o.Now), offset(o.Then)})
		}
	}
	more := len(lines) - mostOffsets
	if more > 0 {
		lines = lines[:mostOffsets]
	}
	if len(lines) > 0 {
		_ = rows(a.out, a.screen, append([][]string{{"  ", "GROUP", "PARTITION", "NOW", "THEN"}}, lines...)...)
	}
	if more > 0 {
		fmt.Fprintf(a.out, "    and %d more; -o json has them all\n", more)
	}
}

// mostOffsets is how many offsets of a stream a table shows.
const mostOffsets = 50

func offset(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// sealed says what a session's end costs.
func sealed(o restore.Owner) string {
	who := fmt.Sprintf("session %s", o.Session)
	if o.Node >= 0 {
		who = fmt.Sprintf("broker %d", o.Node)
	}
	what := strings.Join(o.Streams, ", ")
	switch o.Role {
	case substrate.RoleController:
		return fmt.Sprintf("%s, the controller (%s): brokers elect another within seconds", who, what)
	case substrate.RoleData:
		return fmt.Sprintf("%s loses its data session, for it owns %s: the %d partition(s) and %d shard(s) that it leads are opened anew", who, what, o.Partitions, o.Shards)
	}
	return fmt.Sprintf("%s (%s)", who, what)
}

// showDone tells what was done.
func (a *app) showDone(p *restore.Plan) {
	for _, s := range p.Streams {
		if s.Changes {
			fmt.Fprintf(a.out, "%s\n", a.screen.paint(green, fmt.Sprintf("%s is restored, as %s", s.Stream, s.Position)))
		}
	}
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

const shortTime = "2006-01-02T15:04:05Z"

func groupsTable(w io.Writer, sc screen, all []groupState) error {
	lines := [][]string{{"GROUP", "SHARD", "PROTOCOL", "STATE", "MEMBERS", "OFFSETS", "STAGED", "EMPTY SINCE"}}
	for _, g := range all {
		staged := 0
		for _, p := range g.Staged {
			staged += len(p.Offsets)
		}
		lines = append(lines, []string{shown(g.ID), g.shardName(), g.Protocol, g.State, strconv.Itoa(len(g.Members)),
			strconv.Itoa(len(g.Offsets)), strconv.Itoa(staged), when(g.EmptySince)})
	}
	return rows(w, sc, lines...)
}

func groupTable(w io.Writer, sc screen, g groupState) error {
	fmt.Fprintf(w, "group %s %s: %s\n", shown(g.ID), g.text(groups.StreamsDir), g.summary())
	if len(g.Members) > 0 {
		lines := [][]string{{"MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "STATE", "HAS", "GIVES UP", "IS TO HAVE"}}
		for _, m := range g.Members {
			lines = append(lines, m.row())
		}
		fmt.Fprintln(w)
		if err := rows(w, sc, lines...); err != nil {
			return err
		}
	}
	if len(g.Offsets) > 0 {
		fmt.Fprintln(w)
		if err := offsetRows(w, sc, g.Offsets); err != nil {
			return err
		}
	}
	for _, p := range g.Staged {
		fmt.Fprintf(w, "\nstaged by producer %d in epoch %d, and not committed:\n", p.Producer, p.Epoch)
		if err := offsetRows(w, sc, p.Offsets); err != nil {
			return err
		}
	}
	return nil
}

func (s *groupState) summary() string {
	text := "no members ever, only offsets"
	epochs := func(format string, e *int32) {
		if e != nil {
			text += fmt.Sprintf(format, *e)
		}
	}
	switch s.Protocol {
	case "classic":
		text = fmt.Sprintf("%s, classic protocol of type %s", s.State, shown(s.ProtocolType))
		epochs(", generation %d", s.Epoch)
	case "consumer":
		text = fmt.Sprintf("%s, consumer protocol", s.State)
		epochs(", epoch %d", s.Epoch)
		epochs(", target of epoch %d", s.TargetEpoch)
	}
	if s.Assignor != "" {
		text += ", assignor " + shown(s.Assignor)
	}
	if s.EmptySince != nil {
		text += ", empty since " + when(s.EmptySince)
	}
	return text
}

func (m *memberState) row() []string {
	epoch, instance := "-", "-"
	if m.Epoch != nil {
		epoch = strconv.Itoa(int(*m.Epoch))
	}
	if m.InstanceID != nil {
		instance = *m.InstanceID
	}
	return []string{shown(m.ID), shown(instance), shown(m.ClientID), shown(m.Host), epoch, shown(m.State), partitionsText(m.Assigned), partitionsText(m.Revoking), partitionsText(m.Target)}
}

func offsetRows(w io.Writer, sc screen, os []offsetState) error {
	lines := [][]string{{"TOPIC", "PARTITION", "OFFSET", "LEADER EPOCH", "COMMITTED", "EXPIRES", "METADATA"}}
	for _, o := range os {
		lines = append(lines, []string{o.Topic, strconv.Itoa(int(o.Partition)), strconv.FormatInt(o.Offset, 10), strconv.Itoa(int(o.LeaderEpoch)),
			when(o.Committed), when(o.Expires), shown(o.Metadata)})
	}
	return rows(w, sc, lines...)
}

func when(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(shortTime)
}

// shown is a client's text as one cell: quoted where it would break the table.
func shown(s string) string {
	switch {
	case s == "":
		return "-"
	case strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }):
		return strconv.Quote(s)
	}
	return s
}

// partitionsText is topic:partitions, runs of them shortened.
func partitionsText(a map[string][]int32) string {
	var parts []string
	for _, topic := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, topic+":"+history.Runs(a[topic]))
	}
	return shown(strings.Join(parts, " "))
}

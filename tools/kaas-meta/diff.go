package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// allNames stands for the streams of the cluster, of all groups and of all transactional IDs.
const allNames = "all"

// difference is what changed in a stream, in JSON and YAML.
type difference struct {
	Stream  string           `json:"stream"`
	From    string           `json:"from"`
	To      string           `json:"to"`
	Changes []history.Change `json:"changes"`
}

func (a *app) diffCommand() *cobra.Command {
	var kinds []string
	name := "cluster"
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "What changed in a stream between two positions or times",
		Long: "What changed in a stream from A to B, by object: topics with their partitions and configurations, brokers, groups with\n" +
			"their members and offsets, and so on.\n" +
			"A and B are positions, times, or latest. With --stream all they are times: it compares the cluster, all groups and all\n" +
			"transactional IDs.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := a.open()
			if err != nil {
				return err
			}
			diffs, err := diffStreams(cmd.Context(), v, name, args[0], args[1])
			for i := range diffs {
				diffs[i].Changes = ofKinds(diffs[i].Changes, kinds)
			}
			return errors.Join(a.showDiffs(diffs), err)
		},
	}
	cmd.Flags().StringVar(&name, "stream", name, history.StreamsHelp+"; or "+allNames)
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only objects of these kinds, such as topic or offset")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func ofKinds(all []history.Change, kinds []string) []history.Change {
	out := []history.Change{} // an empty list, not none, in JSON
	for _, c := range all {
		if len(kinds) == 0 || slices.Contains(kinds, c.Kind) {
			out = append(out, c)
		}
	}
	return out
}

// diffStreams compares a stream, or all. Of all it tells those that can be compared, and
// fails if one cannot.
func diffStreams(ctx context.Context, v *substrate.Volume, name, from, to string) ([]difference, error) {
	now := time.Now() // one moment for all streams, however long it takes
	if name != allNames {
		s, err := history.Find(ctx, v, name)
		if err != nil {
			return nil, err
		}
		d, err := diffStream(ctx, s, now, from, to)
		if err != nil {
			return nil, err
		}
		return []difference{d}, nil
	}
	for _, at := range []string{from, to} {
		if _, err := history.ParseTime(at, now); at != history.Latest && err != nil {
			return nil, fmt.Errorf("--stream %s: %w", allNames, err)
		}
	}
	streams, err := history.All(v)
	if err != nil {
		return nil, err
	}
	var out []difference
	var errs []error
	for _, s := range streams {
		if s.Manifest {
			continue
		}
		d, err := diffStream(ctx, s, now, from, to)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
			continue
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

func diffStream(ctx context.Context, s *history.Stream, now time.Time, from, to string) (difference, error) {
	sts, err := s.StatesAt(ctx, now, from, to)
	if err != nil {
		return difference{}, err
	}
	return difference{s.Name, positionName(sts[0]), positionName(sts[1]), history.Diff(sts[0], sts[1])}, nil
}

// positionName is where a state is of; none before the stream was there.
func positionName(st history.State) string {
	if st.Position.IsZero() {
		return "none"
	}
	return st.Position.String()
}

func (a *app) showDiffs(diffs []difference) error {
	if a.output != "table" {
		if len(diffs) == 1 {
			return a.print(diffs[0])
		}
		return a.print(diffs)
	}
	for _, d := range diffs {
		if len(diffs) > 1 && len(d.Changes) == 0 {
			continue
		}
		fmt.Fprintln(a.out, a.screen.paint(bold, fmt.Sprintf("%s from %s to %s: %d changes", d.Stream, d.From, d.To, len(d.Changes))))
		for _, c := range d.Changes {
			fmt.Fprintln(a.out, a.screen.changeLine(c))
		}
	}
	return nil
}

var (
	actionSigns  = map[history.Action]string{history.Added: "+", history.Removed: "-", history.Changed: "~"}
	actionStyles = map[history.Action]style{history.Added: green, history.Removed: red, history.Changed: yellow}
)

// changeLine is a change in one line.
func (s screen) changeLine(c history.Change) string {
	line := actionSigns[c.Action] + " " + c.Kind
	if c.Name != "" {
		line += " " + shown(c.Name)
	}
	if text := fieldsText(c); text != "" {
		line += ": " + text
	}
	if s.width > 0 {
		line = cut(line, s.width)
	}
	return s.paint(actionStyles[c.Action], line)
}

func fieldsText(c history.Change) string {
	parts := make([]string, len(c.Fields))
	for i, f := range c.Fields {
		switch {
		case c.Action == history.Added:
			parts[i] = fmt.Sprintf("%s %s", f.Name, valueText(f.New))
		case c.Action == history.Removed:
			parts[i] = fmt.Sprintf("%s %s", f.Name, valueText(f.Old))
		default:
			parts[i] = fmt.Sprintf("%s %s → %s", f.Name, valueText(f.Old), valueText(f.New))
		}
	}
	return strings.Join(parts, ", ")
}

func valueText(v any) string {
	if v == nil {
		return "-"
	}
	return shown(fmt.Sprint(v))
}

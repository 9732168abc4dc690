package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/history"
	"kaas.dev/kaas/tools/kaas-meta/restore"
)

const chosenHelp = "cluster, groups, txns, groups/NN, txns/NN; several by commas"

func (a *app) backupCommand() *cobra.Command {
	at := history.Latest
	var streams []string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save the state of streams in one file",
		Long: "Save the state of the cluster, the consumer groups and the transactional IDs in one file with a checksum,\n" +
			"which restore takes. Records and partitions' manifests are not in it. The file appears whole, is readable by\n" +
			"its owner alone, and must not exist. Brokers may be running.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := a.open()
			if err != nil {
				return err
			}
			saved, notes, err := choose(cmd.Context(), v, streams, at)
			if err != nil {
				return err
			}
			b := &restore.Backup{Volume: v.ID, MadeMS: time.Now().UnixMilli(), Saved: saved}
			syscall.Umask(0o077)
			if err := b.Write(args[0]); err != nil {
				return err
			}
			return a.showBackup(args[0], b, notes)
		},
	}
	cmd.Flags().StringSliceVar(&streams, "streams", nil, "what to save (default all): "+chosenHelp)
	cmd.Flags().StringVar(&at, "at", at, "a time, such as 2026-11-29T12:00:00Z or 2h for two hours ago, latest, or of one stream a position")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// choose reads the streams' states at a time, or of one stream at a position. notes are of
// streams that nobody named and that have no state then.
func choose(ctx context.Context, v *substrate.Volume, names []string, at string) (saved []restore.Saved, notes []string, err error) {
	labels, err := restore.Expand(v, names)
	if errors.Is(err, restore.ErrStream) {
		return nil, nil, usageError{err}
	}
	if err != nil {
		return nil, nil, err
	}
	if _, perr := substrate.ParsePosition(at); perr == nil && len(labels) != 1 {
		return nil, nil, usagef("--at %s: a position is one of a single stream, and these are %d: name one with --streams, or a time", at, len(labels))
	}
	for _, l := range labels {
		p, err := history.Resolve(ctx, v, l, at)
		if err == nil {
			var s restore.Saved
			if s, err = restore.Take(ctx, v, l, p); err == nil {
				saved = append(saved, s)
				continue
			}
		}
		if restore.IsDamage(err) || byName(names, l) || l == "cluster" {
			return nil, nil, err
		}
		notes = append(notes, fmt.Sprintf("%s is left out: %v", l, err))
	}
	return saved, notes, nil
}

// byName reports whether a stream was asked for by its own name.
func byName(names []string, label string) bool {
	for _, n := range names {
		if n == label {
			return true
		}
	}
	return false
}

type backupShown struct {
	File    string        `json:"file,omitempty"`
	Volume  string        `json:"volume"`
	Made    time.Time     `json:"made"`
	Secrets []string      `json:"secrets"` // an empty list where it holds none
	Streams []streamSaved `json:"streams"`
	Notes   []string      `json:"notes,omitempty"`
}

type streamSaved struct {
	Stream   string    `json:"stream"`
	Position string    `json:"position"`
	Time     time.Time `json:"time"`
	Bytes    int       `json:"bytes"`
}

func (a *app) showBackup(file string, b *restore.Backup, notes []string) error {
	out := backupShown{File: file, Volume: b.Volume, Made: b.Made(), Secrets: append([]string{}, b.Secrets()...), Notes: notes}
	lines := [][]string{{"STREAM", "POSITION", "TIME", "BYTES"}}
	for _, s := range b.Saved {
		out.Streams = append(out.Streams, streamSaved{s.Stream, s.Pos.String(), s.Time(), len(s.State)})
		lines = append(lines, []string{s.Stream, s.Pos.String(), s.Time().Format(time.RFC3339), strconv.Itoa(len(s.State))})
	}
	if a.output != "table" {
		return a.print(out)
	}
	if err := rows(a.out, a.screen, lines...); err != nil {
		return err
	}
	for _, n := range notes {
		fmt.Fprintln(a.out, n)
	}
	secrets := "it holds no secrets"
	if len(out.Secrets) > 0 {
		secrets = a.screen.paint(red, "it holds secrets ("+strings.Join(out.Secrets, ", ")+"): keep it where nobody else reads it")
	}
	_, err := fmt.Fprintf(a.out, "saved in %s; %s\n", file, secrets)
	return err
}

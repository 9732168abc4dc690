package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/history"
	"kaas.dev/kaas/tools/kaas-meta/timeline"
)

func (a *app) timelineCommand() *cobra.Command {
	var file, since, until string
	var opt timeline.Options
	cmd := &cobra.Command{
		Use:   "timeline --html FILE",
		Short: "One HTML page of the cluster's life: controllers, brokers, leaders, groups and transactions by time",
		Long: "One HTML page of the cluster's life: controllers, brokers, leaders, groups and transactions by time, with what each entry changed.\n" +
			"The page needs no network and no server: open the file in a browser. Without --stream it tells of the cluster and of all groups and\n" +
			"transactions; streams of partitions, which tell of segments, are added by name.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("--html is not set: name the file to write, or - for the standard output")
			}
			now := time.Now()
			var err error
			if opt.Since, err = bound("--since", since, now); err != nil {
				return err
			}
			if opt.Until, err = bound("--until", until, now); err != nil {
				return err
			}
			if !opt.Since.IsZero() && !opt.Until.IsZero() && opt.Until.Before(opt.Since) {
				return usagef("--until is before --since")
			}
			v, err := a.open()
			if err != nil {
				return err
			}
			t, err := timeline.Build(cmd.Context(), v, opt)
			if err != nil {
				return err
			}
			return a.writeTimeline(file, t)
		},
	}
	cmd.Flags().StringVar(&file, "html", "", "the file to write; it may be there, and is replaced")
	cmd.Flags().StringVar(&since, "since", "", "a time such as 2026-11-29T12:00:00Z, or a time ago such as 2h: show nothing before it")
	cmd.Flags().StringVar(&until, "until", "", "likewise: show nothing after it")
	cmd.Flags().StringArrayVar(&opt.Streams, "stream", nil, history.StreamsHelp+"; may be given several times")
	return cmd
}

// bound reads a flag that holds a time, if it is set.
func bound(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := history.ParseTime(s, now)
	if err != nil {
		return t, usagef("%s: %w", flag, err)
	}
	return t, nil
}

// writeTimeline puts the page in its place when it is whole, and says what is in it.
func (a *app) writeTimeline(file string, t *timeline.Timeline) error {
	var page bytes.Buffer
	if err := t.WritePage(&page); err != nil {
		return err
	}
	if file == "-" {
		_, err := a.out.Write(page.Bytes())
		return err
	}
	d, err := substrate.OpenDir(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	v := &substrate.Volume{FS: d}
	es, err := v.ListFresh(".")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	for _, e := range es {
		if e.Name == filepath.Base(file) && (e.Dir || e.Irregular) {
			return fmt.Errorf("write %s: it is no regular file, and is not replaced", file)
		}
	}
	if err := v.ReplaceFile(".", filepath.Base(file), "timeline", page.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	fmt.Fprintf(a.out, "%s: %d events in %d entries, %d lanes, %d bytes\n", file, t.Events(), len(t.Entries), len(t.Lanes), page.Len())
	for _, n := range t.Notes {
		fmt.Fprintf(a.out, "note: %s\n", n)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// logFlags are what log may be asked for.
type logFlags struct {
	stream       string
	since, until string
	types        []string
	topic, group string
	txn, user    string
	broker       int32
	producer     int64
	follow       bool
	interval     time.Duration
	wide         bool
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "log",
		Short: "The history of a stream, oldest first: what changed, when, by whom and why",
		Long: "The history of a stream, oldest first: position, time, writer, reason and events of each entry.\n" +
			"Entries that a later owner disowned are marked DISOWNED, the newest one of an owner that is sealed and has no\n" +
			"successor yet UNDECIDED. A claim that nothing was published under yet is told after the newest entry.\n" +
			"Times are of the writers' clocks. Filters that are given together must all hold of one event.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.open()
			if err != nil {
				return err
			}
			filter, err := f.filter(cmd, time.Now())
			if err != nil {
				return err
			}
			s, err := f.find(cmd, v)
			if err != nil {
				return err
			}
			return a.showLog(cmd.Context(), cmd.ErrOrStderr(), s, filter, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.stream, "stream", "cluster", history.StreamsHelp)
	fs.StringVar(&f.since, "since", "", "only entries from then on: a time such as 2026-11-29T12:00:00Z, or 2h for two hours ago")
	fs.StringVar(&f.until, "until", "", "only entries up to then")
	fs.StringSliceVar(&f.types, "type", nil, "only events of these types, such as TopicCreated")
	fs.StringVar(&f.topic, "topic", "", "only events about a topic, by name or, of one that is gone, by ID")
	fs.StringVar(&f.group, "group", "", "only events about a consumer group; without --stream, those of its shard")
	fs.StringVar(&f.txn, "txn", "", "only events about a transactional ID; without --stream, those of its shard")
	fs.StringVar(&f.user, "user", "", "only events about a user that logs in with SCRAM")
	fs.Int32Var(&f.broker, "broker", 0, "only events about a broker, and entries that it wrote")
	fs.Int64Var(&f.producer, "producer", 0, "only events about a producer ID")
	fs.BoolVarP(&f.follow, "follow", "f", false, "go on, and show what comes")
	fs.DurationVar(&f.interval, "interval", time.Second, "how often --follow looks")
	fs.BoolVarP(&f.wide, "wide", "w", false, "do not cut lines at the width of the terminal")
	a.secretsFlag(cmd)
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (f *logFlags) filter(cmd *cobra.Command, now time.Time) (out history.Filter, err error) {
	out = history.Filter{Types: f.types, Topic: f.topic, Group: f.group, Txn: f.txn, User: f.user}
	if cmd.Flags().Changed("broker") {
		out.Broker = &f.broker
	}
	if cmd.Flags().Changed("producer") {
		out.Producer = &f.producer
	}
	for _, t := range []struct {
		name, text string
		to         *time.Time
	}{{"since", f.since, &out.Since}, {"until", f.until, &out.Until}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = history.ParseTime(t.text, now); err != nil {
			return out, usagef("--%s: %w", t.name, err)
		}
	}
	if f.follow && f.until != "" {
		return out, usagef("--follow and --until do not go together")
	}
	if f.interval <= 0 {
		return out, usagef("--interval must be above 0")
	}
	return out, nil
}

// find is the stream: that of a group or a transactional ID where none is named.
func (f *logFlags) find(cmd *cobra.Command, v *substrate.Volume) (s *history.Stream, err error) {
	switch {
	case cmd.Flags().Changed("stream"):
	case f.group != "":
		_, s, err = history.GroupShards.ShardOf(cmd.Context(), v, f.group)
		return s, err
	case f.txn != "":
		_, s, err = history.TxnShards.ShardOf(cmd.Context(), v, f.txn)
		return s, err
	}
	return history.Find(cmd.Context(), v, f.stream)
}

func (a *app) showLog(ctx context.Context, errs io.Writer, s *history.Stream, filter history.Filter, f logFlags) error {
	var records iter.Seq2[history.Record, error]
	if f.follow {
		records = s.Follow(ctx, filter, f.interval)
	} else {
		records = s.Records(ctx, filter)
	}
	l := a.newList(f.follow)
	bad, all := 0, 0
	for r, err := range records {
		switch {
		case err != nil && f.follow:
			fmt.Fprintln(errs, "kaas-meta:", err)
			continue
		case err != nil:
			return errors.Join(err, l.end())
		}
		all++
		if r.Err != nil {
			bad++
		}
		if err := a.showRecord(l, r, f.wide); err != nil {
			return err
		}
	}
	if err := l.end(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d entries could not be read; kaas-meta verify names them", bad, all)
	}
	return nil
}

func (a *app) showRecord(l *list, r history.Record, wide bool) error {
	if a.output != "table" {
		return l.add(newLogEntry(r, a.secrets))
	}
	sc := a.screen
	if wide {
		sc.width = 0
	}
	for _, line := range recordLines(sc, r) {
		if err := l.line(line); err != nil {
			return err
		}
	}
	return nil
}

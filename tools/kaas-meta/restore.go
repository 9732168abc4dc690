package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/history"
	"kaas.dev/kaas/tools/kaas-meta/restore"
)

// restoring is what restore is asked for.
type restoring struct {
	at             string
	streams        []string
	groups, topics []string
	prune, dryRun  bool
	fromVolume     string
}

func (a *app) restoreCommand() *cobra.Command {
	var r restoring
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Put streams back to an earlier state, as a new epoch",
		Long: "Put the cluster, consumer groups or transactional IDs back to an earlier state: of a position, of a time, or of a\n" +
			"backup file. The plan is printed first; --dry-run ends there. History is not rewritten: the state becomes a new\n" +
			"epoch. Brokers may be running: a controller is followed by the next one, and the broker that owns a restored\n" +
			"shard opens anew all that it leads, as the plan says.\n\n" +
			"Nothing that only rises is lowered: leader epochs, registrations, producer IDs, producers' epochs and fences,\n" +
			"numbers of partitions. Members of a group whose offsets come back join anew. An open transaction stays open, and\n" +
			"one that has ended stays ended. Records are not touched, unless --prune deletes topics. docs/restore.md is a walk.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if rolled, _ := cmd.Flags().GetBool(rolledBackFlag); rolled {
				return rolledBack(cmd, a)
			}
			if len(args) == 1 {
				if r.at != "" {
					return usagef("name a file or --at, not both")
				}
				r.at = args[0]
				if path.Base(r.at) == r.at {
					r.at = "./" + r.at // it is no time, whatever its name
				}
			}
			return a.restore(cmd.Context(), &r)
		},
	}
	rolledBackFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&r.at, "at", "", "a position such as 6-43, of one stream; a time, such as 2026-11-29T12:00:00Z or 2h for two hours ago; or a backup file")
	f.StringSliceVar(&r.streams, "streams", nil, "what to restore: "+chosenHelp+" (default: cluster at a position, else all that there is)")
	f.StringArrayVar(&r.groups, "group", nil, "restore of consumer groups only this one; may be given again")
	f.StringArrayVar(&r.topics, "topic", nil, "restore of consumer groups only offsets of this topic, a name or an ID; may be given again")
	f.BoolVar(&r.prune, "prune", false, "delete what was made since: topics with their records, groups, offsets")
	f.StringVar(&r.fromVolume, "from-volume", "", "take a file that was made when the volume had this ID")
	f.BoolVar(&r.dryRun, "dry-run", false, "print the plan and change nothing")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// restoreShown is what restore tells.
type restoreShown struct {
	From   string        `json:"from"`
	DryRun bool          `json:"dry_run"`
	Plan   *restore.Plan `json:"plan"`
	Done   *restore.Plan `json:"done,omitempty"`
}

func (a *app) restore(ctx context.Context, r *restoring) error {
	v, err := a.open()
	if err != nil {
		return err
	}
	saved, notes, err := r.choose(ctx, v)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	req := restore.Request{Saved: saved, Groups: r.groups, Topics: r.topics, Prune: r.prune, Host: host, PID: os.Getpid()}
	out := restoreShown{From: r.at, DryRun: r.dryRun}
	if out.Plan, err = restore.Make(ctx, v, req); errors.Is(err, restore.ErrStream) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	out.Plan.Notes = append(out.Plan.Notes, notes...)
	if a.output == "table" {
		a.showPlan(r.at, out.Plan)
	}
	if a.printed.err != nil { // nobody has seen what would be done
		return a.printed.err
	}
	if !r.dryRun {
		out.Done, err = restore.Run(ctx, v, req)
	}
	switch {
	case a.output != "table":
		err = errors.Join(err, a.print(out))
	case out.Done != nil:
		a.showDone(out.Done)
	case r.dryRun:
		fmt.Fprintln(a.out, "dry run: nothing was changed")
	}
	return err
}

// choose reads what is to be restored.
func (r *restoring) choose(ctx context.Context, v *substrate.Volume) (saved []restore.Saved, notes []string, err error) {
	_, perr := substrate.ParsePosition(r.at)
	position := perr == nil
	_, terr := history.ParseTime(r.at, time.Now())
	switch {
	case r.at == "":
		return nil, nil, usagef("say to what state: --at POSITION, --at TIME, or a backup file")
	case r.at == history.Latest:
		return nil, nil, usagef("--at latest: that is what there is")
	case !position && terr != nil:
		return r.fromFile(v)
	}
	names := r.streams
	if len(names) == 0 {
		switch {
		case len(r.groups) > 0:
			if names, err = shardsOf(ctx, v, r.groups); err != nil {
				return nil, nil, err
			}
		case len(r.topics) > 0:
			names = []string{"groups"}
		case position:
			names = []string{"cluster"}
		}
	}
	return choose(ctx, v, names, r.at)
}

// shardsOf are the streams of groups.
func shardsOf(ctx context.Context, v *substrate.Volume, groups []string) (out []string, err error) {
	for _, g := range groups {
		_, s, err := history.GroupShards.ShardOf(ctx, v, g)
		if err != nil {
			return nil, err
		}
		out = append(out, s.Name)
	}
	return out, nil
}

// fromFile takes from a backup what is asked for.
func (r *restoring) fromFile(v *substrate.Volume) (saved []restore.Saved, notes []string, err error) {
	b, err := restore.Read(r.at)
	if err != nil {
		return nil, nil, fmt.Errorf("--at %s is no position and no time, and as a backup file: %w", r.at, err)
	}
	if b.Volume != v.ID {
		was, err := restore.WasVolume(v, b.Volume)
		if err != nil {
			return nil, nil, err
		}
		if !was && r.fromVolume != b.Volume {
			return nil, nil, fmt.Errorf("%s was made of volume %s, and this one is %s, and never was that as far as it shows: "+
				"its offsets and producers would be another cluster's. If it was, before a rebuild, say so by --from-volume %s", r.at, b.Volume, v.ID, b.Volume)
		}
		notes = append(notes, fmt.Sprintf("the file was made of volume %s, and this one is %s by now", b.Volume, v.ID))
	}
	has := map[string]bool{}
	for _, s := range b.Saved {
		if r.wants(s.Stream) {
			saved = append(saved, s)
		}
		has[s.Stream], has[path.Dir(s.Stream)] = true, true
	}
	for _, name := range r.streams {
		if !has[name] {
			return nil, nil, fmt.Errorf("%s has no %s", r.at, name)
		}
	}
	return saved, notes, nil
}

// wants reports whether a file's stream is to be restored.
func (r *restoring) wants(stream string) bool {
	if len(r.streams) == 0 {
		return len(r.groups)+len(r.topics) == 0 || path.Dir(stream) == "groups"
	}
	return slices.Contains(r.streams, stream) || slices.Contains(r.streams, path.Dir(stream))
}

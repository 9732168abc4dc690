package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// shardView is how a command tells of what is in the shards of a kind: T, of which the states
// S hold many.
type shardView[S, T any] struct {
	kind        *history.ShardKind
	use         string // of the command
	arg         string // what one is called there
	short, long string

	all      func(s S, shard int32, names history.Namer) []T
	one      func(s S, id string, shard int32, names history.Namer) (T, bool)
	id       func(T) string
	place    func(*T) *place
	allTable func(io.Writer, screen, []T) error
	oneTable func(io.Writer, screen, T) error
	// live asks the brokers for all, or for one by its ID. What it has is told with an error, too.
	live func(ctx context.Context, cl brokers, id string) ([]T, error)
}

// shardsCommand is the command that lists all of a kind, or tells of one.
func shardsCommand[S, T any](a *app, k shardView[S, T]) *cobra.Command {
	at := history.Latest
	cmd := &cobra.Command{
		Use:   k.use + " [" + k.arg + "]",
		Short: k.short,
		Long:  k.long,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.bootstrap != "" {
				return k.showLive(cmd, a, args)
			}
			v, err := a.open()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return k.showOne(cmd.Context(), a, v, args[0], at)
			}
			if _, err := substrate.ParsePosition(at); err == nil {
				return usagef("--at: a position is one of a shard: name the %s", k.kind.What)
			}
			return k.showAll(cmd.Context(), a, v, at)
		},
	}
	cmd.Flags().StringVar(&at, "at", at, atHelp+"; a position is one of the "+k.kind.What+"'s shard")
	a.bootstrapFlag(cmd)
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// showAll tells of every shard that can be read, and fails if one cannot.
func (k shardView[S, T]) showAll(ctx context.Context, a *app, v *substrate.Volume, at string) error {
	shards, err := k.kind.List(v)
	if err != nil {
		return err
	}
	names := history.Names(ctx, v)
	all := []T{} // an empty list, not none, in JSON
	var errs []error
	for _, n := range shards {
		st, err := stateAt(ctx, k.kind.Stream(v, n), at)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, k.all(st.Fold.(S), n, names)...)
	}
	return errors.Join(append(errs, k.printAll(a, all))...)
}

func (k shardView[S, T]) printAll(a *app, all []T) error {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(k.id(a), k.id(b)) })
	if a.output == "table" {
		return k.allTable(a.out, a.screen, all)
	}
	return a.print(all)
}

func (k shardView[S, T]) printOne(a *app, one T) error {
	if a.output == "table" {
		return k.oneTable(a.out, a.screen, one)
	}
	return a.print(one)
}

// showLive tells what the brokers say.
func (k shardView[S, T]) showLive(cmd *cobra.Command, a *app, args []string) error {
	return a.live(cmd, func(ctx context.Context, cl brokers) error {
		if len(args) == 0 {
			all, err := k.live(ctx, cl, "")
			return errors.Join(k.printAll(a, append([]T{}, all...)), err)
		}
		all, err := k.live(ctx, cl, args[0])
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("there is no %s %q", k.kind.What, args[0])
		}
		if err != nil {
			return err
		}
		return k.printOne(a, all[0])
	})
}

// showOne tells of one.
func (k shardView[S, T]) showOne(ctx context.Context, a *app, v *substrate.Volume, id, at string) error {
	shard, s, err := k.kind.ShardOf(ctx, v, id)
	if err != nil {
		return err
	}
	st, err := stateAt(ctx, s, at)
	if err != nil {
		return err
	}
	one, ok := k.one(st.Fold.(S), id, shard, history.Names(ctx, v))
	if !ok {
		return fmt.Errorf("there is no %s %q at %s of %s", k.kind.What, id, st.Position, s.Name)
	}
	k.place(&one).Position = st.Position.String()
	return k.printOne(a, one)
}

// place is where something of a shard was read: on the volume at a position of the shard's
// stream, or from the broker that coordinates it.
type place struct {
	Position    string `json:"position,omitempty"`
	Shard       *int32 `json:"shard,omitempty"`
	Coordinator *int32 `json:"coordinator,omitempty"`
}

func (p place) shardName() string {
	if p.Shard == nil {
		return "-"
	}
	return projections.ShardName(*p.Shard)
}

// text says it in words; dir is the directory of the streams.
func (p place) text(dir string) string {
	if p.Coordinator != nil {
		return fmt.Sprintf("as broker %d tells, which coordinates it", *p.Coordinator)
	}
	return fmt.Sprintf("at %s of %s/%s", p.Position, dir, p.shardName())
}

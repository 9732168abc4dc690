package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/kaas-meta/history"
)

const (
	liveDial  = 5 * time.Second
	liveRetry = 15 * time.Second // of a request, while brokers come and go
)

// bootstrapFlag lets a command ask the brokers.
func (a *app) bootstrapFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.bootstrap, "bootstrap-server", "", "ask the brokers, in the place of --dir: HOST:PORT of one, or of more with commas between")
}

// live runs f with a client of the brokers. What is of the volume alone cannot be asked for.
func (a *app) live(cmd *cobra.Command, f func(context.Context, brokers) error) error {
	if a.dir != "" {
		return usagef("--dir and --bootstrap-server do not go together")
	}
	for _, name := range []string{"at", "stream"} {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed && fl.Value.String() != history.Latest {
			return usagef("--%s needs --dir: brokers tell only what is now", name)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(a.bootstrap, ",")...), kgo.ClientID("kaas-meta"),
		kgo.DialTimeout(liveDial), kgo.RetryTimeout(liveRetry))
	if err != nil {
		return usagef("--bootstrap-server: %w", err)
	}
	defer cl.Close()
	return f(cmd.Context(), brokers{kadm.NewClient(cl), cl})
}

// partitionLists are partitions by topic, as states have them.
func partitionLists(set kadm.TopicsSet) map[string][]int32 {
	if len(set) == 0 {
		return nil
	}
	out := make(map[string][]int32, len(set))
	for _, t := range set.Sorted() {
		out[t.Topic] = t.Partitions
	}
	return out
}

// brokers are asked by kadm where it knows how.
type brokers struct {
	*kadm.Client
	raw *kgo.Client
}

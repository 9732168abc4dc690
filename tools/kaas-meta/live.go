package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/server/clientprops"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// liveRetry is how long a request is tried, while brokers come and go.
const liveRetry = 15 * time.Second

// bootstrapFlag lets a command ask the brokers.
func (a *app) bootstrapFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.bootstrap, "bootstrap-server", "", "ask the brokers, in the place of --dir: HOST:PORT of one, or of more with commas between")
	cmd.Flags().StringVar(&a.commandConfig, "command-config", "", "a file with properties of Kafka's clients, such as security.protocol, for --bootstrap-server")
}

// clientOptions are those of --command-config. What in it is not used is told.
func (a *app) clientOptions(cmd *cobra.Command) ([]kgo.Opt, error) {
	var props *clientprops.Client
	var err error
	if a.commandConfig == "" {
		props, err = clientprops.Parse(nil)
	} else {
		props, err = clientprops.Load(a.commandConfig)
	}
	if err != nil {
		return nil, usagef("--command-config: %w", err)
	}
	for _, note := range props.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "kaas-meta: %s: %s\n", a.commandConfig, note)
	}
	opts, err := props.Options()
	if err != nil {
		return nil, usagef("--command-config: %s: %w", a.commandConfig, err)
	}
	return opts, nil
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
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(a.bootstrap, ",")...), kgo.ClientID("kaas-meta"), kgo.RetryTimeout(liveRetry)}
	how, err := a.clientOptions(cmd)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(opts, how...)...)
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

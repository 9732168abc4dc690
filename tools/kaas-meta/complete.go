package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// completer gives the words that fit, of what is on the volume.
type completer func(cmd *cobra.Command, v *substrate.Volume, given []string, word string) ([]string, error)

var errNoWords = errors.New("there is nothing to complete here")

// completion is what cobra asks. Where the volume cannot be read, there are no words.
func (a *app) completion(words completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
		v, err := a.open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := words(cmd, v, given, word)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, w := range all {
			if strings.HasPrefix(w, word) {
				out = append(out, w)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completions are registered for every flag of these names, and for the arguments of show.
func (a *app) completions(root *cobra.Command) {
	flags := map[string]completer{"stream": streamWords, "topic": topicWords}
	for _, cmd := range root.Commands() {
		for name, words := range flags {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, a.completion(words))
			}
		}
		if cmd.Name() == "show" {
			cmd.ValidArgsFunction = a.completion(showWords)
		}
	}
}

func topicWords(cmd *cobra.Command, v *substrate.Volume, _ []string, _ string) ([]string, error) {
	c, err := history.ReadCluster(cmd.Context(), v)
	if err != nil {
		return nil, err
	}
	return topicNames(c), nil
}

func topicNames(c *projections.Cluster) (out []string) {
	for _, t := range c.Topics() {
		out = append(out, t.Name)
	}
	return out
}

// streamWords has partitions only once a topic is being named: there may be many.
func streamWords(cmd *cobra.Command, v *substrate.Volume, _ []string, word string) ([]string, error) {
	out := []string{"cluster"}
	for _, k := range history.ShardKinds {
		shards, err := k.List(v)
		if err != nil {
			return nil, err
		}
		for _, n := range shards {
			out = append(out, k.Stream(v, n).Name)
		}
	}
	if !strings.HasPrefix(word, "topics/") {
		return append(out, "topics/"), nil
	}
	c, err := history.ReadCluster(cmd.Context(), v)
	if err != nil {
		return nil, err
	}
	return partitionNames(c, "topics/"), nil
}

func partitionNames(c *projections.Cluster, prefix string) (out []string) {
	for _, t := range c.Topics() {
		for i := range t.Partitions {
			out = append(out, prefix+history.PartitionName(t.Name, i))
		}
	}
	return out
}

func showWords(cmd *cobra.Command, v *substrate.Volume, given []string, _ string) ([]string, error) {
	if len(given) == 0 {
		return history.Kinds, nil
	}
	c, err := history.ReadCluster(cmd.Context(), v)
	if err != nil || len(given) > 1 {
		return nil, errNoWords
	}
	switch given[0] {
	case "topic":
		return topicNames(c), nil
	case "partition":
		return partitionNames(c, ""), nil
	case "broker":
		var out []string
		for _, b := range c.Brokers() {
			out = append(out, history.BrokerName(b.ID))
		}
		return out, nil
	}
	return nil, errNoWords
}

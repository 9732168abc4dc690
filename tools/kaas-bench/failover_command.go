package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

type failoverOptions struct {
	failoverPlan
	clusterOptions
	servers []string
}

// clusterOptions are those of every command that starts clusters.
type clusterOptions struct {
	dir     string
	doc     string
	binary  string
	sets    []string
	version string
	output  string
}

func (o *clusterOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", os.TempDir(), "where the brokers' `directory` is made, which is removed afterwards")
	f.StringVar(&o.doc, "doc", "", "`file` whose part between the marks is replaced by the tables")
	f.StringVar(&o.binary, "kaas", "", "`binary` of the broker; built from this module if not given")
	f.StringArrayVar(&o.sets, "set", nil, "further `key=value` of kaas's brokers; may be repeated")
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
}

func failoverCommand() *cobra.Command {
	var o failoverOptions
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Kill and stop brokers of a cluster, and tell how long partitions take no writes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.register(cmd)
	f := cmd.Flags()
	o.Size = 100
	f.StringSliceVar(&o.servers, "servers", []string{"kafka", "kaas"}, "kafka, kaas, one after the other")
	f.IntVar(&o.Partitions, "partitions", 1000, "partitions of all topics together")
	f.IntVar(&o.Topics, "topics", 10, "topics that they belong to")
	f.IntVar(&o.Brokers, "brokers", 3, "brokers of a cluster")
	f.IntVar(&o.Producers, "producers", 16, "producing clients, which share the partitions")
	f.DurationVar(&o.Every, "every", 20*time.Millisecond, "time between two records of a partition")
	f.Var(&o.Size, "size", "bytes of a record's value")
	f.IntVar(&o.Rounds, "rounds", 3, "times that everything is done to a cluster, whose figures are told together; 0 only loads it")
	f.DurationVar(&o.Warmup, "warmup", 10*time.Second, "time under load before anything is measured")
	f.DurationVar(&o.Calm, "calm", 5*time.Second, "measured time before the first fault")
	f.DurationVar(&o.Most, "most", time.Minute, "how long a fault is watched")
	f.StringVar(&o.version, "kafka", "4.4.0", "`version` of Apache Kafka")
	return cmd
}

func (o *failoverOptions) check() error {
	switch {
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: table or json", o.output)
	case len(o.servers) == 0 || o.Brokers < 1 || o.Brokers < 2 && o.Rounds > 0:
		return errors.New("failover needs a server, and two brokers of it at least")
	case o.Producers < 1 || o.Topics < 1 || o.Partitions < max(o.Topics, o.Producers):
		return errors.New("every topic and every producer needs a partition")
	case o.Every <= 0 || o.Size < 1 || o.Rounds < 0:
		return errors.New("--every and --size must be above 0, --rounds not below")
	}
	return nil
}

// run does all to each cluster, prints, and writes the document.
func (o *failoverOptions) run(ctx context.Context, out, errOut io.Writer) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	s, err := newScratch(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove("")) }()
	if !slices.Contains(o.servers, "kafka") {
		o.version = ""
	}
	about := describeMachine(ctx, o.version, s)
	var results []*failoverResult
	for _, server := range o.servers {
		kind, err := o.kind(ctx, server, s)
		if err != nil {
			return err
		}
		r, err := o.failover(ctx, kind, s, errOut)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	about.finish()
	return o.tell(out, "failover", failoverReport(about, &o.failoverPlan, results), map[string]any{"about": about, "plan": o.failoverPlan, "clusters": results})
}

// kind makes what a server is started with.
func (o *clusterOptions) kind(ctx context.Context, server string, s *scratch) (clusterKind, error) {
	switch server {
	case "kafka":
		k, err := resolveKafka(ctx, s, o.version)
		return &kafkaCluster{k}, err
	case "kaas":
		if o.binary != "" {
			return &kaasCluster{kaas: &kaas{binary: o.binary}, sets: o.sets}, nil
		}
		k, err := buildKaas(ctx, s)
		return &kaasCluster{kaas: k, sets: o.sets}, err
	default:
		return nil, fmt.Errorf("server %q: kafka or kaas", server)
	}
}

// tell writes the document and prints the text, or all figures.
func (o *clusterOptions) tell(out io.Writer, command, text string, all any) error {
	if o.doc != "" {
		if err := replacePart(o.doc, command, text); err != nil {
			return err
		}
	}
	if o.output == "json" {
		return writeJSON(out, all)
	}
	_, err := io.WriteString(out, text)
	return err
}

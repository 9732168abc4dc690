package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// mostOfTopic is how many partitions the brokers make by one request, the topic being one more.
const mostOfTopic = 9_999

type manyOptions struct {
	manyPlan
	clusterOptions
}

func manyCommand() *cobra.Command {
	var o manyOptions
	cmd := &cobra.Command{
		Use:   "many",
		Short: "Start brokers with many partitions, and tell how long that takes and what it costs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.register(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Partitions, "partitions", 10_000, "partitions of all topics together")
	f.IntVar(&o.Topics, "topics", 10, "topics that they belong to")
	f.IntVar(&o.Brokers, "brokers", 3, "brokers on the directory")
	f.IntVar(&o.Changes, "changes", 100, "topics made to see how soon all brokers know them")
	return cmd
}

func (o *manyOptions) run(ctx context.Context, out, errOut io.Writer) (err error) {
	switch {
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("-o %s: table or json", o.output)
	case o.Brokers < 1 || o.Topics < 1 || o.Partitions < o.Topics || o.Changes < 0:
		return errors.New("many needs a broker, a topic, and a partition of each topic")
	case o.Partitions > o.Topics*mostOfTopic:
		return fmt.Errorf("a topic is made with %d partitions at most: %d take more topics than %d", mostOfTopic, o.Partitions, o.Topics)
	}
	s, err := newScratch(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove("")) }()
	kind, err := o.kind(ctx, "kaas", s)
	if err != nil {
		return err
	}
	about := describeMachine(ctx, "", s)
	r, err := o.many(ctx, kind, s, errOut)
	if err != nil {
		return err
	}
	about.finish()
	return o.tell(out, "many", manyReport(about, &o.manyPlan, r), map[string]any{"about": about, "plan": o.manyPlan, "result": r})
}

func manyReport(about *machine, p *manyPlan, r *manyResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Many partitions\n\n%s\n", about.clusterText("bench:many"))
	fmt.Fprintf(&b, "%d brokers of kaas as processes on one directory, %s partitions in %d topics. A partition is served once every broker's\n"+
		"metadata names its leader and it has told its end offset. Memory and leaders are from after the second start; *made* and\n"+
		"*shown* are of %d topics, each made through one broker by turns, while all others are asked for it again and again.\n\n",
		p.Brokers, count(float64(p.Partitions)), p.Topics, p.Changes)
	b.WriteString("| figure | result |\n| --- | ---: |\n")
	row := func(title, format string, a ...any) {
		fmt.Fprintf(&b, "| %s | "+format+" |\n", append([]any{title}, a...)...)
	}
	row("start until every broker names all, empty directory, ms", "%s", short(r.Start))
	row("all partitions made and served, ms", "%s", short(r.Create))
	row("graceful stop of all brokers, ms", "%s", short(r.Stop))
	row("start again until every broker names all, ms", "%s", short(r.Again))
	row("start again until all partitions are served, ms", "%s", short(r.Served))
	for _, d := range []struct {
		title string
		of    *distribution
	}{
		{"topic made, from request to answer", r.Made}, {"topic shown by the other brokers, from the request", r.Shown},
		{"topic shown by the other brokers, from the answer", r.After},
	} {
		if d.of != nil {
			row(d.title+", median / p99 / worst ms", "%s / %s / %s", short(d.of.P50), short(d.of.P99), short(d.of.Worst))
		}
	}
	for _, n := range r.Nodes {
		row(fmt.Sprintf("broker %d: partitions led", n.ID), "%s", count(float64(n.Leaders)))
		row(fmt.Sprintf("broker %d: memory (RSS), now / at its peak, MB", n.ID), "%s / %s", short(mega(float64(n.RSS))), short(mega(float64(n.Peak))))
	}
	row("partitions between the broker that leads most and the one that leads least", "%d", r.Apart)
	return b.String()
}

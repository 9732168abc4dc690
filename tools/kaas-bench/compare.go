package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// comparison is one run of compare.
type comparison struct {
	plan
	scratch    *scratch
	contenders []contender // kaas last
	progress   *progress
	log        io.Writer
	found      findings
}

type compareOptions struct {
	plan
	quick   bool
	dir     string
	doc     string
	binary  string
	version string
	output  string
}

func compareCommand() *cobra.Command {
	var o compareOptions
	var sizes, partitions, producers []int
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Run the same loads on Apache Kafka and on kaas, by turns, on one disk",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Modes = []mode{durable, pageCache}
			for _, n := range sizes {
				o.Sizes = append(o.Sizes, byteSize(n))
			}
			for _, n := range partitions {
				o.Partitions = append(o.Partitions, int32(n))
			}
			o.Producers = producers
			if o.quick {
				o.plan = o.plan.quick()
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Txns, "transactions", false, "measure transactions and nothing else; they have a part of their own in the document")
	f.BoolVar(&o.quick, "quick", false, "fewer partitions and rounds, shorter cells")
	f.IntVar(&o.Rounds, "rounds", 3, "times that everything is measured; the figures are medians")
	f.DurationVar(&o.Cell, "cell", 2500*time.Millisecond, "measured time of a cell")
	f.DurationVar(&o.Warmup, "warmup", 500*time.Millisecond, "time before it")
	f.IntSliceVar(&sizes, "sizes", []int{100, 1024}, "record sizes in bytes")
	f.IntSliceVar(&partitions, "partitions", []int{1, 6, 100}, "partitions of a topic")
	f.IntSliceVar(&producers, "producers", []int{1, 16}, "producing clients")
	f.StringVar(&o.dir, "dir", os.TempDir(), "where the servers' `directory` is made, which is removed afterwards")
	f.StringVar(&o.doc, "doc", "", "`file` whose part between the marks is replaced by the tables")
	f.StringVar(&o.binary, "kaas", "", "`binary` of the broker; built from this module if not given")
	f.StringVar(&o.version, "kafka", "4.4.0", "`version` of Apache Kafka")
	f.StringVarP(&o.output, "output", "o", "table", "table or json, of every figure of every round")
	return cmd
}

// run compares, prints, and writes the document.
func (o *compareOptions) run(ctx context.Context, out, errOut io.Writer) (err error) {
	s, err := newScratch(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove("")) }()
	c := &comparison{plan: o.plan, scratch: s, progress: newProgress(errOut), log: errOut}
	if err := o.prepare(ctx, c); err != nil {
		return err
	}
	about := describeMachine(ctx, o.version, s)
	if err := c.run(ctx); err != nil {
		return err
	}
	about.finish()
	write, part := report, "compare"
	if o.Txns {
		write, part = reportTransactions, "compare --transactions"
	}
	text := write(about, c)
	if o.doc != "" {
		if err := replacePart(o.doc, part, text); err != nil {
			return err
		}
	}
	if o.output == "json" {
		return writeJSON(out, map[string]any{"about": about, "measurements": c.found.all, "processes": c.found.lives})
	}
	_, err = io.WriteString(out, text)
	return err
}

func (o *compareOptions) prepare(ctx context.Context, c *comparison) error {
	theirs, err := resolveKafka(ctx, c.scratch, o.version)
	if err != nil {
		return err
	}
	ours := &kaas{binary: o.binary}
	if o.binary == "" {
		if ours, err = buildKaas(ctx, c.scratch); err != nil {
			return err
		}
	}
	c.contenders = []contender{theirs, ours}
	return nil
}

// run goes through the rounds. In each, both servers start anew for each mode.
func (c *comparison) run(ctx context.Context) error {
	for round := range c.Rounds {
		for _, m := range c.Modes {
			if err := c.round(ctx, round, m); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, m, err)
			}
		}
	}
	return nil
}

func (c *comparison) round(ctx context.Context, round int, m mode) error {
	var servers []*server
	defer func() {
		for _, s := range servers {
			s.child.stop()
			_ = c.scratch.remove(s.dir) // what is left goes with the scratch directory
		}
	}()
	for _, with := range turn(c.contenders, round) {
		s, err := c.start(ctx, with, round, m)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	if err := c.idle(ctx, servers, m); err != nil {
		return err
	}
	for i, cell := range c.cells(m) {
		for _, s := range turn(servers, i) {
			c.progress.prefix = fmt.Sprintf("round %d of %d, %s, %s: ", round+1, c.Rounds, s.with.name(), cell)
			if err := c.cell(ctx, s, cell, round, i); err != nil {
				return fmt.Errorf("%s, %s: %w", s.with.name(), cell, err)
			}
		}
	}
	for _, s := range servers {
		if err := s.life(&c.found, m); err != nil {
			return err
		}
	}
	return nil
}

// turn is the list, begun at the other end every other time.
func turn[T any](list []T, n int) []T {
	if n%2 == 0 {
		return list
	}
	turned := make([]T, 0, len(list))
	for i := range list {
		turned = append(turned, list[len(list)-1-i])
	}
	return turned
}

// cell measures one load on one server, on a topic of its own.
func (c *comparison) cell(ctx context.Context, s *server, cl cell, round, n int) (err error) {
	began := time.Now()
	c.settle(ctx)
	settled := time.Since(began)
	t := s.target(fmt.Sprintf("cell-%d", n), cl.Mode, cl.Partitions)
	t.progress = c.progress
	if err := t.ensureTopic(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.remove(ctx, s, t)) }()
	r, err := cl.run(ctx, t, c.plan)
	c.progress.done()
	if err != nil {
		return err
	}
	c.found.add(s.with.name(), round, cl, r)
	fmt.Fprintf(c.log, "round %d  %-5s  %s: %s MB/s, %s; took %.1f s of which %.1f s waiting for the disk\n",
		round+1, s.with.name(), cl, short(r.MBPerSecond), r.brief(), time.Since(began).Seconds(), settled.Seconds())
	return nil
}

// run runs the cell's load.
func (c cell) run(ctx context.Context, t target, p plan) (*result, error) {
	switch c.Kind {
	case rateKind:
		l := &e2eLoad{produceLoad: *c.produce(t, p), Consumers: 1}
		l.Linger = 0
		return l.run(ctx)
	case consumeKind:
		fill := c.produce(t, p)
		fill.PID, fill.Producers, fill.Batch, fill.Buffer = 0, 2, 128<<10, 8<<20
		fill.Records = fillBytes / int64(c.Size)
		if _, err := fill.run(ctx); err != nil {
			return nil, fmt.Errorf("fill the topic: %w", err)
		}
		return (&consumeLoad{target: t, Consumers: c.Clients, Duration: p.Cell}).run(ctx)
	case txnKind:
		return c.transactions(t, p).run(ctx)
	default:
		return c.produce(t, p).run(ctx)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// common are the flags that every load has.
type common struct {
	target
	output string
	remove bool
}

func (c *common) register(f *pflag.FlagSet) {
	f.StringVar(&c.Bootstrap, "bootstrap", "127.0.0.1:9092", "`address` of a broker")
	f.StringVar(&c.Command, "command-config", "", "`file` with properties of Kafka's clients, such as security.protocol")
	f.StringVar(&c.Topic, "topic", "bench", "topic; made if it is missing")
	f.Int32Var(&c.Partitions, "partitions", 1, "partitions of a topic that is made")
	f.StringToStringVar(&c.Configs, "topic-config", nil, "`key=value,…` of a topic that is made")
	f.BoolVar(&c.remove, "delete", false, "delete the topic afterwards")
	f.IntVar(&c.PID, "pid", 0, "process of the server, whose costs are told")
	f.StringVarP(&c.output, "output", "o", "table", "table or json")
}

// run makes the topic, runs the load, and prints the result.
func (c *common) run(cmd *cobra.Command, load func(*progress) (*result, error)) error {
	if c.output != "table" && c.output != "json" {
		return fmt.Errorf("-o %s: table or json", c.output)
	}
	ctx := cmd.Context()
	if err := c.ensureTopic(ctx); err != nil {
		return err
	}
	p := newProgress(cmd.ErrOrStderr())
	r, err := load(p)
	p.done()
	if c.remove {
		err = errors.Join(err, c.deleteTopic(ctx))
	}
	if err != nil {
		return err
	}
	return r.print(cmd.OutOrStdout(), c.output)
}

// command runs one load, whose target is at.
func (c *common) command(use, short string, at *target, load func(context.Context) (*result, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd, func(p *progress) (*result, error) {
				*at = c.target
				at.progress = p
				return load(cmd.Context())
			})
		},
	}
	c.register(cmd.Flags())
	return cmd
}

func (r *result) print(w io.Writer, output string) error {
	if output == "json" {
		return writeJSON(w, r)
	}
	return r.table(w)
}

func (l *produceLoad) register(f *pflag.FlagSet) {
	l.Size, l.Buffer, l.Batch = 1024, 2<<20, 16<<10
	f.Var(&l.Size, "size", "bytes of a record's value")
	f.Float64Var(&l.Rate, "rate", 0, "records a second of all producers together; 0 is as many as go")
	f.IntVar(&l.Producers, "producers", 1, "producing clients")
	f.StringVar(&l.Acks, "acks", "all", "all, 1 or 0")
	f.DurationVar(&l.Linger, "linger", 5*time.Millisecond, "how long a batch waits to be filled")
	f.Var(&l.Batch, "batch", "most bytes of a batch")
	f.Var(&l.Buffer, "buffer", "bytes of records that a producer holds until they are acknowledged")
	f.StringVar(&l.Compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.Int64Var(&l.Records, "records", 0, "end after so many records, without a warm-up; 0 goes by time")
	l.window.register(f)
}

func (w *window) register(f *pflag.FlagSet) {
	f.DurationVar(&w.Warmup, "warmup", time.Second, "time before the figures begin")
	f.DurationVar(&w.Duration, "duration", 10*time.Second, "time that the figures are of")
}

func produceCommand() *cobra.Command {
	var c common
	var l produceLoad
	cmd := c.command("produce", "Produce records and tell throughput and time to acknowledgement", &l.target, l.run)
	l.register(cmd.Flags())
	return cmd
}

func consumeCommand() *cobra.Command {
	var c common
	var l consumeLoad
	cmd := c.command("consume", "Consume a topic from its start to its end, once or again and again for a time", &l.target, l.run)
	f := cmd.Flags()
	f.IntVar(&l.Consumers, "consumers", 1, "consuming clients, which share the partitions")
	f.DurationVar(&l.Duration, "duration", 0, "start again at the end until so much time has gone; 0 is once")
	return cmd
}

func e2eCommand() *cobra.Command {
	var c common
	var l e2eLoad
	cmd := c.command("e2e", "Produce at a fixed rate and tell the time until a consumer has each record", &l.target, l.run)
	l.register(cmd.Flags())
	f := cmd.Flags()
	f.IntVar(&l.Consumers, "consumers", 1, "consuming clients, which share the partitions")
	for flag, def := range map[string]string{"rate": "1000", "linger": "0s"} {
		f.Lookup(flag).DefValue = def
		if err := f.Set(flag, def); err != nil {
			panic(err) // the values are above
		}
	}
	return cmd
}

func transactionsCommand() *cobra.Command {
	var c common
	l := txnLoad{Size: 1024}
	cmd := c.command("transactions", "Commit transactions and tell how many, and the time of each", &l.target, l.run)
	f := cmd.Flags()
	f.Var(&l.Size, "size", "bytes of a record's value")
	f.IntVar(&l.Producers, "producers", 1, "producing clients, each with a transactional ID")
	f.IntVar(&l.Records, "records", txnRecords, "records of a transaction, over the partitions by turns")
	f.Int64Var(&l.Transactions, "transactions", 0, "end after so many, without a warm-up; 0 goes by time")
	l.window.register(f)
	return cmd
}

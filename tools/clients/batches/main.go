// Command batches shows how the batches of a topic are compressed: a client that leaves its
// codec out and says nothing would else not be noticed.
//
//	BOOTSTRAP=HOST:PORT,… batches TOPIC
//
// A line is a partition, a codec as the batches' attributes have it, and what the key of the
// first record says up to a slash. Where it says the same as before, there is no line, nor for a
// batch that is not compressed of a client whose others are: librdkafka leaves out what makes a
// small batch no smaller.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/clients/scenario"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "batches:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	if len(os.Args) != 2 {
		return errors.New("usage: BOOTSTRAP=HOST:PORT,… batches TOPIC")
	}
	topic := os.Args[1]
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...), kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx := context.Background()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	left := len(ends[topic])
	lines := map[int32][]string{}
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return err
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset == ends[topic][r.Partition].Offset-1 {
				left--
			}
			client, _, _ := strings.Cut(string(r.Key), "/")
			line := fmt.Sprintf("%d %s %s", r.Partition, scenario.Codecs[r.Attrs.CompressionType()], client)
			if had := lines[r.Partition]; client != "" && (len(had) == 0 || had[len(had)-1] != line) {
				lines[r.Partition] = append(had, line)
			}
		})
	}
	for p := range int32(len(ends[topic])) {
		for _, line := range lines[p] {
			plain := fmt.Sprintf("%d %s ", p, scenario.Codecs[0])
			client, isPlain := strings.CutPrefix(line, plain)
			if isPlain && slices.ContainsFunc(lines[p], func(other string) bool {
				return other != line && strings.HasSuffix(other, " "+client)
			}) {
				continue
			}
			fmt.Fprintln(out, line)
		}
	}
	return nil
}

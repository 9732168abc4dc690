package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/child"
	"kaas.dev/kaas/tools/internal/kafka"
)

// settings are those of both brokers.
var settings = []string{
	"auto.create.topics.enable=true",
	"num.partitions=2",
	"group.initial.rebalance.delay.ms=0",
	"group.min.session.timeout.ms=1000",
	"log.retention.ms=-1", // records of the scripts are old
	"offsets.topic.num.partitions=16",
	"transaction.state.log.num.partitions=16",
	"broker.rack=rack-1",
}

// kafkasOwn are those that only Kafka has: groups are assigned at once, as by kaas.
var kafkasOwn = []string{
	"group.consumer.assignment.interval.ms=0",
	"group.consumer.min.assignment.interval.ms=0",
	"group.consumer.assignor.offload.enable=false",
}

const nodeID = 1

// start starts both brokers and returns them, Kafka first, and what ends them.
func (p *plan) start(ctx context.Context, dir string) (sides [2]*side, stop func(), err error) {
	var processes [2]*child.Process
	stop = func() {
		for _, process := range processes {
			if process != nil {
				process.End(syscall.SIGKILL, time.Minute) // the directories are of no use afterwards
			}
		}
	}
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for i, run := range []func(context.Context, string, string) (*child.Process, error){startKafka, p.startKaas} {
		g.Go(func() error {
			addr, err := child.FreeAddr()
			if err != nil {
				return err
			}
			if processes[i], err = run(gctx, dir, addr); err != nil {
				return err
			}
			if err := processes[i].AwaitAnswer(gctx, addr, 3*time.Minute); err != nil {
				return fmt.Errorf("%w; it said last:\n%s", err, processes[i].Said())
			}
			sides[i] = &side{ctx: ctx, name: [...]string{"kafka", "kaas"}[i], log: p.slowLog(), addr: addr, symbols: newSymbols(addr, dir, began)}
			return nil
		})
	}
	if err = g.Wait(); err != nil {
		stop()
	}
	return sides, stop, err
}

func startKafka(_ context.Context, dir, addr string) (*child.Process, error) {
	id := strconv.Itoa(nodeID)
	fs, err := substrate.MakeDir(filepath.Join(dir, "kafka"))
	if err != nil {
		return nil, err
	}
	n := &kafka.Node{ID: id, Among: []string{id}, Listeners: "PLAINTEXT://" + addr, Dir: fs, Settings: append(kafkasOwn, settings...)}
	command, err := n.Command()
	if err != nil {
		return nil, err
	}
	return child.Start(child.Options{Command: command[0], Args: command[1:], Log: logTo("kafka")})
}

func (p *plan) startKaas(ctx context.Context, dir, addr string) (*child.Process, error) {
	binary := p.kaas
	if binary == "" {
		binary = filepath.Join(dir, "kaas.bin")
		if err := child.Build(ctx, binary); err != nil {
			return nil, err
		}
	}
	var args []string
	for _, set := range append([]string{
		fmt.Sprint("node.id=", nodeID), "listeners=PLAINTEXT://" + addr, "advertised.listeners=PLAINTEXT://" + addr,
		"http.listeners=", "log.dirs=" + filepath.Join(dir, "kaas"),
	}, settings...) {
		args = append(args, "--set", set)
	}
	return child.Start(child.Options{Command: binary, Args: args, Log: logTo("kaas")})
}

// slowLog takes what took long, where steps are to be seen.
func (p *plan) slowLog() io.Writer {
	if p.steps {
		return os.Stderr
	}
	return nil
}

// logTo is standard error where KAFKA_DIFF_LOG names the broker.
func logTo(broker string) io.Writer {
	if strings.Contains(os.Getenv("KAFKA_DIFF_LOG"), broker) {
		return os.Stderr
	}
	return nil
}

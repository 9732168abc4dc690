// Package scenario is what each of the Go clients is asked to do: to write and read records of
// every kind, to share a topic as a group, to administer, and to make transactions.
//
// A program gives its client to Main, and takes
//
//	run              everything, on topics of the client's own; a line for each scenario
//	write            a sample with each codec, to the topic that all clients share
//	read CLIENT …    what these clients have written there; a line for each of them
//	secure FILE      a little, in each of the ways to get in that the file has
//	steady FILE DIR  one record after the other, in each of them, until it is told to stop
//
// BOOTSTRAP names the brokers, and T is what names of topics begin with. A line begins with "ok", "skip" or "fail"; a skip has its
// reason. The code is 1 if anything failed.
package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Main runs a client's program.
func Main(open func(Brokers) (*Client, error)) {
	if err := program(open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func program(open func(Brokers) (*Client, error)) error {
	bootstrap := os.Getenv("BOOTSTRAP")
	if bootstrap == "" || len(os.Args) < 2 {
		return errors.New("usage: BOOTSTRAP=HOST:PORT,… PROGRAM run | write | read CLIENT… | secure FILE | steady FILE DIR")
	}
	if os.Args[1] == "steady" && len(os.Args) == 4 && Steady != nil {
		return steady(os.Args[2], os.Args[3])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r := &run{Client: &Client{}, ctx: ctx, prefix: os.Getenv("T")}
	if os.Args[1] == "secure" && len(os.Args) == 3 {
		return cmp.Or(r.secure(os.Args[2], open), r.outcome())
	}
	var err error
	if r.Client, err = open(Brokers{Addrs: strings.Split(bootstrap, ",")}); err != nil {
		return err
	}
	r.prefix = cmp.Or(r.prefix, r.Name)
	switch what := os.Args[1]; what {
	case "run":
		r.together(r.topics())
		r.together(slices.Concat(r.data(), r.groups(), []chain{r.transactions()})...)
		r.together(r.admin())
	case "write":
		r.write()
	case "read":
		r.read(os.Args[2:])
	default:
		return fmt.Errorf("%s is none of run, write, read and secure", what)
	}
	return r.outcome()
}

func (r *run) outcome() error {
	if r.failed {
		return fmt.Errorf("%s: not all went well", r.Name)
	}
	return nil
}

// run is one run of a client's program.
type run struct {
	*Client
	ctx    context.Context
	prefix string // of topics, groups and transactional IDs
	failed bool
}

// chain is of scenarios that need one another, in order.
type chain []step

type step struct {
	name string
	do   func() error
}

func (c *chain) add(name string, do func() error) { *c = append(*c, step{name, do}) }

// together runs chains beside one another: scenarios wait more than they work. What became
// of them is told in their order.
func (r *run) together(chains ...chain) {
	var all []chan string
	for _, c := range chains {
		lines := make(chan string, len(c))
		all = append(all, lines)
		go func() {
			defer close(lines)
			for _, s := range c {
				lines <- r.tell(s)
			}
		}()
	}
	for _, lines := range all {
		for line := range lines {
			fmt.Println(line)
			r.failed = r.failed || strings.HasPrefix(line, "fail")
		}
	}
}

func (r *run) tell(s step) string {
	if reason := r.Skip[s.name]; reason != "" {
		return fmt.Sprintf("skip %s: %s", s.name, reason)
	}
	began := time.Now()
	err := s.do()
	fmt.Fprintf(os.Stderr, "%6.2f s  %s\n", time.Since(began).Seconds(), s.name)
	if err != nil {
		return fmt.Sprintf("fail %s: %v", s.name, err)
	}
	return "ok " + s.name
}

// topic is the name of a topic, a group or a transactional ID.
func (r *run) topic(of string) string { return r.prefix + "-" + of }

// create makes a topic that keeps what it is given, however old, and waits until it is seen.
func (r *run) create(of string, partitions int, configs ...string) (string, error) {
	all := map[string]string{"retention.ms": "-1"}
	for c := range slices.Chunk(configs, 2) {
		all[c[0]] = c[1]
	}
	topic := r.topic(of)
	if err := r.CreateTopic(r.ctx, topic, partitions, all); err != nil {
		return "", err
	}
	return topic, eventually(func() error { return r.partitionsAre(topic, partitions) })
}

func (r *run) partitionsAre(topic string, want int) error {
	got, err := r.Partitions(r.ctx, topic)
	if err == nil && got != want {
		err = fmt.Errorf("%d partitions of %s, want %d", got, topic, want)
	}
	return err
}

// refused wants one of the codes for an error.
func (r *run) refused(err error, codes ...int16) error {
	if err == nil {
		return fmt.Errorf("not refused, want code %v", codes)
	}
	if code := r.Code(err); !slices.Contains(codes, code) {
		return fmt.Errorf("code %d, want %v: %w", code, codes, err)
	}
	return nil
}

// First is the first of the errors that is one.
func First(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

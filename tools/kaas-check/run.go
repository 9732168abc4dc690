package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/child"
	"kaas.dev/kaas/tools/kaas-check/checker"
	"kaas.dev/kaas/tools/kaas-check/cluster"
	"kaas.dev/kaas/tools/kaas-check/history"
	"kaas.dev/kaas/tools/kaas-check/nemesis"
	"kaas.dev/kaas/tools/kaas-check/traffic"
	"kaas.dev/kaas/tools/nfslab/lab"
)

// historyFile is the name of a history that is kept.
const historyFile = "history"

// checkRun is one run.
type checkRun struct {
	settings
	out     io.Writer
	dir     *substrate.DirFS // of this run
	log     *history.Recorder
	proc    int32 // the nemesis, in the history
	cluster cluster.Cluster
	env     *traffic.Env
	clocks  clocks
}

// run does a whole run and says what was wrong.
func run(ctx context.Context, s settings, out io.Writer) error {
	kinds, err := s.kinds()
	if err != nil {
		return err
	}
	if s.seed == 0 {
		s.seed = time.Now().UnixNano() % 1e9
	}
	parent, err := substrate.MakeDir(s.dir)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("run-%s-%d", time.Now().Format("150405"), s.seed)
	if err := parent.Mkdir(name); err != nil {
		return fmt.Errorf("directory of this run: %w", err)
	}
	s.gaps = s.gaps || s.chart
	r := &checkRun{settings: s, out: out}
	if r.dir, err = substrate.OpenDir(filepath.Join(parent.Root(), name)); err != nil {
		return err
	}
	rep, err := r.whole(ctx, kinds)
	switch {
	case err != nil:
	case s.without != "":
		err = noticed(rep)
	default:
		err = verdict(rep)
	}
	if err != nil || s.keep {
		fmt.Fprintf(out, "\nHistory, logs and volume are in %s.\n", r.dir.Root())
		return err
	}
	return (&substrate.Volume{FS: parent}).RemoveTree(name)
}

// kinds are the faults that are wanted, if the cluster can have them.
func (s *settings) kinds() ([]nemesis.Kind, error) {
	can, wanted := nemesis.LocalKinds, s.faults
	if s.lab {
		can = append(slices.Clone(nemesis.LabKinds), nemesis.Clock)
	}
	byLease := s.election == "kubernetes"
	if byLease {
		can = slices.Concat(can, nemesis.APIKinds)
	}
	if s.chart {
		can = nemesis.OfPods
	}
	switch {
	case wanted != "":
	case s.chart:
		wanted = "pods"
	case s.lab:
		wanted = "lab"
	case byLease:
		wanted = usualFaults + ",api"
	default:
		wanted = usualFaults
	}
	kinds, err := nemesis.Parse(wanted)
	for _, k := range kinds {
		if err == nil && !slices.Contains(can, k) {
			err = fmt.Errorf("the fault %s is not for these brokers; for them there are %v", k, can)
		}
	}
	if err == nil && !byLease && s.election != "" && s.election != "volume" {
		err = fmt.Errorf("--election %s: it is volume or kubernetes", s.election)
	}
	if err == nil && (byLease && s.lab || s.chart && (byLease || s.lab || s.without != "")) {
		err = errors.New("--lab, --election kubernetes and --chart with or without a broken rule exclude one another")
	}
	if err == nil && s.lab && s.without != "" {
		err = errors.New("--break is for local brokers, not for --lab")
	}
	return kinds, err
}

// usualFaults are those of local brokers that need no root.
const usualFaults = "kill,pause,graceful,takeover,pause-taken,controller,coordinator,rolling"

// whole runs the cluster and all that uses it, and checks.
func (r *checkRun) whole(ctx context.Context, kinds []nemesis.Kind) (*checker.Report, error) {
	if err := r.build(ctx); err != nil {
		return nil, err
	}
	if err := r.makeCluster(ctx, kinds); err != nil {
		return nil, err
	}
	defer r.cluster.Close()
	if err := r.wrongClock(kinds); err != nil {
		return nil, err
	}
	steps := nemesis.Plan(r.seed, r.duration, r.every, kinds, r.cluster.Nodes())
	nemesis.Freeze(steps, r.freeze)
	fmt.Fprintf(r.out, "seed %d, %d brokers, %v, %d faults planned:\n", r.seed, r.brokers, r.duration, len(steps))
	plan := make([]string, len(steps))
	for i, s := range steps {
		plan[i] = s.String()
		fmt.Fprintln(r.out, plan[i])
	}
	r.log = history.NewRecorder(r.seed, plan)
	r.proc = r.log.Proc("nemesis", history.Other)
	r.env = traffic.New(traffic.Env{Seeds: r.cluster.Addrs(), Dial: r.cluster.Dial(), Log: r.log, Topics: traffic.Topics(r.txns), Rate: r.rate, Seed: r.seed})
	r.clocks.watch(r.env, kinds)
	if err := r.load(ctx, steps); err != nil {
		return nil, err
	}
	return r.judge()
}

func (r *checkRun) build(ctx context.Context) error {
	if r.without != "" && r.without != "no-check" && r.without != "no-seal" {
		return fmt.Errorf("--break %s: it is no-check or no-seal", r.without)
	}
	if r.binary != "" || r.chart { // which builds two
		return nil
	}
	r.binary = filepath.Join(r.dir.Root(), "kaas")
	if r.without != "" {
		return child.Build(ctx, r.binary, "kaasbreak")
	}
	return child.Build(ctx, r.binary)
}

func (r *checkRun) makeCluster(ctx context.Context, kinds []nemesis.Kind) (err error) {
	sets := r.sets
	if r.groups {
		sets = append(traffic.SessionSets(0), sets...)
	}
	if r.txns {
		sets = append(traffic.TxnSets(), sets...)
	}
	sets = append(clockSets(kinds), sets...)
	cfg := cluster.Config{Brokers: r.brokers, Binary: r.binary, Dir: r.dir, Sets: sets, Died: func(node int32, state string) {
		if r.log != nil {
			r.log.Note(r.proc, -1, history.Failed, fmt.Sprintf("broker %d ended by itself: %s", node, state))
		}
	}}
	if r.without != "" {
		cfg.Env = []string{"KAAS_BREAK=" + r.without}
	}
	if r.lab {
		r.cluster, err = cluster.NewLab(ctx, cfg, lab.Options{Mount: r.mount, Kernel: r.kernel})
		return err
	}
	if slices.Contains(kinds, nemesis.Full) {
		cfg.Small = true
		cfg.Sets = append([]string{"storage.min.free.bytes=8388608", "storage.ballast.bytes=1048576"}, cfg.Sets...)
	}
	if r.chart {
		byWay := slices.Contains(kinds, nemesis.APISlow) || slices.Contains(kinds, nemesis.APICut)
		r.cluster, err = cluster.NewChart(ctx, cfg, r.values, byWay)
		return err
	}
	if r.election == "kubernetes" {
		r.cluster, err = cluster.NewByLease(ctx, cfg, slices.Contains(kinds, nemesis.APIRestore))
		return err
	}
	r.cluster, err = cluster.NewLocal(cfg)
	return err
}

const (
	settleTime = 3 * time.Minute // that each part of recovering, and reading all, may take
	lateTime   = 40 * time.Second
	reportTime = time.Minute
)

// load runs traffic and faults, lets all recover, and reads everything once more.
func (r *checkRun) load(ctx context.Context, steps []nemesis.Step) error {
	if err := r.cluster.Start(ctx); err != nil {
		return err
	}
	if err := r.env.MakeTopics(ctx); err != nil {
		return err
	}
	writers, readers := r.env.Writers(), r.env.Readers()
	if r.gaps {
		writers = append(writers, r.env.Pulses()...)
	}
	writers = append(writers, r.env.Crowd(r.crowd)...)
	var groups []traffic.Traffic
	if r.groups {
		groups = r.env.Groups()
	}
	if r.txns {
		writers, groups = append(writers, r.env.Transactors()...), append(groups, r.env.Copiers()...)
	}
	readers = append(readers, r.clocks.readers()...)
	writers = append(writers, r.clocks.writers()...)
	started, err := start(slices.Concat(readers, groups, writers))
	defer func() { // where it was not stopped in order
		done, cancel := context.WithCancel(context.Background())
		cancel()
		stop(done, started)
	}()
	if err != nil {
		return err
	}
	elected := r.elected(ctx)
	r.trouble(ctx, steps)
	r.heal()
	elected(ctx)
	var s settling
	s.do(func(ctx context.Context) { stop(ctx, writers) })
	s.do(r.env.AwaitStable) // so that the groups see the last marker, too; what stays open the checker finds
	s.do(func(ctx context.Context) { stop(ctx, groups) })
	s.do(r.env.AwaitStable) // of groups
	s.do(func(ctx context.Context) { err = r.env.ReadFinally(ctx) })
	if r.txns {
		s.do(func(ctx context.Context) { err = errors.Join(err, r.env.ReadCommittedFinally(ctx)) })
	}
	s.do(func(ctx context.Context) { stop(ctx, readers) })
	started = nil
	if err != nil { // all was healed, so this is a violation
		r.fault(r.log.Now(), "all is read in the end", err)
	}
	r.clocks.tell(r.out)
	at := r.log.Now()
	r.fault(at, "every broker is stopped", r.cluster.Stop())
	return nil
}

// elected tells who is controller and, when the faults are over, who is then, and how often
// partitions were given to another broker meanwhile.
func (r *checkRun) elected(ctx context.Context) (after func(context.Context)) {
	l, ok := r.cluster.(cluster.Elected)
	if !ok {
		return func(context.Context) {}
	}
	tell := func(ctx context.Context, when string) int64 {
		id, err := r.env.Controller(ctx)
		sum, serr := r.env.Epochs(ctx)
		if err := errors.Join(err, serr); err != nil {
			fmt.Fprintf(r.out, "%s: %v\n", when, err)
		}
		fmt.Fprintf(r.out, "%s: broker %d is controller; %s\n", when, id, l.Told(ctx))
		return sum
	}
	before := tell(ctx, "before the faults")
	return func(ctx context.Context) {
		fmt.Fprintf(r.out, "partitions of the topics that last were given to another broker, or anew, %d times\n", tell(ctx, "after the faults")-before)
	}
}

// settling has the parts of the end come one after the other. When one of them has not come
// to its end the checker finds something, and the others get less time.
type settling struct{ late bool }

func (s *settling) do(part func(context.Context)) {
	most := settleTime
	if s.late {
		most = lateTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	part(ctx)
	s.late = s.late || ctx.Err() != nil
}

func start(all []traffic.Traffic) (started []traffic.Traffic, err error) {
	for _, t := range all {
		if err := t.Start(); err != nil {
			return started, err
		}
		started = append(started, t)
	}
	return started, nil
}

func stop(ctx context.Context, all []traffic.Traffic) {
	done := make(chan struct{})
	for _, t := range all {
		go func() { t.Stop(ctx); done <- struct{}{} }()
	}
	for range all {
		<-done
	}
}

// trouble carries the plan out, until the time of the run is over.
func (r *checkRun) trouble(ctx context.Context, steps []nemesis.Step) {
	ctx, cancel := context.WithTimeout(ctx, r.duration)
	defer cancel()
	n := &nemesis.Runner{Cluster: r.cluster, Controller: r.env.Controller, Coordinator: r.env.Coordinator,
		Even: func(ctx context.Context) error { return r.env.AwaitEven(ctx, r.cluster.Nodes()) }, Ended: r.fault, Off: r.clocks.off, Began: func(string) int64 { return r.log.Now() }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, steps)
	}()
	tick := time.NewTicker(reportTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(r.out, "%v: %d operations\n", time.Duration(r.log.Now()).Round(time.Second), r.log.Ops())
		case <-ctx.Done():
			<-done
			return
		}
	}
}

// fault notes a fault that is over. What the cluster could not do as it was told is a violation.
func (r *checkRun) fault(began int64, what string, err error) {
	op := history.Op{Kind: history.Fault, Outcome: history.OK, Proc: r.proc, Part: -1, Epoch: -1, Offset: -1, Invoke: began, Complete: r.log.Now(), Text: what}
	if err != nil {
		op.Outcome = history.Failed
		op.Text += ": " + err.Error()
		r.log.Note(r.proc, -1, history.Failed, op.Text)
	}
	r.log.Add(op)
	fmt.Fprintf(r.out, "%s  %s\n", history.TellTime(op.Complete), op.Text)
}

// heal has every broker running.
func (r *checkRun) heal() {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for _, n := range r.cluster.Nodes() {
		at := r.log.Now()
		if err := r.cluster.Run(ctx, n); err != nil {
			r.fault(at, fmt.Sprintf("broker %d is to run in the end", n), err)
		}
	}
}

// judge checks the history, prints what was found, and keeps it where that is wanted.
func (r *checkRun) judge() (*checker.Report, error) {
	h := r.log.History()
	rep := checker.Check(h)
	summary(r.out, h)
	if r.gaps {
		tellGaps(r.out, h)
	}
	rep.Print(r.out, h)
	if rep.Total() > 0 || r.keep {
		if err := h.Write(r.dir, historyFile); err != nil {
			return rep, err
		}
	}
	if rep.Total() == 0 && acknowledged(h) == 0 {
		return rep, errors.New("nothing was acknowledged: such a run shows nothing")
	}
	return rep, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/sleep"
)

// failoverPlan is what is done to each cluster.
type failoverPlan struct {
	keeping
	Partitions int
	Topics     int
	Brokers    int
	Rounds     int
	Warmup     time.Duration // under load before anything is measured: Java compiles what it is to run
	Calm       time.Duration // measured before the first fault
	Most       time.Duration // how long a fault is watched
}

// faultKind is what is done to a broker.
type faultKind string

const (
	killBroker     faultKind = "kill -9 of a broker"
	killController faultKind = "kill -9 of the controller"
	stopBroker     faultKind = "graceful stop"
)

var faultKinds = []faultKind{killBroker, killController, stopBroker}

func (k faultKind) signal() syscall.Signal {
	if k == stopBroker {
		return syscall.SIGTERM
	}
	return syscall.SIGKILL
}

// fault is what one fault did. Times are in milliseconds.
type fault struct {
	Kind    faultKind `json:"kind"`
	Round   int       `json:"round"`
	Victim  int32     `json:"victim"`
	Led     int       `json:"partitions"` // of the victim
	Apart   int       `json:"apart"`      // leaders of the broker with most above those of the one with least, right before
	Missing int       `json:"missing"`    // of the victim's, that did not come back while they were watched

	// Back is from the signal to the first acknowledgement of a record that was sent after it.
	Back *distribution `json:"back_ms"`
	// Silence is the longest time without an acknowledgement, of the victim's partitions.
	Silence *distribution `json:"silence_ms"`
	// Others is the same of the partitions that the victim did not lead.
	Others *distribution `json:"others_silence_ms"`
	// Return is the same of all partitions while the victim starts and gets its share again.
	Return *distribution `json:"return_silence_ms"`

	LedAgain float64 `json:"led_again_ms"` // until metadata names another leader for each of them
	Ended    float64 `json:"ended_ms"`     // until the victim's process was gone
	Answer   float64 `json:"answer_ms"`    // of the victim's next process, from its start
	Settled  float64 `json:"settled_ms"`   // from that start until leaders were even again

	backs, silences, others, returns []time.Duration
}

// failoverResult is all that is told of one cluster.
type failoverResult struct {
	Server  string  `json:"server"`
	Start   float64 `json:"start_ms"`  // from the start of all brokers until each names all
	Create  float64 `json:"create_ms"` // until all partitions of the topics are led
	Calm    *calm   `json:"calm"`
	Faults  []fault `json:"faults"`
	Records tally   `json:"records"`
}

// failoverRun is one cluster under its load.
type failoverRun struct {
	failoverPlan
	fleet  *fleet
	layout *layout
	load   *keepers
	log    io.Writer
}

// failover does all to one cluster, which it starts and ends.
func (p *failoverPlan) failover(ctx context.Context, kind clusterKind, s *scratch, log io.Writer) (r *failoverResult, err error) {
	f, err := newFleet(ctx, kind, s, "cluster-"+kind.name(), p.Brokers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	run := &failoverRun{failoverPlan: *p, fleet: f, layout: newLayout(p.Partitions, p.Topics), log: log}
	r = &failoverResult{Server: kind.name()}
	if err := run.begin(ctx, r); err != nil {
		return nil, err
	}
	defer func() {
		if run.load != nil {
			run.load.stop()
		}
	}()
	if err := run.faults(ctx, r); err != nil {
		return nil, err
	}
	r.Records = run.load.stop()
	run.load = nil
	return r, nil
}

// begin starts the cluster and its load, and looks at both in peace.
func (run *failoverRun) begin(ctx context.Context, r *failoverResult) error {
	start, err := run.fleet.start(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := run.layout.create(ctx, run.fleet); err != nil {
		return err
	}
	if err := run.awaitLed(ctx, noLeader); err != nil {
		return err
	}
	r.Start, r.Create = millis(start), millis(time.Since(began))
	if run.load, err = run.keeping.start(ctx, run.fleet, run.layout); err != nil {
		return err
	}
	if err := run.load.awaitAlive(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Server, err)
	}
	if !sleep.For(ctx, run.Warmup) {
		return context.Cause(ctx)
	}
	if r.Calm, err = run.load.measure(ctx, run.Calm); err != nil {
		return err
	}
	fmt.Fprintf(run.log, "%-5s  started in %s ms, %d partitions led after %s ms; %s records/s, p99 %s ms, a partition silent for %s ms at most\n",
		r.Server, short(r.Start), run.Partitions, short(r.Create), count(r.Calm.RecordsPerSecond), short(r.Calm.Ack.P99), short(r.Calm.Silence.Worst))
	return nil
}

func (run *failoverRun) faults(ctx context.Context, r *failoverResult) error {
	for round := range run.Rounds {
		for _, kind := range faultKinds {
			f, err := run.fault(ctx, kind)
			if err != nil {
				return fmt.Errorf("%s, round %d, %s: %w", r.Server, round+1, kind, err)
			}
			f.Round = round
			r.Faults = append(r.Faults, *f)
			fmt.Fprintf(run.log, "%-5s  round %d, %s: broker %d back in its place after %s ms, all silent for %s ms meanwhile\n",
				r.Server, round+1, kind, f.Victim, short(f.Settled), short(f.Return.Worst))
		}
	}
	return nil
}

// awaitLed waits until metadata names a leader other than the given one for all.
func (run *failoverRun) awaitLed(ctx context.Context, without int32) error {
	ctx, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	ask := run.fleet.other(without).ask()
	until(ctx, 20*time.Millisecond, func() bool {
		s, err := run.layout.survey(ctx, ask)
		return err == nil && s.ledWithout(without)
	})
	if ctx.Err() != nil {
		return fmt.Errorf("partitions of %s without a leader: %w", run.fleet.kind.name(), context.Cause(ctx))
	}
	return nil
}

// victim picks the broker that leads most of those that the fault may be done to.
func (run *failoverRun) victim(ctx context.Context, kind faultKind, s *survey) (*node, error) {
	controller, err := run.fleet.kind.controller(ctx, run.fleet.other(noLeader).ask())
	if err != nil {
		return nil, err
	}
	if kind == killController {
		if n := run.fleet.node(controller); n != nil {
			return n, nil
		}
		return nil, fmt.Errorf("the controller is %d, which is none of the brokers", controller)
	}
	counts := s.counts(run.fleet)
	var picked *node
	for i, n := range run.fleet.nodes {
		if n.id != controller && (picked == nil || counts[i] > counts[slices.Index(run.fleet.nodes, picked)]) {
			picked = n
		}
	}
	if picked == nil {
		return nil, errors.New("every broker is the controller")
	}
	return picked, nil
}

// fault does one fault, watches what becomes of the partitions, and makes the
// cluster whole again.
func (run *failoverRun) fault(ctx context.Context, kind faultKind) (*fault, error) {
	s, err := run.layout.settle(ctx, run.fleet)
	if err != nil {
		return nil, err
	}
	victim, err := run.victim(ctx, kind, s)
	if err != nil {
		return nil, err
	}
	f := &fault{Kind: kind, Victim: victim.id, Apart: apart(s.counts(run.fleet))}
	if err := run.strike(ctx, f, victim, s.led(victim.id)); err != nil {
		return nil, err
	}
	fmt.Fprintf(run.log, "%-5s  %s: %s\n", run.fleet.kind.name(), kind, f.text())
	return f, run.restart(ctx, f, victim)
}

// strike sends the signal, and watches.
func (run *failoverRun) strike(ctx context.Context, f *fault, victim *node, led []int) error {
	theirs, others := run.load.pulses.pick(led), run.load.pulses.without(led)
	run.load.pulses.mark(time.Now())
	at, err := victim.signal(f.Kind.signal())
	if err != nil {
		return fmt.Errorf("signal broker %d: %w", victim.id, err)
	}
	process := victim.running
	victim.running = nil // nobody is to ask it
	ended := make(chan time.Duration, 1)
	go func() { // it is waited for below
		process.await(time.Minute)
		ended <- time.Since(at)
	}()
	err = run.awaitLed(ctx, victim.id)
	f.LedAgain = millis(time.Since(at))
	f.Ended = millis(<-ended)
	if err != nil {
		return err
	}
	if err := run.awaitBack(ctx, theirs); err != nil {
		return err
	}
	now := time.Now()
	f.Led, f.Missing = len(led), theirs.missing()
	f.backs, f.silences, f.others = theirs.backs(), theirs.silences(now), others.silences(now)
	f.Back, f.Silence, f.Others = distributionOf(f.backs), distributionOf(f.silences), distributionOf(f.others)
	return nil
}

// awaitBack waits until all partitions have acknowledged again, or too much time has
// gone, and a moment longer: what comes back may stall once more.
func (run *failoverRun) awaitBack(ctx context.Context, theirs pulses) error {
	watch, cancel := context.WithTimeout(ctx, run.Most)
	defer cancel()
	until(watch, 10*time.Millisecond, func() bool { return theirs.missing() == 0 })
	if !sleep.For(ctx, settleCalm) {
		return context.Cause(ctx)
	}
	return nil
}

// restart starts the victim again, and waits until it has its share.
func (run *failoverRun) restart(ctx context.Context, f *fault, victim *node) error {
	began := time.Now()
	run.load.pulses.mark(began)
	if err := run.fleet.startNode(ctx, victim); err != nil {
		return err
	}
	f.Answer = millis(victim.running.answer)
	if _, err := run.layout.settle(ctx, run.fleet); err != nil {
		return err
	}
	f.Settled = millis(time.Since(began) - settleCalm)
	f.returns = run.load.pulses.silences(time.Now())
	f.Return = distributionOf(f.returns)
	return nil
}

func (f *fault) text() string {
	d, what := f.Back, "back after"
	if f.Kind == stopBroker {
		d, what = f.Silence, "silent for"
	}
	if d == nil {
		d = &distribution{}
	}
	return fmt.Sprintf("broker %d, %d partitions %s p50 %s, p99 %s, worst %s ms, %d missing; led by others after %s ms; others silent for %s ms",
		f.Victim, f.Led, what, short(d.P50), short(d.P99), short(d.Worst), f.Missing, short(f.LedAgain), short(f.worstOther()))
}

func (f *fault) worstOther() float64 {
	if f.Others == nil {
		return 0
	}
	return f.Others.Worst
}

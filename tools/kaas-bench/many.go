package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// manyPlan is what is asked of brokers with many partitions.
type manyPlan struct {
	Partitions int
	Topics     int
	Brokers    int
	Changes    int // topics made to see how soon all brokers know them
}

// manyResult is what they did. Times are in milliseconds.
type manyResult struct {
	Start  float64       `json:"start_ms"`       // empty directory, until each broker names all
	Create float64       `json:"create_ms"`      // until all partitions are led and answer
	Stop   float64       `json:"stop_ms"`        // until the last of all brokers had ended
	Again  float64       `json:"start_again_ms"` // from the start of all brokers until each names all
	Served float64       `json:"served_ms"`      // from the same, until all partitions are led and answer
	Made   *distribution `json:"made_ms"`        // from sending CreateTopics to its answer
	Shown  *distribution `json:"shown_ms"`       // from sending it until another broker's metadata shows the topic
	After  *distribution `json:"shown_after_ms"` // the same from its answer; 0 where metadata was first
	Nodes  []manyNode    `json:"brokers"`
	Apart  int           `json:"leaders_apart"` // between the brokers that lead most and least
}

// manyNode is one broker, once all is served after the second start.
type manyNode struct {
	ID      int32 `json:"id"`
	Leaders int   `json:"leaders"`
	RSS     int64 `json:"rss_bytes"`
	Peak    int64 `json:"peak_rss_bytes"`
}

// manyRun is one run of many.
type manyRun struct {
	manyPlan
	fleet  *fleet
	layout *layout
	log    io.Writer
}

func (p *manyPlan) many(ctx context.Context, kind clusterKind, s *scratch, log io.Writer) (r *manyResult, err error) {
	f, err := newFleet(ctx, kind, s, "cluster-"+kind.name(), p.Brokers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	run := &manyRun{manyPlan: *p, fleet: f, layout: newLayout(p.Partitions, p.Topics), log: log}
	r = &manyResult{}
	for _, step := range []func(context.Context, *manyResult) error{run.make, run.startAgain, run.nodes, run.changes} {
		if err := step(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// make starts the brokers on an empty directory, and fills it.
func (run *manyRun) make(ctx context.Context, r *manyResult) error {
	start, err := run.fleet.start(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := run.layout.create(ctx, run.fleet); err != nil {
		return err
	}
	if err := run.awaitServed(ctx); err != nil {
		return err
	}
	r.Start, r.Create = millis(start), millis(time.Since(began))
	fmt.Fprintf(run.log, "started in %s ms, %s partitions made and led after %s ms\n", short(r.Start), count(float64(run.Partitions)), short(r.Create))
	return nil
}

// startAgain stops all brokers in order and starts them.
func (run *manyRun) startAgain(ctx context.Context, r *manyResult) error {
	began := time.Now()
	run.fleet.stop()
	r.Stop = millis(time.Since(began))
	began = time.Now()
	start, err := run.fleet.start(ctx)
	if err != nil {
		return err
	}
	if err := run.awaitServed(ctx); err != nil {
		return err
	}
	r.Again, r.Served = millis(start), millis(time.Since(began))
	fmt.Fprintf(run.log, "stopped in %s ms, started again in %s ms, all partitions served after %s ms\n", short(r.Stop), short(r.Again), short(r.Served))
	return nil
}

// awaitServed waits until every broker names a leader of each partition, and each
// partition has told its end.
func (run *manyRun) awaitServed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	var last error
	err := run.fleet.admin(func(adm *kadm.Client) error {
		until(ctx, 20*time.Millisecond, func() bool {
			last = run.served(ctx, adm)
			return last == nil
		})
		return context.Cause(ctx)
	}, keeperAdminOptions()...)
	if err != nil {
		return fmt.Errorf("not every partition is served: %w", errors.Join(last, err))
	}
	return nil
}

func (run *manyRun) served(ctx context.Context, adm *kadm.Client) error {
	for _, n := range run.fleet.nodes {
		s, err := run.layout.survey(ctx, n.ask())
		if err != nil {
			return err
		}
		if !s.ledWithout(noLeader) {
			return fmt.Errorf("broker %d knows no leader of %d partitions", n.id, len(s.led(noLeader)))
		}
	}
	listed, err := adm.ListEndOffsets(ctx, run.layout.topics...)
	if err != nil {
		return err
	}
	told := 0
	listed.Each(func(kadm.ListedOffset) { told++ })
	if told != len(run.layout.places) {
		return fmt.Errorf("%d of %d partitions have told their ends", told, len(run.layout.places))
	}
	return listed.Error()
}

// nodes looks at each broker once leaders are even.
func (run *manyRun) nodes(ctx context.Context, r *manyResult) error {
	s, err := run.layout.settle(ctx, run.fleet)
	if err != nil {
		return err
	}
	counts := s.counts(run.fleet)
	for i, n := range run.fleet.nodes {
		u, err := usageOf(n.running.Pid())
		if err != nil {
			return err
		}
		r.Nodes = append(r.Nodes, manyNode{ID: n.id, Leaders: counts[i], RSS: u.rss, Peak: u.peak})
	}
	r.Apart = apart(counts)
	return nil
}

// apart is how far the most is from the least.
func apart(counts []int) int {
	least, most := counts[0], counts[0]
	for _, c := range counts {
		least, most = min(least, c), max(most, c)
	}
	return most - least
}

package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// TestBrokersAtWork: while brokers write, roll and remove segments, prune history, make and
// delete topics, are fenced and hand over, no look tells a fault.
func TestBrokersAtWork(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of traffic")
	}
	dir := t.TempDir()
	sets := []string{"log.retention.check.interval.ms=20", "metadata.history.retention.entries=10", "broker.heartbeat.interval.ms=200"}
	one := startNode(t, dir, 1, sets...)
	defer func() { stopNode(t, one) }()
	two := startNode(t, dir, 2, sets...)
	defer func() { stopNode(t, two) }()
	ctx, cancel := context.WithCancel(context.Background())
	var traffic sync.WaitGroup
	defer traffic.Wait()
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(one.Addr(), two.Addr()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	must(t, err)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	v := volume(t, dir)
	size, soon := "1048576", "0"
	_, err = adm.CreateTopic(ctx, 4, 1, map[string]*string{"segment.bytes": &size, "retention.bytes": &size, "file.delete.delay.ms": &soon}, "busy")
	must(t, err)
	for _, work := range []func(i int) error{
		func(i int) error {
			b := []byte(strings.Repeat(fmt.Sprintf("%06d", i), 5000))
			return cl.ProduceSync(ctx, &kgo.Record{Topic: "busy", Value: b}, &kgo.Record{Topic: "busy", Value: b}, &kgo.Record{Topic: "busy", Value: b}).FirstErr()
		},
		func(i int) error {
			name := fmt.Sprintf("short-lived-%d", i)
			_, err := adm.CreateTopic(ctx, 3, 1, nil, name)
			if err == nil {
				_, err = adm.DeleteTopic(ctx, name)
			}
			return err
		},
		func(i int) error {
			var os kadm.Offsets
			os.AddOffset("busy", 0, int64(i), -1)
			_, err := adm.CommitOffsets(ctx, fmt.Sprintf("group-%d", i%5), os)
			return err
		},
		func(int) error { // a broker is fenced, and comes back
			snap, _, err := metalog.ReadState(ctx, v, clusterStream(v), projections.ClusterSchema())
			if err != nil {
				return err
			}
			if b, ok := snap.State.Broker(2); ok && !b.Fenced {
				_ = v.Seal(ctx, b.Session)
			}
			select {
			case <-time.After(1500 * time.Millisecond):
			case <-ctx.Done():
			}
			return nil
		},
	} {
		traffic.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_ = work(i) // brokers come and go under it: what fails is done again
			}
		})
	}
	looked, segments, began := 0, 0, time.Now()
	// A slow machine gets more time to come to something.
	for ; !t.Failed() && (time.Since(began) < 25*time.Second || (segments < 8 || looked < 3) && time.Since(began) < 5*time.Minute); looked++ {
		r, err := Run(ctx, v, Options{Deep: looked%2 == 1})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		segments = max(segments, r.Segments)
		for _, f := range r.Findings {
			if f.Fault {
				t.Errorf("look %d: %s of %s: %s", looked, f.Kind, f.File, f.Detail)
			}
		}
	}
	t.Logf("%d looks, at up to %d segments", looked, segments)
	if segments < 8 || looked < 3 {
		t.Errorf("only %d segments at most in %d looks: there was no traffic to speak of", segments, looked)
	}
}

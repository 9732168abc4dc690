package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/kaas-check/checker"
	"kaas.dev/kaas/tools/kaas-check/cluster"
	"kaas.dev/kaas/tools/kaas-check/history"
	load "kaas.dev/kaas/tools/kaas-check/traffic"
)

// startHaunted is startLab for brokers of which some are to end when they are fenced.
func startHaunted(t *testing.T, brokers int) *lab {
	t.Helper()
	return startLabOf(t, cluster.Config{Brokers: brokers, Died: func(node int32, state string) {
		if state != "exit status 3" {
			t.Errorf("broker %d ended: %s", node, state)
		}
	}})
}

// checked is traffic of kaas-check, with what it did and saw.
type checked struct {
	e                *lab
	env              *load.Env
	log              *history.Recorder
	writers, readers []load.Traffic
}

// watch starts kaas-check's traffic, but for what makes and deletes topics.
func (e *lab) watch(groups bool) *checked {
	e.t.Helper()
	c := &checked{e: e, log: history.NewRecorder(1, nil)}
	c.env = &load.Env{Seeds: e.Addrs(), Log: c.log, Topics: load.Topics(false), Rate: 50, Seed: 1}
	check(e.t, c.env.MakeTopics(e.ctx))
	c.writers, c.readers = c.env.Writers()[:5], c.env.Readers()
	if groups {
		c.readers = append(c.readers, c.env.Groups()...)
	}
	for _, t := range append(c.readers, c.writers...) {
		check(e.t, t.Start())
	}
	return c
}

func (c *checked) goesOn() {
	c.e.t.Helper()
	from := c.log.Ops()
	c.e.await("the traffic goes on", func() error {
		if n := c.log.Ops(); n < from+500 {
			return fmt.Errorf("%d operations, were %d", n, from)
		}
		return nil
	})
}

// endTime is what each part of an end may take.
const endTime = 3 * time.Minute

// end stops all in order, reads everything once more, and has it checked.
func (c *checked) end() {
	c.e.t.Helper()
	for _, ts := range [][]load.Traffic{c.writers, c.readers} {
		ctx, cancel := context.WithTimeout(c.e.ctx, endTime)
		var wg sync.WaitGroup
		for _, t := range ts {
			wg.Go(func() { t.Stop(ctx) })
		}
		wg.Wait()
		cancel()
	}
	ctx, cancel := context.WithTimeout(c.e.ctx, endTime)
	defer cancel()
	check(c.e.t, c.env.ReadFinally(ctx))
	h := c.log.History()
	rep := checker.Check(h)
	var out strings.Builder
	rep.Print(&out, h)
	c.e.t.Logf("%d operations: %s", c.log.Ops(), out.String())
	if rep.Total() > 0 {
		c.e.t.Errorf("%d violations", rep.Total())
	}
}

func (e *lab) killAll() {
	e.t.Helper()
	for _, id := range e.Nodes() {
		check(e.t, e.Kill(id))
	}
}

func (e *lab) topicID(name string) string {
	e.t.Helper()
	ts, err := e.adm.ListTopics(e.ctx, name)
	check(e.t, err)
	return ts[name].ID.String()
}

// producerOf is the ID of a client's producer.
func (e *lab) producerOf(cl *kgo.Client) int64 {
	e.t.Helper()
	id, _, err := cl.ProducerID(e.ctx)
	check(e.t, err)
	return id
}

// TestRebuildEndToEnd takes the metadata of a cluster away while it is used, and has it made
// again from the partitions. Clients go on, no acknowledged record is lost, and what was open
// is aborted.
func TestRebuildEndToEnd(t *testing.T) {
	e := startHaunted(t, 3)
	e.create("orders", 4)
	e.create("pays", 2)
	e.setConfig("orders", "retention.ms", "111000000")
	id := e.topicID("orders")
	orders := e.produce("orders", 4)
	orders.goesOn()
	seen := e.watch(false)
	seen.goesOn()
	tx := e.transactor("pay")
	check(t, e.transact(tx, "pays", 1, kgo.TryCommit))
	open := e.transactor("open")
	check(t, open.BeginTransaction())
	check(t, open.ProduceSync(e.ctx, &kgo.Record{Topic: "pays", Value: []byte("open then"), Partition: 0}).FirstErr())
	highest := max(e.producerOf(tx), e.producerOf(open))

	e.killAll()
	check(t, os.RemoveAll(filepath.Join(e.dir, "meta")))
	if _, err := run("--dir", e.dir, "dump"); err == nil {
		t.Fatal("the metadata is not lost")
	}
	outs := e.runDoc("The metadata is lost", map[string]string{"DIR": e.dir})
	has(t, outs[1], "would be restored", "committed offsets")
	has(t, outs[2], "topics with", "1 open transactions aborted", "does not come back: committed offsets", "the volume's ID is")
	check(t, e.Start(e.ctx))
	orders.goesOn()
	seen.goesOn()
	if got := e.topicID("orders"); got != id {
		t.Errorf("orders has the ID %s, and had %s", got, id)
	}
	if got := e.config("orders", "retention.ms"); got != "111000000" {
		t.Errorf("retention.ms is %s", got)
	}
	if err := open.EndTransaction(e.ctx, kgo.TryCommit); err == nil {
		t.Error("a transaction that was aborted is committed")
	}
	again := e.transactor("pay")
	e.await("a transaction", func() error { return e.transact(again, "pays", 2, kgo.TryCommit) })
	if got := e.producerOf(again); got <= highest {
		t.Errorf("producer ID %d is handed out, and %d was before", got, highest)
	}
	if got := e.readAll("pays"); got["open then"] != 0 || got["tx-1-true"] != 1 || got["tx-2-true"] != 1 {
		t.Errorf("pays has %v", got)
	}
	orders.end()
	seen.end()
	check(t, e.Stop())
	has(t, e.meta("verify", "--deep"), "sound")
}

// copyVolume is the storage's snapshot: brokers stand still while it is taken, as all do for
// the moment of a real one.
func (e *lab) copyVolume(to string) {
	e.t.Helper()
	for _, id := range e.Nodes() {
		check(e.t, e.Pause(id))
	}
	out, err := exec.Command("cp", "-a", e.dir, to).CombinedOutput()
	for _, id := range e.Nodes() {
		err = errors.Join(err, e.Resume(id))
	}
	if err != nil {
		e.t.Fatalf("%v: %s", err, out)
	}
}

// TestVolumeRolledBackEndToEnd puts yesterday's copy of a volume back. Broker 1 was killed,
// broker 2 runs on all the time, broker 3 stands still and goes on when others serve. Nothing
// of what is acknowledged from then on is lost, nor what was before the copy.
func TestVolumeRolledBackEndToEnd(t *testing.T) {
	e := startHaunted(t, 3)
	e.create("orders", 4)
	e.create("pays", 2)
	orders := e.produce("orders", 4)
	orders.goesOn()
	tx := e.transactor("pay")
	check(t, e.transact(tx, "pays", 1, kgo.TryCommit))
	open := e.transactor("open")
	check(t, open.BeginTransaction())
	check(t, open.ProduceSync(e.ctx, &kgo.Record{Topic: "pays", Value: []byte("open then"), Partition: 0}).FirstErr())
	then := map[int32]int64{0: 5, 1: 6, 2: 7, 3: 8}
	e.commit("billing", "orders", then)
	orders.end()
	kept := orders
	saved := filepath.Join(t.TempDir(), "snapshot")
	e.copyVolume(saved)

	// What the storage forgets.
	e.create("since", 2)
	since := e.produce("since", 2)
	since.goesOn()
	since.end()
	e.commit("billing", "orders", map[int32]int64{0: 20})
	check(t, open.EndTransaction(e.ctx, kgo.TryCommit))
	late := e.transactor("late")
	check(t, e.transact(late, "pays", 7, kgo.TryCommit))
	highest := e.producerOf(late)
	check(t, e.Kill(3)) // leaders move, and back
	orders = e.produce("orders", 4)
	orders.goesOn()
	orders.endAfter(kept)
	check(t, e.Run(e.ctx, 3))
	e.await("broker 3 leads", func() error {
		ts, err := e.adm.ListTopics(e.ctx, "orders")
		if err != nil {
			return err
		}
		for _, p := range ts["orders"].Partitions {
			if p.Leader == 3 {
				return nil
			}
		}
		return errors.New("it leads nothing")
	})

	check(t, e.Pause(3))
	check(t, e.Kill(1))
	check(t, os.Rename(e.dir, e.dir+".lost"))
	check(t, os.Rename(saved, e.dir))
	outs := e.runDoc("The volume was restored from last night's snapshot", map[string]string{"DIR": e.dir})
	has(t, outs[1], "would be restored")
	has(t, outs[3], "sound")
	has(t, outs[2], "leader epochs raised by 16", "1 open transactions aborted", "the volume's ID is")
	check(t, e.Run(e.ctx, 1))
	check(t, e.TakeOver(e.ctx, 2))
	check(t, e.TakeOver(e.ctx, 3))
	e.adm = kadm.NewClient(e.client()) // one that knows no address of before
	seen := e.watch(true)
	orders = e.produce("orders", 4)
	orders.goesOn()
	check(t, e.Resume(3))
	orders.goesOn()
	seen.goesOn()
	for _, id := range []int32{2, 3} {
		check(t, e.AwaitFenced(id, 3*time.Minute))
	}
	orders.goesOn()
	seen.goesOn()
	e.wantOffsets("billing", "orders", then)
	if err := open.BeginTransaction(); err == nil {
		err = open.ProduceSync(e.ctx, &kgo.Record{Topic: "pays", Value: []byte("too late"), Partition: 1}).FirstErr()
		if err == nil {
			t.Error("a producer of before goes on")
		}
	}
	again := e.transactor("pay")
	e.await("a transaction", func() error { return e.transact(again, "pays", 8, kgo.TryCommit) })
	if got := e.producerOf(again); got <= highest {
		t.Errorf("producer ID %d is handed out, and %d was before", got, highest)
	}
	if got := e.readAll("pays"); got["open then"] != 0 || got["tx-1-true"] != 1 || got["tx-8-true"] != 1 || got["too late"] != 0 {
		t.Errorf("pays has %v", got)
	}
	orders.endAfter(kept)
	seen.end()
	check(t, e.Stop())
	has(t, e.meta("verify", "--deep"), "sound")
}

// endAfter ends the producer, and finds in the topic what it and an earlier one had
// acknowledged, each once, and nothing else.
func (tr *traffic) endAfter(kept *traffic) {
	tr.e.t.Helper()
	tr.stop()
	tr.wg.Wait()
	check(tr.e.t, tr.cl.Flush(tr.e.ctx))
	check(tr.e.t, tr.err)
	got := tr.e.readAll(tr.topic)
	for v := range got {
		want := 0
		for _, acked := range []map[string]bool{kept.acked, tr.acked} {
			if acked[v] {
				want++
			}
		}
		if got[v] != want {
			tr.e.t.Errorf("%s is there %d times, and was acknowledged %d times", v, got[v], want)
		}
	}
	for _, acked := range []map[string]bool{kept.acked, tr.acked} {
		for v := range acked {
			if got[v] == 0 {
				tr.e.t.Errorf("%s, acknowledged, is gone", v)
			}
		}
	}
}

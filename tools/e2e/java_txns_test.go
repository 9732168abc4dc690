package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestJavaCopiesExactlyOnce has the copier of Kafka's own system tests copy partitions in
// transactions, with the offsets of what it read in them, and abort by chance, while the
// broker is killed.
func TestJavaCopiesExactlyOnce(t *testing.T) {
	cp := needJava(t)
	b := startBroker(t, "group.initial.rebalance.delay.ms=0")
	l := newCopying(t, b.addr)
	making, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	l.produce(making)
	var copiers []*running
	ended := make(chan struct{})
	for p := range 2 {
		copiers = append(copiers, spawn(t, javaTool(t, cp, "TransactionalMessageCopier", "--broker-list", b.addr, "--input-topic", "source",
			"--input-partition", strconv.Itoa(p), "--output-topic", "copy", "--consumer-group", copyGroup, "--transactional-id", "java-"+strconv.Itoa(p),
			"--transaction-size", "10", "--enable-random-aborts", "--use-group-metadata")))
	}
	go func() {
		for _, c := range copiers {
			<-c.done
		}
		close(ended)
	}()
	kills := 0
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-time.After(time.Duration(2+kills) * time.Second): // ever longer: a slow machine gets on, too
			kills++
			b.kill()
			b.start()
		}
	}
	t.Logf("the broker was killed %d times", kills)
	if kills == 0 {
		t.Error("nothing was interrupted")
	}
	want := map[string]int{}
	for p, c := range copiers {
		c.ended(t)
		for n := range l.sent[p] {
			want[strconv.Itoa(n)]++
		}
	}
	l.wantCopied(want, l.sent[0]+l.sent[1])
	if all := l.consumed(kgo.ReadUncommitted()); len(all) == l.sent[0]+l.sent[1] {
		t.Error("no record was ever aborted")
	} else {
		t.Logf("%d records, and %d that were aborted", l.sent[0]+l.sent[1], len(all)-l.sent[0]-l.sent[1])
	}
}

// wantCopied wants each value as often as it was written, and nothing else.
func (l *copying) wantCopied(want map[string]int, total int) {
	l.t.Helper()
	values := l.consumed(kgo.ReadCommitted())
	got := map[string]int{}
	for _, v := range values {
		got[v]++
	}
	for v, n := range want {
		if got[v] != n {
			l.t.Errorf("%q was copied %d times, not %d", v, got[v], n)
		}
	}
	if len(values) != total {
		l.t.Errorf("%d records are committed, want %d", len(values), total)
	}
}

func javaTool(t *testing.T, cp, class string, args ...string) *exec.Cmd {
	t.Helper()
	return command(t, "java", append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", cp, "org.apache.kafka.tools." + class}, args...)...)
}

// TestJavaTransactionTools has Kafka's tool tell of a transaction that is open, take it away
// from one partition, and from its producer.
func TestJavaTransactionTools(t *testing.T) {
	cp := needJava(t)
	b := startBroker(t)
	l := newCopying(t, b.addr)
	cl := l.client(kgo.TransactionalID("forgotten"), kgo.TransactionTimeout(10*time.Minute))
	id, epoch := int64(-1), int16(-1)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		r, err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "copy", Partition: p, Value: []byte(mustNotBeSeen)}).First()
		if err != nil {
			t.Fatal(err)
		}
		id, epoch = r.ProducerID, r.ProducerEpoch
	}
	tool := func(want []string, args ...string) {
		t.Helper()
		out, err := javaTool(t, cp, "TransactionsCommand", append([]string{"--bootstrap-server", b.addr}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, tail(out, 4096))
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), w) {
				t.Errorf("%v: %q is missing in:\n%s", args, w, out)
			}
		}
	}
	tool([]string{fmt.Sprintf("forgotten 0 %d Ongoing", id)}, "list")
	tool([]string{fmt.Sprintf("0 forgotten %d %d Ongoing 600000", id, epoch), "copy-0,copy-1"}, "describe", "--transactional-id", "forgotten")
	tool([]string{fmt.Sprintf("%d %d", id, epoch)}, "describe-producers", "--topic", "copy", "--partition", "1")
	tool(nil, "abort", "--topic", "copy", "--partition", "1", "--start-offset", "0")
	if got := l.stableEnds(); got != [2]int64{0, 2} {
		t.Errorf("stable to %v, want %v", got, [2]int64{0, 2})
	}
	tool(nil, "forceTerminateTransaction", "--transactionalId", "forgotten")
	late := time.Now().Add(startTime)
	for l.stableEnds()[0] != 2 {
		if time.Now().After(late) {
			t.Fatalf("the transaction that was terminated is open on partition 0")
		}
		time.Sleep(20 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	err := cl.ProduceSync(ctx, &kgo.Record{Topic: "copy", Value: []byte(mustNotBeSeen)}).FirstErr()
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("the producer whose transaction was terminated goes on: %v", err)
	}
	if got := l.consumed(kgo.ReadCommitted()); len(got) > 0 {
		t.Errorf("aborted records are seen: %q", got)
	}
}

package main

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const ms = time.Millisecond

func TestPulse(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * ms) }
	p := &pulse{}
	if p.alive() {
		t.Fatal("alive before an acknowledgement")
	}
	p.acked(at(0), at(10))
	p.acked(at(20), at(60))
	p.mark(at(100))
	p.acked(at(90), at(200)) // sent before the mark
	if back, silence := p.since(at(250)); back != 0 || silence != 140*ms {
		t.Errorf("back after %v, silent for %v; want not, and 140ms from the last acknowledgement before the mark", back, silence)
	}
	if _, silence := p.since(at(900)); silence != 700*ms {
		t.Errorf("silent for %v, want the 700ms that have not ended", silence)
	}
	p.acked(at(100), at(500))
	p.acked(at(300), at(510))
	if back, silence := p.since(at(520)); back != 400*ms || silence != 300*ms {
		t.Errorf("back after %v, silent for %v; want 400ms and 300ms", back, silence)
	}
	p.mark(at(600))
	if back, silence := p.since(at(600)); back != 0 || silence != 90*ms {
		t.Errorf("a new mark begins with %v and %v", back, silence)
	}
}

func TestPulseBoundsWhatWaits(t *testing.T) {
	p := &pulse{}
	now := time.Now()
	first, second := p.send(now), p.send(now)
	if !first || !second || p.send(now.Add(time.Hour)) {
		t.Fatal("want two records that wait and no third")
	}
	p.mark(now.Add(ms))
	if !p.send(now.Add(2*ms)) || p.send(now.Add(3*ms)) {
		t.Error("want one more record behind a mark, and no second")
	}
	p.ended()
	p.ended()
	if !p.send(now.Add(4 * ms)) {
		t.Error("one that ended makes no room")
	}
}

func TestPulsesOfVictimAndOthers(t *testing.T) {
	ps := newPulses(5)
	now := time.Now()
	ps.mark(now)
	led := []int{1, 4}
	theirs, others := ps.pick(led), ps.without(led)
	if len(others) != 3 || others[0] != ps[0] || others[1] != ps[2] || others[2] != ps[3] {
		t.Fatalf("others are %d", len(others))
	}
	ps[4].acked(now, now.Add(ms))
	if theirs.missing() != 1 || !slices.Equal(theirs.backs(), []time.Duration{ms}) || ps.alive() {
		t.Errorf("%d missing, back after %v", theirs.missing(), theirs.backs())
	}
}

// On a machine that is busy the calm may be over before anything was acknowledged: it lasts until
// something was.
func TestCalmHasAnAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := &keepers{pulses: newPulses(1)}
		run.mu.latency = newLatencies()
		time.AfterFunc(time.Second, func() { run.count(5*ms, nil) })
		c, err := run.measure(t.Context(), 100*ms)
		if err != nil || c.Ack == nil || c.RecordsPerSecond <= 0 || c.RecordsPerSecond > 1 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func TestDistribution(t *testing.T) {
	if distributionOf(nil) != nil {
		t.Error("nothing has a distribution")
	}
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(200-i)*ms)
	}
	if d := distributionOf(times); *d != (distribution{Count: 200, P50: 100, P90: 180, P99: 198, Worst: 200}) {
		t.Errorf("1 to 200 ms are %+v", d)
	}
	if d := distributionOf([]time.Duration{7 * ms}); *d != (distribution{1, 7, 7, 7, 7}) {
		t.Errorf("one figure is %+v", d)
	}
}

func TestLayout(t *testing.T) {
	l := newLayout(10, 3)
	if len(l.places) != 10 || l.size(0) != 4 || l.size(1) != 3 || l.size(2) != 3 {
		t.Fatalf("%d places in topics of %d, %d, %d", len(l.places), l.size(0), l.size(1), l.size(2))
	}
	resp := kmsg.NewPtrMetadataResponse()
	add := func(topic string, leaders ...int32) {
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic = &topic
		for i, leader := range leaders {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.Replicas, p.ISR = int32(i), leader, []int32{1, 2}, []int32{1, 2}
			if leader == 9 {
				p.ErrorCode = kerr.LeaderNotAvailable.Code
			}
			mt.Partitions = append(mt.Partitions, p)
		}
		resp.Topics = append(resp.Topics, mt)
	}
	add("bench-01", 2, 2, 1)
	add("other", 7, 7, 7, 7, 7, 7, 7)
	add("bench-00", 1, 2, 9, 1, 7)
	s := l.read(resp)
	if want := []int32{1, 2, -1, 1, 2, 2, 1, -1, -1, -1}; !slices.Equal(s.leaders, want) {
		t.Fatalf("leaders are %v, want %v", s.leaders, want)
	}
	if s.ledWithout(5) || !slices.Equal(s.led(2), []int{1, 4, 5}) {
		t.Errorf("node 2 leads %v", s.led(2))
	}
}

func TestEven(t *testing.T) {
	f := &fleet{nodes: []*node{{id: 1}, {id: 2}, {id: 3}}}
	leaders := func(counts ...int) *survey {
		s := &survey{}
		for i, n := range counts {
			s.leaders = append(s.leaders, slices.Repeat([]int32{int32(i + 1)}, n)...)
		}
		return s
	}
	if !leaders(340, 332, 328).even(f) || leaders(500, 500, 0).even(f) || leaders(380, 340, 280).even(f) {
		t.Error("even is not within a tenth")
	}
	s := leaders(300, 300, 300)
	s.behind = 1
	if s.even(f) {
		t.Error("even with replicas that are behind")
	}
	s = leaders(300, 300, 300)
	s.leaders[5] = noLeader
	if s.even(f) {
		t.Error("even with a partition that nobody leads")
	}
}

func TestTally(t *testing.T) {
	var got tally
	for _, err := range []error{nil, kerr.MessageTooLarge, kerr.RequestTimedOut, errNoKafka, nil} {
		got.add(err)
	}
	if got.Acked != 2 || got.Failed != 1 || got.Unknown != 2 || len(got.Reasons) != 3 {
		t.Errorf("the tally is %+v", got)
	}
}

func TestFailoverReportHasEveryFigure(t *testing.T) {
	p := &failoverPlan{Partitions: 1000, Topics: 10, Brokers: 3, Rounds: 1, Most: time.Minute, keeping: keeping{Producers: 16, Every: 20 * ms, Size: 100}}
	r := &failoverResult{Server: "kaas", Start: 900, Create: 300, Records: tally{Acked: 12345, Failed: 6, Unknown: 7},
		Calm: &calm{RecordsPerSecond: 50_000, Ack: &quantiles{P50: 3, P99: 9}, Silence: &distribution{Worst: 45}}}
	for i, kind := range faultKinds {
		r.Faults = append(r.Faults, fault{Kind: kind, Missing: i, LedAgain: 700, Settled: 2500,
			backs: []time.Duration{1100 * ms, 1200 * ms}, silences: []time.Duration{150 * ms, 210 * ms}, others: []time.Duration{31 * ms}, returns: []time.Duration{88 * ms}})
	}
	theirs := &failoverResult{Server: "Kafka", Calm: r.Calm}
	text := failoverReport(&machine{Kafka: "4.4.0"}, p, []*failoverResult{theirs, r})
	for _, want := range []string{
		"| kill -9 of a broker | write | – | – | – | – | 1,100 | 1,200 | 1,200 | 1,200 |",
		"| graceful stop | silence | – | – | – | – | 150 | 210 | 210 | 210 |",
		"| graceful stop | silence of the other partitions | – | – | – | – | 31.0 | 31.0 | 31.0 | 31.0 |",
		"| kill -9 of the controller | silence of all as the broker comes back |",
		"| kill -9 of the controller: until all partitions are led by others, median ms | – | 700 |",
		"| partitions without a write after 1m0s | 0 | 3 |",
		"| records acknowledged, failed, of unknown end | 0, 0, 0 | 12,345, 6, 7 |",
		"replication factor 3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestManyReportHasEveryFigure(t *testing.T) {
	d := &distribution{P50: 5, P99: 50, Worst: 60}
	r := &manyResult{Start: 1, Create: 2, Stop: 3, Again: 4, Served: 5, Made: d, Shown: d, After: d, Apart: 1,
		Nodes: []manyNode{{ID: 1, Leaders: 3334, RSS: 100e6, Peak: 200e6}}}
	text := manyReport(&machine{}, &manyPlan{Partitions: 10_000, Topics: 10, Brokers: 3, Changes: 100}, r)
	for _, want := range []string{"| 5.00 / 50.0 / 60.0 |", "| broker 1: partitions led | 3,334 |", "| 100 / 200 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

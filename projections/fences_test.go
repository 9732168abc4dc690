package projections

import (
	"slices"
	"testing"
	"time"

	"kaas.dev/kaas/metalog"
)

func fencesOf(c *Cluster) []ProducerFence { return slices.Collect(c.ProducerFences()) }

func TestFencesOnlyRise(t *testing.T) {
	c := NewCluster()
	for _, f := range []*ProducerFenced{{7, 3, 100}, {7, 2, 200}, {5, 0, 50}, {7, 4, 150}, {-1, 4, 1}, {6, -1, 1}} {
		c = fold(t, c, []metalog.Event{mustEvent(t, f)})
	}
	if e, ok := c.FencedEpoch(7); e != 4 || !ok {
		t.Errorf("epoch %d, %v; want 4", e, ok)
	}
	if _, ok := c.FencedEpoch(6); ok {
		t.Error("a negative epoch fences")
	}
	if got, want := fencesOf(c), []ProducerFence{{5, 0, 50}, {7, 4, 200}}; !slices.Equal(got, want) {
		t.Errorf("fences are %v, want %v", got, want)
	}
}

func TestFenceProducerSaysOnlyWhatIsNew(t *testing.T) {
	now := time.UnixMilli(1000)
	c := fold(t, NewCluster(), []metalog.Event{mustEvent(t, &ProducerFenced{7, 3, 900})})
	if f := c.FenceProducer(7, 3, now); f != nil {
		t.Errorf("%v is said again", f)
	}
	if f := c.FenceProducer(7, 4, now); f == nil || *f != (ProducerFenced{7, 4, 1000}) {
		t.Errorf("got %v", f)
	}
}

// A clock that is behind makes no fence that counts as forgotten.
func TestFenceOfAClockThatIsBehindCounts(t *testing.T) {
	c := fold(t, NewCluster(), []metalog.Event{mustEvent(t, &ProducerFenced{7, 3, 900}), mustEvent(t, &ProducerFencesExpired{Before: 5000})})
	if len(fencesOf(c)) != 0 {
		t.Fatalf("%v are left", fencesOf(c))
	}
	c = fold(t, c, []metalog.Event{mustEvent(t, c.FenceProducer(8, 1, time.UnixMilli(100)))})
	if _, ok := c.FencedEpoch(8); !ok {
		t.Error("the fence is lost")
	}
}

func TestExpiryIsSaidWhereSomethingExpires(t *testing.T) {
	c := fold(t, NewCluster(), []metalog.Event{mustEvent(t, &ProducerFenced{7, 3, 900}), mustEvent(t, &ProducerFenced{8, 1, 1000})})
	if f := c.ExpireProducerFences(time.UnixMilli(900)); f != nil {
		t.Errorf("%v, though nothing is older", f)
	}
	f := c.ExpireProducerFences(time.UnixMilli(901))
	if f == nil {
		t.Fatal("nothing expires")
	}
	c = fold(t, c, []metalog.Event{mustEvent(t, f)})
	if got, want := fencesOf(c), []ProducerFence{{8, 1, 1000}}; !slices.Equal(got, want) {
		t.Errorf("fences are %v, want %v", got, want)
	}
	// An old fence that is said again stays forgotten.
	c = fold(t, c, []metalog.Event{mustEvent(t, &ProducerFenced{7, 3, 900})})
	if _, ok := c.FencedEpoch(7); ok {
		t.Error("a forgotten fence came back")
	}
}

func TestFencesOutOfOrderAreRefused(t *testing.T) {
	for name, s := range map[string]stateBody{
		"order":   {Fences: []int64{2, 1, 0, 1, 1, 0}},
		"twice":   {Fences: []int64{2, 1, 0, 2, 1, 0}},
		"ID":      {Fences: []int64{-1, 1, 0}},
		"epoch":   {Fences: []int64{2, -1, 0}},
		"high":    {Fences: []int64{2, 1 << 15, 0}},
		"part":    {Fences: []int64{2, 1, 0, 3}},
		"expired": {Fences: []int64{2, 1, 4}, FencesExpired: 5},
	} {
		raw, err := encode(&s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(raw); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func BenchmarkApplyOneFenceOf100000(b *testing.B) {
	var evs []metalog.Event
	for i := range 100_000 {
		evs = append(evs, mustEvent(b, &ProducerFenced{ProducerID: int64(i) * 7, Epoch: 1, Time: 1}))
	}
	c := fold(b, NewCluster(), evs)
	ev := []metalog.Event{mustEvent(b, &ProducerFenced{ProducerID: 350_000, Epoch: 2, Time: 2})}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Apply(c, ev); err != nil {
			b.Fatal(err)
		}
	}
}

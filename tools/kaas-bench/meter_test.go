package main

import (
	"testing"
	"time"
)

// TestMeterCountsFromTheStart has a load that is done before it is measured.
func TestMeterCountsFromTheStart(t *testing.T) {
	m, err := newMeter(2, 0, &target{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	m.lanes[0].got(7, 70) // is of before
	if err := m.ready(window{}); err != nil {
		t.Fatal(err)
	}
	for _, l := range m.lanes {
		l.took(time.Millisecond, 10)
	}
	done := make(chan struct{})
	close(done)
	r, err := m.measure(t.Context(), window{}, done)
	if err != nil {
		t.Fatal(err)
	}
	if r.Records != 2 || r.Bytes != 20 || r.Seconds <= 0 || r.Latency == nil {
		t.Errorf("%+v", r)
	}
}

// TestMeterLeavesTheWarmUpOut counts nothing of what was before the end of the warm-up.
func TestMeterLeavesTheWarmUpOut(t *testing.T) {
	m, err := newMeter(1, 0, &target{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	w := window{Warmup: time.Millisecond}
	if err := m.ready(w); err != nil {
		t.Fatal(err)
	}
	m.lanes[0].got(7, 70)
	done := make(chan struct{})
	close(done)
	r, err := m.measure(t.Context(), w, done)
	if err != nil {
		t.Fatal(err)
	}
	if r.Records != 0 {
		t.Errorf("%d records", r.Records)
	}
}

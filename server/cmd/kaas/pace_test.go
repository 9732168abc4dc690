package main

import (
	"runtime/debug"
	"testing"
	"time"
)

// paced is what percentages a pacer comes to while so many bytes are allocated a second, and
// so many live.
func paced(p *pacer, now *time.Time, made *uint64, rate, base uint64, d time.Duration) int {
	for range d / paceEvery {
		*now = now.Add(paceEvery)
		*made += rate * uint64(paceEvery/time.Millisecond) / 1000
		p.look(*now, heap{made: *made, base: base})
	}
	return p.percent
}

func TestPace(t *testing.T) {
	now, made := time.Unix(0, 0), uint64(0)
	p := &pacer{percent: mostPercent, set: func(int) {}}
	const mb = 1 << 20
	for _, tc := range []struct {
		what       string
		rate, base uint64
		room       uint64 // about
	}{
		{"a start", 1 * mb, 3 * mb, 12 * mb},
		{"a lot of traffic", 400 * mb, 20 * mb, 80 * mb},
		{"a lot of traffic with a lot of memory", 200 * mb, 100 * mb, 200 * mb},
		{"a lot lives, and little comes", 2 * mb, 20 * mb, 12 * mb},
		{"very much lives", 10 * mb, 1600 * mb, 800 * mb},
		{"it is less again", 2 * mb, 40 * mb, 20 * mb},
		{"little lives again", 2 * mb, 3 * mb, 12 * mb},
		{"nothing", 0, 0, 0},
	} {
		percent := paced(p, &now, &made, tc.rate, tc.base, 10*time.Second)
		room := tc.base * uint64(percent) / 100
		if room < tc.room*3/4 || room > tc.room*5/4 || percent > mostPercent {
			t.Errorf("%s: %d %%, which is room for %d MiB and not for about %d", tc.what, percent, room/mb, tc.room/mb)
		}
	}
}

// A moment in which a lot is allocated is no rate.
func TestPaceOfABurst(t *testing.T) {
	now, made := time.Unix(0, 0), uint64(0)
	p := &pacer{percent: mostPercent, set: func(int) {}}
	paced(p, &now, &made, 1<<20, 20<<20, 5*time.Second)
	if percent := paced(p, &now, &made, 48<<20, 20<<20, paceEvery); percent > 100 {
		t.Errorf("%d %% of 20 MiB after 12 MiB", percent)
	}
}

func TestPaceSetsThePercentage(t *testing.T) {
	old := debug.SetGCPercent(100)
	defer debug.SetGCPercent(old)
	stop := pace()
	if got := debug.SetGCPercent(mostPercent); got != mostPercent {
		t.Errorf("begins with %d", got)
	}
	stop()
}

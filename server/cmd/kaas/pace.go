package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// mostPercent lets the heap grow to five times what lives in it: what lives is a few MB,
	// and what passes through is many.
	mostPercent = 400
	// leastPercent is what room there is in any case for each byte that lives, so that a large
	// heap is not collected all the time: a collection costs what lives.
	leastPercent = 50
	// leastRoom is how much garbage there may always be.
	leastRoom = 12 << 20
	// paceEvery is how often it is looked at how fast garbage comes.
	paceEvery = 250 * time.Millisecond
	// roomFor is the time in which so much garbage may come as there is room for. Collecting
	// more often gains memory, and a collection in that time costs nothing that could be told.
	roomFor = time.Second
)

// pacer bounds the garbage that the heap holds by what comes in a second, or by half of what
// lives. With a percentage
// alone, which multiplies whatever happened to live when the heap was last collected, a moment
// in which a lot lives (a bomb that is being looked at, say) would have the heap grow to five
// times as much and stay so, though little comes.
type pacer struct {
	set     func(percent int)
	percent int
	at      time.Time
	made    uint64  // bytes ever allocated, then
	rate    float64 // bytes a second, lately
}

// heap is what the runtime tells of it.
type heap struct {
	made uint64 // bytes ever allocated
	base uint64 // what percentages are of: what lived when it was last collected, stacks and globals
}

func (p *pacer) look(now time.Time, h heap) {
	if passed := now.Sub(p.at).Seconds(); !p.at.IsZero() && passed > 0 {
		rate := float64(h.made-p.made) / passed
		p.rate += (rate - p.rate) / 4 // a burst is no rate
	}
	p.at, p.made = now, h.made
	room := max(leastRoom, p.rate*roomFor.Seconds())
	percent := int(min(mostPercent, max(leastPercent, 100*room/float64(max(h.base, 1)))))
	if percent*5 < p.percent*4 || percent*4 > p.percent*5 || percent == mostPercent && percent != p.percent {
		p.percent = percent
		p.set(percent)
	}
}

// run paces until ctx ends.
func (p *pacer) run(ctx context.Context) {
	tick := time.NewTicker(paceEvery)
	defer tick.Stop()
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	for {
		select {
		case now := <-tick.C:
			metrics.Read(samples)
			p.look(now, heap{made: samples[0].Value.Uint64(), base: samples[1].Value.Uint64() + samples[2].Value.Uint64() + samples[3].Value.Uint64()})
		case <-ctx.Done():
			return
		}
	}
}

// pace paces the collector, until stop is called.
func pace() (stop func()) {
	debug.SetGCPercent(mostPercent)
	p := &pacer{percent: mostPercent, set: func(n int) { debug.SetGCPercent(n) }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

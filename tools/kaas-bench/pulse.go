package main

import (
	"sync"
	"time"
)

// pulse is when one partition's writes are sent and acknowledged.
type pulse struct {
	mu struct {
		sync.Mutex
		waiting int       // records that are sent and not acknowledged
		sent    time.Time // the newest of all
		last    time.Time // the newest acknowledgement; zero is none yet
		mark    time.Time // what the rest is counted from
		back    time.Duration
		silence time.Duration
	}
}

// mark begins to count from a moment.
func (p *pulse) mark(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.mark, p.mu.back, p.mu.silence = at, 0, 0
}

// A server that is slower than the beat is given a record when one is acknowledged,
// so that it is not buried.
const pulseWaiting = 2

// send says whether one more record is to be sent now. One always is where none has
// been since the mark: the first acknowledgement of such a record is what is timed.
func (p *pulse) send(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.waiting >= pulseWaiting && !p.mu.sent.Before(p.mu.mark) {
		return false
	}
	p.mu.waiting++
	p.mu.sent = now
	return true
}

// ended is that a record got its answer, good or bad.
func (p *pulse) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting--
}

// acked is that a record that was sent at a moment was acknowledged now.
func (p *pulse) acked(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting--
	if !p.mu.last.IsZero() {
		p.mu.silence = max(p.mu.silence, now.Sub(p.mu.last))
	}
	p.mu.last = now
	if p.mu.back == 0 && !p.mu.mark.IsZero() && !sent.Before(p.mu.mark) {
		p.mu.back = now.Sub(p.mu.mark)
	}
}

// since is what was counted since the mark: how long until the first acknowledgement
// of a record that was sent behind it, 0 for none, and the longest time without any.
func (p *pulse) since(now time.Time) (back, silence time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	silence = p.mu.silence
	if !p.mu.last.IsZero() {
		silence = max(silence, now.Sub(p.mu.last))
	}
	return p.mu.back, silence
}

// alive says whether anything was acknowledged yet.
func (p *pulse) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.mu.last.IsZero()
}

// pulses are those of all partitions, numbered as in the layout.
type pulses []*pulse

func newPulses(n int) pulses {
	ps := make(pulses, n)
	for i := range ps {
		ps[i] = &pulse{}
	}
	return ps
}

func (ps pulses) mark(at time.Time) {
	for _, p := range ps {
		p.mark(at)
	}
}

// pick are the pulses of some partitions.
func (ps pulses) pick(at []int) pulses {
	var picked pulses
	for _, i := range at {
		picked = append(picked, ps[i])
	}
	return picked
}

// without are all pulses but those of some partitions, which are given in order.
func (ps pulses) without(at []int) pulses {
	var rest pulses
	for i, p := range ps {
		if len(at) > 0 && at[0] == i {
			at = at[1:]
			continue
		}
		rest = append(rest, p)
	}
	return rest
}

// missing are how many have not come back since the mark.
func (ps pulses) missing() (n int) {
	for _, p := range ps {
		if back, _ := p.since(time.Time{}); back == 0 {
			n++
		}
	}
	return n
}

// backs are the times until those that came back did.
func (ps pulses) backs() (times []time.Duration) {
	for _, p := range ps {
		if back, _ := p.since(time.Time{}); back > 0 {
			times = append(times, back)
		}
	}
	return times
}

// silences are the longest times without an acknowledgement.
func (ps pulses) silences(now time.Time) (times []time.Duration) {
	for _, p := range ps {
		_, silence := p.since(now)
		times = append(times, silence)
	}
	return times
}

// alive says whether every one has had an acknowledgement.
func (ps pulses) alive() bool {
	for _, p := range ps {
		if !p.alive() {
			return false
		}
	}
	return true
}

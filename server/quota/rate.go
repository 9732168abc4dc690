package quota

// window is the time over which use is measured.
type window struct {
	samples int
	ms      int64 // of each
}

// whole is the time of all samples, in ms.
func (w window) whole() int64 { return int64(w.samples) * w.ms }

// worth is what a bucket holds that may be drawn a whole window's worth from.
func (w window) worth(bound float64) float64 { return bound * float64(w.whole()) / 1000 }

// sample is what was used from one moment on.
type sample struct {
	start, last int64 // ms; of the first and last use
	value       float64
}

// rate measures use a second. There is one sample more than counts: the oldest may have
// begun before the window and reach into it.
type rate struct {
	samples []sample
	current int
}

// record adds to what was used. A negative value takes back.
func (r *rate) record(w window, value float64, now int64) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{start: now})
	}
	s := &r.samples[r.current]
	if now-s.start >= w.ms {
		r.current = (r.current + 1) % (w.samples + 1)
		if r.current == len(r.samples) {
			r.samples = append(r.samples, sample{})
		}
		s = &r.samples[r.current]
		*s = sample{start: now}
	}
	s.value += value
	s.last = now
}

// measure is the use a second, and the time in ms that it was measured over: never less than
// all samples but one take.
func (r *rate) measure(w window, now int64) (perSecond, over float64) {
	oldest, sum := now, 0.0
	for i := range r.samples {
		s := &r.samples[i]
		if now-s.last >= w.whole() {
			*s = sample{start: now, last: now}
		}
		oldest = min(oldest, s.start)
		sum += s.value
	}
	ms := now - oldest
	if missing := int64(w.samples-1) - ms/w.ms; missing > 0 {
		ms += missing * w.ms
	}
	over = float64(max(ms, 1))
	return sum / over * 1000, over
}

// wait is how many ms of silence bring the rate back to the quota, 0 where it is not above.
func (r *rate) wait(w window, bound float64, now int64) float64 {
	perSecond, over := r.measure(w, now)
	if perSecond <= bound {
		return 0
	}
	return (perSecond - bound) / bound * over
}

package quota

// bucket holds what may be used at once, and fills at the rate of a quota. The zero value is
// a full one.
type bucket struct {
	tokens float64
	filled int64 // ms, above 0; when it was last filled
}

// fill brings the bucket to now, and to what it may hold.
func (b *bucket) fill(bound, most float64, now int64) {
	if b.filled == 0 {
		b.tokens = most
	} else {
		b.tokens = min(most, b.tokens+bound*float64(now-b.filled)/1000)
	}
	b.filled = now
}

// wait is for how many ms a bucket that is overdrawn is in debt, 0 where it is not.
func (b *bucket) wait(bound float64) float64 { return max(0, -b.tokens/bound*1000) }

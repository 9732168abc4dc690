package balance

// distance is the fewest moves that make the loads even. Places and brokers give a
// low and a high load, one apart: every place above the high one has to leave, and
// every one below the low one has to come, and one move does both.
func (t *table) distance() int {
	sum := 0
	for _, n := range t.load {
		sum += n
	}
	low, above, below := sum/len(t.load), 0, 0
	for _, n := range t.load {
		above += max(0, n-low-1)
		below += max(0, low-n)
	}
	return max(above, below)
}

// fill says how far k more places raise the lowest loads: everyone to level at
// least, and extra of those at or below the level by one more.
func fill(load []int, k int) (level, extra int) {
	lowest := load[0]
	for _, n := range load {
		lowest = min(lowest, n)
	}
	cost := func(level int) int {
		sum := 0
		for _, n := range load {
			sum += max(0, level-n)
		}
		return sum
	}
	low, high := lowest, lowest+k+1 // cost(low) <= k < cost(high)
	for high-low > 1 {
		if mid := low + (high-low)/2; cost(mid) <= k {
			low = mid
		} else {
			high = mid
		}
	}
	return low, k - cost(low)
}

// shave is fill from above: k places less lower the highest loads to level at most,
// and extra of those at or above the level by one more.
func shave(load []int, k int) (level, extra int) {
	upside := make([]int, len(load))
	for b, n := range load {
		upside[b] = -n
	}
	level, extra = fill(upside, k)
	return -level, extra
}

// quota is how many places each broker gives or gets: what it must, and of the extra
// ones at most one each, to whom it suits best.
type quota struct {
	must  []int
	may   []bool
	extra int
}

// newQuota is the quota of k places for brokers whose loads differ from the level by
// that much.
func newQuota(off func(b int) int, brokers, extra int) *quota {
	q := &quota{must: make([]int, brokers), may: make([]bool, brokers), extra: extra}
	for b := range brokers {
		q.must[b], q.may[b] = max(0, off(b)), off(b) >= 0
	}
	return q
}

func (q *quota) open(b int) bool { return q.must[b] > 0 || q.extra > 0 && q.may[b] }

func (q *quota) use(b int) {
	if q.must[b] > 0 {
		q.must[b]--
		return
	}
	q.extra--
	q.may[b] = false
}

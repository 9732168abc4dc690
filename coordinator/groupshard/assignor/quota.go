package assignor

// quota shares a number of partitions out among some members: each gets the same, and the
// first of them that can use it one more, until those that are left over are gone.
type quota struct {
	each  int32
	extra int32 // how many members may have one more
}

func share(partitions, members int) quota {
	return quota{each: int32(partitions / members), extra: int32(partitions % members)}
}

// keep returns how many of its partitions a member keeps, and books that.
func (q *quota) keep(have int32) int32 {
	if have <= q.each {
		return have
	}
	if q.extra > 0 {
		q.extra--
		return q.each + 1
	}
	return q.each
}

// fill returns how many more a member gets that kept some, and books that.
func (q *quota) fill(kept int32) int32 {
	if kept > q.each {
		return 0
	}
	if q.extra > 0 {
		q.extra--
		return q.each + 1 - kept
	}
	return q.each - kept
}

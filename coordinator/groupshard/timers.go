package groupshard

// timerKey names a deadline: of a group under the classic protocol as a whole, or of a
// member under the other, which may have two.
type timerKey struct {
	kind          timerKind
	group, member string
}

type timerKind int8

const (
	classicTimer   timerKind = iota // whatever is due first in the group
	sessionTimer                    // the member is not heard
	rebalanceTimer                  // the member does not give up what it must
)

package groupshard

// What the members of a shard's groups say of themselves takes memory, and what they may take
// in all is bounded. It is nobody's in particular; but whoever has much of it already leaves
// some to others.
const (
	// mostLive bounds what the groups of a shard take, in bytes. Who joins when that is used up
	// is to try again later.
	mostLive = 64 << 20
	// shareOfRest is how many times what is left over a tenant may have: alone two thirds of
	// all, of which nobody can have the last third with the same.
	shareOfRest = 2
)

// shares counts what groups take, and for whom: for the tenant who was the first to join one.
type shares struct {
	total  int64
	groups map[string]int64
	owners map[string]string // of groups; not known yet of those of an owner of the shard before
	of     map[string]int64  // tenants
}

func newShares() shares {
	return shares{groups: map[string]int64{}, owners: map[string]string{}, of: map[string]int64{}}
}

// add counts that a group has grown, or become smaller.
func (s *shares) add(group string, n int64) {
	s.total += n
	s.groups[group] += n
	owner, owned := s.owners[group]
	if owned {
		s.give(owner, n)
	}
	if s.groups[group] == 0 {
		delete(s.groups, group)
		delete(s.owners, group)
	}
}

func (s *shares) give(tenant string, n int64) {
	if s.of[tenant] += n; s.of[tenant] == 0 {
		delete(s.of, tenant)
	}
}

// admit reports whether a tenant may make a group grow, and has it be the tenant's if it is
// nobody's. The growth is to be added when it has come about, and so much as 0.
func (s *shares) admit(group, tenant string, n int64) bool {
	owner, owned := s.owners[group]
	if !owned {
		owner = tenant
	}
	has, rest := s.of[owner], mostLive-s.total-n
	if !owned {
		has += s.groups[group]
	}
	if n > 0 && (rest < 0 || has+n > shareOfRest*rest) {
		return false
	}
	if !owned {
		s.owners[group] = tenant
		s.give(tenant, s.groups[group])
	}
	return true
}

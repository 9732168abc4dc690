package projections

// ACLsDeleted says that some ACLs are no more.
type ACLsDeleted struct {
	ACLs []ACL `msgpack:"acls" json:"acls"`
}

func init() { register(func() Fact { return new(ACLsDeleted) }) }

// EventName implements Fact.
func (*ACLsDeleted) EventName() string { return "ACLsDeleted" }

func (e *ACLsDeleted) String() string { return "deleted " + listedACLs(e.ACLs) }

func (e *ACLsDeleted) apply(d *draft) { d.setACLs(e.ACLs, false) }

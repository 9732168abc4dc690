package projections

import "fmt"

// ACLsCreated says that there are further ACLs. One that is there already stays as it is.
type ACLsCreated struct {
	ACLs []ACL `msgpack:"acls" json:"acls"`
}

func init() { register(func() Fact { return new(ACLsCreated) }) }

// EventName implements Fact.
func (*ACLsCreated) EventName() string { return "ACLsCreated" }

func (e *ACLsCreated) String() string { return "created " + listedACLs(e.ACLs) }

func (e *ACLsCreated) apply(d *draft) { d.setACLs(e.ACLs, true) }

// listedACLs says some ACLs, the first of them whole.
func listedACLs(acls []ACL) string {
	switch len(acls) {
	case 0:
		return "no ACL"
	case 1:
		return "ACL " + acls[0].String()
	}
	return fmt.Sprintf("%d ACLs, first %s", len(acls), acls[0])
}

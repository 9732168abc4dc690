package auth

import (
	"fmt"
	"strings"
)

// TypeUser is the type of every principal that authentication gives.
const TypeUser = "User"

// Principal is who a request is made for, in Kafka's terms. The zero value is nobody.
type Principal struct{ Type, Name string }

// Anonymous is who has not said who he is.
var Anonymous = User("ANONYMOUS")

// User is the principal of a user's name.
func User(name string) Principal { return Principal{TypeUser, name} }

// String is the principal as Kafka writes it: User:alice.
func (p Principal) String() string { return p.Type + ":" + p.Name }

// Parse reads what String writes. Names may hold colons; neither part may be empty.
func Parse(s string) (Principal, error) {
	kind, name, ok := strings.Cut(s, ":")
	if !ok || kind == "" || name == "" {
		return Principal{}, fmt.Errorf("%q is no principal: want TYPE:NAME, such as User:alice", s)
	}
	return Principal{kind, name}, nil
}

package projections

import "fmt"

// ControllerChanged says which broker owns the cluster stream from here on. It is the
// first that a new owner publishes.
type ControllerChanged struct {
	Node        int32  `msgpack:"node" json:"node"`
	Incarnation string `msgpack:"incarnation" json:"incarnation"` // a UUID, for people
}

func init() { register(func() Fact { return new(ControllerChanged) }) }

// EventName implements Fact.
func (*ControllerChanged) EventName() string { return "ControllerChanged" }

func (e *ControllerChanged) String() string {
	s := fmt.Sprintf("broker %d is the controller", e.Node)
	if e.Node == NoLeader {
		s = "nobody is the controller"
	}
	if e.Incarnation != "" {
		s += ", incarnation " + e.Incarnation
	}
	return s
}

func (e *ControllerChanged) apply(d *draft) {
	if e.Node >= NoLeader {
		d.controller = e.Node
	}
}

package projections

import "fmt"

// BrokerRegistered says that a process, the incarnation, came under a broker ID.
// Epoch is above that of the ID's earlier registrations. One that is fenced serves
// nobody until BrokerUnfenced.
type BrokerRegistered struct {
	ID          int32      `msgpack:"id" json:"id"`
	Epoch       int64      `msgpack:"epoch" json:"epoch"`
	Incarnation string     `msgpack:"incarnation" json:"incarnation"` // a UUID
	Session     string     `msgpack:"session" json:"session"`         // its data session
	Host        string     `msgpack:"host" json:"host"`
	Listeners   []Listener `msgpack:"listeners" json:"listeners"`
	Rack        string     `msgpack:"rack,omitempty" json:"rack,omitempty"`
	Fenced      bool       `msgpack:"fenced,omitempty" json:"fenced,omitempty"`
}

func init() { register(func() Fact { return new(BrokerRegistered) }) }

// EventName implements Fact.
func (*BrokerRegistered) EventName() string { return "BrokerRegistered" }

func (e *BrokerRegistered) String() string {
	s := fmt.Sprintf("broker %d registered, epoch %d", e.ID, e.Epoch)
	for _, l := range e.Listeners {
		s += fmt.Sprintf(", %s://%s:%d", l.Name, l.Host, l.Port)
	}
	if e.Rack != "" {
		s += ", rack " + e.Rack
	}
	if e.Incarnation != "" {
		s += ", incarnation " + e.Incarnation
	}
	if e.Fenced {
		s += ", fenced"
	}
	return s
}

func (e *BrokerRegistered) apply(d *draft) {
	if old, ok := d.brokers[e.ID]; ok && e.Epoch <= old.Epoch {
		return
	}
	d.setBroker(Broker{ID: e.ID, Epoch: e.Epoch, Incarnation: e.Incarnation, Session: e.Session, Host: e.Host,
		Listeners: e.Listeners, Rack: e.Rack, Fenced: e.Fenced})
	d.brokerEpoch = max(d.brokerEpoch, e.Epoch)
}

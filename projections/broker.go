package projections

import "slices"

// Listener is an address that a broker is reached at.
type Listener struct {
	Name string `msgpack:"name" json:"name"`
	Host string `msgpack:"host" json:"host"`
	Port int32  `msgpack:"port" json:"port"`
}

// Broker is a registered broker. Epoch rises with each registration of its ID;
// Incarnation is the UUID of the process that registered, Session that of its data
// session, which is sealed before the broker is fenced. Nothing is given to a
// fenced one, and clients are not sent there.
type Broker struct {
	ID          int32      `msgpack:"id" json:"id"`
	Epoch       int64      `msgpack:"epoch" json:"epoch"`
	Incarnation string     `msgpack:"incarnation" json:"incarnation"`
	Session     string     `msgpack:"session" json:"session"`
	Host        string     `msgpack:"host" json:"host"`
	Listeners   []Listener `msgpack:"listeners" json:"listeners"`
	Rack        string     `msgpack:"rack" json:"rack"`
	Fenced      bool       `msgpack:"fenced" json:"fenced"`
}

// Listener returns the broker's listener of that name.
func (b Broker) Listener(name string) (Listener, bool) {
	for _, l := range b.Listeners {
		if l.Name == name {
			return l, true
		}
	}
	return Listener{}, false
}

func (b Broker) equal(c Broker) bool {
	return b.ID == c.ID && b.Epoch == c.Epoch && b.Incarnation == c.Incarnation && b.Session == c.Session && b.Host == c.Host && b.Rack == c.Rack &&
		b.Fenced == c.Fenced && slices.Equal(b.Listeners, c.Listeners)
}

package projections

import "time"

// ProducerFencesExpired says that fences older than a time are forgotten. What they were
// against has been idle for longer than anybody remembers it.
type ProducerFencesExpired struct {
	Before int64 `msgpack:"before" json:"before"` // milliseconds since 1970
}

func init() { register(func() Fact { return new(ProducerFencesExpired) }) }

// EventName implements Fact.
func (*ProducerFencesExpired) EventName() string { return "ProducerFencesExpired" }

func (e *ProducerFencesExpired) String() string {
	return "producer fences expired that are older than " + time.UnixMilli(e.Before).UTC().Format(time.RFC3339)
}

func (e *ProducerFencesExpired) apply(d *draft) {
	if e.Before > d.fencesExpired {
		d.fencesExpired = e.Before
		d.expireProducerFences(e.Before)
	}
}

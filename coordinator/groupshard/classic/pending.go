package classic

import (
	"time"

	"kaas.dev/kaas/coordinator/groupshard/deadline"
)

const (
	// mostPending bounds the memory of a group's IDs that were handed out, in bytes.
	mostPending = 4 << 20
	// pendingWeight is what such an ID takes besides its own length.
	pendingWeight = 256
)

// pendings are the member IDs that were handed out and have not joined (KIP-394), and until
// when they may. Anybody may ask for one, as often as they like, under a client ID of any
// length: of more than may be the one is forgotten that would be first anyway, and whoever
// comes with it is told that it is unknown, and starts again.
type pendings struct {
	due   deadline.Set[string]
	bytes int64
}

func (p *pendings) has(id string) bool { return p.due.Has(id) }

func (p *pendings) add(id string, until time.Time) {
	p.drop(id)
	p.due.Put(id, until)
	for p.bytes += pendingCost(id); p.bytes > mostPending && p.due.Len() > 1; {
		first, _, _ := p.due.First()
		p.drop(first)
	}
}

func (p *pendings) drop(id string) {
	if p.due.Drop(id) {
		p.bytes -= pendingCost(id)
	}
}

// expire forgets those that are due, and reports whether there were any.
func (p *pendings) expire(now time.Time) (any bool) {
	for _, id := range p.due.Due(now) {
		p.bytes -= pendingCost(id)
		any = true
	}
	return any
}

func pendingCost(id string) int64 { return int64(len(id)) + pendingWeight }

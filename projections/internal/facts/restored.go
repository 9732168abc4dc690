package facts

import (
	"fmt"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// Restored is what the event of that name has in every kind of stream: the state that holds
// from it on, whole, whatever was before.
type Restored struct {
	From  substrate.Position `msgpack:"f" json:"from"`    // of the entry whose state was chosen
	Time  int64              `msgpack:"t" json:"time_ms"` // of that entry, ms since 1970
	State []byte             `msgpack:"s" json:"-"`       // as a base holds it
}

func (r *Restored) String() string {
	return fmt.Sprintf("restored from %s of %s, %d bytes", r.From, time.UnixMilli(r.Time).UTC().Format(time.RFC3339), len(r.State))
}

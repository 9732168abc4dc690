package metalog

import (
	"errors"
	"io/fs"

	"kaas.dev/kaas/internal/substrate"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Positions lists every entry file of a stream, plugs included, oldest first.
func Positions(v *substrate.Volume, stream string) ([]substrate.Position, error) {
	es, err := v.ListEpochs(stream)
	if err != nil {
		return nil, err
	}
	var out []substrate.Position
	for _, e := range es {
		ps, err := v.ListEntries(stream, e)
		if err != nil {
			return nil, err
		}
		out = append(out, ps...)
	}
	return out, nil
}

// NextEpoch is one above every epoch that a listing shows. Whether it is free,
// the claim decides.
func NextEpoch(v *substrate.Volume, stream string) (substrate.Epoch, error) {
	es, err := v.ListEpochs(stream)
	if err != nil {
		return 0, err
	}
	if len(es) == 0 {
		return 1, nil
	}
	return es[len(es)-1] + 1, nil
}

// Status is what became of an entry.
type Status string

// An entry that is in the history of the newest one is committed. What a sealed
// owner wrote beyond what its successor continued from never counted. The tail of
// a sealed owner without a successor is not decided yet.
const (
	StatusCommitted Status = "committed"
	StatusDisowned  Status = "disowned"
	StatusUndecided Status = "undecided"
)

// Record is an entry of the history as a tool shows it.
type Record struct {
	Pos    substrate.Position
	Entry  *Entry // nil for a plug or an unreadable file
	Plug   bool
	Status Status
	Err    error
}

// History reads every retained entry file of a stream, oldest first, and tells
// what became of each. It changes nothing; a damaged file is a record with Err.
func History(v *substrate.Volume, stream string) ([]Record, error) {
	ps, err := Positions(v, stream)
	if err != nil {
		return nil, err
	}
	out := make([]Record, len(ps))
	for i, p := range ps {
		r := &out[i]
		r.Pos = p
		r.Entry, r.Plug, r.Err = ReadEntry(v, stream, p)
	}
	return out, settle(v, stream, out)
}

// settle walks down from the newest entry: each epoch's base names what it
// continues from, and what lies above that is disowned.
func settle(v *substrate.Volume, stream string, rs []Record) error {
	limit, below := substrate.Position{}, false // history above limit is known to be disowned
	for i := len(rs) - 1; i >= 0; i-- {
		r := &rs[i]
		if r.Entry == nil {
			continue
		}
		if !below { // the newest
			ok, err := v.Unsealed(r.Entry.Session)
			if err != nil {
				return err
			}
			r.Status = StatusCommitted
			if !ok {
				r.Status = StatusUndecided
			}
			below, limit = true, r.Pos
		} else if limit.Less(r.Pos) {
			r.Status = StatusDisowned
			continue
		} else if limit.Epoch == r.Pos.Epoch && rs[i+1].Status == StatusUndecided {
			r.Status = StatusUndecided
		} else {
			r.Status = StatusCommitted
		}
		if r.Pos.Seq == 1 {
			limit = r.Entry.Prev
		}
	}
	return nil
}

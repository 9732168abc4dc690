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

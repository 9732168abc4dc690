package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kaas.dev/kaas/internal/substrate"
)

// refuseOlder refuses to lead on a manifest that has lost an epoch: what that epoch's leader
// had appended would be a file that no manifest names, and be removed. A leader makes files
// only after its claim is in place, and no claim is ever removed. Nothing is changed.
func refuseOlder(v *substrate.Volume, id [16]byte, index int32) error {
	dir, stream := Dir(id, index), ManifestStream(id, index)
	es, err := v.ListFresh(dir) // before the epochs: they have to be there
	if err != nil {
		return err
	}
	epochs, err := v.ListEpochs(stream)
	if err != nil {
		return err
	}
	for _, e := range es {
		seg, ok := fileOf(e)
		if _, there := slices.BinarySearch(epochs, seg.Epoch); !ok || there {
			continue
		}
		if _, err := v.ReadClaim(stream, seg.Epoch); !errors.Is(err, fs.ErrNotExist) {
			continue // the listing was old, or the claim tells
		}
		return &substrate.DamageError{File: stream + "/" + substrate.EpochName(seg.Epoch),
			Cause: fmt.Sprintf("the epoch is gone, but its leader has made %s: an older manifest must not be gone on from", e.Name)}
	}
	return nil
}

package partition

import (
	"fmt"

	"kaas.dev/kaas/internal/substrate"
)

// refuseOlder refuses to lead on a manifest that has lost an epoch: what that epoch's leader
// had appended would be a file that no manifest names, and be removed. A leader makes files
// only after its claim is in place, and no claim is ever removed; so an epoch that has files
// and no owner, since this takeover or another has found it missing and burnt it, is lost.
func (p *Partition) refuseOlder(base substrate.Epoch) error {
	es, err := p.v.ListFresh(p.dir)
	if err != nil {
		return err
	}
	owned := map[substrate.Epoch]bool{}
	for _, e := range es {
		id, ok := fileOf(e)
		if !ok || id.Epoch <= base || id.Epoch >= p.epoch || owned[id.Epoch] {
			continue
		}
		stream := p.dir + "/" + metaDir
		claim, err := p.v.ReadClaim(stream, id.Epoch)
		if err != nil {
			return err
		}
		if claim.Session == "" {
			return &substrate.DamageError{File: stream + "/" + substrate.EpochName(id.Epoch),
				Cause: fmt.Sprintf("the epoch's leader has made %s, and what it published is gone: an older manifest must not be gone on from", e.Name)}
		}
		owned[id.Epoch] = true
	}
	return nil
}

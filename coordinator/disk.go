package coordinator

import "kaas.dev/kaas/internal/substrate"

// Disk is how many bytes the volume has, and how many may still be written. It asks
// the volume.
func (b *Broker) Disk() (total, usable int64, err error) { return substrate.Capacity(b.v.FS) }

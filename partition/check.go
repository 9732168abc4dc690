package partition

import (
	"fmt"
	"path"

	"kaas.dev/kaas/internal/substrate"
)

// CheckSegment reads all of a segment that a manifest names: every batch's header and
// checksum, and the order of offsets. dir is the partition's directory. Damage is a
// *substrate.DamageError; torn is how many bytes lie behind the end of an unended
// segment's tail, which a crash explains unless whole batches follow, which is damage.
// Nothing is changed.
func CheckSegment(v *substrate.Volume, dir string, s Segment, recovery RecoveryPoint) (torn int64, err error) {
	name := path.Join(dir, s.SegmentID.String())
	f, err := v.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	whole := s.Size
	if s.open() {
		whole = recovery.Pos
	}
	damage := func(at int64, cause string) error {
		return &substrate.DamageError{File: name, Offset: at, Cause: cause}
	}
	if size < whole {
		return 0, damage(size, fmt.Sprintf("ends before the %d bytes that the manifest counts on", whole))
	}
	t := &tailScanner{file: f, size: whole, next: s.Base, holes: true}
	if err := t.all(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if t.pos < whole {
		return 0, damage(t.pos, t.reason)
	}
	if !s.open() {
		return 0, nil
	}
	t = &tailScanner{file: f, size: size, pos: whole, next: recovery.Offset}
	if err := t.all(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	at, err := t.beyond()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if at >= 0 {
		return 0, damage(t.pos, fmt.Sprintf("%s, and a whole batch follows at byte %d", t.reason, at))
	}
	return size - t.pos, nil
}

// all scans to the end.
func (t *tailScanner) all() error {
	for {
		if b, err := t.batch(); b == nil || err != nil {
			return err
		}
	}
}

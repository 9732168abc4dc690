package substrate

import (
	"fmt"
	"path"
)

// BuildStream makes a stream below dir, which must not exist, as it is born: epoch
// 0 with a claim that names no session and one closed base. All of it is durable
// but for dir's own name; the caller renames dir, or what holds it, into place.
func (v *Volume) BuildStream(dir string, base []byte) error { return v.BuildStreamAt(dir, 0, base) }

// BuildStreamAt is BuildStream for a stream whose first epoch is e: it has a history
// elsewhere, and its epochs go on from there. Below e nothing is ever continued from, and a
// claim there finds no base.
func (v *Volume) BuildStreamAt(dir string, e Epoch, base []byte) error {
	if err := v.Mkdir(dir); err != nil {
		return err
	}
	claim, err := EncodeFile(KindClaim, 0, ClaimBody{Nonce: v.newID()})
	if err != nil {
		return err
	}
	epoch := path.Join(dir, EpochName(e))
	err = v.buildDir(epoch, map[string][]byte{ClaimName: claim, EntryName(Position{e, 1}): base})
	if err != nil {
		return err
	}
	return v.syncDir(dir)
}

// Place renames a directory that was built aside to target: rules 1 and 2. made
// reports whether it is ours; if another's is there, ours is removed.
func (v *Volume) Place(tmp, target string) (made bool, err error) {
	if rerr := v.Rename(tmp, target); rerr != nil {
		// Refused, or my own success: if tmp is still listed, it was not renamed.
		es, err := v.ListFresh(path.Dir(target))
		if err != nil {
			return false, fmt.Errorf("place %s: %w: %w", target, ErrUnknown, rerr)
		}
		var there, mine bool
		for _, e := range es {
			mine = mine || e.Name == path.Base(tmp)
			there = there || e.Name == path.Base(target)
		}
		if mine {
			_ = v.Discard(tmp)
		}
		if !there {
			return false, fmt.Errorf("place %s: %w", target, rerr)
		}
		if mine {
			return false, v.syncDir(path.Dir(target))
		}
	}
	return true, v.syncDir(path.Dir(target))
}

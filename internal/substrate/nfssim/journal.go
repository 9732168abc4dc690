package nfssim

import "maps"

// maxJournal bounds what is not durable; a local file system commits by itself.
const maxJournal = 4096

// nsOp is one directory operation on a local disk that no SyncDir has made
// durable. Its edits stick or vanish together.
type nsOp struct{ edits []edit }

// place is a directory entry. Operations on one place keep their order on disk.
type place struct {
	dir  *inode
	name string
}

func (v *server) record(edits []edit) {
	v.journal = append(v.journal, nsOp{edits})
	if len(v.journal) > maxJournal {
		v.commitWhere(func(int, nsOp) bool { return true })
	}
}

func (o nsOp) commit() {
	for _, e := range o.edits {
		if e.ino == nil {
			delete(e.dir.disk, e.name)
		} else {
			e.dir.disk[e.name] = e.ino
		}
	}
}

// commitWhere commits the chosen operations and, of the earlier ones, those that
// touched the same places; the others stay in the journal.
func (v *server) commitWhere(chosen func(int, nsOp) bool) {
	take := make([]bool, len(v.journal))
	need := map[place]bool{}
	for i := len(v.journal) - 1; i >= 0; i-- {
		o := v.journal[i]
		take[i] = chosen(i, o)
		for _, e := range o.edits {
			take[i] = take[i] || need[place{e.dir, e.name}]
		}
		if take[i] {
			for _, e := range o.edits {
				need[place{e.dir, e.name}] = true
			}
		}
	}
	keep := v.journal[:0]
	for i, o := range v.journal {
		if take[i] {
			o.commit()
		} else {
			keep = append(keep, o)
		}
	}
	clear(v.journal[len(keep):])
	v.journal = keep
}

// syncDir makes earlier operations in d durable.
func (v *server) syncDir(d *inode) {
	if len(v.journal) == 0 {
		return
	}
	v.commitWhere(func(_ int, o nsOp) bool {
		for _, e := range o.edits {
			if e.dir == d {
				return true
			}
		}
		return false
	})
}

// localPowerLoss is the machine's: of the journal a prefix or any part survives,
// of loose data any part, and the tree is what the disk then has.
func (v *server) localPowerLoss() {
	if v.rng.IntN(2) == 0 {
		n := v.rng.IntN(len(v.journal) + 1)
		v.commitWhere(func(i int, _ nsOp) bool { return i < n })
	} else {
		v.commitWhere(func(int, nsOp) bool { return v.rng.IntN(2) == 0 })
	}
	v.journal = nil
	v.unlink(v.root)
	v.load(v.root)
}

// unlink forgets the links below d, in memory and on disk.
func (v *server) unlink(d *inode) {
	for _, m := range []map[string]*inode{d.kids, d.disk} {
		for _, k := range m {
			k.nlink = 0
		}
	}
	for _, k := range d.disk {
		if k.isDir {
			v.unlink(k)
		}
	}
}

// load makes d and what is below it as the disk has it.
func (v *server) load(d *inode) {
	d.kids = maps.Clone(d.disk)
	d.ver++
	for _, e := range d.list() {
		k := d.kids[e.Name]
		k.nlink++
		if k.isDir {
			k.parent = d
			v.load(k)
		} else {
			k.powerLoss(v.rng)
		}
	}
}

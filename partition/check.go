package partition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// The kinds of findings in a partition's files.
const (
	KindManifest       = "manifest-wrong"    // it is another partition's, or contradicts itself
	KindSegmentMissing = "segment-missing"   // a file that the manifest names
	KindSegmentShort   = "segment-short"     // likewise, with fewer bytes than exist
	KindSegment        = "segment-damaged"   // its batches are not what was written
	KindTail           = "tail-damaged"      // whole batches behind damage, past the recovery point
	KindSegmentAhead   = "segment-ahead"     // of a leader epoch that nobody has claimed
	KindIndex          = "index-damaged"     // .index
	KindTxnIndex       = "txnindex-damaged"  // .txnindex
	KindIndexTorn      = "index-torn"        // a note: either, whose writer ended before it was whole
	KindUnnamed        = "segment-unnamed"   // a note: what no manifest names, of a leader that has ended
	KindPutAside       = "segment-put-aside" // a note: kept at a takeover, since its tail was damaged
	KindTorn           = "tail-torn"         // a note: past the recovery point, no whole batch
)

// CheckOptions say how a partition's files are checked.
type CheckOptions struct {
	Deep    bool            // read every batch
	Claimed substrate.Epoch // the newest epoch of the manifest's stream
	Living  bool            // its owner may be writing
	Read    func(n int)     // told how many bytes were read of segments; may be nil
}

// Checked is what CheckFiles has seen.
type Checked struct {
	Segments int
	Admitted int64 // bytes that exist
	Behind   int64 // bytes in segments' files that do not: a zombie's, a torn tail, or not yet admitted
	Making   int   // files of the living owner that no manifest names (yet, or any more)
	Findings []metalog.Finding
	Others   []substrate.DirEntry // names that are no segment's
}

// CheckFiles compares a partition's directory with its manifest: that every segment is there
// with all the bytes that exist of it, its indexes are right, and with Deep each batch's
// header, checksum and place. Nothing is changed. What a living owner does meanwhile may
// look like a fault: who finds one reads the manifest again, and looks again.
func CheckFiles(ctx context.Context, v *substrate.Volume, id [16]byte, index int32, m *Manifest, opt CheckOptions) (*Checked, error) {
	c := &filesCheck{ctx: ctx, v: v, dir: Dir(id, index), m: m, opt: opt}
	c.manifest(id, index)
	es, err := v.ListFresh(c.dir)
	if err != nil {
		c.fault(metalog.KindUnreadable, c.dir, "%v", err)
		return &c.out, nil
	}
	there := map[string]bool{}
	for _, e := range es {
		if c.file(e) {
			there[e.Name] = true
		}
	}
	for _, s := range m.Segments {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.segment(s, there)
	}
	return &c.out, nil
}

// unopened is the kind of finding that an error of opening a segment is.
func unopened(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return KindSegmentMissing
	}
	return metalog.KindUnreadable
}

type filesCheck struct {
	ctx context.Context
	v   *substrate.Volume
	dir string
	m   *Manifest
	opt CheckOptions
	out Checked
}

func (c *filesCheck) add(kind, file string, fault bool, format string, a ...any) {
	c.out.Findings = append(c.out.Findings, metalog.Finding{Kind: kind, File: file, Fault: fault, Detail: fmt.Sprintf(format, a...)})
}

func (c *filesCheck) fault(kind, file, format string, a ...any) {
	c.add(kind, file, true, format, a...)
}
func (c *filesCheck) note(kind, file, format string, a ...any) {
	c.add(kind, file, false, format, a...)
}

// manifest checks what the manifest says of itself.
func (c *filesCheck) manifest(id [16]byte, index int32) {
	m, stream := c.m, path.Join(c.dir, metaDir)
	if m.TopicID != id || m.Partition != index {
		c.fault(KindManifest, stream, "is the manifest of %s-%d, topic %x", m.Topic, m.Partition, m.TopicID)
	}
	if m.LogStart > m.Recovery.Offset {
		c.fault(KindManifest, stream, "the log starts at %d, above its recovery point at %d", m.LogStart, m.Recovery.Offset)
	}
	for _, s := range m.Segments {
		if s.Epoch > c.opt.Claimed {
			c.fault(KindManifest, stream, "names %s, but the newest leader epoch is %d", s, c.opt.Claimed)
		}
	}
	if n := len(m.Epochs); n > 0 && m.Epochs[n-1].Epoch > c.opt.Claimed {
		c.fault(KindManifest, stream, "has leader epoch %d, but the newest is %d", m.Epochs[n-1].Epoch, c.opt.Claimed)
	}
}

// file looks at a name of the directory, and reports whether it is a file of a segment.
func (c *filesCheck) file(e substrate.DirEntry) bool {
	name := path.Join(c.dir, e.Name)
	stem := strings.TrimSuffix(e.Name, damagedExt)
	ours := slices.Contains([]string{logExt, indexExt, txnExt}, path.Ext(stem)) && !substrate.IsTemporary(stem)
	id, ok := fileOf(substrate.DirEntry{Name: stem})
	switch {
	case e.Name == metaDir && e.Dir:
	case !ours && e.Name != metaDir:
		c.out.Others = append(c.out.Others, e)
	case !ok:
		c.fault(metalog.KindName, name, "is no name that a leader gives (BASE.EPOCH.GEN with 20, 10 and 10 digits)")
	case e.Dir || e.Irregular:
		c.fault(metalog.KindName, name, "is no regular file")
	case stem != e.Name:
		c.note(KindPutAside, name, "a takeover found its tail damaged, with whole batches behind the damage, and kept it")
	case c.m.has(id):
		return true
	default:
		c.unnamed(name, id)
	}
	return false
}

// unnamed is for a file that the manifest does not name.
func (c *filesCheck) unnamed(name string, id SegmentID) {
	switch {
	case id.Epoch > c.opt.Claimed:
		c.fault(KindSegmentAhead, name, "was made by the leader of epoch %d, but the newest that was claimed is %d: the manifest has gone back", id.Epoch, c.opt.Claimed)
	case id.Epoch == c.opt.Claimed && c.opt.Living:
		c.out.Making++
	case id.Epoch == c.opt.Claimed:
		c.note(KindUnnamed, name, "no manifest names it: the leader of epoch %d has ended before it was named, or after it was dropped", id.Epoch)
	default:
		c.note(KindUnnamed, name, "no manifest names it: it is of epoch %d, whose leader was followed by that of %d", id.Epoch, c.opt.Claimed)
	}
}

// segment checks a segment that the manifest names.
func (c *filesCheck) segment(s Segment, there map[string]bool) {
	c.out.Segments++
	name := path.Join(c.dir, s.String())
	whole := s.Size
	if s.open() {
		whole = c.m.Recovery.Pos
	}
	c.out.Admitted += whole
	if !there[s.String()] {
		c.fault(KindSegmentMissing, name, "the manifest names it, for offsets from %d on", s.Base)
		return
	}
	f, err := c.v.Open(name)
	if err != nil {
		c.fault(unopened(err), name, "%v", err)
		return
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		c.fault(metalog.KindUnreadable, name, "%v", err)
		return
	}
	if size < whole {
		c.fault(KindSegmentShort, name, "has %d bytes of the %d that the manifest counts on", size, whole)
		return
	}
	c.out.Behind += size - whole
	x := c.index(s, there)
	c.txnIndex(s, there)
	if c.opt.Deep {
		c.batches(name, f, s, whole, size, x)
	}
}

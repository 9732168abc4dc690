package metalog

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/substrate"
)

// listEpochs lists the stream's epochs in order. A broker that lists stops at a name of
// ours which does not parse; here it is a finding.
func (r *verifier[S]) listEpochs() ([]substrate.Epoch, error) {
	es, err := r.v.ListFresh(r.out.Stream)
	if err != nil {
		return nil, err
	}
	var out []substrate.Epoch
	for _, de := range es {
		name := path.Join(r.out.Stream, de.Name)
		e, err := substrate.ParseEpochName(de.Name)
		switch {
		case err == nil && de.Dir:
			out = append(out, e)
		case err == nil:
			r.fault(KindName, name, "is a file where an epoch's directory should be")
		case strings.Trim(de.Name, "0123456789") == "":
			r.fault(KindName, name, "%v", err)
		default:
			r.out.Others = append(r.out.Others, Other{r.out.Stream, de})
		}
	}
	r.out.Epochs = len(out)
	return out, nil
}

// epochFiles are an epoch's files of the names that a stream gives.
type epochFiles struct {
	claim   bool
	noClaim bool // something else has its name, which is told
	entries []substrate.Position
}

// listEpoch lists an epoch. HEAD is read before the entries are listed, so that what it
// names has to be among them.
func (r *verifier[S]) listEpoch(e substrate.Epoch) (files epochFiles, err error) {
	dir := path.Join(r.out.Stream, substrate.EpochName(e))
	es, err := r.v.ListFresh(dir)
	if err == nil && slices.ContainsFunc(es, func(de substrate.DirEntry) bool { return de.Name == substrate.HeadName && regular(de) }) {
		h, ok := r.v.ReadHead(r.out.Stream, e)
		if ok {
			r.heads[e] = h
		} else {
			r.note(KindHead, path.Join(dir, substrate.HeadName), "cannot be read; it is a hint, and a crash may tear it")
		}
		es, err = r.v.ListFresh(dir)
	}
	if err != nil {
		return files, err
	}
	for _, de := range es {
		r.file(&files, dir, e, de)
	}
	return files, nil
}

func regular(de substrate.DirEntry) bool { return !de.Dir && !de.Irregular }

// file sorts one name of an epoch's directory.
func (r *verifier[S]) file(files *epochFiles, dir string, e substrate.Epoch, de substrate.DirEntry) {
	name := path.Join(dir, de.Name)
	p, ours, err := parseFile(e, de.Name)
	switch {
	case !ours:
		r.out.Others = append(r.out.Others, Other{dir, de})
	case err != nil:
		r.fault(KindName, name, "%v", err)
	case !regular(de):
		r.fault(KindName, name, "is no regular file")
		files.noClaim = files.noClaim || de.Name == substrate.ClaimName
	case de.Name == substrate.ClaimName:
		files.claim = true
	case de.Name == substrate.HeadName:
	default:
		files.entries = append(files.entries, p)
	}
}

// parseFile tells names of ours in an epoch, and the position of an entry's.
func parseFile(e substrate.Epoch, name string) (p substrate.Position, ours bool, err error) {
	if name == substrate.ClaimName || name == substrate.HeadName {
		return p, true, nil
	}
	if substrate.IsTemporary(name) || !strings.HasSuffix(name, path.Ext(substrate.EntryName(p))) {
		return p, false, nil
	}
	if p, err = substrate.ParseEntryName(name); err == nil && p.Epoch != e {
		err = fmt.Errorf("is an entry of another epoch")
	}
	return p, true, err
}

// read reads entries side by side.
func (r *verifier[S]) read(ps []substrate.Position) []met {
	out := make([]met, len(ps))
	var g errgroup.Group
	for i, p := range ps {
		g.Go(func() error {
			m := &out[i]
			m.pos = p
			m.e, m.plug, m.err = ReadEntry(r.v, r.out.Stream, p)
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	return out
}

// pruned reports that an entry is gone which a listing had shown: its stream's owner
// removes history.
func (r *verifier[S]) pruned(p substrate.Position, err error) bool {
	if !isNotExist(err) {
		return false
	}
	es, err := r.v.ListFresh(path.Join(r.out.Stream, substrate.EpochName(p.Epoch)))
	return err == nil && !slices.ContainsFunc(es, func(de substrate.DirEntry) bool { return de.Name == substrate.EntryName(p) })
}

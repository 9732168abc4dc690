package metalog

import (
	"path"

	"kaas.dev/kaas/internal/substrate"
)

// writeHead drives HEAD to the tip, until it is there or there is newer work or
// the ownership ends (rule 2). It is not fsynced: a lost hint only delays.
func (w *Writer[S]) writeHead() {
	data, err := substrate.EncodeFile(substrate.KindHead, 0, substrate.HeadBody{Pos: w.tip.Pos})
	if err != nil {
		return // cannot happen: two numbers
	}
	dir := path.Join(w.stream, substrate.EpochName(w.epoch))
	for try := 0; w.ctx.Err() == nil; try++ {
		if w.putHint(dir, data) == nil {
			return
		}
		w.mu.Lock()
		newer := len(w.mu.queue) > 0
		w.mu.Unlock()
		if newer {
			return // the next entry's HEAD stands for this one
		}
		w.pause(try)
	}
}

func (w *Writer[S]) putHint(dir string, data []byte) error {
	tmp := w.v.TempName(dir, w.s.ID())
	f, err := w.v.CreateExclusive(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = w.v.Rename(tmp, path.Join(dir, substrate.HeadName))
	}
	if err != nil {
		_ = w.v.Remove(tmp) // best effort, like every temporary
	}
	return err
}

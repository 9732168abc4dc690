package metalog

import (
	"path"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
)

// headWait is how long a closing waits for its HEAD, which is a hint.
const headWait = time.Second

// tellHead has HEAD driven to a position, beside what is published next. The call may
// hang for as long as the server keeps a promise that it gave to a host which is gone or
// stands still (a read delegation), and nobody is to wait for a hint. The channel is closed
// when HEAD is there, or nobody drives it any more.
func (w *Writer[S]) tellHead(to substrate.Position) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.head = to
	if w.mu.heading != nil {
		return w.mu.heading
	}
	done, tmp := make(chan struct{}), w.headTemp()
	w.mu.heading = done
	if !w.s.Go(func() { defer close(done); w.driveHead(tmp) }) {
		w.mu.heading = nil
		close(done)
	}
	return done
}

// driveHead writes HEAD until it names the newest position that it is to name, or the
// ownership ends (rule 2). One call is under way at a time, so HEAD never goes back. It
// is not fsynced: a lost hint only delays. The first temporary name was made by who started
// this, so that a simulated run does not depend on who of the two is faster.
func (w *Writer[S]) driveHead(tmp string) {
	for try := 0; ; try++ {
		w.mu.Lock()
		to := w.mu.head
		w.mu.Unlock()
		if try > 0 {
			tmp = w.headTemp()
		}
		err := w.putHead(tmp, to)
		w.mu.Lock()
		newer := to.Less(w.mu.head)
		over := err == nil && !newer || w.ctx.Err() != nil
		if over {
			w.mu.heading = nil
		}
		w.mu.Unlock()
		if over {
			return
		}
		if err != nil {
			sleep.Before(w.ctx, try, mostPause)
		}
	}
}

func (w *Writer[S]) headTemp() string {
	return w.v.TempName(path.Join(w.stream, substrate.EpochName(w.epoch)), w.s.ID())
}

func (w *Writer[S]) putHead(tmp string, to substrate.Position) error {
	data, err := substrate.EncodeFile(substrate.KindHead, 0, substrate.HeadBody{Pos: to})
	if err != nil {
		return nil // cannot happen: two numbers
	}
	f, err := w.v.CreateExclusive(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = w.v.Rename(tmp, path.Join(path.Dir(tmp), substrate.HeadName))
	}
	if err != nil {
		_ = w.v.Remove(tmp) // best effort, like every temporary
	}
	return err
}

// awaitHead waits a moment for HEAD to be there.
func (w *Writer[S]) awaitHead(to substrate.Position) {
	t := time.NewTimer(headWait)
	defer t.Stop()
	select {
	case <-w.tellHead(to):
	case <-t.C:
	case <-w.ctx.Done():
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
)

const (
	replacements = 50
	replacedSize = 64 << 10
)

// replace has a reader reopen a file while it is replaced, over and over.
func (p *prober) replace() (string, error) {
	dir, err := p.empty()
	if err != nil {
		return "", err
	}
	write := func(i int) error {
		return p.v.ReplaceFile(dir, "state", "probe", bytes.Repeat([]byte{byte(i)}, replacedSize))
	}
	if err := write(0); err != nil {
		return "", err
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	reads, rerr := 0, error(nil)
	wg.Go(func() {
		for last := false; !last && rerr == nil; reads++ { // once more after the end
			select {
			case <-done:
				last = true
			default:
			}
			rerr = p.whole(path.Join(dir, "state"))
		}
	})
	for i := range replacements {
		if err = write(i); err != nil {
			break
		}
	}
	close(done)
	wg.Wait()
	if err := errors.Join(err, rerr); err != nil {
		return "", err
	}
	return fmt.Sprintf("replaced %d times, read %d times meanwhile, whole each time", replacements, reads), nil
}

// whole reads what one of the writes has put there.
func (p *prober) whole(name string) error {
	b, err := p.v.ReadFile(name)
	if err != nil {
		return fmt.Errorf("while the file is replaced it cannot be read: %w", err)
	}
	if len(b) != replacedSize || bytes.Count(b, b[:1]) != len(b) {
		return fmt.Errorf("while the file is replaced a reader sees %d bytes that no write has left so", len(b))
	}
	return nil
}

func (p *prober) sync() (string, error) {
	name := p.name()
	f, err := p.v.CreateExclusive(name)
	if err != nil {
		return "", err
	}
	_, werr := f.WriteAt([]byte(name), 0)
	if err := errors.Join(werr, f.Datasync(), f.Close(), p.v.SyncDir(p.dir)); err != nil {
		return "", err
	}
	return "done, as far as a client can tell", p.holds(name, name)
}

// reopen looks at a file that was closed, and at one that was synced and is still open.
func (p *prober) reopen() (string, error) {
	name := p.name()
	f, err := p.v.CreateExclusive(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text := name
	for range rounds / 4 {
		if _, err := f.WriteAt([]byte(name), int64(len(text)-len(name))); err != nil {
			return "", err
		}
		if err := f.Datasync(); err != nil {
			return "", err
		}
		if err := p.holds(name, text); err != nil {
			return "", fmt.Errorf("synced and still open: %w", err)
		}
		text += name
	}
	closed, err := p.file()
	if err == nil {
		err = p.holds(closed, closed)
	}
	if err != nil {
		return "", fmt.Errorf("closed: %w", err)
	}
	return "the bytes are there", nil
}

func (p *prober) removeOpen() (string, error) {
	dir, err := p.full()
	if err != nil {
		return "", err
	}
	f, err := p.v.Open(path.Join(dir, "inner"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := p.v.Remove(path.Join(dir, "inner")); err != nil {
		return "", err
	}
	es, err := p.v.ListFresh(dir)
	if err != nil {
		return "", err
	}
	b := make([]byte, len(dir))
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) || string(b) != dir {
		return "", fmt.Errorf("who has it open cannot read it any more: %w", orAllowed(err))
	}
	found := "gone at once"
	if hidden(es) > 0 {
		found = "stays as a .nfs file until it is closed"
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	if es, err = p.v.ListFresh(dir); err == nil && len(es) > 0 {
		err = fmt.Errorf("%s is still there after the close", es[0].Name)
	}
	return found, err
}

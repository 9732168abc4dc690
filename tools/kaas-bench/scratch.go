package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"kaas.dev/kaas/internal/substrate"
)

// scratch is a directory of this run alone.
type scratch struct {
	parent *substrate.DirFS
	name   string
}

// newScratch makes a directory inside dir, which is made too.
func newScratch(dir string) (*scratch, error) {
	parent, err := substrate.MakeDir(dir)
	if err != nil {
		return nil, err
	}
	s := &scratch{parent: parent, name: "kaas-bench-" + strconv.Itoa(os.Getpid())}
	if err := parent.Mkdir(s.name); err != nil {
		return nil, fmt.Errorf("directory of this run: %w", err)
	}
	return s, nil
}

// path is the absolute path of a name within.
func (s *scratch) path(name string) string {
	return filepath.Join(s.parent.Root(), s.name, filepath.FromSlash(name))
}

func (s *scratch) write(name string, content []byte) (string, error) {
	return s.path(name), create(s.parent, path.Join(s.name, name), content)
}

func (s *scratch) read(name string) ([]byte, error) { return read(s.parent, path.Join(s.name, name)) }

// has says whether a directory within has a name that is wanted.
func (s *scratch) has(dir string, wanted func(string) bool) bool {
	entries, err := s.parent.List(path.Join(s.name, dir))
	return err == nil && slices.ContainsFunc(entries, func(e substrate.DirEntry) bool { return wanted(e.Name) })
}

// remove removes a name within and all below it; "" is the whole directory.
func (s *scratch) remove(name string) error {
	return (&substrate.Volume{FS: s.parent}).RemoveTree(path.Join(s.name, name))
}

func create(d *substrate.DirFS, name string, content []byte) error {
	f, err := d.CreateExclusive(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Close())
}

func read(d *substrate.DirFS, name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}

// replace puts content in the place of the file, if there is one.
func replace(file string, content []byte) error {
	d, err := substrate.MakeDir(filepath.Dir(file))
	if err != nil {
		return err
	}
	name := filepath.Base(file)
	temp := name + ".new-" + strconv.Itoa(os.Getpid())
	if err := create(d, temp, content); err != nil {
		return errors.Join(err, d.Remove(temp))
	}
	return d.Rename(temp, name)
}

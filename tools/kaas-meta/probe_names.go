package main

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"syscall"

	"kaas.dev/kaas/internal/substrate"
)

// racers try one name at a time, rounds times over.
const (
	racers = 16
	rounds = 20
)

// race has racers call f at the same time and returns how many succeeded, and the first
// error that wanted does not accept.
func race(f func(i int) error, wanted func(error) bool) (winners int, err error) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, racers)
	for i := range racers {
		wg.Go(func() {
			<-begin
			errs[i] = f(i)
		})
	}
	close(begin)
	wg.Wait()
	for _, e := range errs {
		switch {
		case e == nil:
			winners++
		case err == nil && !wanted(e):
			err = e
		}
	}
	return winners, err
}

func isExist(err error) bool { return errors.Is(err, syscall.EEXIST) }

// oneWinner races over a new name each round.
func (p *prober) oneWinner(what string, f func(name string, i int) error, wanted func(error) bool) (string, error) {
	for range rounds {
		name := p.name()
		winners, err := race(func(i int) error { return f(name, i) }, wanted)
		if err == nil && winners != 1 {
			err = fmt.Errorf("%d of %d succeeded at once with one name", winners, racers)
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("of %d %s at once one succeeds, %d times", racers, what, rounds), nil
}

func (p *prober) exclusiveCreate() (string, error) {
	return p.oneWinner("creates", func(name string, _ int) error {
		f, err := p.v.CreateExclusive(name)
		if err != nil {
			return err
		}
		return f.Close()
	}, isExist)
}

func (p *prober) mkdir() (string, error) {
	return p.oneWinner("mkdirs", func(name string, _ int) error { return p.v.Mkdir(name) }, isExist)
}

func (p *prober) mkdirOver() (string, error) {
	file, err1 := p.file()
	dir, err2 := p.empty()
	full, err3 := p.full()
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	for what, name := range map[string]string{"a file": file, "an empty directory": dir, "a directory with files": full} {
		if err := p.v.Mkdir(name); !isExist(err) {
			return "", fmt.Errorf("mkdir over %s answers %w, want that it exists", what, orAllowed(err))
		}
	}
	return "refused over files and directories", p.holds(file, file)
}

var errAllowed = errors.New("yes")

func orAllowed(err error) error {
	if err == nil {
		return errAllowed
	}
	return cause(err)
}

func (p *prober) dirOntoFull() (string, error) {
	from, err1 := p.full()
	to, err2 := p.full()
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	return p.unharmed(p.v.Rename(from, to), path.Join(from, "inner"), from, path.Join(to, "inner"), to)
}

// racingDirs is how an epoch is claimed: many complete directories, one name.
func (p *prober) racingDirs() (string, error) {
	var mine [racers]string
	build := func() error {
		for i := range mine {
			var err error
			if mine[i], err = p.full(); err != nil {
				return err
			}
		}
		return nil
	}
	for range rounds / 4 {
		if err := build(); err != nil {
			return "", err
		}
		name, won := p.name(), make([]bool, racers)
		winners, err := race(func(i int) error {
			err := p.v.Rename(mine[i], name)
			won[i] = err == nil
			return err
		}, isRefusal)
		if err == nil && winners != 1 {
			err = fmt.Errorf("%d of %d directories were renamed onto one name", winners, racers)
		}
		if err != nil {
			return "", err
		}
		for i := range mine {
			where := mine[i]
			if won[i] {
				where = name
			}
			if err := p.holds(path.Join(where, "inner"), mine[i]); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("of %d renamed onto one name at once one succeeds and the others keep theirs, %d times", racers, rounds/4), nil
}

func (p *prober) dirOntoEmpty() (string, error) {
	from, err1 := p.full()
	to, err2 := p.empty()
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if err := p.v.Rename(from, to); err != nil {
		return "refused: " + cause(err).Error(), p.holds(path.Join(from, "inner"), from)
	}
	return "allowed", p.holds(path.Join(to, "inner"), from)
}

func (p *prober) fileOntoDir() (string, error) {
	file, err1 := p.file()
	dir, err2 := p.empty()
	full, err3 := p.full()
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	if found, err := p.unharmed(p.v.Rename(file, dir), file, file, dir, ""); err != nil {
		return found, fmt.Errorf("an empty one: %w", err)
	}
	return p.unharmed(p.v.Rename(file, full), file, file, path.Join(full, "inner"), full)
}

func (p *prober) dirOntoFile() (string, error) {
	dir, err1 := p.full()
	file, err2 := p.file()
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	return p.unharmed(p.v.Rename(dir, file), path.Join(dir, "inner"), dir, file, file)
}

func (p *prober) longName() (string, error) {
	const most = 255
	name := strings.Repeat("n", most)
	if err := p.put(path.Join(p.dir, name), name); err != nil {
		return "", fmt.Errorf("of %d bytes: %w", most, cause(err))
	}
	es, err := p.v.ListFresh(p.dir)
	if err != nil {
		return "", err
	}
	for _, e := range es {
		if e.Name == name {
			return "made, listed and read", p.holds(path.Join(p.dir, name), name)
		}
	}
	return "", errors.New("the listing does not show what was made")
}

// hidden is how many files of a directory an NFS client has renamed aside.
func hidden(es []substrate.DirEntry) (n int) {
	for _, e := range es {
		if strings.HasPrefix(e.Name, ".nfs") {
			n++
		}
	}
	return n
}

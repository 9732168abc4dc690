package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// raceDir is where the races are run; the test makes it.
const raceDir = "races"

// attempt is one host's part in one race.
type attempt struct {
	Race  int    `json:"race"`
	Won   bool   `json:"won"`
	Err   string `json:"err,omitempty"`
	Began int64  `json:"began"`
	Ended int64  `json:"ended"`
}

// seen is what a host sees of a race that is over.
type seen struct {
	Race  int    `json:"race"`
	Owner string `json:"owner"` // who won
	Kept  bool   `json:"kept"`  // its own directory is still there, whole
}

func (p plan) mine(i int) string {
	return path.Join(raceDir, fmt.Sprintf("%s-%s-%d", p.kind, p.who, i))
}

func (p plan) target(i int) string { return path.Join(raceDir, fmt.Sprintf("%s-%d", p.kind, i)) }

// prepare makes the host's own directories.
func prepare(_ context.Context, v *substrate.Volume, p plan) error {
	for i := range p.n {
		if err := errors.Join(v.Mkdir(p.mine(i)), create(v, path.Join(p.mine(i), p.who), p.who)); err != nil {
			return err
		}
	}
	return nil
}

// race tries, at times that all hosts know, to be the first at a name: by renaming a
// directory onto it, or by creating a file.
func race(ctx context.Context, v *substrate.Volume, p plan) error {
	for i := range p.n {
		begin := time.Unix(0, p.start).Add(time.Duration(i) * p.every)
		if err := wait(ctx, time.Until(begin)); err != nil {
			return err
		}
		a := attempt{Race: i, Began: now()}
		err := enter(v, p, p.mine(i), p.target(i))
		a.Ended, a.Won = now(), err == nil
		if err != nil {
			a.Err = errorName(err)
		}
		if err := say(a); err != nil {
			return err
		}
	}
	return nil
}

// look looks at races that are over.
func look(_ context.Context, v *substrate.Volume, p plan) error {
	for i := range p.n {
		s := seen{Race: i}
		if p.kind == "file" {
			b, err := v.ReadFile(p.target(i))
			if err != nil {
				return err
			}
			s.Owner = string(b)
		} else {
			es, err := names(v, p.target(i))
			if err != nil {
				return err
			}
			s.Owner = strings.Join(es, "+")
			b, err := v.ReadFile(path.Join(p.mine(i), p.who))
			s.Kept = err == nil && string(b) == p.who
		}
		if err := say(s); err != nil {
			return err
		}
	}
	return nil
}

func enter(v *substrate.Volume, p plan, mine, target string) error {
	if p.kind == "dir" {
		return v.Rename(mine, target)
	}
	return create(v, target, p.who)
}

func create(v *substrate.Volume, name, content string) error {
	f, err := v.CreateExclusive(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(content), 0)
	return errors.Join(err, f.Close())
}

func errorName(err error) string {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return err.Error()
	}
	for _, known := range []struct {
		no   syscall.Errno
		name string
	}{{syscall.EEXIST, "EEXIST"}, {syscall.ENOTEMPTY, "ENOTEMPTY"}, {syscall.ENOENT, "ENOENT"}, {syscall.ESTALE, "ESTALE"}} {
		if no == known.no {
			return known.name
		}
	}
	return no.Error()
}

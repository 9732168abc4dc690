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
	// Owner is who had won, as this host saw it after all the races; Kept whether a
	// loser's own directory was still whole.
	Owner string `json:"owner"`
	Kept  bool   `json:"kept,omitempty"`
}

// race tries, at times that all hosts know, to be the first at a name: by renaming a
// directory onto it, or by creating a file.
func race(ctx context.Context, v *substrate.Volume, p plan) error {
	mine := func(i int) string { return path.Join(raceDir, fmt.Sprintf("%s-%s-%d", p.kind, p.who, i)) }
	target := func(i int) string { return path.Join(raceDir, fmt.Sprintf("%s-%d", p.kind, i)) }
	if p.kind == "dir" {
		for i := range p.n {
			if err := errors.Join(v.Mkdir(mine(i)), v.WriteFile(path.Join(mine(i), p.who), []byte(p.who))); err != nil {
				return err
			}
		}
	}
	late := time.Since(time.Unix(0, p.start))
	if late > 0 {
		return fmt.Errorf("ready %v after the start", late)
	}
	as := make([]attempt, p.n)
	for i := range as {
		begin := time.Unix(0, p.start).Add(time.Duration(i) * p.every)
		if err := wait(ctx, time.Until(begin)); err != nil {
			return err
		}
		a := attempt{Race: i, Began: now()}
		err := enter(v, p, mine(i), target(i))
		a.Ended, a.Won = now(), err == nil
		if err != nil {
			a.Err = errorName(err)
		}
		as[i] = a
	}
	if err := wait(ctx, time.Second); err != nil { // the other host is done too
		return err
	}
	for i := range as {
		if err := look(v, p, &as[i], mine(i), target(i)); err != nil {
			return err
		}
		if err := say(as[i]); err != nil {
			return err
		}
	}
	return nil
}

func enter(v *substrate.Volume, p plan, mine, target string) error {
	if p.kind == "dir" {
		return v.Rename(mine, target)
	}
	f, err := v.CreateExclusive(target)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(p.who), 0)
	return errors.Join(err, f.Close())
}

func look(v *substrate.Volume, p plan, a *attempt, mine, target string) error {
	if p.kind == "file" {
		b, err := v.ReadFile(target)
		a.Owner, a.Kept = string(b), true
		return err
	}
	es, err := v.ListFresh(target)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range es {
		names = append(names, e.Name)
	}
	a.Owner = strings.Join(names, "+")
	if !a.Won {
		b, err := v.ReadFile(path.Join(mine, p.who))
		a.Kept = err == nil && string(b) == p.who
	}
	return nil
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

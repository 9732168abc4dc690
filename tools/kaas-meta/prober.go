package main

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"kaas.dev/kaas/internal/substrate"
)

// prober tries a volume in a directory of its own.
type prober struct {
	v   *substrate.Volume
	dir string
	n   int // names made
}

// question is one property of the volume. try returns what was found, and an error if
// kaas cannot do with it.
type question struct {
	name, use string
	note      bool // what is found is reported; no answer is wrong
	try       func(p *prober) (string, error)
}

var questions = []question{
	{"exclusive create", "plugs and segment files have one maker", false, (*prober).exclusiveCreate},
	{"mkdir", "a session is sealed once", false, (*prober).mkdir},
	{"mkdir over a name", "a session is sealed only at a name that is free", false, (*prober).mkdirOver},
	{"directory onto a directory with files", "an epoch has one owner", false, (*prober).dirOntoFull},
	{"racing directories", "an epoch has one owner", false, (*prober).racingDirs},
	{"directory onto an empty directory", "kaas leaves none empty: either answer will do", true, (*prober).dirOntoEmpty},
	{"file onto a directory", "the Check of a sealed session is refused", false, (*prober).fileOntoDir},
	{"directory onto a file", "nothing is lost to a directory of the same name", false, (*prober).dirOntoFile},
	{"replacing a file", "who follows reads a whole state, the old or the new", false, (*prober).replace},
	{"sync of files and directories", "what is acknowledged is durable", false, (*prober).sync},
	{"reopening", "an open sees what was closed or synced before", false, (*prober).reopen},
	{"removing an open file", "on NFS it stays as a .nfs file until it is closed: either will do", true, (*prober).removeOpen},
	{"names of 255 bytes", "temporary names are long", false, (*prober).longName},
}

func newProber(fs substrate.FS) (*prober, error) {
	p := &prober{v: &substrate.Volume{FS: fs, NewID: uuid.NewString}}
	p.dir = p.v.TempName(".", "probe")
	return p, p.v.Mkdir(p.dir)
}

func (p *prober) end() error { return p.v.RemoveTree(p.dir) }

func (p *prober) ask(q question) probeCheck {
	c := probeCheck{q.name, resultOK, "", q.use}
	if q.note {
		c.Result = resultNote
	}
	found, err := q.try(p)
	if c.Found = found; err != nil {
		c.Result, c.Found = resultFailed, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return c
}

// name is one that was not used before.
func (p *prober) name() string {
	p.n++
	return path.Join(p.dir, fmt.Sprintf("n%d", p.n))
}

// put makes a file, which is not synced: what most questions ask does not need it.
func (p *prober) put(name, text string) error {
	f, err := p.v.CreateExclusive(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Close())
}

// file makes a file that holds its own name.
func (p *prober) file() (name string, err error) {
	name = p.name()
	return name, p.put(name, name)
}

// full makes a directory with a file in it.
func (p *prober) full() (name string, err error) {
	if name, err = p.empty(); err != nil {
		return "", err
	}
	return name, p.put(path.Join(name, "inner"), name)
}

func (p *prober) empty() (name string, err error) {
	name = p.name()
	return name, p.v.Mkdir(name)
}

// holds is nil if the file has the bytes.
func (p *prober) holds(name, want string) error {
	got, err := p.v.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, []byte(want)) {
		return fmt.Errorf("%s holds other bytes than were written", name)
	}
	return nil
}

// unharmed is nil if a rename from one name to the other was refused and changed nothing.
func (p *prober) unharmed(err error, from, fromHolds, to, toHolds string) (string, error) {
	if err == nil {
		return "", errors.New("the rename was allowed")
	}
	for _, f := range [][2]string{{from, fromHolds}, {to, toHolds}} {
		if f[1] == "" {
			continue // an empty directory
		}
		if lerr := p.holds(f[0], f[1]); lerr != nil {
			return "", fmt.Errorf("refused with %w, but not unharmed: %w", cause(err), lerr)
		}
	}
	if !isRefusal(err) {
		return "", fmt.Errorf("refused, but with an error that kaas takes for a passing one: %w", err)
	}
	return "refused: " + cause(err).Error(), nil
}

// isRefusal reports the errors by which a rename is final.
func isRefusal(err error) bool {
	for _, e := range []error{syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY, syscall.ENOTDIR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// cause is an error without the names that it is about.
func cause(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}

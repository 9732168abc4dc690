package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/google/uuid"

	"kaas.dev/kaas/internal/substrate"
)

// runDir is where what runs is on record. It goes with the machine's processes at a
// reboot.
const runDir = "/run/kaas-nfslab"

// record puts v into the file of that name in runDir, in one step.
func record(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return replace(filepath.Join(runDir, name), b)
}

// recorded reads what record wrote. fs.ErrNotExist is that there is nothing.
func recorded(name string, v any) error {
	b, err := read(filepath.Join(runDir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(runDir, name), err)
	}
	return nil
}

func forget(name string) error {
	d, err := substrate.OpenDir(runDir)
	if err != nil {
		return nil // all is forgotten
	}
	if err := d.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replace puts b at file, making its directory.
func replace(file string, b []byte) error {
	d, err := substrate.MakeDir(filepath.Dir(file))
	if err != nil {
		return err
	}
	temp := "~" + uuid.NewString()
	f, err := d.CreateExclusive(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, d.Remove(temp))
	}
	return d.Rename(temp, filepath.Base(file))
}

func writeJSON(file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replace(file, b)
}

func read(file string) ([]byte, error) {
	d, err := substrate.OpenDir(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	f, err := d.Open(filepath.Base(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, 64<<20))
}

// removeAll removes a directory and all below it.
func removeAll(dir string) error {
	d, err := substrate.OpenDir(filepath.Dir(dir))
	if err != nil {
		return nil // not even its parent is there
	}
	return (&substrate.Volume{FS: d}).RemoveTree(filepath.Base(dir))
}

// end is the last of a log, for an error message.
func end(file string) string {
	const most = 2000
	b, err := read(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

package restore

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// KindBackup is the kind of a backup file.
var KindBackup = substrate.Kind{'b', 'a', 'c', 'k'}

// FlagSecrets is set in a file that holds secrets, so that it can be told without decoding.
const FlagSecrets uint16 = 1 << 0

// Backup is what a backup file holds.
type Backup struct {
	Volume string  `msgpack:"volume"`
	MadeMS int64   `msgpack:"made_ms"`
	Saved  []Saved `msgpack:"streams"`
}

// Made is when the backup was made.
func (b *Backup) Made() time.Time { return time.UnixMilli(b.MadeMS).UTC() }

// Secrets are the kinds of secrets in it, none if there are none.
func (b *Backup) Secrets() (out []string) {
	for _, s := range b.Saved {
		out = append(out, s.Secrets...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Write puts the backup into a file that must not exist: it appears whole.
func (b *Backup) Write(file string) error {
	flags := uint16(0)
	if len(b.Secrets()) > 0 {
		flags |= FlagSecrets
	}
	data, err := substrate.EncodeFile(KindBackup, flags, b)
	if err != nil {
		return err
	}
	if len(data) > substrate.MaxFrame {
		return fmt.Errorf("a backup of %d bytes is more than %d: choose fewer streams", len(data), substrate.MaxFrame)
	}
	v, name, err := dirOf(file)
	if err != nil {
		return err
	}
	es, err := v.ListFresh(".")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(es, func(e substrate.DirEntry) bool { return e.Name == name }) {
		return fmt.Errorf("%s is there already", file)
	}
	return v.ReplaceFile(".", name, "backup", data)
}

// Read reads a backup file. Its error is a *substrate.DamageError where its bytes are not
// what was written.
func Read(file string) (*Backup, error) {
	v, name, err := dirOf(file)
	if err != nil {
		return nil, err
	}
	es, err := v.ListFresh(".")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(es, func(e substrate.DirEntry) bool { return e.Name == name && e.Irregular }) {
		return nil, fmt.Errorf("%s is no regular file", file) // to open a pipe would wait for its writer
	}
	data, err := v.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Decode(file, data)
}

// Decode decodes a backup file's bytes, and checks that it holds states.
func Decode(file string, data []byte) (*Backup, error) {
	var b Backup
	if _, err := substrate.DecodeFile(file, KindBackup, data, &b); err != nil {
		return nil, err
	}
	bad := func(format string, a ...any) error {
		return &substrate.DamageError{File: file, Offset: substrate.FrameHeader, Cause: fmt.Sprintf(format, a...)}
	}
	seen := map[string]bool{}
	for i := range b.Saved {
		s := &b.Saved[i]
		k, err := kindOf(s.Stream)
		if err != nil {
			return nil, bad("%v", err)
		}
		if seen[s.Stream] {
			return nil, bad("stream %s stands twice", s.Stream)
		}
		seen[s.Stream] = true
		if err := k.sound(s.State); err != nil {
			return nil, bad("stream %s: %v", s.Stream, err)
		}
	}
	return &b, nil
}

// dirOf is the directory of a file as a volume, and its name in there.
func dirOf(file string) (*substrate.Volume, string, error) {
	d, err := substrate.OpenDir(filepath.Dir(file))
	if err != nil {
		return nil, "", fmt.Errorf("directory of %s: %w", file, err)
	}
	return &substrate.Volume{FS: d}, filepath.Base(file), nil
}

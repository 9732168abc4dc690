package history

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
)

// Write writes the history into a new file.
func (h *History) Write(d *substrate.DirFS, name string) error {
	f, err := d.CreateExclusive(name)
	if err != nil {
		return fmt.Errorf("keep the history: %w", err)
	}
	defer f.Close()
	if err := h.encode(io.NewOffsetWriter(f, 0)); err != nil {
		return fmt.Errorf("keep the history: %w", err)
	}
	return f.Datasync()
}

func (h *History) encode(to io.Writer) error {
	buf := bufio.NewWriterSize(to, 1<<20)
	z, err := zstd.NewWriter(buf)
	if err != nil {
		return err
	}
	enc := msgpack.NewEncoder(z)
	enc.UseArrayEncodedStructs(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(h); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return buf.Flush()
}

// Load reads a history from a file.
func Load(file string) (*History, error) {
	d, err := substrate.OpenDir(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	f, err := d.Open(filepath.Base(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	h, err := decode(io.NewSectionReader(f, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return h, nil
}

func decode(from io.Reader) (*History, error) {
	z, err := zstd.NewReader(from)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	h := &History{}
	if err := msgpack.NewDecoder(bufio.NewReaderSize(z, 1<<20)).Decode(h); err != nil {
		return nil, fmt.Errorf("not a history: %w", err)
	}
	if h.Version != version {
		return nil, fmt.Errorf("a history of version %d, and this program reads %d", h.Version, version)
	}
	return h, h.sound()
}

// sound refuses a history whose indexes lead nowhere.
func (h *History) sound() error {
	if len(h.Logs) != len(h.Parts) {
		return fmt.Errorf("%d partitions and %d logs", len(h.Parts), len(h.Logs))
	}
	for i, p := range h.Procs {
		if p.Group < 0 || p.Group > 0 && int(p.Group) >= len(h.Groups) {
			return fmt.Errorf("process %d is of a group that is not there", i)
		}
	}
	for i, op := range h.Ops {
		part := op.Part >= 0 && int(op.Part) < len(h.Parts)
		anyPart := part || op.Part == -1 && slices.Contains([]Kind{Fault, Note, Init, TxnEnd}, op.Kind)
		if op.Proc < 0 || int(op.Proc) >= len(h.Procs) || !anyPart || op.Field > Stable || op.Txn < 0 {
			return fmt.Errorf("operation %d names a process or partition that is not there", i)
		}
		if op.Kind == Read && op.Records == nil && (op.Offset < 0 || op.Count < 0 || op.Offset+int64(op.Count) > int64(len(h.Logs[op.Part]))) {
			return fmt.Errorf("operation %d reads what is not there", i)
		}
	}
	return nil
}

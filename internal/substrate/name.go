package substrate

import (
	"fmt"
	"strconv"
	"strings"
)

// Epoch numbers the ownerships of a stream. For a partition's manifest it is
// Kafka's leader epoch, so it stays below 2^31.
type Epoch int32

// Position names an entry of a stream: the epoch, and the sequence in it, from 1.
type Position struct {
	Epoch Epoch  `msgpack:"e" json:"epoch"`
	Seq   uint64 `msgpack:"s" json:"seq"`
}

// String is the printed form, "6-43".
func (p Position) String() string { return fmt.Sprintf("%d-%d", p.Epoch, p.Seq) }

// IsZero reports whether p names no entry.
func (p Position) IsZero() bool { return p == Position{} }

// Less orders positions as the stream does.
func (p Position) Less(q Position) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Seq < q.Seq
}

// ParsePosition parses the printed form.
func ParsePosition(s string) (Position, error) {
	e, n, ok := strings.Cut(s, "-")
	epoch, err1 := strconv.ParseUint(e, 10, 31)
	seq, err2 := strconv.ParseUint(n, 10, 64)
	p := Position{Epoch(epoch), seq}
	if !ok || err1 != nil || err2 != nil || p.String() != s {
		return Position{}, fmt.Errorf("position %q is not of the form EPOCH-SEQUENCE, such as 6-43", s)
	}
	return p, nil
}

// Names within a stream.
const (
	ClaimName = "claim"
	HeadName  = "HEAD"
	entryExt  = ".snap"
	newPrefix = "~new~"
	// DeletedPrefix marks a tree whose removal anybody may finish.
	DeletedPrefix = "~deleted~"
	// SessionsDir holds a directory for each process and role that ever wrote.
	SessionsDir = "sessions"
)

// EpochName is the directory name of an epoch: ten digits.
func EpochName(e Epoch) string { return fmt.Sprintf("%010d", e) }

// ParseEpochName is the strict inverse of EpochName.
func ParseEpochName(s string) (Epoch, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || EpochName(Epoch(n)) != s {
		return 0, fmt.Errorf("%q is not an epoch directory's name (ten digits)", s)
	}
	return Epoch(n), nil
}

// EntryName is the file name of an entry: epoch and sequence, 10 and 20 digits.
func EntryName(p Position) string {
	return fmt.Sprintf("%010d-%020d%s", p.Epoch, p.Seq, entryExt)
}

// ParseEntryName is the strict inverse of EntryName.
func ParseEntryName(s string) (Position, error) {
	e, n, ok := strings.Cut(strings.TrimSuffix(s, entryExt), "-")
	epoch, err1 := strconv.ParseUint(e, 10, 31)
	seq, err2 := strconv.ParseUint(n, 10, 64)
	p := Position{Epoch(epoch), seq}
	if !ok || err1 != nil || err2 != nil || seq == 0 || EntryName(p) != s {
		return Position{}, fmt.Errorf("%q is not an entry's name", s)
	}
	return p, nil
}

// EntryPath is the entry's path below the stream's directory.
func EntryPath(stream string, p Position) string {
	return stream + "/" + EpochName(p.Epoch) + "/" + EntryName(p)
}

// ClaimPath is the path of an epoch's claim.
func ClaimPath(stream string, e Epoch) string {
	return stream + "/" + EpochName(e) + "/" + ClaimName
}

// IsTemporary reports a name that is ours and temporary.
func IsTemporary(name string) bool { return strings.HasPrefix(name, "~") }

// TempOwner returns the session that a ~new~ name belongs to, or what is in its place
// where no session makes such names: birth, volume, probe.
func TempOwner(name string) (session string, ok bool) {
	rest, ok := strings.CutPrefix(name, newPrefix)
	if !ok {
		return "", false
	}
	session, _, ok = strings.Cut(rest, "~")
	return session, ok
}

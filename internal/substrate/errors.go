package substrate

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// ErrFenced means that another process has sealed the session: whatever was not
// acknowledged yet never will be. It is final.
var ErrFenced = errors.New("fenced: the session was sealed by another process")

// ErrUnknown wraps the cause of an operation that may or may not have happened.
var ErrUnknown = errors.New("outcome unknown")

// ErrNotDurable means that a name is in place but its directory's fsync failed.
var ErrNotDurable = errors.New("in place but not durable")

// ErrEpochTaken means that another session owns the epoch, or it was burnt.
var ErrEpochTaken = errors.New("epoch is taken")

// ErrNoBase means that no epoch of a stream holds an entry. A stream is born with
// one, so its absence is damage: nothing is ever started empty.
var ErrNoBase = errors.New("stream has no entry to continue from")

// ErrStillLeading means that this session's earlier leadership of the stream has
// not ended definitely; the caller opens a new session instead.
var ErrStillLeading = errors.New("this session's earlier leadership of the stream has not ended")

// DamageError is a file on the volume whose bytes are not what was written.
// Readers never skip, rename or repair it.
type DamageError struct {
	File   string
	Offset int64
	Cause  string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: damaged at byte %d: %s", e.File, e.Offset, e.Cause)
}

// NameError is a name of ours that does not parse. It is never ignored: a lister
// that skips misspelt names hides lost files.
type NameError struct{ Path, Cause string }

func (e *NameError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Cause) }

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// occupied reports the answers of a rename whose target is a directory that may
// not be replaced (RFC 8881 18.26 and rename(2) name different ones).
func occupied(err error) bool {
	for _, e := range []error{syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY, syscall.ENOTDIR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// IsFull reports that the volume or the quota has no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

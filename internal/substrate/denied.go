package substrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Denied adds to an error that is a refusal of the file system's who was refused, and whose
// directory it is: dir, or as much of it as there is. Any other error stays as it is.
func Denied(dir string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	dir, aerr := filepath.Abs(dir)
	if aerr != nil {
		return err
	}
	fi, serr := os.Stat(dir)
	for serr != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		fi, serr = os.Stat(dir)
	}
	if serr != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return err
	}
	return fmt.Errorf("%w: the broker runs as user %d, group %d, and %s belongs to user %d, group %d, with mode %04o",
		err, os.Geteuid(), os.Getegid(), dir, st.Uid, st.Gid, fi.Mode().Perm())
}

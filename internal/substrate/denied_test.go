package substrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDeniedSaysWhoAndWhose(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	denied := fmt.Errorf("mkdir: %w", fs.ErrPermission)
	want := fmt.Sprintf("the broker runs as user %d, group %d, and %s belongs to user %d, group %d, with mode 0750", os.Geteuid(), os.Getegid(), dir, os.Geteuid(), os.Getegid())
	for _, at := range []string{dir, filepath.Join(dir, "not", "there")} {
		err := Denied(at, denied)
		if !strings.HasSuffix(err.Error(), want) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, want %s", at, err, want)
		}
	}
	for _, err := range []error{nil, fs.ErrNotExist} {
		if got := Denied(dir, err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

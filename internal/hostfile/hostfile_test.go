package hostfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(name, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	for _, tc := range []struct {
		name string
		most int64
	}{{name, 4}, {name + "x", 5}, {filepath.Dir(name), 5}} {
		if _, err := Read(tc.name, tc.most); err == nil || !strings.Contains(err.Error(), tc.name) || strings.Contains(err.Error(), "1234") {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

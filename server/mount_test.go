package server

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"kaas.dev/kaas/internal/substrate"
)

func TestFitMount(t *testing.T) {
	for _, c := range []struct {
		options string
		err     error
		fit     bool
		warns   []string
	}{
		{"rw,vers=4.1,hard,proto=tcp", nil, true, nil},
		{"rw,vers=4.1,hard,nocto,proto=tcp", nil, false, nil},
		{"rw,vers=4.1,soft,proto=tcp", nil, true, []string{"/mnt/data is mounted with soft"}},
		{"rw,vers=3,softerr,proto=tcp", nil, true, []string{"mounted with softerr", "mounted with vers=3"}},
		{"", errors.New("no table"), true, []string{"no table"}},
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		err := fitMount(func() (substrate.Mount, error) {
			return substrate.Mount{Point: "/mnt/data", Type: "nfs4", Options: strings.Split(c.options, ",")}, c.err
		}, log)
		if (err == nil) != c.fit {
			t.Errorf("%s: %v", c.options, err)
		}
		if n := strings.Count(out.String(), "\n"); n != len(c.warns) {
			t.Errorf("%s: %d lines are logged, want %d:\n%s", c.options, n, len(c.warns), out.String())
		}
		for _, w := range c.warns {
			if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), w) {
				t.Errorf("%s: %q is not warned of:\n%s", c.options, w, out.String())
			}
		}
	}
}

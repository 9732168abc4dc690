package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTimeline(t *testing.T) {
	dir, file := newVolume(t), filepath.Join(t.TempDir(), "life.html")
	for range 2 { // the file may be there
		out, err := run("--dir", dir, "timeline", "--html", file)
		check(t, err)
		if !strings.HasPrefix(out, file+": 3 events in 5 entries, 3 lanes, ") {
			t.Errorf("it says %s", out)
		}
	}
	page, err := os.ReadFile(file)
	check(t, err)
	for _, want := range []string{"<title>kaas timeline: test-cluster</title>", "CreateTopics from a client", "broker 7"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if es, err := os.ReadDir(filepath.Dir(file)); err != nil || len(es) != 1 {
		t.Errorf("beside the page there is %v, %v", es, err)
	}
	out, err := run("--dir", dir, "timeline", "--html", "-", "--since", "2026-11-29T13:00:00Z")
	check(t, err)
	if !strings.Contains(out, "</html>") || strings.Contains(out, "CreateTopics from a client") {
		t.Error("--since leaves in what was before")
	}
	for _, bad := range [][]string{
		{}, {"--html", file, "--since", "yesterday"}, {"--html", file, "--since", "1h", "--until", "2h"}, {"--html", file, "--stream", "nothing"},
		{"--html", filepath.Join(dir, "no", "such", "file.html")},
	} {
		if out, err := run(append([]string{"--dir", dir, "timeline"}, bad...)...); err == nil {
			t.Errorf("%q is done: %s", bad, out)
		}
	}
}

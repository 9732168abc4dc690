package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linkRE    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingRE = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenceRE   = regexp.MustCompile("(?ms)^```.*?^```")
)

func TestLinksLeadSomewhere(t *testing.T) {
	tr := load(t)
	for _, name := range tr.Text {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range linkRE.FindAllStringSubmatch(fenceRE.ReplaceAllString(tr.read(t, name), ""), -1) {
			if problem := tr.follow(t, name, m[1]); problem != "" {
				t.Errorf("%s links to %s: %s; name a file of the tree, from the document's own directory", name, m[1], problem)
			}
		}
	}
}

// follow returns what is wrong with a link, or nothing.
func (tr *tree) follow(t *testing.T, from, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(link, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	fi, err := os.Stat(filepath.Join(tr.Root, target))
	if err != nil {
		return "no such file"
	}
	if anchor == "" || fi.IsDir() {
		return ""
	}
	for _, h := range headingRE.FindAllStringSubmatch(tr.read(t, target), -1) {
		if slug(h[1]) == anchor {
			return ""
		}
	}
	return "no such heading"
}

// slug is the anchor that a heading gets.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// banned are words that no committed file holds. They are put together here, so
// that this file holds none either.
var banned = []struct{ re, instead string }{
	{`/wo` + `rk/|/tmp/` + `plan`, "a path from the root of the repository, or a directory that the reader chooses"},
	{`\bTO` + `DO\b|\bFIX` + `ME\b|\bXX` + `X\b`, "do it, or file an issue and say in the comment what holds today"},
}

func TestNothingIsLeftForLater(t *testing.T) {
	tr := load(t)
	names := append([]string{}, tr.Text...)
	for _, f := range tr.Go {
		names = append(names, f.Name)
	}
	for _, b := range banned {
		re := regexp.MustCompile(b.re)
		for _, name := range names {
			for i, line := range strings.Split(tr.read(t, name), "\n") {
				if found := re.FindString(line); found != "" {
					t.Errorf("%s:%d has %q: write %s", name, i+1, found, b.instead)
				}
			}
		}
	}
}

func (tr *tree) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(tr.Root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

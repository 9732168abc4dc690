package house

import (
	"path"
	"strings"
	"testing"
)

const module = "kaas.dev/kaas/"

// layers is the list of packages, lowest first. Imports point down it.
var layers = []string{
	"internal/substrate",
	"metalog",
	"projections",
	"partition",
	"coordinator",
	"server",
	"tools",
	"deploy",
}

// layer returns the place of a directory in the list, or -1.
func layer(dir string) int {
	for i, l := range layers {
		if under(dir, l) {
			return i
		}
	}
	return -1
}

func TestImportsPointDown(t *testing.T) {
	tr := load(t)
	for _, f := range tr.Go {
		mine := layer(f.Dir)
		for _, p := range f.imports() {
			dir, ours := strings.CutPrefix(p, module)
			if !ours {
				continue
			}
			// An external test may use what is above it, to be run on the whole.
			if f.Test && strings.HasSuffix(f.AST.Name.Name, "_test") {
				continue
			}
			switch theirs := layer(dir); {
			case mine < 0 && f.Dir != "internal/house" && !internalHelper(f.Dir):
				t.Errorf("%s: %s is not in the list of packages: add it to layers, at its place", f.Name, f.Dir)
			case theirs > mine:
				t.Errorf("%s imports %s, which is above it: move what is shared down, or hand it in as a func or an interface", f.Name, dir)
			}
		}
	}
}

// internalHelper is a package below internal/ that is not a layer: it may import
// no layer at all, so anybody may import it.
func internalHelper(dir string) bool { return under(dir, "internal") && layer(dir) < 0 }

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	tr := load(t)
	said := map[string]bool{}
	for _, f := range tr.Go {
		if f.Test {
			continue
		}
		said[f.Dir] = said[f.Dir] || f.AST.Doc != nil && startsRight(f)
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment: write one right above a package clause, with no blank line between; "+
				"it starts with \"Package NAME\", or \"Command NAME\" for a main, and tells the job, the format on disk and the invariants", dir)
		}
	}
}

func startsRight(f *goFile) bool {
	text := f.AST.Doc.Text()
	if f.AST.Name.Name == "main" {
		return strings.HasPrefix(text, "Command "+path.Base(f.Dir))
	}
	return strings.HasPrefix(text, "Package "+f.AST.Name.Name)
}

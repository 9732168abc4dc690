package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// goFile is one parsed Go file of the tree.
type goFile struct {
	Name  string // slash-separated, from the root of the module
	Dir   string
	Test  bool
	Lines int
	AST   *ast.File
}

// imports returns the import paths by the name they go by in the file.
func (f *goFile) imports() map[string]string {
	out := map[string]string{}
	for _, s := range f.AST.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if s.Name != nil {
			name = s.Name.Name
		}
		out[name] = p
	}
	return out
}

// tree is everything the rules look at.
type tree struct {
	Root string
	Fset *token.FileSet
	Go   []*goFile
	Text []string // every file that is not Go, from the root
}

var loadTree = sync.OnceValues(func() (*tree, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	t := &tree{Root: root, Fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if skipDir(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || name == ".git" { // a file, in a linked work tree
			return nil
		}
		return t.add(name)
	})
	return t, err
})

// skipDir leaves out what is not committed, and damaged or foreign test inputs.
func skipDir(name string) bool {
	switch path.Base(name) {
	case ".git", "kaas-data", "bin", "testdata", "target":
		return true
	}
	return false
}

func (tr *tree) add(name string) error {
	if !strings.HasSuffix(name, ".go") {
		tr.Text = append(tr.Text, name)
		return nil
	}
	b, err := os.ReadFile(filepath.Join(tr.Root, name))
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(tr.Fset, name, b, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	tr.Go = append(tr.Go, &goFile{
		Name: name, Dir: path.Dir(name), Test: strings.HasSuffix(name, "_test.go"),
		Lines: strings.Count(string(b), "\n"), AST: f,
	})
	return nil
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fs.ErrNotExist
		}
		dir = up
	}
}

func load(t *testing.T) *tree {
	t.Helper()
	tr, err := loadTree()
	if err != nil {
		t.Fatalf("read the source tree: %v", err)
	}
	if len(tr.Go) == 0 {
		t.Fatal("found no Go file: the rules would hold of nothing")
	}
	return tr
}

// under reports whether dir is root or below it.
func under(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

package house

import (
	"go/ast"
	"slices"
	"testing"
)

// fileCalls are the calls that reach a file by name, by the package they are in.
var fileCalls = map[string][]string{
	"os": {
		"Open", "OpenFile", "OpenRoot", "Create", "CreateTemp", "Rename", "Remove", "RemoveAll", "Stat", "Lstat",
		"ReadFile", "WriteFile", "ReadDir", "Mkdir", "MkdirAll", "MkdirTemp", "Link", "Symlink", "Truncate",
		"Chtimes", "Chmod", "CopyFS", "DirFS",
	},
	"io/ioutil":     {"ReadFile", "WriteFile", "ReadDir", "TempFile", "TempDir"},
	"path/filepath": {"Walk", "WalkDir", "Glob", "EvalSymlinks"},
	"syscall":       {"Open", "Rename", "Unlink", "Rmdir", "Mkdir", "Link", "Stat", "Lstat", "Truncate"},
	"golang.org/x/sys/unix": {
		"Open", "Openat", "Rename", "Renameat", "Renameat2", "Unlink", "Unlinkat", "Rmdir", "Mkdir", "Mkdirat",
		"Link", "Linkat", "Stat", "Fstatat", "Lstat", "Truncate",
	},
}

// fileCallsAllowed are the places outside internal/substrate that may reach files,
// none of them on the volume; an empty call is all of them. Tests may look at a directory from outside anywhere.
var fileCallsAllowed = []struct{ dir, call, reason string }{
	{"internal/hostfile", "os.Open", "keys and certificates, which are the host's and are read only"},
	{"tools/clients/scenario", "os.ReadFile", "the keys, tokens and ways to get in that a script gives its clients"},
	{"tools/clients/scenario", "os.WriteFile", "what a client that writes steadily tells its script of its progress"},
	{"tools/clients/scenario", "os.Rename", "the same, whole at any time"},
	{"deploy/k8snode", "", "the programs, certificates and logs of a Kubernetes, in a module that knows no volume"},
}

func TestFilesAreReachedThroughTheSubstrate(t *testing.T) {
	tr := load(t)
	for _, f := range tr.Go {
		if f.Test || under(f.Dir, "internal/substrate") {
			continue
		}
		eachCall(f, func(pkg, name string, at ast.Node) {
			if !slices.Contains(fileCalls[pkg], name) || allowedFileCall(f, pkg+"."+name) {
				return
			}
			t.Errorf("%s: %s.%s outside internal/substrate: take a *substrate.Volume and use Open, CreateExclusive, Mkdir, "+
				"Rename, Remove or List, or ReplaceFile for a durable change; for a file that is not on the volume add a line with its reason to fileCallsAllowed",
				tr.Fset.Position(at.Pos()), pkg, name)
		})
	}
}

func allowedFileCall(f *goFile, call string) bool {
	for _, a := range fileCallsAllowed {
		if under(f.Dir, a.dir) && (a.call == "" || a.call == call) {
			return true
		}
	}
	return false
}

func TestEveryFileExceptionIsUsed(t *testing.T) {
	tr := load(t)
	for _, a := range fileCallsAllowed {
		used := a.reason == ""
		for _, f := range tr.Go {
			if !f.Test && under(f.Dir, a.dir) {
				eachCall(f, func(pkg, name string, _ ast.Node) {
					used = used || pkg+"."+name == a.call || a.call == "" && slices.Contains(fileCalls[pkg], name)
				})
			}
		}
		if !used || a.reason == "" {
			t.Errorf("fileCallsAllowed has %s in %s, which is not used or has no reason: take the line out", a.call, a.dir)
		}
	}
}

func TestNothingSleeps(t *testing.T) {
	tr := load(t)
	for _, f := range tr.Go {
		if f.Test || under(f.Dir, "internal/substrate/nfssim") { // there time is simulated
			continue
		}
		eachCall(f, func(pkg, name string, at ast.Node) {
			if pkg == "time" && name == "Sleep" {
				t.Errorf("%s: time.Sleep: wait on a channel, or by internal/sleep, which a context ends", tr.Fset.Position(at.Pos()))
			}
		})
	}
}

// A moment that became a number is the wall clock's, which steps; a time.Time knows better
// (K-03). What is stored for others has milliseconds.
func TestStepsOfTheClockAreNotSeen(t *testing.T) {
	tr := load(t)
	for _, f := range tr.Go {
		if f.Test || under(f.Dir, "internal/substrate/nfssim") || under(f.Dir, "tools") || under(f.Dir, "deploy") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "UnixNano" {
				t.Errorf("%s: UnixNano loses the monotonic clock: keep the time.Time, or a duration since the process began", tr.Fset.Position(sel.Pos()))
			}
			return true
		})
	}
}

// eachCall calls do for each use of a name of an imported package.
func eachCall(f *goFile, do func(pkg, name string, at ast.Node)) {
	imports := f.imports()
	ast.Inspect(f.AST, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && imports[id.Name] != "" {
			do(imports[id.Name], sel.Sel.Name, sel)
		}
		return true
	})
}

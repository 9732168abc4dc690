package clients

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// languages are those besides Go: their programs by the names that scripts run them by, and
// what makes them able to run. What they need is installed once on a machine, in the user's
// cache, and in the versions that their directory pins.
var languages = []struct {
	programs map[string]string // files by names
	prepare  func(w *tools, cache string) (command []string, err error)
}{
	{map[string]string{"aiokafka": "aiokafka_py.py", "confluent-py": "confluent_py.py", "kafka_python": "kafka_python.py"}, python},
	{map[string]string{"kafkajs": "kafkajs.mjs", "platformatic": "platformatic.mjs"}, javascript},
	{map[string]string{"rskafka": ""}, rust},
}

// others makes commands of the programs in other languages that scripts name.
func (w *tools) others(i int, scripts []script) error {
	l := languages[i]
	named := map[string]string{}
	for name, file := range l.programs {
		if names(scripts, regexp.QuoteMeta(name)) {
			named[name] = file
		}
	}
	if len(named) == 0 {
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	cache = filepath.Join(cache, "kaas-clients")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	command, err := l.prepare(w, cache)
	if err != nil {
		return err
	}
	for name, file := range named {
		line := fmt.Sprintf("#!/bin/sh\nexec '%s%s' \"$@\"\n", strings.Join(command, "' '"), file)
		if err := os.WriteFile(filepath.Join(w.bin, name), []byte(line), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func python(_ *tools, cache string) ([]string, error) {
	dir, err := once(cache, "python/requirements.txt", func(dir string) error {
		return errors.Join(
			said(exec.Command("python3", "-m", "venv", dir)),
			said(exec.Command(filepath.Join(dir, "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "python/requirements.txt")),
		)
	})
	if err != nil {
		return nil, err
	}
	suite, err := os.Getwd()
	return []string{filepath.Join(dir, "bin/python"), "-B", filepath.Join(suite, "python") + "/"}, err
}

// javascript copies the programs: Node looks for their packages beside them.
func javascript(w *tools, cache string) ([]string, error) {
	packages, err := once(cache, "js/package-lock.json", func(dir string) error {
		if err := os.CopyFS(dir, only("js", "package.json", "package-lock.json")); err != nil {
			return err
		}
		return said(exec.Command("npm", "ci", "--prefix", dir, "--no-audit", "--no-fund", "--loglevel=error"))
	})
	if err != nil {
		return nil, err
	}
	dir, modules := filepath.Join(w.dir, "js"), filepath.Join(packages, "node_modules")
	if err := os.CopyFS(dir, only("js", "*.mjs")); err != nil {
		return nil, err
	}
	return []string{filepath.Join(modules, ".bin/node"), dir + "/"}, os.Symlink(modules, filepath.Join(dir, "node_modules"))
}

// rust leaves it to Cargo what is to be built again.
func rust(_ *tools, cache string) ([]string, error) {
	dir := filepath.Join(cache, "rust")
	err := said(exec.Command("cargo", "build", "--quiet", "--locked", "--manifest-path", "rust/Cargo.toml", "--target-dir", dir))
	return []string{filepath.Join(dir, "debug/rskafka-client")}, err
}

// once installs into a directory whose name has the sum of the file that says what. It is
// made aside, since several runs may want it at once.
func once(cache, pins string, install func(dir string) error) (string, error) {
	b, err := os.ReadFile(pins)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%.8x", filepath.Dir(pins), sha256.Sum256(b)))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	aside, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(aside) // where it has not become the directory
	if err := install(aside); err != nil {
		return "", err
	}
	if err := os.Rename(aside, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// only is the files of a directory that match.
func only(dir string, patterns ...string) fs.FS { return filtered{os.DirFS(dir), patterns} }

type filtered struct {
	fs.FS
	patterns []string
}

func (f filtered) ReadDir(name string) (out []fs.DirEntry, err error) {
	all, err := fs.ReadDir(f.FS, name)
	for _, e := range all {
		for _, p := range f.patterns {
			if ok, _ := filepath.Match(p, e.Name()); ok && !e.IsDir() {
				out = append(out, e)
			}
		}
	}
	return out, err
}

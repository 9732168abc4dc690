package clients

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// tools is what scripts run.
type tools struct {
	dir       string
	broker    string // the program
	bin       string // directory that comes first in PATH
	classPath string
	socket    string // of the JVM that runs Kafka's tools
}

// makeTools builds the broker and the programs that scripts name, and starts the JVM.
func makeTools(t *testing.T, dir string, scripts []script) *tools {
	t.Helper()
	w := &tools{dir: dir, broker: foreign, bin: filepath.Join(dir, "bin"), socket: filepath.Join(dir, "tools.sock")}
	if err := os.Mkdir(w.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	if foreign == "" {
		w.broker = filepath.Join(dir, "kaas")
		g.Go(func() error { return w.build("../..", "0", w.broker, "./server/cmd/kaas") })
	}
	if names(scripts, "kaas-meta") {
		g.Go(func() error { return w.build("../..", "0", filepath.Join(w.bin, "kaas-meta"), "./tools/kaas-meta") })
	}
	g.Go(func() error { return w.programs(scripts) })
	for i := range languages {
		g.Go(func() error { return w.others(i, scripts) })
	}
	if names(scripts, `kafka-[\w-]+|java`) {
		g.Go(w.java)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if w.classPath != "" {
		w.startJVM(t)
	}
	return w
}

func (w *tools) build(dir, cgo, to string, pkgs ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-C", dir, "-o", to}, pkgs...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	return said(cmd)
}

// said runs a command whose output is told only where it fails.
func said(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// names says whether a script runs a program whose name matches.
func names(scripts []script, name string) bool {
	re := regexp.MustCompile(`(?m)^[^#]*\b(exec|until '[^']*'|until \S+) (` + name + `)( |$)`)
	for _, s := range scripts {
		if re.MatchString(s.text) {
			return true
		}
	}
	return false
}

// programs builds the main packages of this module that scripts name, and kafka-tool, which
// goes by the names of Kafka's scripts.
func (w *tools) programs(scripts []script) error {
	pkgs := []string{"./kafka-tool"}
	mains, err := exec.Command("go", "list", "-f", `{{if eq .Name "main"}}{{.Dir}}{{end}}`, "./...").Output()
	if err != nil {
		return err
	}
	for dir := range strings.FieldsSeq(string(mains)) {
		if name := filepath.Base(dir); names(scripts, regexp.QuoteMeta(name)) {
			pkgs = append(pkgs, "./"+name)
		}
	}
	if err := w.build(".", "1", w.bin+"/", pkgs...); err != nil {
		return err
	}
	tool := filepath.Join(w.bin, "kafka-tool")
	all, err := exec.Command(tool, "--names").Output()
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(all)) {
		if err := os.Symlink(tool, filepath.Join(w.bin, name)); err != nil {
			return err
		}
	}
	return nil
}

// java has Maven find the jars, and compiles what is in the directory java and those in it.
func (w *tools) java() error {
	jars := os.Getenv(gate + "_CLASSPATH")
	if jars == "" {
		name := filepath.Join(w.dir, "classpath")
		if err := said(exec.Command("mvn", "-B", "-q", "-f", "java/pom.xml",
			"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath", "-DincludeScope=runtime", "-Dmdep.outputFile="+name)); err != nil {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		jars = string(bytes.TrimSpace(b))
	}
	classes := filepath.Join(w.dir, "classes")
	var sources []string
	for _, in := range []string{"java", "java/*"} {
		more, err := filepath.Glob(in + "/*.java")
		if err != nil {
			return err
		}
		sources = append(sources, more...)
	}
	if err := said(exec.Command("javac", append([]string{"-nowarn", "-proc:none", "-cp", jars, "-d", classes}, sources...)...)); err != nil {
		return err
	}
	w.classPath = classes + string(os.PathListSeparator) + jars
	return nil
}

// startJVM starts the JVM that Kafka's tools share. It ends with its standard input.
func (w *tools) startJVM(t *testing.T) {
	t.Helper()
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", w.classPath, "Tools", w.socket)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // it is ended, not asked to end well
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the JVM of Kafka's tools says %q: %v", line, err)
	}
}

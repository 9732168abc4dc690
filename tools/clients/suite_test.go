package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const gate = "KAAS_CLIENTS"

// mostTime is how long all scripts may take.
const mostTime = 29 * time.Minute

// setups are what files of this package add to a script's environment, in their init.
var setups []func(*testscript.Env) error

func TestMain(m *testing.M) {
	code := m.Run()
	results.print()
	os.Exit(code)
}

// TestScripts runs every script against one broker and against three.
func TestScripts(t *testing.T) {
	if os.Getenv(gate) == "" {
		t.Skipf("runs other people's clients: set %s=1 to run it", gate)
	}
	dir := t.TempDir()
	scripts := readScripts(t)
	tools := makeTools(t, dir, scripts)
	clusters := startClusters(t, tools.broker)
	for _, kind := range []string{"one", "three"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := &round{kind: kind, own: clusters[kind], clusters: clusters, tools: tools}
			testscript.RunT(scriptT{t, &result{kind: kind}}, testscript.Params{
				Files:              namesFor(scripts, kind),
				Setup:              r.setup,
				Condition:          r.condition,
				Cmds:               map[string]func(*testscript.TestScript, bool, []string){"until": until, "shows": shows, "expand": expand, "cluster": r.cluster, "keys": keys, "served": served, "progress": progress},
				RequireUniqueNames: true,
				UpdateScripts:      os.Getenv(gate+"_UPDATE") != "",
				Deadline:           time.Now().Add(mostTime),
			})
		})
	}
}

// script is a file of testdata.
type script struct {
	file string
	text string
	only string // one, three, or empty for both
}

var onlyLine = regexp.MustCompile(`(?m)^# only (\S+)$`)

func readScripts(t *testing.T) (scripts []script) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := script{file: file, text: string(b)}
		if m := onlyLine.FindStringSubmatch(s.text); m != nil {
			if s.only = m[1]; s.only != "one" && s.only != "three" {
				t.Fatalf("%s: only %s: neither one nor three", file, s.only)
			}
		}
		scripts = append(scripts, s)
	}
	return scripts
}

func namesFor(scripts []script, kind string) (files []string) {
	for _, s := range scripts {
		if s.only == "" || s.only == kind {
			files = append(files, s.file)
		}
	}
	return files
}

// round is all scripts against one of the clusters.
type round struct {
	kind     string
	own      *cluster
	clusters map[string]*cluster
	tools    *tools
}

func (r *round) setup(env *testscript.Env) error {
	name := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
	suite, err := os.Getwd()
	if err != nil {
		return err
	}
	env.Vars = append(env.Vars,
		"PATH="+r.tools.bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"BOOTSTRAP="+r.own.bootstrap(), fmt.Sprintf("BROKERS=%d", len(r.own.brokers)),
		"ONE="+r.clusters["one"].bootstrap(), "THREE="+r.clusters["three"].bootstrap(),
		"VOLUME="+filepath.Join(env.T().(scriptT).TempDir(), "volume"), "T="+name+r.clusters["one"].mark, "SUITE="+suite,
		"KAFKA_TOOLS="+r.tools.socket, "KAFKA_CLASSPATH="+r.tools.classPath,
	)
	env.Values[theT{}] = env.T().(scriptT).T
	for _, more := range setups {
		if err := more(env); err != nil {
			return err
		}
	}
	return nil
}

// theT is the key of a script's *testing.T.
type theT struct{}

func (r *round) condition(cond string) (bool, error) {
	switch cond {
	case "one", "three":
		return cond == r.kind, nil
	case "kafka":
		return foreign != "", nil
	case "rotation":
		return os.Getenv(gate+"_ROTATION") != "", nil
	}
	return false, fmt.Errorf("no condition %s", cond)
}

// cluster starts brokers for the script alone.
func (r *round) cluster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "1" && args[1] != "3" {
		ts.Fatalf("usage: cluster NAME 1|3 [KEY=VALUE|@FILE ...]")
	}
	var sets []string
	for _, arg := range args[2:] {
		if file, ok := strings.CutPrefix(arg, "@"); ok {
			sets = slices.AppendSeq(sets, strings.Lines(os.Expand(strings.TrimSpace(ts.ReadFile(file)), ts.Getenv)))
		} else {
			sets = append(sets, arg)
		}
	}
	for i := range sets {
		sets[i] = strings.TrimSpace(sets[i])
	}
	c := launchCluster(ts.Value(theT{}).(*testing.T), r.tools.broker, int(args[1][0]-'0'), sets...)
	c.waitReady()
	ts.Setenv(args[0], c.bootstrap())
	for name, addrs := range c.listeners() {
		ts.Setenv(args[0]+"_"+name, addrs)
	}
}

// untilTime is how long what is waited for may take.
const (
	untilTime  = time.Minute
	untilPause = 200 * time.Millisecond // between two looks, which others on the machine pay for
)

// until runs a program again and again until its standard output matches, or is as a file shows.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN|@FILE PROGRAM ARG ...")
	}
	wanted := untilMatches(ts, args[0])
	for began := time.Now(); ; {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && wanted(out) {
			return
		}
		if time.Since(began) > untilTime {
			ts.Fatalf("not within %v (%v):\n%s", untilTime, err, out)
		}
		time.Sleep(untilPause)
	}
}

func untilMatches(ts *testscript.TestScript, what string) func(out string) bool {
	if file, ok := strings.CutPrefix(what, "@"); ok {
		want := words(os.Expand(ts.ReadFile(file), ts.Getenv))
		return func(out string) bool { return compareLines(want, words(out), true) == "" }
	}
	re, err := regexp.Compile("(?m)" + what)
	ts.Check(err)
	return re.MatchString
}

// scriptT tells results what became of a script. The one that RunT is given has no script.
type scriptT struct {
	*testing.T
	r *result
}

func (t scriptT) Verbose() bool { return testing.Verbose() }

func (t scriptT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(sub *testing.T) {
		r := &result{kind: t.r.kind}
		defer func() {
			r.failed, r.skipped = sub.Failed(), sub.Skipped()
			results.add(name, r)
		}()
		f(scriptT{sub, r})
	})
}

func (t scriptT) Parallel() {
	t.T.Parallel()
	t.r.began = time.Now()
}

func (t scriptT) Skip(args ...any) {
	if t.r.reason = fmt.Sprint(args...); t.r.reason == "" {
		t.Fatal("skip without a reason")
	}
	t.T.Skip(args...)
}

// result is what became of a script in one round.
type result struct {
	kind            string
	began           time.Time
	took            time.Duration
	failed, skipped bool
	reason          string
}

type resultList struct {
	mu sync.Mutex
	of map[string][]*result
}

var results = resultList{of: map[string][]*result{}}

func (l *resultList) add(name string, r *result) {
	r.took = time.Since(r.began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[name] = append(l.of[name], r)
}

func (l *resultList) print() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var passed, skipped, failed int
	names := make([]string, 0, len(l.of))
	for name, rs := range l.of {
		names = append(names, name)
		slices.SortFunc(rs, func(a, b *result) int { return strings.Compare(a.kind, b.kind) })
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("%-36s", name)
		for _, r := range l.of[name] {
			switch {
			case r.failed:
				failed++
				fmt.Printf("  %5s FAILED", r.kind)
			case r.skipped:
				skipped++
				fmt.Printf("  %5s skipped: %s", r.kind, r.reason)
			default:
				passed++
				fmt.Printf("  %5s passed %5.1f s", r.kind, r.took.Seconds())
			}
		}
		fmt.Println()
	}
	if len(names) > 0 {
		fmt.Printf("%d scripts: %d runs passed, %d skipped, %d failed\n", len(names), passed, skipped, failed)
	}
}

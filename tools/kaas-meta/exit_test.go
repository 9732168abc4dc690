package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestExitCodes(t *testing.T) {
	dir := newVolume(t)
	for _, c := range []struct {
		args string
		want int
	}{
		{"log", exitDone},
		{"verify", exitDone},
		{"log --stream topics/none/0", exitFailed},
		{"dump --at 9-9", exitFailed},
		{"show topic none", exitFailed},
		{"frobnicate", exitUsage},
		{"log more", exitUsage},
		{"log --nothing", exitUsage},
		{"log --broker x", exitUsage},
		{"log --since yesterday", exitUsage},
		{"log --stream nowhere", exitUsage},
		{"log -o xml", exitUsage},
		{"log --follow --until 1h", exitUsage},
		{"dump --at never", exitUsage},
		{"diff 1-1", exitUsage},
		{"diff --stream all 1-1 2-1", exitUsage},
		{"show cat x", exitUsage},
		{"groups --at 1-1", exitUsage},
		{"restore", exitUsage},
		{"restore --at 1-1 file", exitUsage},
		{"restore --at 1-1 --streams cluster,groups/05", exitUsage},
		{"restore --at 1h --streams topics/orders/0", exitUsage},
		{"restore --at 1-1 --streams cluster --group g", exitUsage},
		{"restore --at 9-9", exitFailed},
		{"restore nosuchfile", exitFailed},
		{"backup", exitUsage},
		{"restore --at latest", exitUsage},
		{"verify --parallel 0", exitUsage},
	} {
		_, err := run(append([]string{"--dir", dir}, strings.Fields(c.args)...)...)
		if got := exitCode(err); got != c.want {
			t.Errorf("%s ends with %d (%v), want %d", c.args, got, err, c.want)
		}
	}
	for _, cmd := range []string{"log", "verify", "probe"} {
		if _, err := run(cmd); exitCode(err) != exitUsage {
			t.Errorf("%s without --dir: %v", cmd, err)
		}
	}
	if got := exitCode(fmt.Errorf("%w: 3", errFaults)); got != exitFaults {
		t.Errorf("faults end with %d", got)
	}
	if got := exitCode(errors.New("no")); got != exitFailed {
		t.Errorf("an error ends with %d", got)
	}
}

// An answer that cannot be written is no success, and a restore whose plan nobody can
// have read changes nothing.
func TestAnswerThatCannotBeWritten(t *testing.T) {
	dir := newGroupsVolume(t)
	before := tree(t, dir)
	for _, args := range []string{"verify", "log", "restore --at 1-1 --streams groups/05", "restore --at 1-1 --streams groups/05 --dry-run"} {
		cmd := rootCommand(full{})
		cmd.SetArgs(append([]string{"--dir", dir}, strings.Fields(args)...))
		if err := cmd.Execute(); exitCode(err) != exitFailed || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("something was changed:\n%s\nbefore:\n%s", after, before)
	}
}

// full is an output without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestCompletion(t *testing.T) {
	dir := newGroupsVolume(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"log", "--stream", ""}, []string{"cluster", "groups/02", "groups/05", "topics/"}},
		{[]string{"log", "--stream", "groups/"}, []string{"groups/02", "groups/05"}},
		{[]string{"dump", "--stream", "topics/"}, []string{"topics/orders/0", "topics/orders/1"}},
		{[]string{"log", "--topic", "o"}, []string{"orders"}},
		{[]string{"show", "pa"}, []string{"partition"}},
		{[]string{"show", "partition", ""}, []string{"orders/0", "orders/1"}},
		{[]string{"show", "broker", ""}, []string{"7"}},
		{[]string{"show", "group", ""}, nil},
		{[]string{"log", "-o", ""}, []string{"table", "json", "yaml"}},
	} {
		out, err := run(append([]string{"--dir", dir, "__complete"}, c.args...)...)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		got := strings.Split(strings.TrimSpace(out), "\n")
		got = got[:slices.IndexFunc(got, func(l string) bool { return strings.HasPrefix(l, ":") })]
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.args, got, c.want)
		}
	}
	if out, err := run("--dir", "nowhere", "__complete", "log", "--stream", ""); err != nil || !strings.HasPrefix(out, ":") {
		t.Errorf("without a volume: %v, %q", err, out)
	}
}

// TestManual: the man page has every command and every flag.
func TestManual(t *testing.T) {
	out, err := run("man")
	check(t, err)
	if !strings.HasPrefix(out, ".TH ") {
		t.Errorf("it begins with %q", out[:20])
	}
	for _, c := range rootCommand(nil).Commands() {
		if !c.Hidden && c.Name() != "help" && !strings.Contains(out, "\n.SS "+roff(c.Use)+"\n") {
			t.Errorf("%s is missing", c.Name())
		}
	}
	for _, want := range []string{`\-\-follow`, `\-\-dir`, `\-o, \-\-output`, "Exit codes"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "'") {
			t.Errorf("roff would take this for a request: %s", line)
		}
	}
}

func TestRowsFitTheScreen(t *testing.T) {
	lines := [][]string{{"NAME", "TEXT", "N"}, {"a", strings.Repeat("x", 40), "1"}, {"b", "häß", "22"}}
	for width, want := range map[int]string{
		0:  "NAME  TEXT" + strings.Repeat(" ", 38) + "N\na     " + strings.Repeat("x", 40) + "  1\nb     häß" + strings.Repeat(" ", 39) + "22\n",
		24: "NAME  TEXT            N\na     xxxxxxxxxxxxx…  1\nb     häß             22\n",
		5:  "NAME  TEXT    N\na     xxxxx…  1\nb     häß     22\n",
	} {
		var b strings.Builder
		check(t, rows(&b, screen{width: width}, lines...))
		if b.String() != want {
			t.Errorf("on %d columns:\n%swant\n%s", width, b.String(), want)
		}
	}
	var b strings.Builder
	check(t, rows(&b, screen{colour: true}, []string{"NAME"}, []string{"a"}))
	if b.String() != "\x1b[1mNAME\x1b[0m\na\n" {
		t.Errorf("with colours: %q", b.String())
	}
	if s := screenOf(&b, func(string) string { return "80" }); s != (screen{}) {
		t.Errorf("no terminal is %+v", s)
	}
}

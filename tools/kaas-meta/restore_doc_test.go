package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

const restoreDoc = "../../docs/restore.md"

var (
	shellRE  = regexp.MustCompile("(?ms)^```shell\n(.*?)^```$")
	exportRE = regexp.MustCompile(`(?m)^export (\w+)=.*$`)
)

// docBlocks are the commands that a section of the page tells to run, in order.
func docBlocks(t *testing.T, heading string) (blocks []string) {
	t.Helper()
	b, err := os.ReadFile(restoreDoc)
	check(t, err)
	_, rest, ok := strings.Cut(string(b), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", restoreDoc, heading)
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	for _, m := range shellRE.FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// runDoc runs a section's commands in one shell, with values of the test's in the place of what
// the page exports, and returns what each block printed.
func (e *lab) runDoc(heading string, values map[string]string) (outs []string) {
	e.t.Helper()
	bin := e.t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "kaas-meta"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		e.t.Fatalf("%v\n%s", err, out)
	}
	const mark = "== next block"
	script := "set -eu\n"
	for _, b := range docBlocks(e.t, heading) {
		script += exportRE.ReplaceAllStringFunc(b, func(line string) string {
			name := exportRE.FindStringSubmatch(line)[1]
			value, ok := values[name]
			if !ok {
				e.t.Fatalf("the page exports %s, of which the test knows nothing", name)
			}
			return fmt.Sprintf("export %s='%s'", name, value)
		}) + "echo '" + mark + "'\n"
	}
	cmd := exec.CommandContext(e.ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	e.t.Logf("%s\n%s", heading, out)
	check(e.t, err)
	outs = strings.Split(string(out), mark+"\n")
	return outs[:len(outs)-1]
}

// The page's walk, by its own words, on a cluster in which it has happened.
func TestDocOfDeletedOffsets(t *testing.T) {
	e := startLab(t, 2)
	e.create("orders", 2)
	e.create("returns", 1)
	orders := e.produce("orders", 2)
	orders.goesOn()
	e.commit("billing", "orders", map[int32]int64{0: 10, 1: 20})
	e.commit("billing", "returns", map[int32]int64{0: 0})
	e.commit("other", "orders", map[int32]int64{0: 7})
	before := later()
	_, err := e.adm.DeleteOffsets(e.ctx, "billing", kadm.TopicsSet{"orders": {0: {}, 1: {}}})
	check(t, err)
	e.commit("billing", "returns", map[int32]int64{0: 3})
	e.commit("other", "orders", map[int32]int64{0: 9})
	e.wantOffsets("billing", "orders", map[int32]int64{})
	m := e.join("other", "orders") // nobody commits beside a group's members
	e.await("the other group has its member", e.stable("other"))

	outs := e.runDoc("Someone deleted the wrong topic's offsets", map[string]string{"DIR": e.dir, "GROUP": "billing", "TOPIC": "orders", "BEFORE": before})
	if len(outs) != 6 {
		t.Fatalf("%d blocks", len(outs))
	}
	has(t, outs[1], "billing", "lost its offsets of 2 partition(s)")
	has(t, outs[3], "billing orders-0 - 10", "billing orders-1 - 20", "loses its data session", "dry run: nothing was changed")
	has(t, outs[4], "is restored, as ")
	has(t, outs[5], "orders 0 10", "orders 1 20", "returns 0 3", "restored from")
	e.wantOffsets("billing", "orders", map[int32]int64{0: 10, 1: 20})
	e.wantOffsets("billing", "returns", map[int32]int64{0: 3})
	e.wantOffsets("other", "orders", map[int32]int64{0: 9})

	// Its consumers go on from there, and nobody else was disturbed for good.
	b := e.join("billing", "orders")
	e.begins(b, map[int32]int64{0: 10, 1: 20})
	e.await("the other group has its member again", e.stable("other"))
	m.cl.Close()
	orders.goesOn()
	orders.end()
}

// stable asks whether a group has one member, and that its partitions.
func (e *lab) stable(group string) func() error {
	return func() error {
		gs, err := e.adm.DescribeGroups(context.Background(), group)
		if err == nil && (gs[group].State != "Stable" || len(gs[group].Members) != 1) {
			err = fmt.Errorf("it is %s with %d members", gs[group].State, len(gs[group].Members))
		}
		return err
	}
}

package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/substrate"
)

const marker = "a-record-that-strace-can-find"

// TestAnswerWaitsForTheVolume looks at the system calls around one durable produce
// (CASES P-01) and around the entry that a new topic is published with (N-06).
func TestAnswerWaitsForTheVolume(t *testing.T) {
	need(t, "strace")
	b := startBroker(t)
	cl := newClient(t, b.addr, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("before")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	data, controller := sessions(t, b.dir)
	calls := traced(t, b, func() {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(marker)).FirstErr(); err != nil {
			t.Error(err)
		}
		if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "another"); err != nil {
			t.Error(err)
		}
	})
	calls.wantProduceOrder(t, data)
	calls.wantEntryOrder(t, controller)
}

// wantProduceOrder: request, write, fdatasync, the token's rename, answer; each
// has returned before the next began.
func (cs calls) wantProduceOrder(t *testing.T, session string) {
	t.Helper()
	request := cs.after(0, "the request's read", func(c call) bool { return c.name == "read" && strings.Contains(c.args, marker) })
	write := cs.after(request.end, "the record's write to its segment", func(c call) bool {
		return isWrite(c) && strings.Contains(c.fd(), ".log") && strings.Contains(c.args, marker)
	})
	sync := cs.after(write.end, "an fdatasync of that segment", func(c call) bool {
		return (c.name == "fdatasync" || c.name == "fsync") && c.fd() == write.fd() && c.ret == "0"
	})
	check := cs.after(sync.end, "the Check of the data session", func(c call) bool { return c.movesToken(session) })
	answer := cs.after(request.end, "the answer on the connection", func(c call) bool { return isWrite(c) && c.fd() == request.fd() })
	for _, c := range []call{request, write, sync, check, answer} {
		if c.name == "" {
			t.Fatalf("missing: %s\n%s", c.what, cs.dump())
		}
	}
	if answer.begin < check.end {
		t.Fatalf("the answer began (line %d) before the Check had returned (line %d)\n%s", answer.begin, check.end, cs.dump())
	}
}

// wantEntryOrder: the entry's temporary file is synced, renamed into place, its
// directory synced, then the Check.
func (cs calls) wantEntryOrder(t *testing.T, session string) {
	t.Helper()
	rename := cs.after(0, "an entry's rename", func(c call) bool {
		return strings.HasPrefix(c.name, "rename") && strings.Contains(c.args, "/cluster/") && strings.Contains(c.args, `.snap"`) && c.ret == "0"
	})
	if rename.name == "" {
		t.Fatalf("missing: %s\n%s", rename.what, cs.dump())
	}
	from := quoted(rename.args)[0]
	to := quoted(rename.args)[1]
	synced := cs.after(0, "", func(c call) bool { return c.name == "fdatasync" && strings.Contains(c.fd(), from) && c.ret == "0" })
	dir := cs.after(rename.end, "the directory's fsync", func(c call) bool {
		return c.name == "fsync" && strings.HasSuffix(c.fd(), "<"+filepath.Dir(to)+">") && c.ret == "0"
	})
	check := cs.after(dir.end, "the Check of the controller's session", func(c call) bool { return c.movesToken(session) })
	switch {
	case synced.name == "" || synced.end > rename.begin:
		t.Fatalf("%s was renamed before it was synced\n%s", from, cs.dump())
	case dir.name == "":
		t.Fatalf("%s was not synced after the rename\n%s", filepath.Dir(to), cs.dump())
	case check.name == "":
		t.Fatalf("no Check after the directory's fsync\n%s", cs.dump())
	}
}

// call is one system call; begin and end are lines of the trace.
type call struct {
	name, args, ret string
	begin, end      int
	what            string
}

type calls []call

// fd is the first argument with the path that strace adds.
func (c call) fd() string {
	i := strings.IndexByte(c.args, '>')
	if i < 0 {
		return ""
	}
	return c.args[:i+1]
}

func (c call) movesToken(session string) bool {
	return strings.HasPrefix(c.name, "rename") && c.ret == "0" &&
		strings.Contains(c.args, "/sessions/"+session+`/0"`) && strings.Contains(c.args, "/sessions/"+session+`/1"`)
}

func isWrite(c call) bool {
	switch c.name {
	case "write", "writev", "pwrite64", "pwritev", "sendto", "sendmsg", "sendfile":
		return true
	}
	return false
}

// after returns the first call that begins after a line of the trace and fits.
func (cs calls) after(line int, what string, fits func(call) bool) call {
	for _, c := range cs {
		if c.begin > line && fits(c) {
			c.what = what
			return c
		}
	}
	return call{what: what}
}

func (cs calls) dump() string {
	var b strings.Builder
	for _, c := range cs {
		b.WriteString(strconv.Itoa(c.begin) + "-" + strconv.Itoa(c.end) + " " + c.name + "(" + c.args[:min(len(c.args), 160)] + " = " + c.ret + "\n")
	}
	return b.String()
}

// traced attaches strace to the broker while do runs.
func traced(t *testing.T, b *broker, do func()) calls {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", "-f", "-y", "-s", "1024", "-o", out,
		"-e", "trace=read,write,writev,pwrite64,pwritev,sendto,sendmsg,sendfile,fsync,fdatasync,rename,renameat,renameat2",
		"-p", strconv.Itoa(b.cmd.Process.Pid))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil || !strings.Contains(first, "attached") {
		_ = cmd.Wait() // its message says more than its code
		if os.Getenv("KAAS_E2E") == "all" {
			t.Fatalf("strace cannot attach: %s", first)
		}
		t.Skipf("strace cannot attach: %s", first)
	}
	time.Sleep(200 * time.Millisecond) // the other threads are attached one by one, without a word
	do()
	time.Sleep(200 * time.Millisecond)
	_ = cmd.Process.Signal(syscall.SIGINT) // strace then detaches and ends with a code of its own
	_ = cmd.Wait()
	trace, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return parseTrace(string(trace))
}

// parseTrace joins the two halves of calls that another thread's line came between.
func parseTrace(trace string) calls {
	var out calls
	open := map[string]int{} // index in out by thread
	for i, line := range strings.Split(trace, "\n") {
		pid, rest, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		rest = strings.TrimSpace(rest)
		if after, ok := strings.CutPrefix(rest, "<... "); ok {
			_, more, _ := strings.Cut(after, " resumed>")
			if at, ok := open[pid]; ok {
				delete(open, pid)
				out[at].args += more
				out[at].finish(i + 1)
			}
			continue
		}
		name, args, ok := strings.Cut(rest, "(")
		if !ok || strings.ContainsAny(name, " +-") {
			continue
		}
		c := call{name: name, args: args, begin: i + 1}
		if head, ok := strings.CutSuffix(args, "<unfinished ...>"); ok {
			c.args, c.end = strings.TrimSpace(head), 1<<30
			open[pid] = len(out)
		} else {
			c.finish(i + 1)
		}
		out = append(out, c)
	}
	return out
}

func (c *call) finish(line int) {
	c.end = line
	if i := strings.LastIndex(c.args, ") = "); i >= 0 {
		c.ret = c.args[i+4:]
	} else if i := strings.LastIndex(c.args, ")"); i >= 0 {
		_, ret, _ := strings.Cut(c.args[i:], "= ")
		c.ret = ret
	}
}

// quoted returns the strings among a call's arguments; two at least.
func quoted(args string) []string {
	parts := strings.Split(args, `"`)
	out := []string{}
	for i := 1; i < len(parts); i += 2 {
		out = append(out, parts[i])
	}
	return append(out, "", "")
}

// sessions returns the broker's sessions by the role that their tokens name.
func sessions(t *testing.T, dir string) (data, controller string) {
	t.Helper()
	tokens, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "[01]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		b, err := os.ReadFile(token)
		if err != nil {
			continue // moved since it was listed; below says if that matters
		}
		var id substrate.Identity
		if _, err := substrate.DecodeFile(token, substrate.KindSession, b, &id); err != nil {
			t.Fatal(err)
		}
		switch id.Role {
		case substrate.RoleData:
			data = filepath.Base(filepath.Dir(token))
		case substrate.RoleController:
			controller = filepath.Base(filepath.Dir(token))
		}
	}
	if data == "" || controller == "" {
		t.Fatalf("want a data and a controller session, found %q and %q among %v", data, controller, tokens)
	}
	return data, controller
}

func TestParseTrace(t *testing.T) {
	cs := parseTrace(`100   pwrite64(7</d/x.log>, "abc", 3, 0) = 3
101   fdatasync(7</d/x.log> <unfinished ...>
100   renameat(AT_FDCWD</d>, "/d/sessions/s/0", AT_FDCWD</d>, "/d/sessions/s/1") = 0
101   <... fdatasync resumed>)          = 0
102 +++ exited with 0 +++
`)
	if len(cs) != 3 {
		t.Fatalf("got %d calls", len(cs))
	}
	if c := cs[1]; c.begin != 2 || c.end != 4 || c.ret != "0" || c.fd() != "7</d/x.log>" {
		t.Errorf("got %+v", c)
	}
	if !cs[2].movesToken("s") || cs[2].movesToken("r") {
		t.Errorf("got %+v", cs[2])
	}
}

package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/testport"
)

// awaitServing waits for the first answer to Metadata and returns when it came.
func (p *process) awaitServing() time.Duration {
	p.t.Helper()
	began := time.Now()
	for time.Since(began) < patience {
		if nc, err := net.Dial("tcp", p.addr); err == nil {
			nc.Close()
			c := dial(p.t, p.addr)
			c.ask(kmsg.NewPtrMetadataRequest())
			return time.Since(began)
		}
		select {
		case <-p.done:
			p.t.Fatalf("exited with %d:\n%s", p.code, p.out.String())
		case <-time.After(time.Millisecond):
		}
	}
	p.t.Fatal("does not serve")
	return 0
}

// A start takes 20 ms on a machine that does nothing else. One that does has better moments, and
// needs its time for a process that only tells its version, too.
func TestProcessStartsFast(t *testing.T) {
	bin, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for range 5 {
		began := time.Now()
		if err := exec.Command(bin, "--version").Run(); err != nil {
			t.Fatal(err)
		}
		most := max(2*time.Second, 20*time.Since(began))
		d := spawn(t, filepath.Join(t.TempDir(), "new"), testport.Addr(t)).awaitServing()
		t.Logf("start to first Metadata answer on an empty directory: %v", d)
		if d < most {
			return
		}
		took = append(took, d)
	}
	t.Errorf("took %v", took)
}

// A long-polling consumer does not hold a stop up, and is answered.
func TestProcessStopsOnSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := spawn(t, t.TempDir(), testport.Addr(t))
		p.awaitServing()
		c := dial(t, p.addr)
		c.create("t", 3)
		if code, _ := c.produce("t", newBatch(nil, "v")); code != 0 {
			t.Fatal(code)
		}
		c.send(fetchReq("t", 1, 10*time.Minute))
		time.Sleep(50 * time.Millisecond)
		began := time.Now()
		p.signal(sig)
		corr, b := c.receive()
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 12
		c.decode(resp, b)
		if corr != c.corr || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Errorf("the poll was answered with error %d", resp.Topics[0].Partitions[0].ErrorCode)
		}
		code := p.exit()
		d := time.Since(began)
		t.Logf("%v to exit with a long poll attached: %v", sig, d)
		if code != 0 {
			t.Errorf("%v: exit code %d\n%s", sig, code, p.out.String())
		}
	}
}

// A newcomer with the same node.id takes over at once; the old process exits with 3.
func TestProcessFencedByNewcomer(t *testing.T) {
	dir := t.TempDir()
	old := spawn(t, dir, testport.Addr(t))
	old.awaitServing()
	c := dial(t, old.addr)
	c.create("t", 1)
	for range 10 {
		if code, _ := c.produce("t", newBatch(nil, "old")); code != 0 {
			t.Fatal(code)
		}
	}
	began := time.Now()
	newcomer := spawn(t, dir, testport.Addr(t))
	newcomer.awaitServing()
	if code := old.exit(); code != 3 {
		t.Errorf("the old process exits with %d:\n%s", code, old.out.String())
	}
	t.Logf("newcomer started to old process gone: %v", time.Since(began))
	d := dial(t, newcomer.addr)
	code, off := d.produceOnceOpen("t", newBatch(nil, "new"))
	if code != 0 || off != 10 {
		t.Errorf("the newcomer appends with error %d at %d, want 10", code, off)
	}
}

// snapshot is every file of a tree with its size and time.
func snapshot(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, name := range tree(t, dir)[1:] { // the directory's own time may change
		fi, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(name, fi.Size(), fi.ModTime(), fi.Mode()))
	}
	return out
}

// refused runs a start that must fail: exit code 1, one line, nothing changed.
func refused(t *testing.T, what, dir, addr, want string, sets ...string) {
	t.Helper()
	var before []string
	_, missing := os.Stat(dir)
	if missing == nil {
		before = snapshot(t, dir)
	}
	p := spawn(t, dir, addr, sets...)
	code := p.exit()
	out := strings.TrimSpace(p.out.String())
	if code != 1 || strings.Contains(out, "\n") || !strings.HasPrefix(out, "kaas: ") || !strings.Contains(out, want) {
		t.Errorf("%s: exit code %d, want 1 and a line with %q:\n%s", what, code, want, out)
	}
	if _, err := os.Stat(dir); (err == nil) != (missing == nil) {
		t.Errorf("%s: the directory appeared or went", what)
	} else if err == nil && !slices.Equal(before, snapshot(t, dir)) {
		t.Errorf("%s: the directory changed", what)
	}
}

func TestProcessRefusals(t *testing.T) {
	used := filepath.Join(t.TempDir(), "used")
	first := spawn(t, used, testport.Addr(t), "cluster.id=mine")
	first.awaitServing()
	dial(t, first.addr).create("t", 1)
	taken := first.addr
	root := t.TempDir()
	fresh := filepath.Join(root, "none")
	refused(t, "port in use", fresh, taken, "address already in use")
	refused(t, "http port in use", fresh, testport.Addr(t), "http.listeners", "http.listeners="+taken)
	refused(t, "unknown key", fresh, testport.Addr(t), "config no.such.key (from --set)", "no.such.key=1")
	refused(t, "bad durability", fresh, testport.Addr(t), "log.flush.interval.messages", "log.flush.interval.messages=always")

	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "a file", file, testport.Addr(t), "log.dirs")

	first.signal(syscall.SIGTERM)
	first.exit()
	refused(t, "another cluster", used, testport.Addr(t), "cluster", "cluster.id=other")
	id := filepath.Join(used, "volume", "id")
	good, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	newer := slices.Clone(good)
	newer[9]++ // the format version; then the header's own checksum
	binary.BigEndian.PutUint32(newer[20:], substrate.CRC32C(newer[:20]))
	for what, bytes := range map[string][]byte{"newer format": newer, "torn ID": good[:len(good)/2], "empty ID": nil, "foreign ID": []byte("hello, world, this is not a file of ours")} {
		if err := os.WriteFile(id, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, what, used, testport.Addr(t), "volume/id")
	}
}

// A directory that nothing can be made in, and one without room: one line, and
// nothing there afterwards that was not before.
func TestProcessFullVolume(t *testing.T) {
	refused(t, "not to be made", "/proc/kaas", testport.Addr(t), "log.dirs")
	for what, opts := range map[string]string{"no bytes": "size=8k", "no inodes": "size=1m,nr_inodes=1"} {
		dir := t.TempDir()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", opts, "none", dir).CombinedOutput(); err != nil {
			t.Skipf("may not mount: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
		refused(t, what, dir, testport.Addr(t), "no space left")
		refused(t, what+" for a new directory", filepath.Join(dir, "new", "one"), testport.Addr(t), "no space left")
		if es, err := os.ReadDir(dir); err != nil || len(es) > 0 {
			t.Errorf("%s: %v, %v", what, es, err)
		}
	}
}

func TestProcessVersionAndHelp(t *testing.T) {
	bin, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--version", "--help"} {
		out, err := exec.Command(bin, flag).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "kaas") {
			t.Errorf("%s: %v: %s", flag, err, out)
		}
	}
	if err := exec.Command(bin, "surplus").Run(); err == nil {
		t.Error("a surplus argument is accepted")
	}
}

// P-01: in the durable mode every acknowledgement follows a sync of what was
// written; in the relaxed mode it does not.
func TestProcessSyncsBeforeItAnswers(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace")
	}
	const records = 10
	count := map[string]int{}
	for _, flush := range []string{"1", "1000000"} {
		p := spawn(t, t.TempDir(), testport.Addr(t), "log.flush.interval.messages="+flush, "metadata.poll.interval.ms=60000")
		p.awaitServing()
		c := dial(t, p.addr)
		c.create("t", 1)
		trace := filepath.Join(t.TempDir(), "trace")
		st := exec.Command("strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,pwrite64,write", "-y", "-o", trace, "-p", strconv.Itoa(p.cmd.Process.Pid))
		if err := st.Start(); err != nil {
			t.Fatal(err)
		}
		attached := func() bool { b, _ := os.ReadFile(trace); return len(b) > 0 }
		for i := 0; i < 200 && !attached(); i++ {
			c.ask(kmsg.NewPtrMetadataRequest()) // its answer shows in the trace
			time.Sleep(10 * time.Millisecond)
		}
		if !attached() {
			_ = st.Process.Kill()
			_ = st.Wait()
			t.Skip("strace may not attach here")
		}
		for i := range records {
			if code, _ := c.produce("t", newBatch(nil, fmt.Sprintf("record %d", i))); code != 0 {
				t.Fatal(code)
			}
		}
		_ = st.Process.Signal(os.Interrupt)
		_ = st.Wait()
		b, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		acked, synced, written := 0, 0, false
		for _, line := range strings.Split(string(b), "\n") {
			segment := strings.Contains(line, ".log>")
			switch {
			case segment && strings.Contains(line, "pwrite64("):
				written = true
			case segment && (strings.Contains(line, "fdatasync(") || strings.Contains(line, "fsync(")):
				synced++
			case written && strings.Contains(line, "write(") && strings.Contains(line, "<socket:"):
				acked++
				written = false
				if flush == "1" && synced < acked {
					t.Errorf("answer %d came after %d syncs", acked, synced)
				}
			}
		}
		if acked != records {
			t.Errorf("flush %s: %d answers after a write were traced, want %d", flush, acked, records)
		}
		count[flush] = synced
		p.signal(syscall.SIGTERM)
		p.exit()
	}
	if count["1"] < records || count["1000000"] != 0 {
		t.Errorf("syncs of the segment: %v", count)
	}
}

func TestHTTP(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("seen", 1)
	c.produce("seen", newBatch(nil, "a", "b", "c"))
	c.fetch("seen", 0)
	c.fetch("unseen", 0)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + n.HTTPAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	defer http.DefaultClient.CloseIdleConnections()
	served(t, n)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/debug/pprof/": 200, "/debug/pprof/cmdline": 200, "/nothing": 404} {
		if code, body := get(path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, body := get("/metrics")
	for _, want := range []string{
		`kafka_server_brokertopicmetrics_messagesin_total{topic="seen"} 3`, `kafka_server_brokertopicmetrics_bytesout_total{topic="seen"}`,
		`kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 1`, `kafka_network_requestmetrics_errors_total{error="UNKNOWN_TOPIC_OR_PARTITION",request="Fetch"} 1`,
		`kafka_network_requestmetrics_totaltime_seconds_bucket{request="Fetch"`, `kafka_server_socket_server_metrics_connection_count 1`, `kaas_fence_checks_total{outcome="passed"}`, `kaas_network_bytes_in_total`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// Profiles are for this host alone.
func TestProfilesAreForLoopback(t *testing.T) {
	h := httpHandler(newMetrics(), func() error { return errStarting })
	for peer, want := range map[string]int{"127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200, "10.0.0.1:1": 404, "[2001:db8::1]:1": 404, "nonsense": 404} {
		req, err := http.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.RemoteAddr, req.Host = peer, "127.0.0.1:8080"
		w := &recorder{header: http.Header{}, code: 200}
		h.ServeHTTP(w, req)
		if w.code != want {
			t.Errorf("%s: %d, want %d", peer, w.code, want)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, "/readyz", nil)
	w := &recorder{header: http.Header{}, code: 200}
	if h.ServeHTTP(w, req); w.code != http.StatusServiceUnavailable {
		t.Errorf("/readyz before the partitions are open: %d", w.code)
	}
}

type recorder struct {
	header http.Header
	code   int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(code int)        { r.code = code }

// Who may not write on its volume is told so in one line, with whose it is and who asks. In a
// container there is nobody to look.
func TestProcessMayNotWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start it as somebody else")
	}
	bin, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	volume, err := os.MkdirTemp("", "kaas-root-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(volume)
	mine := filepath.Join(volume, "kaas") // others may not reach the one that was built
	b, err := os.ReadFile(bin)
	if err == nil {
		err = errors.Join(os.WriteFile(mine, b, 0o755), os.Chmod(volume, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(mine, "--set", "log.dirs="+volume+"/kaas-data", "--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "http.listeners=")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	out, err := cmd.CombinedOutput()
	want := "permission denied: the broker runs as user 65532, group 65532, and " + volume + " belongs to user 0, group 0, with mode 0755\n"
	if line := string(out); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(line, want) || strings.Count(line, "\n") != 1 {
		t.Errorf("%v, and it said %q, want %q", err, line, want)
	}
}

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	patience = 4 * time.Minute // a machine may be slow, and has other work
	between  = 50 * time.Millisecond
)

// parentOf is set in the process that TestMain turns into a parent of the program that it
// names, so that a test can kill that parent.
const parentOf = "K8SNODE_TEST_PARENT_OF"

func TestMain(m *testing.M) {
	if bin := os.Getenv(parentOf); bin != "" {
		os.Exit(beParent(bin, os.Args[1]))
	}
	os.Exit(m.Run())
}

func beParent(bin, dir string) int {
	cmd := exec.Command(bin, "api", "--dir", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return 1
	}
	if cmd.Run() != nil {
		return 1
	}
	return 0
}

// program builds k8snode, and programs that it needs, before a test counts the time.
func program(t *testing.T, needs ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "k8snode")
	output(t, exec.Command("go", "build", "-o", bin, "."))
	output(t, exec.Command(bin, append([]string{"build"}, needs...)...))
	return bin
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	said := &bytes.Buffer{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, said)
	}
	return string(out)
}

// running is a started `k8snode api`, or its parent.
type running struct {
	cmd   *exec.Cmd
	stdin io.Closer
	dir   string
}

func start(t *testing.T, dir string, cmd *exec.Cmd) *running {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{cmd: cmd, stdin: stdin, dir: dir}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // how it ended is the test's to judge
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "ready\n" {
		stdin.Close()
		t.Fatalf("it said %q (%v), want ready\n%s", line, err, stderr)
	}
	return r
}

func (r *running) pid(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// client is of the kubeconfig.
func (r *running) client(t *testing.T) (c *http.Client, url string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := json.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.Users[0].User.Cert, config.Users[0].User.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(config.Clusters[0].Cluster.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, config.Clusters[0].Cluster.Server
}

func call(c *http.Client, method, url, body string) (string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return string(b), err
}

// eventually waits until there is no reason left to wait.
func eventually(t *testing.T, why func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for reason := why(); reason != ""; reason = why() {
		if time.Now().After(deadline) {
			t.Fatal(reason)
		}
		time.Sleep(between)
	}
}

// alive tells a process from one that is gone, or ended and not yet reaped.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return !bytes.HasPrefix(after, []byte(" Z")) && !bytes.HasPrefix(after, []byte(" X"))
}

func TestWhoeverIsKilledComesBackWithItsData(t *testing.T) {
	bin, dir := program(t, "etcd", "kube-apiserver"), t.TempDir()
	r := start(t, dir, exec.Command(bin, "api", "--dir", dir))
	refusedBeside(t, bin, dir)
	c, url := r.client(t)
	maps := url + "/api/v1/namespaces/default/configmaps"
	if _, err := call(c, "POST", maps, `{"metadata":{"name":"kept"},"data":{"some":"thing"}}`); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		killed := r.pid(t, name)
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string {
			b, err := os.ReadFile(filepath.Join(dir, name+".pid"))
			if err != nil || string(b) == fmt.Sprintln(killed) {
				return fmt.Sprintf("no new %s after the kill (%q, %v)", name, b, err)
			}
			return ""
		})
		eventually(t, func() string {
			b, err := call(c, "GET", maps+"/kept", "")
			if err != nil {
				return fmt.Sprintf("after %s was killed: %v", name, err)
			}
			if !strings.Contains(b, `"some":"thing"`) {
				t.Fatalf("after %s was killed there is another map: %s", name, b)
			}
			return ""
		})
	}
}

// refusedBeside starts another one in the directory of one that runs.
func refusedBeside(t *testing.T, bin, dir string) {
	t.Helper()
	second := exec.Command(bin, "api", "--dir", dir)
	second.Stdin, _ = os.Open("/dev/zero") // which does not end
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another one runs in "+dir) {
		t.Errorf("a second one in the directory said %q (%v)", out, err)
	}
}

func TestNothingOutlivesIt(t *testing.T) {
	bin, dir := program(t, "etcd", "kube-apiserver"), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	direct := func() *exec.Cmd { return exec.Command(bin, "api", "--dir", dir) }
	parent := func() *exec.Cmd {
		cmd := exec.Command(self, dir)
		cmd.Env = append(os.Environ(), parentOf+"="+bin)
		return cmd
	}
	signal := func(sig syscall.Signal) func(*running) error {
		return func(r *running) error { return r.cmd.Process.Signal(sig) }
	}
	for _, tc := range []struct {
		name  string
		start func() *exec.Cmd
		end   func(*running) error
	}{
		{"its standard input closes", direct, func(r *running) error { return r.stdin.Close() }},
		{"it is asked to end", direct, signal(syscall.SIGTERM)},
		{"it is killed", direct, signal(syscall.SIGKILL)},
		{"its parent is killed", parent, signal(syscall.SIGKILL)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, dir, tc.start())
			pids := []int{r.pid(t, "etcd"), r.pid(t, "kube-apiserver")}
			if err := tc.end(r); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() string {
				for _, pid := range pids {
					if alive(pid) {
						return fmt.Sprintf("process %d is still there", pid)
					}
				}
				return ""
			})
		})
	}
}

func TestAProgramThatDoesNotComeUpSaysWhy(t *testing.T) {
	bin, dir := program(t, "etcd", "kube-apiserver"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o644); err != nil { // where etcd wants a directory
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "api", "--dir", dir)
	cmd.Stdin, _ = os.Open("/dev/zero")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "etcd ended before it was ready") || !strings.Contains(string(out), "not a directory") {
		t.Errorf("it said %q (%v)", out, err)
	}
}

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// nodeProgram is for tests with a whole node, which root alone can have and which takes
// minutes to build at first.
func nodeProgram(t *testing.T) string {
	t.Helper()
	if os.Getenv("KAAS_K8SNODE") == "" {
		t.Skip("KAAS_K8SNODE is not set: task test:k8s runs it, as root")
	}
	return program(t)
}

// cluster is a node that is up, and the kubectl for it.
type cluster struct{ bin, dir, kubectl string }

func up(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{bin: nodeProgram(t), dir: filepath.Join(t.TempDir(), "node")}
	c.kubectl = strings.TrimSpace(output(t, exec.Command(c.bin, "build", "kubectl")))
	t.Cleanup(func() { c.down(t) })
	output(t, exec.Command(c.bin, "up", "--dir", c.dir))
	return c
}

// down takes the node down, and looks for what is left.
func (c *cluster) down(t *testing.T) {
	t.Helper()
	if t.Failed() {
		c.show(t)
	}
	output(t, exec.Command(c.bin, "down", "--dir", c.dir))
	if _, err := os.Stat(c.dir); err == nil {
		t.Errorf("%s is still there", c.dir)
	}
	nothingLeft(t, c.dir)
}

func (c *cluster) show(t *testing.T) {
	t.Helper()
	for _, what := range []string{"get all,pv,pvc -A -o wide", "get events -A", "describe pods"} {
		out, err := c.kubectlCommand(strings.Fields(what)...).CombinedOutput()
		t.Logf("%s (%v)\n%s", what, err, out)
	}
}

// nothingLeft looks for whatever of the machine's is a node's.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(dir)) {
		t.Errorf("there are mounts below %s:\n%s", dir, mounts)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range commands {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(dir)) {
			t.Errorf("there is a process: %s: %q", name, b)
		}
	}
	for _, pattern := range []string{"/sys/class/net/k8[si]-*", "/sys/fs/cgroup/kaas-k8snode-*", "/sys/fs/cgroup/*/kaas-k8snode-*"} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range left { // others may have nodes too
			if !slices.Contains(before[pattern], name) {
				t.Errorf("there is %s", name)
			}
		}
	}
}

var before = map[string][]string{}

func init() {
	for _, pattern := range []string{"/sys/class/net/k8[si]-*", "/sys/fs/cgroup/kaas-k8snode-*", "/sys/fs/cgroup/*/kaas-k8snode-*"} {
		before[pattern], _ = filepath.Glob(pattern)
	}
}

func (c *cluster) kubectlCommand(args ...string) *exec.Cmd {
	return exec.Command(c.kubectl, append([]string{"--kubeconfig", filepath.Join(c.dir, "kubeconfig")}, args...)...)
}

func (c *cluster) get(t *testing.T, what, path string) string {
	t.Helper()
	return output(t, c.kubectlCommand("get", what, "-o", "jsonpath="+path))
}

// image gives the node an image of the probe.
func (c *cluster) image(t *testing.T) {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "probe")
	build := exec.Command("go", "build", "-o", probe, "./probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output(t, build)
	output(t, exec.Command(c.bin, "image", "--dir", c.dir, "probe:1", probe))
}

// fetch asks from here, over a new connection.
func fetch(url string) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return string(b), err
}

// ask is what the pod at an address says.
func ask(t *testing.T, ip, path string, form url.Values) string {
	t.Helper()
	got, err := fetch("http://" + ip + ":8080/" + path + "?" + form.Encode())
	if err != nil {
		t.Fatalf("%s %s %v: %v", ip, path, form, err)
	}
	return got
}

func TestThreePodsOnOneVolume(t *testing.T) {
	c := up(t)
	c.image(t)
	output(t, c.kubectlCommand("apply", "-f", "testdata/web.yaml"))
	output(t, c.kubectlCommand("rollout", "status", "statefulset/web", "--timeout=240s"))
	ips := map[string]string{}
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		ips[name] = c.get(t, "pod/"+name, "{.status.podIP}")
	}
	names := []string{"web-0", "web-1", "web-2"}

	t.Run("names", func(t *testing.T) {
		for _, of := range names {
			for _, name := range []string{of + ".web", of + ".web.default.svc.cluster.local"} {
				if got := ask(t, ips["web-0"], "lookup", url.Values{"name": {name}}); got != ips[of] {
					t.Errorf("a pod finds %s at %q, want %s", name, got, ips[of])
				}
			}
		}
		all := strings.Fields(ask(t, ips["web-1"], "lookup", url.Values{"name": {"web"}}))
		if len(all) != 3 {
			t.Errorf("the headless Service has the addresses %v, want those of three pods", all)
		}
	})

	t.Run("services", func(t *testing.T) {
		node := c.get(t, "node/node", `{.status.addresses[?(@.type=="InternalIP")].address}`)
		for what, url := range map[string]string{
			"the cluster address":       "http://" + c.get(t, "service/any", "{.spec.clusterIP}"),
			"the node's port":           "http://" + node + ":30080",
			"the load balancer address": "http://" + c.get(t, "service/balanced", "{.status.loadBalancer.ingress[0].ip}"),
		} {
			for from, fetch := range map[string]func(string) (string, error){"here": fetch, "a pod": fromPod(ips["web-0"])} {
				// kube-proxy may not have seen it yet.
				eventually(t, func() string {
					got, err := fetch(url)
					if err != nil || !slices.Contains(names, got) {
						return fmt.Sprintf("%s, from %s, says %q (%v)", what, from, got, err)
					}
					return ""
				})
			}
		}
		if got, err := fromPod(ips["web-0"])("http://any"); err != nil || !slices.Contains(names, got) {
			t.Errorf("a pod that goes by the Service's name gets %q (%v)", got, err)
		}
	})

	t.Run("volume", func(t *testing.T) {
		ask(t, ips["web-0"], "write", url.Values{"file": {"shared"}, "text": {"by web-0"}})
		if got := ask(t, ips["web-2"], "read", url.Values{"file": {"shared"}}); got != "by web-0" {
			t.Errorf("another pod reads %q", got)
		}
	})

	t.Run("exec and logs", func(t *testing.T) {
		if got := output(t, c.kubectlCommand("logs", "web-0")); got != "serving\n" {
			t.Errorf("the log is %q", got)
		}
		got, err := c.kubectlCommand("exec", "web-0", "--", "/probe").CombinedOutput()
		if err == nil || !strings.Contains(string(got), "address already in use") {
			t.Errorf("a second program in the pod says %q (%v)", got, err)
		}
	})

	t.Run("a pod comes back by its name", func(t *testing.T) {
		output(t, c.kubectlCommand("delete", "pod", "web-1", "--grace-period=1"))
		output(t, c.kubectlCommand("wait", "--for=condition=Ready", "pod/web-1", "--timeout=240s"))
		want := c.get(t, "pod/web-1", "{.status.podIP}")
		if got := ask(t, want, "read", url.Values{"file": {"shared"}}); got != "by web-0" {
			t.Errorf("it reads %q", got)
		}
		eventually(t, func() string {
			if got := ask(t, ips["web-0"], "lookup", url.Values{"name": {"web-1.web"}}); got != want {
				return fmt.Sprintf("its name leads to %q, want %s", got, want)
			}
			return ""
		})
	})

	t.Run("programs that are killed come back", func(t *testing.T) {
		programs := []string{"containerd", "coredns", "etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"}
		for _, name := range programs {
			output(t, exec.Command(c.bin, "signal", "--dir", c.dir, name, "KILL"))
		}
		// A new pod has need of all of them.
		eventually(t, func() string {
			if out, err := c.kubectlCommand("delete", "pod", "web-2", "--grace-period=1", "--wait=false").CombinedOutput(); err != nil {
				return string(out)
			}
			return ""
		})
		eventually(t, func() string {
			ip, err := fetch("http://" + ips["web-0"] + ":8080/lookup?name=web-2.web")
			if err != nil || ip == ips["web-2"] {
				return fmt.Sprintf("its name leads to %q (%v)", ip, err)
			}
			if got, err := fetch("http://" + ip + ":8080/"); got != "web-2" {
				return fmt.Sprintf("at its new address answers %q (%v)", got, err)
			}
			return ""
		})
	})

	t.Run("what is deleted is gone", func(t *testing.T) {
		volume := c.get(t, "pvc/data", "{.spec.volumeName}")
		output(t, c.kubectlCommand("delete", "-f", "testdata/web.yaml", "--timeout=240s"))
		eventually(t, func() string {
			if _, err := os.Stat(filepath.Join(c.dir, "volumes", volume)); err == nil {
				return "the volume's directory is still there"
			}
			return ""
		})
		output(t, c.kubectlCommand("wait", "--for=delete", "pv/"+volume, "--timeout=240s"))
	})
}

func fromPod(ip string) func(string) (string, error) {
	return func(target string) (string, error) {
		return fetch("http://" + ip + ":8080/get?" + url.Values{"url": {target}}.Encode())
	}
}

// TestDownAfterACrash kills `up` at several moments, and the node itself.
func TestDownAfterACrash(t *testing.T) {
	bin := nodeProgram(t)
	for _, tc := range []struct {
		name, line string
		kill       func(up *exec.Cmd, dir string) error
	}{
		{"up is killed at once", "the network", killUp},
		{"up is killed when there is an API", "the API", killUp},
		{"the node is killed when there is an API", "the API", killNode},
		{"up is interrupted", "the API", func(up *exec.Cmd, _ string) error { return up.Process.Signal(os.Interrupt) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &cluster{bin: bin, dir: filepath.Join(t.TempDir(), "node")}
			up := exec.Command(bin, "up", "--dir", c.dir)
			said, err := up.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(said)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), tc.line) {
				t.Log(lines.Text())
			}
			if err := tc.kill(up, c.dir); err != nil {
				t.Error(err)
			}
			rest, err := io.ReadAll(said)
			if err := up.Wait(); err == nil {
				t.Error("it came up")
			}
			t.Logf("it said on: %s (%v)", rest, err)
			output(t, exec.Command(bin, "down", "--dir", c.dir))
			nothingLeft(t, c.dir)
		})
	}
}

func killUp(up *exec.Cmd, _ string) error { return up.Process.Kill() }

func killNode(_ *exec.Cmd, dir string) error {
	var pid int
	b, err := os.ReadFile(filepath.Join(dir, "node.pid"))
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func TestADirectoryWithSomethingInItIsNotTaken(t *testing.T) {
	bin, dir := nodeProgram(t), t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"up", "down"} {
		if out, err := exec.Command(bin, command, "--dir", dir).CombinedOutput(); err == nil {
			t.Errorf("%s took the directory: %s", command, out)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/deploy/k8snode/control"
	"kaas.dev/kaas/deploy/k8snode/image"
	"kaas.dev/kaas/deploy/k8snode/process"
	"kaas.dev/kaas/deploy/k8snode/programs"
)

// fdKubeStatus is where RunKube says what is done.
const fdKubeStatus = 3

// kube is the programs of a node, and what stands for a cloud.
type kube struct {
	*Node
	programs *programs.Set
	plane    *control.Plane
	status   *os.File
	api      *api

	mu struct { // touched before anybody else runs, and when all is up
		sync.Mutex
		started []*process.Process
	}
}

// RunKube runs the programs of a node within its namespaces, until one of them fails to come
// up. Later ends are mended by another start.
func RunKube(ctx context.Context, dir string, set *programs.Set) error {
	n, err := At(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(pids, 0o755); err != nil {
		return err
	}
	k := &kube{Node: n, programs: set, status: os.NewFile(fdKubeStatus, "status")}
	// A proxy on the machine passes for the API server.
	k.plane = &control.Plane{
		Dir: n.Dir, Programs: set, Host: n.innerIP(), Services: n.services(), Names: []string{nodeName, n.outerIP()}, Pids: pids,
	}
	k.plane.Args = []string{
		"--kubelet-client-certificate=" + n.path("pki", "admin.crt"), "--kubelet-client-key=" + n.path("pki", "admin.key"),
		"--kubelet-preferred-address-types=InternalIP",
	}
	return k.plane.Run(ctx, k.run)
}

func (k *kube) say(format string, args ...any) error {
	_, err := fmt.Fprintf(k.status, format+"\n", args...)
	return err
}

// run starts everything else once there is an API.
func (k *kube) run(ctx context.Context) error {
	if err := k.say("the API is at %s", k.plane.URL()); err != nil {
		return err
	}
	if err := k.writeConfigs(); err != nil {
		return err
	}
	client, err := k.plane.Client()
	if err != nil {
		return err
	}
	k.api = &api{client: client, url: k.plane.URL()}
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range k.processes() {
		k.mu.started = append(k.mu.started, p)
		group.Go(func() error { return p.Run(ctx) })
	}
	group.Go(func() error { return k.cloud(ctx) })
	group.Go(func() error { return k.bringUp(ctx) })
	return group.Wait()
}

// bringUp does what must be done with the programs, in order, and says when all is there.
func (k *kube) bringUp(ctx context.Context) error {
	if err := k.loadPause(ctx); err != nil {
		return err
	}
	if err := k.createObjects(ctx); err != nil {
		return err
	}
	if err := until(ctx, "the node to be ready", k.nodeReady); err != nil {
		return err
	}
	if err := k.say("the node takes pods"); err != nil {
		return err
	}
	if err := until(ctx, "the DNS to answer", k.dnsAnswers); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.mu.started {
		p.Ready()
	}
	return errors.Join(k.say("the DNS answers through its Service"), k.say(ready), k.status.Close())
}

func (k *kube) processes() []*process.Process {
	admin := "--kubeconfig=" + k.plane.Kubeconfig()
	return []*process.Process{
		{Name: "containerd", Path: "containerd", Args: []string{"--config", k.path("etc", "containerd.toml")}, Logs: k.Dir, Pids: pids},
		k.process("kube-controller-manager", admin, "--leader-elect=false", "--bind-address=127.0.0.1",
			"--service-account-private-key-file="+k.path("pki", "service-account.key"), "--root-ca-file="+k.path("pki", "ca.crt")),
		k.process("kube-scheduler", admin, "--leader-elect=false", "--bind-address=127.0.0.1"),
		k.process("kubelet", "--kubeconfig="+k.path("etc", "kubelet.kubeconfig"), "--config="+k.path("etc", "kubelet.json"),
			"--hostname-override="+nodeName, "--node-ip="+k.innerIP()),
		k.process("kube-proxy", admin, "--proxy-mode=nftables", "--cluster-cidr="+k.pods(), "--hostname-override="+nodeName,
			"--bind-address="+k.innerIP(), "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0"),
		k.process("coredns", "-conf", k.path("etc", "Corefile")),
	}
}

func (k *kube) process(name string, args ...string) *process.Process {
	return &process.Process{Name: name, Path: k.programs.Path(name), Args: args, Logs: k.Dir, Pids: pids}
}

// loadPause gives containerd the image that holds a pod together.
func (k *kube) loadPause(ctx context.Context) error {
	file := k.path("etc", "pause.tar")
	if err := WriteImage(file, &image.Image{Name: pauseName, Programs: []string{k.programs.Path("pause")}}); err != nil {
		return err
	}
	return until(ctx, "containerd to take an image", func(ctx context.Context) error {
		return run(ctx, "ctr", "--namespace", "k8s.io", "images", "import", file)
	})
}

// WriteImage writes an image into a file.
func WriteImage(file string, i *image.Image) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return i.Write(f)
}

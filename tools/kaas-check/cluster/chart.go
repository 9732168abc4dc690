package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kaas.dev/kaas/tools/internal/kube"
)

// Chart is brokers that deploy/helm has installed on a node of deploy/k8snode. Clients are
// outside, and connect to the brokers' node ports.
type Chart struct {
	cfg   Config
	dir   string // of the programs
	node  string // of the node
	chart string
	ip    string // the node's
	api   kubernetes.Interface
	log   *appender
	image int // which of the images the brokers have
	sets  []string
	way   *kube.Way // of the brokers to the API, unless nil: then they go by its Service
	stop  context.CancelFunc
	wg    sync.WaitGroup // of who follows logs
}

var (
	_ Cluster = (*Chart)(nil)
	_ Pods    = (*Chart)(nil)
)

const (
	release   = "kaas"
	namespace = "default"
	nodePort  = 31090
	// MostBrokers is how many a Chart may be scaled to.
	MostBrokers = 5
	rollTime    = 5 * time.Minute
)

var imageTags = []string{"first", "second"}

// NewChart starts a node and gives it two images of the broker. It needs root. The sets are values
// of the chart, as helm takes them. With byWay the API can be slow for the brokers, or cut off.
func NewChart(ctx context.Context, cfg Config, sets []string, byWay bool) (_ *Chart, err error) {
	f, err := cfg.Dir.CreateExclusive("kubernetes.log")
	if err != nil {
		return nil, err
	}
	root := cfg.Dir.Root()
	c := &Chart{cfg: cfg, dir: root, node: filepath.Join(root, "node"), log: &appender{f: f}, sets: sets, stop: func() {}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.chart, err = kube.Deploy(ctx, "helm", "kaas"); err != nil {
		return nil, err
	}
	for _, program := range [][3]string{{"k8snode", "k8snode", "."}, {"helm", "helm", "helm.sh/helm/v4/cmd/helm"}} {
		if err := kube.Build(ctx, filepath.Join(root, program[0]), program[1], program[2]); err != nil {
			return nil, err
		}
	}
	if err := c.run(ctx, "k8snode", "up", "--dir", c.node); err != nil {
		return nil, err
	}
	return c, errors.Join(c.connect(ctx, byWay), c.images(ctx), c.values())
}

func (c *Chart) connect(ctx context.Context, byWay bool) error {
	conf, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return err
	}
	conf.QPS = -1
	if byWay {
		if err := c.openWay(conf.Host); err != nil {
			return err
		}
	}
	if c.api, err = kubernetes.NewForConfig(conf); err != nil {
		return err
	}
	nodes, err := c.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == core.NodeInternalIP {
				c.ip = a.Address
			}
		}
	}
	if c.ip == "" {
		return errors.New("the node has no address")
	}
	return nil
}

func (c *Chart) kubeconfig() string { return filepath.Join(c.node, "kubeconfig") }

// images gives the node two images, of one broker with another version each.
func (c *Chart) images(ctx context.Context) error {
	for _, tag := range imageTags {
		bin := filepath.Join(c.dir, tag, "kaas")
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-X main.version="+tag, "-o", bin, "kaas.dev/kaas/server/cmd/kaas")
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the broker: %w\n%s", err, out)
		}
		if err := c.run(ctx, "k8snode", "image", "--dir", c.node, "docker.io/library/kaas:"+tag, bin); err != nil {
			return err
		}
	}
	return nil
}

// values writes those of the chart that the defaults do not have.
func (c *Chart) values() error {
	settings := map[string]string{}
	for _, s := range c.cfg.Sets {
		key, value, _ := strings.Cut(s, "=")
		settings[key] = value
	}
	type object = map[string]any
	values := object{
		"image":     object{"repository": "docker.io/library/kaas", "pullPolicy": "Never"},
		"external":  object{"enabled": true, "nodePortBase": nodePort},
		"settings":  settings,
		"resources": object{"requests": object{"cpu": "50m", "memory": "128Mi"}, "limits": object{"memory": "1Gi"}},
	}
	if c.way != nil {
		env, err := c.byWay()
		if err != nil {
			return err
		}
		values["extraEnv"] = env
	}
	b, err := json.Marshal(values)
	if err != nil {
		return err
	}
	f, err := c.cfg.Dir.CreateExclusive("values.json")
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}

// run runs one of the programs; what it says is in the log.
func (c *Chart) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.dir, program), args...)
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(c.log, "%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, args[0], err, out)
	}
	return nil
}

// helm installs or changes the release, and returns when all brokers are ready.
func (c *Chart) helm(ctx context.Context, brokers int) error {
	args := []string{"upgrade", "--install", release, c.chart, "--kubeconfig", c.kubeconfig(), "--namespace", namespace,
		"-f", filepath.Join(c.dir, "values.json"), "--wait", "--timeout", rollTime.String(), "--force-conflicts"} // KillAll changes replicas besides
	for _, set := range append(c.sets, fmt.Sprintf("replicas=%d,image.tag=%s", brokers, imageTags[c.image%len(imageTags)])) {
		args = append(args, "--set", set)
	}
	return c.run(ctx, "helm", args...)
}

// Nodes implements Cluster: those that are there all the time.
func (c *Chart) Nodes() (out []int32) {
	for i := range c.cfg.Brokers {
		out = append(out, int32(i))
	}
	return out
}

// Addrs implements Cluster.
func (c *Chart) Addrs() (out []string) {
	for _, id := range c.Nodes() {
		out = append(out, net.JoinHostPort(c.ip, strconv.Itoa(nodePort+int(id))))
	}
	return out
}

// Dial implements Cluster.
func (c *Chart) Dial() func(context.Context, string, string) (net.Conn, error) { return nil }

// Start implements Cluster.
func (c *Chart) Start(ctx context.Context) error {
	follow, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.wg.Go(func() { c.logs(follow) })
	return c.helm(ctx, c.cfg.Brokers)
}

// Upgrade implements Pods.
func (c *Chart) Upgrade(ctx context.Context) error {
	c.image++
	return c.roll(ctx, c.cfg.Brokers)
}

// Scale implements Pods.
func (c *Chart) Scale(ctx context.Context, brokers int) error {
	if err := c.roll(ctx, brokers); err != nil {
		return err
	}
	for i := brokers; i < MostBrokers; i++ {
		if err := c.await(ctx, int32(i), func(p *core.Pod) bool { return p == nil }); err != nil {
			return err
		}
	}
	return nil
}

// roll is helm, and waits until every broker has what it gave.
func (c *Chart) roll(ctx context.Context, brokers int) error {
	if err := c.helm(ctx, brokers); err != nil {
		return err
	}
	for i := range brokers {
		if err := c.await(ctx, int32(i), func(p *core.Pod) bool {
			return ready(p) && strings.HasSuffix(p.Spec.Containers[0].Image, ":"+imageTags[c.image%len(imageTags)])
		}); err != nil {
			return err
		}
	}
	return nil
}

func podName(id int32) string { return fmt.Sprintf("%s-%d", release, id) }

// pod is nil where there is none.
func (c *Chart) pod(ctx context.Context, id int32) (*core.Pod, error) {
	ps, err := c.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + podName(id)})
	if err != nil || len(ps.Items) == 0 {
		return nil, err
	}
	return &ps.Items[0], nil
}

func ready(p *core.Pod) bool {
	if p == nil || p.DeletionTimestamp != nil {
		return false
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == core.PodReady {
			return cond.Status == core.ConditionTrue
		}
	}
	return false
}

func (c *Chart) await(ctx context.Context, id int32, ok func(*core.Pod) bool) error {
	ctx, cancel := context.WithTimeout(ctx, rollTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		p, err := c.pod(ctx, id)
		if err == nil && ok(p) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("pod %s is not as it should be: %w: %v", podName(id), ctx.Err(), err)
		}
	}
}

// another has a pod's successor be ready.
func another(before *core.Pod) func(*core.Pod) bool {
	return func(p *core.Pod) bool { return ready(p) && p.UID != before.UID }
}

// Kill implements Cluster, and Pods: a deletion without grace.
func (c *Chart) Kill(id int32) error { return c.remove(id, new(int64)) }

// Terminate implements Cluster, and Pods.
func (c *Chart) Terminate(id int32) error { return c.remove(id, nil) }

func (c *Chart) remove(id int32, grace *int64) error {
	ctx := context.Background()
	p, err := c.pod(ctx, id)
	if err != nil || p == nil {
		return errors.Join(err, fmt.Errorf("pod %s is there: %v", podName(id), p != nil))
	}
	if err := c.api.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		return err
	}
	return c.await(ctx, id, another(p))
}

// Run implements Cluster.
func (c *Chart) Run(ctx context.Context, id int32) error { return c.await(ctx, id, ready) }

// Stop implements Cluster. A broker whose container was started again has ended by itself, or
// by its probes.
func (c *Chart) Stop() error {
	ctx := context.Background()
	var errs []error
	for _, id := range c.Nodes() {
		p, err := c.pod(ctx, id)
		errs = append(errs, err)
		if p == nil {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.RestartCount > 0 {
				errs = append(errs, fmt.Errorf("broker %d was started again %d times: %+v", id, s.RestartCount, s.LastTerminationState.Terminated))
			}
		}
	}
	errs = append(errs, c.helm(ctx, 0))
	for _, id := range c.Nodes() {
		errs = append(errs, c.await(ctx, id, func(p *core.Pod) bool { return p == nil }))
	}
	return errors.Join(errs...)
}

// logs writes what each pod says into a file of the run's directory, until ctx ends.
func (c *Chart) logs(ctx context.Context) {
	seen := map[string]bool{}
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		ps, err := c.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		for i := 0; err == nil && i < len(ps.Items); i++ {
			p := &ps.Items[i]
			if p.Status.Phase != core.PodRunning || seen[string(p.UID)] {
				continue
			}
			seen[string(p.UID)] = true
			name := fmt.Sprintf("%s-%02d.log", p.Name, len(seen))
			c.wg.Go(func() {
				if err := c.keepLog(ctx, p.Name, name); err != nil && ctx.Err() == nil {
					fmt.Fprintf(c.log, "log of %s: %v\n", name, err)
				}
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Chart) keepLog(ctx context.Context, pod, name string) error {
	r, err := c.api.CoreV1().Pods(namespace).GetLogs(pod, &core.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := c.cfg.Dir.CreateExclusive(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(&appender{f: f}, r)
	return errors.Join(err, f.Close())
}

// Close implements Cluster.
func (c *Chart) Close() {
	c.stop()
	c.wg.Wait()
	_ = c.run(context.Background(), "k8snode", "down", "--dir", c.node) // the log has what it says
	if c.way != nil {
		c.way.Close()
	}
	c.log.f.Close()
}

var errPods = errors.New("not for the pods of a chart")

// Pause implements Cluster.
func (c *Chart) Pause(int32) error { return errPods }

// Resume implements Cluster.
func (c *Chart) Resume(int32) error { return errPods }

// TakeOver implements Cluster.
func (c *Chart) TakeOver(context.Context, int32) error { return errPods }

// AwaitFenced implements Cluster.
func (c *Chart) AwaitFenced(int32, time.Duration) error { return nil }

// Fill implements Cluster.
func (c *Chart) Fill() error { return errPods }

// Free implements Cluster.
func (c *Chart) Free() error { return nil }

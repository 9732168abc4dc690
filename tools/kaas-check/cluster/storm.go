package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// KillAll implements Pods. The StatefulSet is to have no pods, which gives them their grace, and
// in that the processes are killed, so that none stops in order and none is started again before
// its time.
func (c *Chart) KillAll(ctx context.Context, apart time.Duration) error {
	ids, err := c.containers(ctx)
	if err != nil {
		return err
	}
	if err := c.replicas(ctx, 0); err != nil {
		return err
	}
	for _, id := range ids {
		if err := c.inside(ctx, "ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id); err != nil {
			return err
		}
	}
	nodes := c.Nodes()
	for _, id := range nodes {
		if err := c.await(ctx, id, func(p *core.Pod) bool { return p == nil }); err != nil {
			return err
		}
	}
	if apart == 0 {
		err = c.replicas(ctx, len(nodes))
	}
	for i := 0; apart > 0 && i < len(nodes) && err == nil; i++ {
		if i > 0 {
			timer := time.NewTimer(apart)
			<-timer.C // whatever becomes of ctx, all are to run in the end
		}
		err = c.replicas(ctx, i+1)
	}
	return err
}

// containers are those of the brokers, as containerd knows them.
func (c *Chart) containers(ctx context.Context) (ids []string, err error) {
	for _, id := range c.Nodes() {
		p, err := c.pod(ctx, id)
		if err != nil {
			return nil, err
		}
		if p == nil || len(p.Status.ContainerStatuses) == 0 {
			return nil, fmt.Errorf("pod %s has no container", podName(id))
		}
		_, name, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
		ids = append(ids, name)
	}
	return ids, nil
}

// inside runs something within the node.
func (c *Chart) inside(ctx context.Context, command ...string) error {
	return c.run(ctx, "k8snode", append([]string{"exec", "--dir", c.node, "--"}, command...)...)
}

// replicas is for what helm would wait in.
func (c *Chart) replicas(ctx context.Context, n int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
	_, err := c.api.AppsV1().StatefulSets(namespace).Patch(ctx, release, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

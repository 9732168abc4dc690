package cluster

import (
	"context"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Evict implements Pods. While one is on its way the eviction of another has to be refused,
// with 429, as the PodDisruptionBudget wants it.
func (c *Chart) Evict(ctx context.Context) error {
	nodes := c.Nodes()
	for i, id := range nodes {
		p, err := c.evictWhenAllowed(ctx, id)
		if err != nil {
			return err
		}
		next := nodes[(i+1)%len(nodes)]
		if err := c.evict(ctx, next); !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("broker %d was evicted, and the eviction of broker %d is not refused: %v", id, next, err)
		}
		if err := c.await(ctx, id, another(p)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Chart) evict(ctx context.Context, id int32) error {
	return c.api.PolicyV1().Evictions(namespace).Evict(ctx, &policy.Eviction{ObjectMeta: metav1.ObjectMeta{Name: podName(id), Namespace: namespace}})
}

// evictWhenAllowed waits until the budget has seen that all pods are ready. It returns the pod
// that is to go.
func (c *Chart) evictWhenAllowed(ctx context.Context, id int32) (*core.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, rollTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		p, err := c.pod(ctx, id)
		if err == nil && p != nil {
			if err = c.evict(ctx, id); err == nil {
				return p, nil
			}
		}
		if err != nil && !apierrors.IsTooManyRequests(err) {
			return nil, fmt.Errorf("evict broker %d: %w", id, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("the eviction of broker %d is refused all the time: %w", id, err)
		}
	}
}

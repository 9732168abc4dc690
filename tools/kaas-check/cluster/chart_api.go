package cluster

import (
	"context"
	"net"
	"net/url"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kaas.dev/kaas/tools/internal/kube"
)

var (
	_ API     = (*Chart)(nil)
	_ Elected = (*Chart)(nil)
)

// openWay has brokers reach the API by a way through this process, which begins at this
// host's end of the link to the node. It is for the values of the chart.
func (c *Chart) openWay(server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	to, err := net.Dial("udp", u.Host) // which sends nothing, and finds our end
	if err != nil {
		return err
	}
	defer to.Close()
	here, _, err := net.SplitHostPort(to.LocalAddr().String())
	if err != nil {
		return err
	}
	c.way, err = kube.OpenWay(here, func() string { return u.Host })
	return err
}

// byWay is the environment of brokers that go along it.
func (c *Chart) byWay() ([]map[string]any, error) {
	host, port, err := net.SplitHostPort(c.way.Addr())
	return []map[string]any{{"name": "KUBERNETES_SERVICE_HOST", "value": host}, {"name": "KUBERNETES_SERVICE_PORT", "value": port}}, err
}

func (c *Chart) signalAPI(signal string) error {
	return c.run(context.Background(), "k8snode", "signal", "--dir", c.node, "kube-apiserver", signal)
}

// PauseAPI implements API, for all of the node.
func (c *Chart) PauseAPI() error { return c.signalAPI("STOP") }

// ResumeAPI implements API.
func (c *Chart) ResumeAPI() error { return c.signalAPI("CONT") }

// KillAPI implements API, for all of the node.
func (c *Chart) KillAPI(ctx context.Context) error {
	if err := c.signalAPI("KILL"); err != nil {
		return err
	}
	return c.await(ctx, 0, func(p *core.Pod) bool { return p != nil })
}

// SlowAPI implements API, for the brokers.
func (c *Chart) SlowAPI(by time.Duration) error {
	c.way.Slow(by)
	return nil
}

// CutAPI implements API. All brokers have one way.
func (c *Chart) CutAPI(...int32) error {
	c.way.Cut()
	return nil
}

// HealAPI implements API.
func (c *Chart) HealAPI() error {
	c.way.Heal()
	return nil
}

// RestoreAPI implements API.
func (c *Chart) RestoreAPI(context.Context) error { return errPods }

// DeleteLease implements API.
func (c *Chart) DeleteLease(ctx context.Context) error {
	return c.api.CoordinationV1().Leases(namespace).Delete(ctx, LeaseName, metav1.DeleteOptions{})
}

// Told implements Elected.
func (c *Chart) Told(ctx context.Context) string {
	l, err := c.api.CoordinationV1().Leases(namespace).Get(ctx, LeaseName, metav1.GetOptions{})
	if err != nil {
		return told("", 0, err)
	}
	holder, transitions := "", int32(0)
	if h := l.Spec.HolderIdentity; h != nil {
		holder = *h
	}
	if n := l.Spec.LeaseTransitions; n != nil {
		transitions = *n
	}
	return told(holder, transitions, nil)
}

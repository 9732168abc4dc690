package election

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The times of an election by a Lease, unless others are asked for. They are longer than
// those on the volume, so that an API server which takes two seconds for each call deposes
// nobody: a call may take half of the deadline.
const (
	LeaseDuration      = 6 * time.Second
	LeaseRenewDeadline = 5 * time.Second
	LeaseRetry         = time.Second
)

// LeaseConfig names the Lease of a cluster.
type LeaseConfig struct {
	// Namespace of the Lease; empty means the one that this process runs in, or that the
	// configuration file names.
	Namespace string
	// Name of the Lease. Clusters in one namespace have different ones.
	Name string
	// Identity is the node.id in decimal.
	Identity string
	// Timeout of a call to the API server, below RenewDeadline; 0 means half of
	// LeaseRenewDeadline.
	Timeout time.Duration
}

// NewLeaseLock returns a Lease of Kubernetes as a lock for [Run]: by the files that
// KUBECONFIG names, or else from inside the cluster. It calls nobody.
func NewLeaseLock(cfg LeaseConfig) (rl.Interface, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(os.Getenv("KUBECONFIG"))}
	client := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	c, err := client.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("election lease: no Kubernetes here, neither around this process nor in KUBECONFIG: %w", err)
	}
	if cfg.Namespace == "" {
		if cfg.Namespace, _, err = client.Namespace(); err != nil {
			return nil, fmt.Errorf("election lease: namespace: %w", err)
		}
	}
	leases, err := coordination.NewForConfig(own(c, cfg.Timeout))
	if err != nil {
		return nil, fmt.Errorf("election lease: %w", err)
	}
	return newLeaseLock(leases, cfg)
}

// own is a configuration for the election alone. A call that is not answered takes its
// connection along, which over HTTP/2 would be kept, and the next ones sent into it, for as
// long as it takes to find that nobody is at its other end. The pace is the election's.
func own(c *rest.Config, timeout time.Duration) *rest.Config {
	c = rest.AddUserAgent(rest.CopyConfig(c), "kaas-election")
	c.NextProtos = []string{"http/1.1"}
	c.QPS = -1
	if c.Timeout = timeout; c.Timeout == 0 {
		c.Timeout = LeaseRenewDeadline / 2
	}
	return c
}

func newLeaseLock(leases coordination.LeasesGetter, cfg LeaseConfig) (rl.Interface, error) {
	if err := checkIdentity(cfg.Identity); err != nil {
		return nil, err
	}
	if cfg.Namespace == "" || cfg.Name == "" {
		return nil, errors.New("election lease: want a namespace and a name")
	}
	return &rl.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name},
		Client:     leases,
		LockConfig: rl.ResourceLockConfig{Identity: cfg.Identity},
	}, nil
}

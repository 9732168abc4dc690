package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	api "k8s.io/api/coordination/v1"
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
	LeaseDuration      = 8 * time.Second
	LeaseRenewDeadline = 6 * time.Second
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
	return &leaseLock{leases: leases.Leases(cfg.Namespace), cfg: cfg}, nil
}

// leaseLock is a Lease as a lock. The library's own shows observers times cut to seconds, so
// that a renewal in the second of the one before is none to them.
type leaseLock struct {
	leases coordination.LeaseInterface
	cfg    LeaseConfig
	lease  *api.Lease // that the last call returned
}

// Get implements resourcelock.Interface.
func (l *leaseLock) Get(ctx context.Context) (*rl.LeaderElectionRecord, []byte, error) {
	lease, err := l.leases.Get(ctx, l.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	raw, err := lease.Spec.Marshal() // which keeps microseconds
	if err != nil {
		return nil, nil, fmt.Errorf("election lease %s: %w", l.Describe(), err)
	}
	l.lease = lease
	return rl.LeaseSpecToLeaderElectionRecord(&lease.Spec), append(raw, lease.UID...), nil
}

// Create implements resourcelock.Interface.
func (l *leaseLock) Create(ctx context.Context, r rl.LeaderElectionRecord) error {
	return l.keep(l.leases.Create(ctx, &api.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.cfg.Namespace, Name: l.cfg.Name},
		Spec:       rl.LeaderElectionRecordToLeaseSpec(&r),
	}, metav1.CreateOptions{}))
}

// Update implements resourcelock.Interface. It conflicts if the Lease has changed since the
// last call that returned it.
func (l *leaseLock) Update(ctx context.Context, r rl.LeaderElectionRecord) error {
	if l.lease == nil {
		return errors.New("election lease: it is not known yet")
	}
	next := l.lease.DeepCopy()
	next.Spec = rl.LeaderElectionRecordToLeaseSpec(&r)
	return l.keep(l.leases.Update(ctx, next, metav1.UpdateOptions{}))
}

func (l *leaseLock) keep(lease *api.Lease, err error) error {
	if err == nil {
		l.lease = lease
	}
	return err
}

// RecordEvent implements resourcelock.Interface.
func (*leaseLock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *leaseLock) Identity() string { return l.cfg.Identity }

// Describe implements resourcelock.Interface.
func (l *leaseLock) Describe() string { return l.cfg.Namespace + "/" + l.cfg.Name }

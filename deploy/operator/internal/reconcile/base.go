package reconcile

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// Cluster is what is reconciled: a [*kafka.Cluster].
type Cluster interface {
	Topic(ctx context.Context, name string) (*kafka.Topic, error)
	CreateTopic(ctx context.Context, name string, partitions int32, configs map[string]string) (*kafka.Topic, error)
	AddPartitions(ctx context.Context, name string, total int32) error
	AlterTopic(ctx context.Context, name string, set map[string]string, reset []string) error
	DeleteTopic(ctx context.Context, name string, id kafka.TopicID) error

	Passwords(ctx context.Context, user string) (map[kafka.Mechanism]int32, error)
	SetPassword(ctx context.Context, user, password string, iterations int32) error
	RemovePassword(ctx context.Context, user string, m kafka.Mechanism) error
	ACLs(ctx context.Context, principal string) ([]kafka.ACL, error)
	CreateACLs(ctx context.Context, principal string, acls []kafka.ACL) error
	DeleteACLs(ctx context.Context, principal string, acls []kafka.ACL) error
	Quotas(ctx context.Context, user string) (map[string]float64, error)
	AlterQuotas(ctx context.Context, user string, set map[string]float64, remove []string) error
}

// Base is what both reconcilers work with.
type Base struct {
	Client  client.Client
	Events  events.EventRecorder
	Cluster Cluster
	Log     *slog.Logger
	Scheme  *runtime.Scheme

	// Resync is how often what has not changed is looked at again.
	Resync time.Duration
	// MostRetry is the most between two tries of what fails.
	MostRetry time.Duration
	// Workers is how many resources of a kind are looked at at a time.
	Workers int
}

const (
	// leastRetry is how soon what has failed is tried again.
	leastRetry = 500 * time.Millisecond
	// afterConflict is how soon a resource is looked at again that has changed meanwhile.
	afterConflict = 50 * time.Millisecond
	// mostTime is how long one look at a resource may take.
	mostTime = time.Minute
)

func (b *Base) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: b.Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](leastRetry, b.MostRetry),
	}
}

// ofSpec lets what a resource is to be through, its deletion too, and not its status.
func ofSpec() builder.Predicates {
	return builder.WithPredicates(predicate.GenerationChangedPredicate{})
}

// again is when a resource is looked at again; not all of them at once.
func (b *Base) again() reconcile.Result {
	return reconcile.Result{RequeueAfter: time.Duration(float64(b.Resync) * (0.9 + 0.2*rand.Float64()))}
}

// setFinalizer sees to it that the resource has its finalizer.
func (b *Base) setFinalizer(ctx context.Context, obj resource, name string) error {
	old := obj.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(obj, name) {
		return nil
	}
	return b.Client.Patch(ctx, obj, against(old))
}

// letGo takes the finalizer off: the resource goes.
func (b *Base) letGo(ctx context.Context, obj resource, name string) error {
	old := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, name) {
		return nil
	}
	return client.IgnoreNotFound(b.Client.Patch(ctx, obj, against(old)))
}

// against is a patch that holds for what old is alone.
func against(old client.Object) client.Patch {
	return client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
}

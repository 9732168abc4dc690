package reconcile

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// kind is a kind of resources, T, and what its reconciler does to them. What goes around that
// is the same for every kind.
type kind[T any, R interface {
	*T
	resource
}] struct {
	*Base
	holders   *holders
	finalizer string
	named     func(ctx context.Context, name string) ([]T, error) // all resources for a name
	sync      func(ctx context.Context, obj, old R) error         // makes the cluster what obj says; old is obj as the API server has it
	drop      func(ctx context.Context, obj R) error              // does what obj's deletion is to do to the cluster
}

// look is one look at a resource.
func (k *kind[T, R]) look(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	obj, old := R(new(T)), R(new(T))
	if err := k.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			k.holders.gone(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	obj.CopyTo(old)
	if obj.GetDeletionTimestamp() != nil {
		return k.delete(ctx, obj, old)
	}
	return k.finish(ctx, obj, old, k.sync(ctx, obj, old))
}

func (k *kind[T, R]) delete(ctx context.Context, obj, old R) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(obj, k.finalizer) || k.holders.hasLeft(obj) {
		return reconcile.Result{}, nil
	}
	if err := k.drop(ctx, obj); err != nil {
		return k.finish(ctx, obj, old, fmt.Errorf("the deletion waits: %w", err))
	}
	if err := k.letGo(ctx, obj, k.finalizer); err != nil {
		return k.finish(ctx, obj, old, err)
	}
	k.holders.leave(obj)
	return reconcile.Result{}, nil
}

// claim is nil if obj holds its name.
func (k *kind[T, R]) claim(ctx context.Context, obj R) error {
	all, err := k.named(ctx, obj.KafkaName())
	if err != nil {
		return err
	}
	var others []resource
	for i := range all {
		others = append(others, R(&all[i]))
	}
	return k.holders.claim(obj, others)
}

// handOver gives the name of obj, which goes, to the first of those that wait for it and do not go,
// too: whether there is one. That one has its finalizer and holds the name before obj lets go of it,
// so that whatever ends the operator, one of the two does what is left to do.
func (k *kind[T, R]) handOver(ctx context.Context, obj R) (bool, error) {
	all, err := k.named(ctx, obj.KafkaName())
	if err != nil {
		return false, err
	}
	var heir R
	for i := range all {
		r := R(&all[i])
		waits := r.GetUID() != obj.GetUID() && r.GetDeletionTimestamp() == nil
		if waits && (heir == nil || earlier(r, heir) < 0) {
			heir = r
		}
	}
	if heir == nil {
		return false, nil
	}
	if err := k.setFinalizer(ctx, heir, k.finalizer); err != nil {
		return false, err
	}
	old := R(new(T))
	heir.CopyTo(old)
	heir.Hold()
	if err := k.writeStatus(ctx, heir, old); err != nil {
		return false, err
	}
	k.tell(obj, "HandedOver", "%s stays, and is what %s/%s is for now", obj.KafkaName(), heir.GetNamespace(), heir.GetName())
	return true, nil
}

// rivals are other resources for the same name: one of them may hold it now.
func (k *kind[T, R]) rivals(ctx context.Context, o client.Object) (out []reconcile.Request) {
	all, err := k.named(ctx, o.(R).KafkaName())
	if err != nil {
		return nil // the cache does not fail; the next resync would find them
	}
	for i := range all {
		if obj := R(&all[i]); obj.GetUID() != o.GetUID() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	}
	return out
}

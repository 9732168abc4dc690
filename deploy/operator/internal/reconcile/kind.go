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

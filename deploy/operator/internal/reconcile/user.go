package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

const (
	userFinalizer = "kaas.dev/user"
	// usualIterations are Kafka's least, which all clients take.
	usualIterations = 4096
)

// Users reconciles KafkaUser.
type Users struct {
	Base
	// Self is as whom the operator logs in; empty if that is not known.
	Self func() string
	// Reserved are users that no resource may be for.
	Reserved []string
	// Rewrite is how often a password is set again although nothing has changed: whether
	// somebody else has set another one cannot be seen.
	Rewrite time.Duration
	// Named lists the resources for a user, those of all namespaces that are watched.
	Named func(ctx context.Context, name string) ([]v1alpha1.KafkaUser, error)

	holders holders
}

// secretIndex is by the Secret that has the password.
const secretIndex = "secret"

// Start has a manager run it.
func (r *Users) Start(mgr ctrl.Manager) error {
	for name, of := range map[string]func(*v1alpha1.KafkaUser) string{kafkaNameIndex: (*v1alpha1.KafkaUser).KafkaName, secretIndex: (*v1alpha1.KafkaUser).SecretName} {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.KafkaUser{}, name, func(o client.Object) []string {
			return []string{of(o.(*v1alpha1.KafkaUser))}
		})
		if err != nil {
			return err
		}
	}
	r.Named = func(ctx context.Context, name string) ([]v1alpha1.KafkaUser, error) {
		var list v1alpha1.KafkaUserList
		err := r.Client.List(ctx, &list, client.MatchingFields{kafkaNameIndex: name})
		return list.Items, err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("kafkauser").WithOptions(r.options()).
		For(&v1alpha1.KafkaUser{}, ofSpec()).
		Watches(&v1alpha1.KafkaUser{}, handler.EnqueueRequestsFromMapFunc(r.kind().rivals), ofSpec()).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.OnlyMetadata).
		Complete(r)
}

// usersOf are the users whose password is in a Secret.
func (r *Users) usersOf(ctx context.Context, secret client.Object) (out []reconcile.Request) {
	var list v1alpha1.KafkaUserList
	if r.Client.List(ctx, &list, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretIndex: secret.GetName()}) != nil {
		return nil
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// Reconcile implements reconcile.Reconciler.
func (r *Users) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return r.kind().look(ctx, req)
}

func (r *Users) kind() *kind[v1alpha1.KafkaUser, *v1alpha1.KafkaUser] {
	return &kind[v1alpha1.KafkaUser, *v1alpha1.KafkaUser]{&r.Base, &r.holders, userFinalizer, r.Named, r.sync, r.drop}
}

func (r *Users) sync(ctx context.Context, u, old *v1alpha1.KafkaUser) error {
	if err := r.notOurs(u.KafkaName()); err != nil {
		return err
	}
	if err := r.kind().claim(ctx, u); err != nil {
		return err
	}
	if err := r.unlessThere(ctx, u); err != nil {
		return err
	}
	if err := r.setFinalizer(ctx, u, userFinalizer); err != nil {
		return err
	}
	u.DeepCopyInto(old)
	u.Hold()
	if u.Status.Secret == nil && u.SecretName() != "" {
		u.Status.Secret = &v1alpha1.UserSecret{Name: u.SecretName()}
	}
	if err := r.writeStatus(ctx, u, old); err != nil {
		return err
	}
	// What denies is there before who it denies gets in.
	if err := r.syncACLs(ctx, u); err != nil {
		return err
	}
	if err := r.syncQuotas(ctx, u); err != nil {
		return err
	}
	return r.syncPassword(ctx, u)
}

func (r *Users) syncACLs(ctx context.Context, u *v1alpha1.KafkaUser) error {
	want, err := aclsOf(&u.Spec)
	if err != nil {
		return no(ReasonRefused, "%v", err)
	}
	have, err := r.Cluster.ACLs(ctx, u.Principal())
	if err != nil && kafka.KindOf(err) == kafka.NoAuthorizer && len(want) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	missing, extra := differ(want, have)
	if len(missing) > 0 {
		if err := r.Cluster.CreateACLs(ctx, u.Principal(), missing); err != nil {
			return err
		}
	}
	if len(extra) > 0 {
		if err := r.Cluster.DeleteACLs(ctx, u.Principal(), extra); err != nil {
			return err
		}
	}
	if len(missing)+len(extra) > 0 {
		r.tell(u, "ACLs", "%s has got %d ACLs, and lost %d", u.Principal(), len(missing), len(extra))
	}
	return nil
}

func (r *Users) syncQuotas(ctx context.Context, u *v1alpha1.KafkaUser) error {
	have, err := r.Cluster.Quotas(ctx, u.KafkaName())
	if err != nil {
		return err
	}
	set, remove := planQuotas(quotasOf(u.Spec.Quotas), have)
	if len(set)+len(remove) == 0 {
		return nil
	}
	if err := r.Cluster.AlterQuotas(ctx, u.KafkaName(), set, remove); err != nil {
		return err
	}
	r.tell(u, "Quotas", "%s has got %d quotas, and lost %d", u.Principal(), len(set), len(remove))
	return nil
}

// drop takes away what the user has, unless another resource waits for the user. Its password goes first: what is denied to it stays
// denied until nobody can be it.
func (r *Users) drop(ctx context.Context, u *v1alpha1.KafkaUser) error {
	if !u.Held() || r.notOurs(u.KafkaName()) != nil {
		return nil // nothing was ever done to the user for this resource, or is now
	}
	if err := r.kind().claim(ctx, u); err != nil {
		return unlessTaken(err)
	}
	if handed, err := r.kind().handOver(ctx, u); err != nil {
		return err
	} else if handed {
		return r.removeSecrets(ctx, u)
	}
	if err := r.removePassword(ctx, u); err != nil {
		return err
	}
	none := u.DeepCopy()
	none.Spec.ACLs, none.Spec.Quotas = nil, nil
	if err := r.syncACLs(ctx, none); err != nil {
		return err
	}
	if err := r.syncQuotas(ctx, none); err != nil {
		return err
	}
	r.tell(u, "Deleted", "what %s had is gone", u.Principal())
	return nil
}

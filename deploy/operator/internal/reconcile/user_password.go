package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// syncPassword has the user get in by the password of its Secret, and by no other one.
func (r *Users) syncPassword(ctx context.Context, u *v1alpha1.KafkaUser) error {
	if u.SecretName() == "" {
		return r.removePassword(ctx, u)
	}
	p, err := r.password(ctx, u)
	if err != nil {
		return err
	}
	have, err := r.Cluster.Passwords(ctx, u.KafkaName())
	if err != nil {
		return err
	}
	if err := r.setPassword(ctx, u, p, have[kafka.SetsFor]); err != nil {
		return err
	}
	delete(have, kafka.SetsFor)
	return r.removePasswords(ctx, u, have)
}

// setPassword sets it, unless it is known to be what the user has, of have iterations.
func (r *Users) setPassword(ctx context.Context, u *v1alpha1.KafkaUser, p password, have int32) error {
	want := int32(usualIterations)
	if i := u.Spec.Authentication.Iterations; i != nil {
		want = *i
	}
	was := u.Status.Secret
	if have == want && was.Name == p.secret && was.ResourceVersion == p.version && was.SetAt != nil && time.Since(was.SetAt.Time) < r.Rewrite {
		return nil
	}
	if err := r.Cluster.SetPassword(ctx, u.KafkaName(), p.text, want); err != nil {
		return err
	}
	if was.Name != p.secret {
		if err := r.removeSecret(ctx, u, was.Name); err != nil {
			return err
		}
	}
	if have == 0 || was.Name != p.secret || was.ResourceVersion != p.version {
		r.tell(u, "Password", "%s has the password of Secret %s", u.Principal(), p.secret)
	}
	now := metav1.Now()
	u.Status.Secret = &v1alpha1.UserSecret{Name: p.secret, ResourceVersion: p.version, SetAt: &now}
	return nil
}

// removePassword takes away whatever password the user has, whoever has given it, and the Secret
// that was made for it.
func (r *Users) removePassword(ctx context.Context, u *v1alpha1.KafkaUser) error {
	have, err := r.Cluster.Passwords(ctx, u.KafkaName())
	if err != nil {
		return err
	}
	if err := r.removePasswords(ctx, u, have); err != nil {
		return err
	}
	return r.removeSecrets(ctx, u)
}

// removeSecrets deletes what was made for the user's password.
func (r *Users) removeSecrets(ctx context.Context, u *v1alpha1.KafkaUser) error {
	if u.Status.Secret == nil {
		return nil
	}
	for _, name := range slices.Compact([]string{u.Status.Secret.Name, u.SecretName()}) {
		if name == "" {
			continue
		}
		if err := r.removeSecret(ctx, u, name); err != nil {
			return err
		}
	}
	u.Status.Secret = nil
	return nil
}

func (r *Users) removePasswords(ctx context.Context, u *v1alpha1.KafkaUser, have map[kafka.Mechanism]int32) error {
	for _, m := range slices.Sorted(maps.Keys(have)) {
		if err := r.Cluster.RemovePassword(ctx, u.KafkaName(), m); err != nil {
			return err
		}
		r.tell(u, "PasswordRemoved", "%s has no password for %v any more", u.Principal(), m)
	}
	return nil
}

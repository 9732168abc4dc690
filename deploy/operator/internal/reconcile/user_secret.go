package reconcile

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
)

// What a generated Secret has.
const (
	keyPassword = "password"
	keyUsername = "username"
	keyJAAS     = "sasl.jaas.config"
)

// password is a password and where it stands.
type password struct {
	text    string
	secret  string
	version string // the Secret's
}

// password takes it from the Secret that the resource names, or generates it.
func (r *Users) password(ctx context.Context, u *v1alpha1.KafkaUser) (password, error) {
	name, key := u.SecretName(), keyPassword
	from := u.Spec.Authentication.PasswordFrom
	if from != nil && from.Key != "" {
		key = from.Key
	}
	s := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: name}, s)
	switch {
	case apierrors.IsNotFound(err) && from == nil:
		s, err = r.generate(ctx, u, name)
	case apierrors.IsNotFound(err):
		return password{}, no(ReasonSecretMissing, "there is no Secret %s", name)
	case err == nil && from == nil:
		s, err = r.complete(ctx, u, s)
	}
	if err != nil {
		return password{}, err
	}
	value, is := s.Data[key]
	if !is {
		return password{}, no(ReasonSecretMissing, "Secret %s has no key %s", name, key)
	}
	if err := checkPassword(value); err != nil {
		return password{}, no(ReasonSecretInvalid, "key %s of Secret %s %v", key, name, err)
	}
	return password{text: string(value), secret: name, version: s.ResourceVersion}, nil
}

// generate makes the Secret for a user, with a password of 128 bits.
func (r *Users) generate(ctx context.Context, u *v1alpha1.KafkaUser, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.Namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "kaas-operator", "kaas.dev/user": u.Name},
	}, Type: corev1.SecretTypeOpaque, Data: secretData(u, rand.Text())}
	if len(u.Name) > 63 { // no label can have it
		delete(s.Labels, "kaas.dev/user")
	}
	if err := controllerutil.SetControllerReference(u, s, r.Scheme); err != nil {
		return nil, err
	}
	if err := r.Client.Create(ctx, s); err != nil {
		return nil, err
	}
	r.tell(u, "Generated", "Secret %s has a new password", name)
	return s, nil
}

// secretData is what clients need to log in.
func secretData(u *v1alpha1.KafkaUser, password string) map[string][]byte {
	return map[string][]byte{
		keyUsername: []byte(u.KafkaName()), keyPassword: []byte(password),
		keyJAAS: fmt.Appendf(nil, "org.apache.kafka.common.security.scram.ScramLoginModule required username=%s password=%s;", quoted(u.KafkaName()), quoted(password)),
	}
}

// quoted is a value as a login configuration has it.
func quoted(s string) string {
	out := []byte{'"'}
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			out = append(out, '\\')
		}
		out = append(out, s[i])
	}
	return string(append(out, '"'))
}

// complete has a generated Secret hold what belongs to the password that is in it, which
// somebody may have changed, or to a new one where there is none.
func (r *Users) complete(ctx context.Context, u *v1alpha1.KafkaUser, s *corev1.Secret) (*corev1.Secret, error) {
	if !metav1.IsControlledBy(s, u) {
		return nil, no(ReasonSecretOfAnother, "Secret %s is there and is not this resource's: name it in passwordFrom to use it, or give another secretName", s.Name)
	}
	text := s.Data[keyPassword]
	if len(text) == 0 {
		text = []byte(rand.Text())
	}
	want := secretData(u, string(text))
	if maps.EqualFunc(want, s.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
		return s, nil
	}
	old := s.DeepCopy()
	s.Data = want
	return s, r.Client.Patch(ctx, s, against(old))
}

// removeSecret deletes a Secret that was generated for the user.
func (r *Users) removeSecret(ctx context.Context, u *v1alpha1.KafkaUser, name string) error {
	s := &corev1.Secret{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: name}, s); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(s, u) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID}))
}

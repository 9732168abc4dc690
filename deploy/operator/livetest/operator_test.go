package livetest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/reconcile"
)

type resource = client.Object

// update tries once, or again where the operator has come between.
func (w *world) update(t *testing.T, obj client.Object, do func()) error {
	t.Helper()
	for {
		must(t, w.c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		do()
		if err := w.c.Update(t.Context(), obj); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func TestOperator(t *testing.T) {
	w := start(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *world)
	}{
		{"dying", testSweep},
		{"starting", func(_ *testing.T, w *world) { w.operator() }},
		{"topics", testTopicLife},
		{"adopted", testTopicAdopted},
		{"refused", testRefusedByTheAPI},
		{"users", testUserLife},
		{"users refused", testUsersRefused},
		{"users move", testUserMoves},
		{"examples", testExamples},
		{"brokers down", testBrokersDown},
		{"a broker hangs", testBrokerHangs},
		{"API server killed", testAPIServerKilled},
		{"operator killed", testOperatorKilled},
		{"two operators", testTwoOperators},
		{"another release", testAnotherRelease},
		{"secrets", noSecretsIn},
		{"secrets in memory", noSecretsInMemory},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, w) }) {
			break
		}
	}
}

// noSecretsIn looks for passwords in what operators have said, in events, and in resources.
func noSecretsIn(t *testing.T, w *world) {
	places := map[string]string{"the log": w.said.String()}
	for name, list := range map[string]client.ObjectList{"events": &eventsv1.EventList{}, "topics": &v1alpha1.KafkaTopicList{}, "users": &v1alpha1.KafkaUserList{}} {
		must(t, w.c.List(t.Context(), list))
		b, err := json.Marshal(list)
		must(t, err)
		places[name] = string(b)
	}
	for _, secret := range w.secrets {
		for name, text := range places {
			if strings.Contains(text, secret) {
				t.Errorf("%s: there is a password of %d characters in it", name, len(secret))
			}
		}
	}
	if len(w.secrets) < 5 || !strings.Contains(places["log"]+places["the log"], "Clerk_1") {
		t.Error("nothing was looked for, or nowhere")
	}
}

// noSecretsInMemory looks into what an operator remembers of a Secret that somebody has applied: the
// metadata of such a one have all of it once more.
func noSecretsInMemory(t *testing.T, w *world) {
	const applied = "kubectl.kubernetes.io/last-applied-configuration"
	s := &corev1.Secret{ObjectMeta: named("applied"), StringData: map[string]string{"password": "of-the-applied"}}
	s.Annotations, s.Labels = map[string]string{applied: `{"stringData":{"password":"of-the-applied"}}`}, map[string]string{"a": "b"}
	must(t, w.c.Create(t.Context(), s))
	for name, namespaces := range map[string][]string{"one namespace": {namespace}, "all": nil} {
		conf, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig())
		must(t, err)
		o := reconcile.CacheOptions(namespaces)
		o.Scheme = w.scheme
		c, err := cache.New(conf, o)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		seen := &metav1.PartialObjectMetadata{}
		seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		eventually(t, "the Secret is seen", func() string { return problem(c.Get(ctx, client.ObjectKeyFromObject(s), seen)) })
		if len(seen.Annotations)+len(seen.ManagedFields) > 0 || seen.Labels["a"] != "b" || seen.ResourceVersion == "" {
			t.Errorf("%s: remembered are %v, %v, %v", name, seen.Annotations, seen.ManagedFields, seen.Labels)
		}
		cancel()
		must(t, <-ended)
	}
	w.remove(t, s)
}

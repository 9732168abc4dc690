package livetest

import (
	"encoding/json"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
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
		{"examples", testExamples},
		{"brokers down", testBrokersDown},
		{"a broker hangs", testBrokerHangs},
		{"API server killed", testAPIServerKilled},
		{"operator killed", testOperatorKilled},
		{"two operators", testTwoOperators},
		{"another release", testAnotherRelease},
		{"secrets", noSecretsIn},
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

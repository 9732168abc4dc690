package reconcile

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
)

func rival(name string, at int64, held bool) *v1alpha1.KafkaTopic {
	t := &v1alpha1.KafkaTopic{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Time{Time: time.Unix(at, 0)}}}
	t.Spec.TopicName = "topic"
	if held {
		t.Status.TopicName = "topic"
	}
	return t
}

func TestWhoHoldsAName(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first string
		all   []resource
	}{
		{"the only one", "a", []resource{rival("a", 1, false)}},
		{"the older one", "b", []resource{rival("a", 2, false), rival("b", 1, false)}},
		{"who has held it, though younger", "a", []resource{rival("a", 2, true), rival("b", 1, false)}},
		{"by name where nothing else decides", "a", []resource{rival("b", 1, false), rival("a", 1, false)}},
	} {
		h := &holders{}
		for _, r := range tc.all {
			err := h.claim(r, tc.all)
			if (err == nil) != (r.GetName() == tc.first) {
				t.Errorf("%s: %s: %v", tc.name, r.GetName(), err)
			}
			if err != nil && unlessTaken(err) != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
		}
	}
}

// Who was first keeps the name, whatever comes or shows up late, until it is gone.
func TestHolderIsRemembered(t *testing.T) {
	h := &holders{}
	first, older := rival("b", 5, false), rival("a", 1, true)
	if err := h.claim(first, nil); err != nil {
		t.Fatal(err)
	}
	if h.claim(older, []resource{first, older}) == nil || h.claim(first, []resource{first, older}) != nil {
		t.Error("the name has changed hands")
	}
	h.leave(first)
	if !h.hasLeft(first) || h.hasLeft(older) {
		t.Error("who has left?")
	}
	if err := h.claim(older, []resource{older}); err != nil {
		t.Error(err)
	}
	again := rival("b", 9, false)
	again.UID = "another"
	if h.hasLeft(again) {
		t.Error("a new resource has the fate of the old one")
	}
	h.gone(client.ObjectKeyFromObject(first))
	if h.hasLeft(first) || len(h.mu.left) > 0 {
		t.Error("what is gone is remembered for ever")
	}
	if other := errors.New("other"); unlessTaken(other) != other {
		t.Error("an error was taken for a verdict")
	}
}

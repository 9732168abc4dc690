package reconcile

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// waiting is a resource for the topic that another one holds.
func waiting(name string, at int64, does func(*v1alpha1.KafkaTopic)) *v1alpha1.KafkaTopic {
	t := rival(name, at, false)
	if does != nil {
		does(t)
	}
	return t
}

func going(t *v1alpha1.KafkaTopic) {
	t.DeletionTimestamp, t.Finalizers = &metav1.Time{Time: time.Unix(9, 0)}, []string{"somebody's/own"}
}

// A topic whose resource goes is not deleted while another resource waits for it, which is not
// going, too.
func TestDeletionHandsOver(t *testing.T) {
	topic := &kafka.Topic{ID: kafka.TopicID{7}}
	for name, tc := range map[string]struct {
		rivals []*v1alpha1.KafkaTopic
		policy v1alpha1.DeletionPolicy
		event  string
		heir   string
	}{
		"nobody waits":       {nil, v1alpha1.DeleteTopic, "Deleted", ""},
		"one waits":          {[]*v1alpha1.KafkaTopic{waiting("a", 5, nil)}, v1alpha1.DeleteTopic, "HandedOver", "a"},
		"it goes, too":       {[]*v1alpha1.KafkaTopic{waiting("a", 5, going)}, v1alpha1.DeleteTopic, "Deleted", ""},
		"the older one goes": {[]*v1alpha1.KafkaTopic{waiting("a", 5, going), waiting("b", 6, nil)}, v1alpha1.DeleteTopic, "HandedOver", "b"},
		"two wait":           {[]*v1alpha1.KafkaTopic{waiting("a", 6, nil), waiting("b", 5, nil)}, v1alpha1.DeleteTopic, "HandedOver", "b"},
		"retained":           {[]*v1alpha1.KafkaTopic{waiting("a", 5, nil)}, v1alpha1.RetainTopic, "Retained", ""},
	} {
		first := rival("first", 1, true)
		first.Spec.DeletionPolicy = tc.policy
		first.DeletionTimestamp, first.Finalizers = &metav1.Time{Time: time.Unix(9, 0)}, []string{topicFinalizer}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(first).WithObjects(first)
		for _, r := range tc.rivals {
			b = b.WithObjects(r)
		}
		c, told, cluster := b.Build(), events.NewFakeRecorder(10), &slow{there: topic}
		r := &Topics{Base: Base{Client: c, Cluster: cluster, Log: slog.New(slog.DiscardHandler), Events: told}}
		r.Named = listed(c)
		if _, err := r.kind().look(t.Context(), request(first)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if event := <-told.Events; !strings.Contains(event, tc.event) || (len(cluster.deleted) > 0) != (tc.event == "Deleted") {
			t.Errorf("%s: %s; deleted %v", name, event, cluster.deleted)
		}
		left, err := r.Named(t.Context(), "topic")
		if err != nil || slices.ContainsFunc(left, func(t v1alpha1.KafkaTopic) bool { return t.Name == "first" }) {
			t.Errorf("%s: the resource has not gone: %v", name, err)
		}
		for _, l := range left { // who has got the topic deletes it with itself, whenever it goes
			if heir := l.Held() && slices.Contains(l.Finalizers, topicFinalizer); heir != (l.Name == tc.heir) {
				t.Errorf("%s: %s is the heir: %v", name, l.Name, heir)
			}
		}
	}
}

// An operator that ends before the first resource has gone finds two that have held the topic:
// whichever it takes for the one that does, the topic stays.
func TestHandOverIsInterrupted(t *testing.T) {
	for name, at := range map[string]int64{"the heir is younger": 5, "the heir is older": 0} {
		first, heir := rival("first", 1, true), rival("heir", at, true)
		first.DeletionTimestamp, first.Finalizers = &metav1.Time{Time: time.Unix(9, 0)}, []string{topicFinalizer}
		heir.Finalizers = []string{topicFinalizer}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(first).WithObjects(first, heir).Build()
		cluster := &slow{there: &kafka.Topic{ID: kafka.TopicID{7}}}
		r := &Topics{Base: Base{Client: c, Cluster: cluster, Log: slog.New(slog.DiscardHandler), Events: events.NewFakeRecorder(10)}, Named: listed(c)}
		if _, err := r.kind().look(t.Context(), request(first)); err != nil || len(cluster.deleted) > 0 {
			t.Errorf("%s: %v; deleted %v", name, err, cluster.deleted)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(first), first); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("%s: the resource has not gone: %v", name, err)
		}
	}
}

func listed(c client.Client) func(context.Context, string) ([]v1alpha1.KafkaTopic, error) {
	return func(ctx context.Context, _ string) ([]v1alpha1.KafkaTopic, error) {
		var list v1alpha1.KafkaTopicList
		err := c.List(ctx, &list)
		return list.Items, err
	}
}

func request(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

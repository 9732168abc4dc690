package reconcile

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// slow is a cluster where a topic may be under way: asked to make it, it answers, and then the
// topic is there, or is not.
type slow struct {
	Cluster
	there   *kafka.Topic
	answer  error        // to who asks for the topic to be made
	comes   *kafka.Topic // by then
	asked   int
	deleted []kafka.TopicID
}

func (c *slow) Topic(context.Context, string) (*kafka.Topic, error) { return c.there, nil }

func (c *slow) CreateTopic(context.Context, string, int32, map[string]string) (*kafka.Topic, error) {
	c.asked++
	c.there = c.comes
	if c.answer != nil {
		return nil, &kafka.Error{Doing: "create", Err: c.answer}
	}
	return c.there, nil
}

func (c *slow) DeleteTopic(_ context.Context, _ string, id kafka.TopicID) error {
	c.deleted = append(c.deleted, id)
	return nil
}

// A topic whose creation nobody has seen the end of is not forgotten with its resource.
func TestDeletionAwaitsTheCreation(t *testing.T) {
	topic := &kafka.Topic{ID: kafka.TopicID{7}}
	for name, tc := range map[string]struct {
		cluster slow
		id      string // that the resource knows
		waits   bool
		asked   int
		deleted []kafka.TopicID
	}{
		"under way":            {slow{answer: kerr.RequestTimedOut}, "", true, 1, nil},
		"there by then":        {slow{answer: kerr.TopicAlreadyExists, comes: topic}, "", false, 1, []kafka.TopicID{topic.ID}},
		"there, and not shown": {slow{answer: kerr.TopicAlreadyExists}, "", true, 1, nil},
		"never begun":          {slow{comes: topic}, "", false, 1, []kafka.TopicID{topic.ID}},
		"nothing can be made":  {slow{answer: kerr.InvalidTopicException}, "", false, 1, nil},
		"nothing may be made":  {slow{answer: kerr.TopicAuthorizationFailed}, "", false, 1, nil},
		"no controller":        {slow{answer: kerr.NotController}, "", true, 1, nil},
		"made, and gone since": {slow{}, topic.ID.String(), false, 0, nil},
		"made, and there":      {slow{there: topic}, topic.ID.String(), false, 0, []kafka.TopicID{topic.ID}},
		"there, and not known": {slow{there: topic}, "", false, 0, []kafka.TopicID{topic.ID}},
	} {
		r := &Topics{Base: Base{Cluster: &tc.cluster, Log: slog.New(slog.DiscardHandler), Events: events.NewFakeRecorder(10)}}
		k := &v1alpha1.KafkaTopic{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "huge", UID: "1"}}
		k.Status.TopicName, k.Status.TopicID = "huge", tc.id
		r.Named = func(context.Context, string) ([]v1alpha1.KafkaTopic, error) { return []v1alpha1.KafkaTopic{*k}, nil }
		err := r.drop(t.Context(), k)
		if (err != nil) != tc.waits || tc.cluster.asked != tc.asked || !slices.Equal(tc.cluster.deleted, tc.deleted) {
			t.Errorf("%s: %v; asked %d times, deleted %v", name, err, tc.cluster.asked, tc.cluster.deleted)
		}
	}
}

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

const topicFinalizer = "kaas.dev/topic"

// Topics reconciles KafkaTopic.
type Topics struct {
	Base
	// Named lists the resources for a topic, those of all namespaces that are watched.
	Named func(ctx context.Context, name string) ([]v1alpha1.KafkaTopic, error)

	holders holders
}

// kafkaNameIndex is by the name in Kafka.
const kafkaNameIndex = "kafkaName"

// Start has a manager run it.
func (r *Topics) Start(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.KafkaTopic{}, kafkaNameIndex, func(o client.Object) []string {
		return []string{o.(*v1alpha1.KafkaTopic).KafkaName()}
	})
	if err != nil {
		return err
	}
	r.Named = func(ctx context.Context, name string) ([]v1alpha1.KafkaTopic, error) {
		var list v1alpha1.KafkaTopicList
		err := r.Client.List(ctx, &list, client.MatchingFields{kafkaNameIndex: name})
		return list.Items, err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("kafkatopic").WithOptions(r.options()).
		For(&v1alpha1.KafkaTopic{}, ofSpec()).
		Watches(&v1alpha1.KafkaTopic{}, handler.EnqueueRequestsFromMapFunc(r.kind().rivals), ofSpec()).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Topics) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return r.kind().look(ctx, req)
}

func (r *Topics) kind() *kind[v1alpha1.KafkaTopic, *v1alpha1.KafkaTopic] {
	return &kind[v1alpha1.KafkaTopic, *v1alpha1.KafkaTopic]{&r.Base, &r.holders, topicFinalizer, r.Named, r.sync, r.drop}
}

func (r *Topics) sync(ctx context.Context, t, old *v1alpha1.KafkaTopic) error {
	if err := r.kind().claim(ctx, t); err != nil {
		return err
	}
	if err := r.setFinalizer(ctx, t, topicFinalizer); err != nil {
		return err
	}
	t.DeepCopyInto(old)
	have, err := r.Cluster.Topic(ctx, t.KafkaName())
	if err != nil {
		return err
	}
	was := t.Status.TopicID
	t.Hold()
	if have == nil {
		t.Status.TopicID = "" // until it is known what becomes of the creation: see settle
	}
	t.Status.ManagedConfigs = names(t.Status.ManagedConfigs, t.Spec.Configs)
	if err := r.writeStatus(ctx, t, old); err != nil {
		return err
	}
	if have == nil {
		return r.create(ctx, t, was)
	}
	if id := have.ID.String(); was != id {
		if was == "" {
			r.tell(t, "Adopted", "topic %s is there, with ID %s", t.KafkaName(), id)
		} else {
			r.warn(t, "Replaced", "topic %s is another one: its ID was %s and is %s, and the records of the first are gone", t.KafkaName(), was, id)
		}
		t.Status.TopicID = id
	}
	t.Status.Partitions = have.Partitions
	return r.alter(ctx, t, have)
}

func (r *Topics) create(ctx context.Context, t *v1alpha1.KafkaTopic, was string) error {
	partitions := int32(-1)
	if t.Spec.Partitions != nil {
		partitions = *t.Spec.Partitions
	}
	made, err := r.Cluster.CreateTopic(ctx, t.KafkaName(), partitions, t.Spec.Configs)
	if errors.Is(err, kerr.RequestTimedOut) {
		return fmt.Errorf("%w: it may still be under way, and is waited for", err)
	}
	if err != nil {
		return err
	}
	t.Status.TopicID, t.Status.Partitions = made.ID.String(), made.Partitions
	t.Status.ManagedConfigs = names(nil, t.Spec.Configs)
	if was == "" {
		r.tell(t, "Created", "topic %s is made, with ID %s", t.KafkaName(), made.ID)
	} else {
		r.warn(t, "Recreated", "topic %s was gone, with its records, and is made anew; its ID was %s and is %s", t.KafkaName(), was, made.ID)
	}
	return nil
}

// alter makes a topic that is there what it is to be. What of it is refused keeps nothing else
// from being done.
func (r *Topics) alter(ctx context.Context, t *v1alpha1.KafkaTopic, have *kafka.Topic) error {
	plan := planTopic(&t.Spec, t.Status.ManagedConfigs, have)
	why := "by the resource"
	if t.Status.ObservedGeneration == t.Generation {
		why = "back: somebody else had changed it"
	}
	var errs []error
	if len(plan.settings) > 0 {
		err := r.Cluster.AlterTopic(ctx, t.KafkaName(), plan.set, plan.reset)
		if errs = append(errs, err); err == nil {
			r.tell(t, "Altered", "settings of topic %s are set %s: %s", t.KafkaName(), why, strings.Join(plan.settings, ", "))
		}
	}
	if plan.grow > 0 {
		err := r.Cluster.AddPartitions(ctx, t.KafkaName(), plan.grow)
		if errs = append(errs, err); err == nil {
			t.Status.Partitions = plan.grow
			r.tell(t, "Grown", "topic %s has %d partitions; it had %d", t.KafkaName(), plan.grow, have.Partitions)
		}
	}
	if plan.shrinks {
		errs = append(errs, no(ReasonPartitionDecrease, "topic %s has %d partitions and cannot have %d: no partition can be taken away without its records",
			t.KafkaName(), have.Partitions, *t.Spec.Partitions))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		t.Status.ManagedConfigs = names(nil, t.Spec.Configs)
		return nil
	}
	slices.SortStableFunc(errs, soonerFirst)
	return first(errs)
}

// soonerFirst puts what is tried again soon before what waits for a change.
func soonerFirst(a, b error) int {
	_, af := judge(a)
	_, bf := judge(b)
	switch {
	case af == bf:
		return 0
	case bf:
		return -1
	}
	return 1
}

// several are errors of which the first one decides.
type several struct{ errs []error }

func first(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return &several{errs}
}

func (s *several) Error() string { return errors.Join(s.errs...).Error() }
func (s *several) Unwrap() error { return s.errs[0] }

// settle finds out what has become of a topic whose creation was asked for, and whose end nobody
// has seen. It may still be under way, and who asks for one more waits for that one. If there is
// none by then, the topic that settle makes is all there is. The topic is nil where none can be.
func (r *Topics) settle(ctx context.Context, name string) (*kafka.Topic, error) {
	made, err := r.Cluster.CreateTopic(ctx, name, 1, nil)
	if err == nil {
		return made, nil
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		if have, herr := r.Cluster.Topic(ctx, name); have != nil || herr != nil {
			return have, herr
		}
		return nil, err // not shown yet
	}
	if kind := kafka.KindOf(err); kind == kafka.Refused || kind == kafka.Unauthorized {
		return nil, nil // as the first time
	}
	return nil, err
}

// drop does what the deletion policy says, unless another resource waits for the topic.
func (r *Topics) drop(ctx context.Context, t *v1alpha1.KafkaTopic) error {
	if !t.Held() {
		return nil // nothing was ever done to the topic for this resource
	}
	if err := r.kind().claim(ctx, t); err != nil {
		return unlessTaken(err)
	}
	if t.Spec.DeletionPolicy == v1alpha1.RetainTopic {
		r.tell(t, "Retained", "topic %s stays", t.KafkaName())
		return nil
	}
	if handed, err := r.kind().handOver(ctx, t); handed || err != nil {
		return err
	}
	have, err := r.Cluster.Topic(ctx, t.KafkaName())
	if err == nil && have == nil && t.Status.TopicID == "" {
		have, err = r.settle(ctx, t.KafkaName())
	}
	if err != nil || have == nil {
		return err
	}
	if err := r.Cluster.DeleteTopic(ctx, t.KafkaName(), have.ID); err != nil {
		return err
	}
	r.tell(t, "Deleted", "topic %s is deleted; its ID was %s", t.KafkaName(), have.ID)
	return nil
}

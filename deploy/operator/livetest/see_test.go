package livetest

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
)

// seen is a topic as brokers show it.
type seen struct {
	id         string
	partitions int
	configs    map[string]string // what is set for it
}

// topic is nil where there is none.
func (w *world) topic(ctx context.Context, name string) (*seen, error) {
	ts, err := w.admin.ListTopics(ctx, name)
	if err != nil {
		return nil, err
	}
	if ts[name].Err == kerr.UnknownTopicOrPartition {
		return nil, nil
	}
	if ts[name].Err != nil {
		return nil, ts[name].Err
	}
	id := ts[name].ID
	s := &seen{id: base64.RawURLEncoding.EncodeToString(id[:]), partitions: len(ts[name].Partitions), configs: map[string]string{}}
	cs, err := w.admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, c := range cs[0].Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			s.configs[c.Key] = c.MaybeValue()
		}
	}
	return s, cs[0].Err
}

// ready is the condition of a resource, and the generation that its status is about.
func ready(conditions []metav1.Condition, observed, generation int64) string {
	c := meta.FindStatusCondition(conditions, "Ready")
	switch {
	case c == nil:
		return "no condition"
	case observed != generation || c.ObservedGeneration != generation:
		return fmt.Sprintf("generation %d is %d", generation, observed)
	case (c.Reason == "InSync") != (c.Status == metav1.ConditionTrue):
		return fmt.Sprintf("%s is %s", c.Reason, c.Status)
	}
	return c.Reason
}

// wanted is what is to become of a topic and its resource.
type wanted struct {
	gone       bool // the topic
	partitions int
	configs    map[string]string
	reason     string // of the resource; empty: there is none
	message    string // a part of its message
}

// awaitTopic waits until the resource and the topic are as wanted, all of them at once.
func (w *world) awaitTopic(t *testing.T, resource, topic string, want wanted) *v1alpha1.KafkaTopic {
	t.Helper()
	r := &v1alpha1.KafkaTopic{}
	eventually(t, "topic "+topic, func() string {
		ctx := t.Context()
		err := w.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: resource}, r)
		if want.reason == "" {
			if err = client.IgnoreNotFound(err); err == nil && r.Name != "" {
				r = &v1alpha1.KafkaTopic{}
				return "the resource is there"
			}
		} else if err == nil {
			if is := ready(r.Status.Conditions, r.Status.ObservedGeneration, r.Generation); is != want.reason {
				return fmt.Sprintf("%s: %v", is, r.Status.Conditions)
			}
			if c := r.Status.Conditions[0]; !strings.Contains(c.Message, want.message) {
				return c.Message
			}
		}
		if err != nil {
			return err.Error()
		}
		is, err := w.topic(ctx, topic)
		switch {
		case err != nil:
			return err.Error()
		case (is == nil) != want.gone:
			return fmt.Sprintf("gone: %v", is == nil)
		case is == nil:
			return ""
		case is.partitions != want.partitions || !maps.Equal(is.configs, want.configs):
			return fmt.Sprintf("%+v", *is)
		case want.reason == "InSync" && (r.Status.TopicID != is.id || r.Status.TopicName != topic || int(r.Status.Partitions) != is.partitions):
			return fmt.Sprintf("the topic is %+v, the status %+v", *is, r.Status)
		}
		return ""
	})
	return r
}

// awaitEvent waits for an event about a resource.
func (w *world) awaitEvent(t *testing.T, resource, reason string) {
	t.Helper()
	eventually(t, "event "+reason+" about "+resource, func() string {
		var list eventsv1.EventList
		if err := w.c.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
		var all []string
		for _, e := range list.Items {
			if e.Regarding.Name == resource {
				all = append(all, e.Reason)
			}
		}
		if !slices.Contains(all, reason) {
			return fmt.Sprint(all)
		}
		return ""
	})
}

// change updates a resource until nobody else has come between.
func change[T client.Object](t *testing.T, w *world, obj T, do func(T)) {
	t.Helper()
	eventually(t, "change "+obj.GetName(), func() string {
		if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err.Error()
		}
		do(obj)
		return problem(w.c.Update(t.Context(), obj))
	})
}

func (w *world) remove(t *testing.T, obj client.Object) {
	t.Helper()
	must(t, w.c.Delete(t.Context(), obj))
}

// named is a new resource.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func newTopic(name string, spec v1alpha1.KafkaTopicSpec) *v1alpha1.KafkaTopic {
	return &v1alpha1.KafkaTopic{ObjectMeta: named(name), Spec: spec}
}

// rights are the ACLs of a principal, in words.
func (w *world) rights(ctx context.Context, user string) (out []string, err error) {
	rs, err := w.admin.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow("User:"+user).AllowHosts().Deny("User:"+user).DenyHosts().ResourcePatternType(kadm.ACLPatternAny).Operations())
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if r.Err != nil {
			return nil, r.Err
		}
		for _, a := range r.Described {
			out = append(out, strings.ToLower(fmt.Sprintf("%s %s %s %s:%s from %s", a.Permission, a.Operation, a.Type, a.Pattern, a.Name, a.Host)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// quotas are those of a user.
func (w *world) quotas(ctx context.Context, user string) (map[string]float64, error) {
	qs, err := w.admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &user}})
	out := map[string]float64{}
	for _, q := range qs {
		for _, v := range q.Values {
			out[v.Key] = v.Value
		}
	}
	return out, err
}

// scram is of how many iterations the user's credentials are, of SCRAM-SHA-512 and of
// SCRAM-SHA-256; 0 is none.
func (w *world) scram(ctx context.Context, user string) (iterations, of256 int32, err error) {
	rs, err := w.admin.DescribeUserSCRAMs(ctx, user)
	if err != nil || rs[user].Err == kerr.ResourceNotFound {
		return 0, 0, err
	}
	for _, i := range rs[user].CredInfos {
		switch i.Mechanism {
		case kadm.ScramSha512:
			iterations = i.Iterations
		case kadm.ScramSha256:
			of256 = i.Iterations
		}
	}
	return iterations, of256, rs[user].Err
}

// upsert gives a user a password for one mechanism, as Kafka's tools do.
func (w *world) upsert(t *testing.T, user string, m kadm.ScramMechanism, password string) {
	t.Helper()
	rs, err := w.admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: m, Iterations: 4097, Password: password}})
	must(t, err)
	must(t, rs[user].Err)
	w.secrets = append(w.secrets, password)
}

// secret is a Secret's content; nil where there is none.
func (w *world) secret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	s := &corev1.Secret{}
	err := w.c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s)
	must(t, client.IgnoreNotFound(err))
	return s.Data
}

// statusOf is the common part of a status.
func statusOf(r client.Object) (conditions []metav1.Condition, observed int64) {
	switch r := r.(type) {
	case *v1alpha1.KafkaTopic:
		return r.Status.Conditions, r.Status.ObservedGeneration
	case *v1alpha1.KafkaUser:
		return r.Status.Conditions, r.Status.ObservedGeneration
	}
	return nil, 0
}

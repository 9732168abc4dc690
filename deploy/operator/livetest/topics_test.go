package livetest

import (
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
)

type configs = map[string]string

// The life of a topic, step by step.
func testTopicLife(t *testing.T, w *world) {
	const day, hour = "86400000", "3600000"
	r := newTopic("orders", v1alpha1.KafkaTopicSpec{Partitions: new(int32(3)), Configs: configs{"retention.ms": day}})
	spec := func(do func(*v1alpha1.KafkaTopicSpec)) func(*testing.T) {
		return func(t *testing.T) { change(t, w, r, func(r *v1alpha1.KafkaTopic) { do(&r.Spec) }) }
	}
	for _, step := range []struct {
		name  string
		do    func(t *testing.T)
		want  wanted
		event string // which is told of; of more than one word, what the operator logs once more
	}{
		{"made", func(t *testing.T) { must(t, w.c.Create(t.Context(), r)) },
			wanted{partitions: 3, configs: configs{"retention.ms": day}, reason: "InSync"}, "Created"},
		{"another value, one more setting, written in another way", spec(func(s *v1alpha1.KafkaTopicSpec) {
			s.Configs = configs{"retention.ms": " " + hour, "cleanup.policy": "compact, delete", "preallocate": "FALSE"}
		}), wanted{partitions: 3, configs: configs{"retention.ms": hour, "cleanup.policy": "compact,delete", "preallocate": "false"}, reason: "InSync"}, "Altered"},
		{"one setting less", spec(func(s *v1alpha1.KafkaTopicSpec) { s.Configs = configs{"retention.ms": hour} }),
			wanted{partitions: 3, configs: configs{"retention.ms": hour}, reason: "InSync"}, ""},
		{"more partitions", spec(func(s *v1alpha1.KafkaTopicSpec) { s.Partitions = new(int32(5)) }),
			wanted{partitions: 5, configs: configs{"retention.ms": hour}, reason: "InSync"}, "Grown"},
		{"fewer partitions are refused, and the rest is done", spec(func(s *v1alpha1.KafkaTopicSpec) {
			s.Partitions, s.Configs = new(int32(2)), configs{"retention.ms": day}
		}), wanted{partitions: 5, configs: configs{"retention.ms": day}, reason: "PartitionDecreaseRefused", message: "has 5 partitions and cannot have 2"}, "PartitionDecreaseRefused"},
		{"as many as there are", spec(func(s *v1alpha1.KafkaTopicSpec) { s.Partitions = new(int32(5)) }),
			wanted{partitions: 5, configs: configs{"retention.ms": day}, reason: "InSync"}, ""},
		{"a setting that cannot be", spec(func(s *v1alpha1.KafkaTopicSpec) { s.Configs = configs{"retention.ms": "soon"} }),
			wanted{partitions: 5, configs: configs{"retention.ms": day}, reason: "ConfigRefused", message: "retention.ms"}, "ConfigRefused"},
		{"a setting that is none", spec(func(s *v1alpha1.KafkaTopicSpec) { s.Configs = configs{"retention": day} }),
			wanted{partitions: 5, configs: configs{"retention.ms": day}, reason: "ConfigRefused", message: "retention"}, ""},
		{"mended", spec(func(s *v1alpha1.KafkaTopicSpec) { s.Configs = configs{"retention.ms": hour} }),
			wanted{partitions: 5, configs: configs{"retention.ms": hour}, reason: "InSync"}, ""},
		{"a client has changed a setting", func(t *testing.T) { w.alter(t, "orders", "retention.ms", "1") },
			wanted{partitions: 5, configs: configs{"retention.ms": hour}, reason: "InSync"}, "settings of topic orders are set back"},
		{"a client has set another one", func(t *testing.T) { w.alter(t, "orders", "segment.bytes", "1048576") },
			wanted{partitions: 5, configs: configs{"retention.ms": hour}, reason: "InSync"}, "settings of topic orders are set back"},
		{"which is left", func(t *testing.T) {
			spec(func(s *v1alpha1.KafkaTopicSpec) {
				s.OtherConfigs, s.Configs["max.message.bytes"] = v1alpha1.KeepOthers, "1000000"
			})(t)
			w.alter(t, "orders", "segment.bytes", "1048576")
		}, wanted{partitions: 5, configs: configs{"retention.ms": hour, "max.message.bytes": "1000000", "segment.bytes": "1048576"}, reason: "InSync"}, ""},
		{"but not what was listed once", spec(func(s *v1alpha1.KafkaTopicSpec) { s.Configs = configs{"retention.ms": hour} }),
			wanted{partitions: 5, configs: configs{"retention.ms": hour, "segment.bytes": "1048576"}, reason: "InSync"}, ""},
		{"a client has deleted the topic", func(t *testing.T) { w.deleteTopic(t, "orders") },
			wanted{partitions: 5, configs: configs{"retention.ms": hour}, reason: "InSync"}, "Recreated"},
		{"and made another one", func(t *testing.T) {
			w.operators[0].signal(t, syscall.SIGSTOP)
			defer w.operators[0].signal(t, syscall.SIGCONT)
			w.deleteTopic(t, "orders")
			w.createTopic(t, "orders", 1, configs{"retention.ms": "7"})
		}, wanted{partitions: 5, configs: configs{"retention.ms": hour}, reason: "InSync"}, "Replaced"},
		{"a client has given it more partitions", func(t *testing.T) {
			rs, err := w.admin.UpdatePartitions(t.Context(), 6, "orders")
			must(t, err)
			must(t, rs.Error())
		}, wanted{partitions: 6, configs: configs{"retention.ms": hour}, reason: "PartitionDecreaseRefused"}, ""},
		{"deleted", func(t *testing.T) { w.remove(t, r) }, wanted{gone: true}, "Deleted"},
	} {
		t.Log(step.name)
		before := strings.Count(w.said.String(), step.event)
		step.do(t)
		switch {
		case strings.Contains(step.event, " "):
			eventually(t, step.event, func() string {
				if strings.Count(w.said.String(), step.event) > before {
					return ""
				}
				return "not said"
			})
		case step.event != "":
			w.awaitEvent(t, "orders", step.event)
		}
		w.awaitTopic(t, "orders", "orders", step.want)
	}
}

func (w *world) alter(t *testing.T, topic, key, value string) {
	t.Helper()
	rs, err := w.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: key, Value: &value}}, topic)
	must(t, err)
	must(t, rs[0].Err)
}

func (w *world) deleteTopic(t *testing.T, topic string) {
	t.Helper()
	_, err := w.admin.DeleteTopic(t.Context(), topic)
	must(t, err)
}

func (w *world) createTopic(t *testing.T, topic string, partitions int32, cs configs) {
	t.Helper()
	set := map[string]*string{}
	for k, v := range cs {
		set[k] = &v
	}
	_, err := w.admin.CreateTopic(t.Context(), partitions, -1, set, topic)
	must(t, err)
}

// A topic that a client made is adopted as it is, by a name that Kubernetes does not have, and
// may outlive its resource. Of two resources the second waits.
func testTopicAdopted(t *testing.T, w *world) {
	const topic = "Orders_Of.2026"
	w.createTopic(t, topic, 4, configs{"retention.ms": "5"})
	was, err := w.topic(t.Context(), topic)
	must(t, err)
	adopts := newTopic("orders-of-2026", v1alpha1.KafkaTopicSpec{TopicName: topic, OtherConfigs: v1alpha1.KeepOthers, DeletionPolicy: v1alpha1.RetainTopic})
	as := wanted{partitions: 4, configs: configs{"retention.ms": "5"}, reason: "InSync"}
	must(t, w.c.Create(t.Context(), adopts))
	if r := w.awaitTopic(t, adopts.Name, topic, as); r.Status.TopicID != was.id {
		t.Errorf("the topic was %s and is %s", was.id, r.Status.TopicID)
	}
	w.awaitEvent(t, adopts.Name, "Adopted")

	second := newTopic("a-second", v1alpha1.KafkaTopicSpec{TopicName: topic, Partitions: new(int32(8)), Configs: configs{"retention.ms": "6"}})
	must(t, w.c.Create(t.Context(), second))
	waits := as
	waits.reason, waits.message = "NameTaken", "shop/orders-of-2026"
	if r := w.awaitTopic(t, second.Name, topic, waits); len(r.Finalizers) > 0 {
		t.Errorf("what holds nothing has finalizers: %v", r.Finalizers)
	}
	third := newTopic("a-third", v1alpha1.KafkaTopicSpec{TopicName: topic})
	must(t, w.c.Create(t.Context(), third))
	w.awaitTopic(t, third.Name, topic, waits)
	w.remove(t, third) // the topic is not its own to delete
	w.awaitTopic(t, third.Name, topic, wanted{partitions: 4, configs: as.configs})

	w.remove(t, adopts)
	if r := w.awaitTopic(t, second.Name, topic, wanted{partitions: 8, configs: configs{"retention.ms": "6"}, reason: "InSync"}); r.Status.TopicID != was.id {
		t.Errorf("the topic was %s and is %s", was.id, r.Status.TopicID)
	}
	w.awaitEvent(t, adopts.Name, "Retained")

	// What deletes the topic leaves it to who waits for it, though not to one that goes, too.
	for _, r := range []*v1alpha1.KafkaTopic{newTopic("b-first", v1alpha1.KafkaTopicSpec{TopicName: topic}), newTopic("c-heir", v1alpha1.KafkaTopicSpec{TopicName: topic})} {
		must(t, w.c.Create(t.Context(), r))
		w.awaitTopic(t, r.Name, topic, wanted{partitions: 8, configs: configs{"retention.ms": "6"}, reason: "NameTaken", message: "shop/a-second"})
	}
	w.remove(t, newTopic("b-first", v1alpha1.KafkaTopicSpec{}))
	w.awaitTopic(t, "b-first", topic, wanted{partitions: 8, configs: configs{"retention.ms": "6"}})
	w.remove(t, second)
	if r := w.awaitTopic(t, "c-heir", topic, wanted{partitions: 8, configs: configs{}, reason: "InSync"}); r.Status.TopicID != was.id {
		t.Errorf("the topic was %s and is %s: its records are gone", was.id, r.Status.TopicID)
	}
	w.awaitTopic(t, second.Name, topic, wanted{partitions: 8, configs: configs{}})
	w.awaitEvent(t, second.Name, "HandedOver")
	w.remove(t, newTopic("c-heir", v1alpha1.KafkaTopicSpec{}))
	w.awaitTopic(t, "c-heir", topic, wanted{gone: true})
}

// What can be seen to be wrong, the API server refuses.
func testRefusedByTheAPI(t *testing.T, w *world) {
	topic := func(spec v1alpha1.KafkaTopicSpec) *v1alpha1.KafkaTopic { return newTopic("refused", spec) }
	user := func(spec v1alpha1.KafkaUserSpec) *v1alpha1.KafkaUser {
		return &v1alpha1.KafkaUser{ObjectMeta: named("refused"), Spec: spec}
	}
	scram, external := v1alpha1.Authentication{Type: v1alpha1.ScramSHA512}, v1alpha1.Authentication{Type: v1alpha1.TLSExternal}
	acl := func(r v1alpha1.ACLResource, ops ...v1alpha1.Operation) v1alpha1.KafkaUserSpec {
		return v1alpha1.KafkaUserSpec{Authentication: external, ACLs: []v1alpha1.ACL{{Resource: r, Operations: ops}}}
	}
	with := func(a v1alpha1.Authentication, do func(*v1alpha1.Authentication)) v1alpha1.KafkaUserSpec {
		do(&a)
		return v1alpha1.KafkaUserSpec{Authentication: a}
	}
	for _, tc := range []struct {
		obj  resource
		want string
	}{
		{topic(v1alpha1.KafkaTopicSpec{TopicName: "no blanks"}), "spec.topicName"},
		{topic(v1alpha1.KafkaTopicSpec{TopicName: ".."}), "no topic may have this name"},
		{topic(v1alpha1.KafkaTopicSpec{TopicName: strings.Repeat("x", 250)}), "spec.topicName"},
		{newTopic(strings.Repeat("x", 250), v1alpha1.KafkaTopicSpec{}), "give spec.topicName"},
		{topic(v1alpha1.KafkaTopicSpec{Partitions: new(int32(0))}), "spec.partitions"},
		{topic(v1alpha1.KafkaTopicSpec{DeletionPolicy: "Forget"}), "spec.deletionPolicy"},
		{topic(v1alpha1.KafkaTopicSpec{OtherConfigs: "Lose"}), "spec.otherConfigs"},
		{user(v1alpha1.KafkaUserSpec{}), "spec.authentication.type"},
		{user(v1alpha1.KafkaUserSpec{UserName: "*", Authentication: external}), "that is everybody"},
		{user(v1alpha1.KafkaUserSpec{UserName: "User:alice", Authentication: external}), "without User:"},
		{user(with(scram, func(a *v1alpha1.Authentication) { a.SecretName = "My_Secret" })), "secretName"},
		{user(with(scram, func(a *v1alpha1.Authentication) { a.SecretName = "a..b" })), "secretName"},
		{user(with(scram, func(a *v1alpha1.Authentication) { a.PasswordFrom = &v1alpha1.SecretKey{Name: "My_Secret"} })), "passwordFrom.name"},
		{user(with(scram, func(a *v1alpha1.Authentication) { a.PasswordFrom = &v1alpha1.SecretKey{Name: "a", Key: "the key"} })), "passwordFrom.key"},
		{user(with(scram, func(a *v1alpha1.Authentication) { a.PasswordFrom = &v1alpha1.SecretKey{Name: "a", Key: "..a"} })), "no key of a Secret"},
		{user(with(external, func(a *v1alpha1.Authentication) { a.SecretName = "x" })), "are for scram-sha-512"},
		{user(with(scram, func(a *v1alpha1.Authentication) {
			a.SecretName, a.PasswordFrom = "x", &v1alpha1.SecretKey{Name: "y"}
		})), "either taken from"},
		{user(with(scram, func(a *v1alpha1.Authentication) { a.Iterations = new(int32(100)) })), "iterations"},
		{user(acl(v1alpha1.ACLResource{Type: v1alpha1.Cluster, Name: "x"}, "Alter")), "all but Cluster have a name"},
		{user(acl(v1alpha1.ACLResource{Type: v1alpha1.Topic}, "Read")), "all but Cluster have a name"},
		{user(acl(v1alpha1.ACLResource{Type: v1alpha1.Topic, Name: "x"})), "operations"},
		{user(acl(v1alpha1.ACLResource{Type: v1alpha1.Topic, Name: "x"}, "Eat")), "operations"},
	} {
		err := w.c.Create(t.Context(), tc.obj)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v", tc.want, err)
		}
		if err == nil {
			w.remove(t, tc.obj)
		}
	}
	for _, a := range []v1alpha1.Authentication{
		{Type: v1alpha1.ScramSHA512, SecretName: "a.b-c.9"}, {Type: v1alpha1.ScramSHA512, PasswordFrom: &v1alpha1.SecretKey{Name: "9.a", Key: ".A_b-c"}},
	} {
		if err := w.c.Create(t.Context(), user(v1alpha1.KafkaUserSpec{UserName: "CN=User:a", Authentication: a}), client.DryRunAll); err != nil {
			t.Error(err)
		}
	}
	r := newTopic("fixed", v1alpha1.KafkaTopicSpec{DeletionPolicy: v1alpha1.RetainTopic, TopicName: "fixed"})
	must(t, w.c.Create(t.Context(), r))
	u := &v1alpha1.KafkaUser{ObjectMeta: named("fixed"), Spec: v1alpha1.KafkaUserSpec{Authentication: external}}
	must(t, w.c.Create(t.Context(), u))
	w.awaitTopic(t, "fixed", "fixed", wanted{partitions: 2, reason: "InSync"})
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"topicName", w.update(t, r, func() { r.Spec.TopicName = "other" })},
		{"userName", w.update(t, u, func() { u.Spec.UserName = "other" })},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.name+" cannot change") {
			t.Errorf("%s: %v", tc.name, tc.err)
		}
	}
	if err := w.update(t, r, func() { r.Spec.TopicName = "" }); err != nil { // it is the resource's all the same
		t.Error(err)
	}
	w.remove(t, r)
	w.remove(t, u)
	w.awaitTopic(t, "fixed", "fixed", wanted{partitions: 2})
	w.deleteTopic(t, "fixed")
}

package livetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
	"kaas.dev/kaas/deploy/operator/internal/reconcile"
)

var errDead = errors.New("the operator is dead")

// fate is when an operator dies: at its n-th change, before it or after it. From then on
// nothing of it has an effect.
type fate struct {
	at    int // 0 is never
	after bool
	done  int // changes that were begun
	dead  bool
}

// step makes a change, or dies.
func (f *fate) step(do func() error) error {
	if f.dead {
		return errDead
	}
	if f.done++; f.done != f.at {
		return do()
	}
	f.dead = true
	if f.after {
		_ = do()
	}
	return errDead
}

// mortal is a cluster of which an operator may die.
type mortal struct {
	reconcile.Cluster
	f *fate
}

func (m mortal) CreateTopic(ctx context.Context, name string, partitions int32, configs map[string]string) (t *kafka.Topic, err error) {
	return t, m.f.step(func() error {
		var err error
		t, err = m.Cluster.CreateTopic(ctx, name, partitions, configs)
		return err
	})
}

func (m mortal) AddPartitions(ctx context.Context, name string, total int32) error {
	return m.f.step(func() error { return m.Cluster.AddPartitions(ctx, name, total) })
}

func (m mortal) AlterTopic(ctx context.Context, name string, set map[string]string, reset []string) error {
	return m.f.step(func() error { return m.Cluster.AlterTopic(ctx, name, set, reset) })
}

func (m mortal) DeleteTopic(ctx context.Context, name string, id kafka.TopicID) error {
	return m.f.step(func() error { return m.Cluster.DeleteTopic(ctx, name, id) })
}

func (m mortal) SetPassword(ctx context.Context, user, password string, iterations int32) error {
	return m.f.step(func() error { return m.Cluster.SetPassword(ctx, user, password, iterations) })
}

func (m mortal) RemovePassword(ctx context.Context, user string, mechanism kafka.Mechanism) error {
	return m.f.step(func() error { return m.Cluster.RemovePassword(ctx, user, mechanism) })
}

func (m mortal) CreateACLs(ctx context.Context, principal string, acls []kafka.ACL) error {
	return m.f.step(func() error { return m.Cluster.CreateACLs(ctx, principal, acls) })
}

func (m mortal) DeleteACLs(ctx context.Context, principal string, acls []kafka.ACL) error {
	return m.f.step(func() error { return m.Cluster.DeleteACLs(ctx, principal, acls) })
}

func (m mortal) AlterQuotas(ctx context.Context, user string, set map[string]float64, remove []string) error {
	return m.f.step(func() error { return m.Cluster.AlterQuotas(ctx, user, set, remove) })
}

// mortalClient is the API of which an operator may die.
func mortalClient(c client.WithWatch, f *fate) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return f.step(func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return f.step(func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			return f.step(func() error { return c.Patch(ctx, obj, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.step(func() error { return c.SubResource(sub).Patch(ctx, obj, p, opts...) })
		},
	})
}

// swept is a life under one fate: whoever dies is followed by another operator, which does not.
type swept struct {
	w       *world
	cluster *kafka.Cluster
	fate    *fate
	told    *events.FakeRecorder
	topics  *reconcile.Topics
	users   *reconcile.Users
	died    func() // is called once when the operator has died, before another one comes
}

// phase is a change of a resource, and what is to have become of it.
type phase struct{ do, check func() }

// live goes through the phases of a life. If the operator dies in one of them, the next change
// is there before the next operator, and nobody sees what became of the one before. A brief life
// has a beginning and an end.
func (s *swept) live(t *testing.T, obj client.Object, phases []phase) {
	t.Helper()
	if strings.Contains(obj.GetName(), "-briefly") {
		phases = slices.Delete(phases, 1, len(phases)-1)
	}
	done := 0
	next := func() {
		if done < len(phases) {
			phases[done].do()
			done++
		}
	}
	for next(); ; next() {
		before := done
		s.died = next
		s.settle(t, s.of(obj), obj)
		if done == before || done == len(phases) {
			phases[done-1].check()
		}
		if done == len(phases) {
			return
		}
	}
}

func (s *swept) newOperator(f *fate) {
	s.fate = f
	base := reconcile.Base{Client: mortalClient(s.w.c, f), Events: s.told, Cluster: mortal{s.cluster, f}, Log: slog.New(slog.DiscardHandler),
		Scheme: s.w.scheme, Resync: time.Hour, MostRetry: time.Second, Workers: 1}
	s.topics = &reconcile.Topics{Base: base, Named: func(ctx context.Context, name string) ([]v1alpha1.KafkaTopic, error) {
		var list v1alpha1.KafkaTopicList
		err := s.w.c.List(ctx, &list)
		return slices.DeleteFunc(list.Items, func(t v1alpha1.KafkaTopic) bool { return t.KafkaName() != name }), err
	}}
	s.users = &reconcile.Users{Base: base, Self: s.cluster.User, Rewrite: time.Hour, Named: func(ctx context.Context, name string) ([]v1alpha1.KafkaUser, error) {
		var list v1alpha1.KafkaUserList
		err := s.w.c.List(ctx, &list)
		return slices.DeleteFunc(list.Items, func(u v1alpha1.KafkaUser) bool { return u.KafkaName() != name }), err
	}}
}

// settle has operators look at a resource until one of them has nothing more to do.
func (s *swept) settle(t *testing.T, r ctrlreconcile.Reconciler, obj client.Object) {
	t.Helper()
	for range 100 {
		if s.fate.dead {
			s.newOperator(&fate{})
			s.died()
			r = s.of(obj)
		}
		before := s.fate.done
		_, err := r.Reconcile(t.Context(), ctrlreconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		if err == nil && s.fate.done == before && !s.fate.dead {
			return
		}
	}
	t.Fatalf("%s does not settle", obj.GetName())
}

func (s *swept) of(obj client.Object) ctrlreconcile.Reconciler {
	if _, is := obj.(*v1alpha1.KafkaUser); is {
		return s.users
	}
	return s.topics
}

// An operator dies at each of its changes, before and after it is made, and finds another
// change when it is back: what becomes of the resource is the same.
func testSweep(t *testing.T, w *world) {
	cluster, err := kafka.Dial(kafka.NewConfig("", w.commandConfig()), slog.New(slog.DiscardHandler))
	must(t, err)
	defer cluster.Close()
	for name, life := range map[string]func(*testing.T, *swept, string){
		"topic": sweptTopic, "topic-briefly": sweptTopic, "user": sweptUser, "user-briefly": sweptUser,
	} {
		changes := 0
		for at := 1; at <= changes || at == 1; at++ {
			for _, after := range []bool{false, true} {
				s := &swept{w: w, cluster: cluster, told: events.NewFakeRecorder(1000)}
				if changes == 0 { // how many there are in a life without a death
					count := &fate{}
					s.newOperator(count)
					life(t, s, fmt.Sprintf("swept-%s", name))
					if changes = count.done; changes < 5 {
						t.Fatalf("%s: only %d changes", name, changes)
					}
				}
				s.newOperator(&fate{at: at, after: after})
				life(t, s, fmt.Sprintf("swept-%s-%d-%v", name, at, after))
				if t.Failed() {
					t.Fatalf("%s: the operator died at change %d, after it: %v", name, at, after)
				}
			}
		}
		t.Logf("%s: an operator has died at each of %d changes", name, changes)
	}
}

func (s *swept) reasons() (out []string) {
	for {
		select {
		case e := <-s.told.Events:
			out = append(out, strings.Fields(e)[1])
		default:
			return out
		}
	}
}

func sweptTopic(t *testing.T, s *swept, name string) {
	r := newTopic(name, v1alpha1.KafkaTopicSpec{Partitions: new(int32(1)), OtherConfigs: v1alpha1.KeepOthers, Configs: configs{"retention.ms": "1000", "segment.bytes": "1048576"}})
	theirs := configs{}
	is := func(partitions int, ours configs) func() {
		return func() {
			want := maps.Clone(ours)
			maps.Copy(want, theirs)
			s.isTopic(t, r, partitions, want)
		}
	}
	spec := func(partitions int32, cs configs) func() {
		return func() {
			change(t, s.w, r, func(r *v1alpha1.KafkaTopic) { r.Spec.Partitions, r.Spec.Configs = &partitions, cs })
		}
	}
	first, second, third := r.Spec.Configs, configs{"retention.ms": "2000", "preallocate": "false"}, configs{"retention.ms": "3000"}
	s.live(t, r, []phase{
		{func() { must(t, s.w.c.Create(t.Context(), r)) }, func() {
			is(1, first)()
			theirs["max.message.bytes"] = "1000000"
			s.w.alter(t, name, "max.message.bytes", "1000000")
		}},
		{spec(2, second), is(2, second)},
		{spec(2, third), is(2, third)},
		{func() { s.w.remove(t, r) }, func() { s.w.awaitTopic(t, name, name, wanted{gone: true}) }},
	})
	for _, reason := range s.reasons() {
		if reason == "Recreated" || reason == "Replaced" {
			t.Errorf("the topic was %s", reason)
		}
	}
}

func (s *swept) isTopic(t *testing.T, r *v1alpha1.KafkaTopic, partitions int, want configs) {
	t.Helper()
	s.w.awaitTopic(t, r.Name, r.Name, wanted{partitions: partitions, configs: want, reason: "InSync"})
	must(t, s.w.c.Get(t.Context(), client.ObjectKeyFromObject(r), r))
	if !slices.Equal(r.Status.ManagedConfigs, slices.Sorted(maps.Keys(r.Spec.Configs))) {
		t.Errorf("%s: the operator's are %v", r.Name, r.Status.ManagedConfigs)
	}
}

func sweptUser(t *testing.T, s *swept, name string) {
	w := s.w
	r := newUser(name, v1alpha1.KafkaUserSpec{
		Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512}, Quotas: &v1alpha1.Quotas{ProducerByteRate: new(int64(1000))},
		ACLs: []v1alpha1.ACL{allow(v1alpha1.Topic, name, "", "Read", "Write")},
	})
	must(t, w.c.Create(t.Context(), &corev1.Secret{ObjectMeta: named(name + "-given"), Data: map[string][]byte{"password": []byte("given")}}))
	rights := func(ops ...string) (out []string) {
		for _, op := range ops {
			out = append(out, fmt.Sprintf("allow %s topic literal:%s from *", op, name))
		}
		return out
	}
	noSecret := func() {
		if w.secret(t, name) != nil || w.secret(t, name+"-given") == nil {
			t.Error("the Secrets are not as they are to be")
		}
	}
	authentication := func(a v1alpha1.Authentication) func() {
		return func() { change(t, w, r, func(r *v1alpha1.KafkaUser) { r.Spec.Authentication = a }) }
	}
	fewer := rights("describe", "read")
	s.live(t, r, []phase{
		{func() { must(t, w.c.Create(t.Context(), r)) }, func() {
			w.awaitUser(t, name, name, has{rights: rights("read", "write"), quotas: map[string]float64{"producer_byte_rate": 1000}, iterations: 4096, secret: name, reason: "InSync"})
			w.awaitIn(t, name, string(w.secret(t, name)["password"]))
		}},
		{func() {
			change(t, w, r, func(r *v1alpha1.KafkaUser) {
				r.Spec.Authentication.PasswordFrom, r.Spec.Quotas = &v1alpha1.SecretKey{Name: name + "-given"}, nil
				r.Spec.ACLs[0].Operations = []v1alpha1.Operation{"Read", "Describe"}
			})
		}, func() {
			w.awaitUser(t, name, name, has{rights: fewer, iterations: 4096, secret: name + "-given", reason: "InSync"})
			w.awaitIn(t, name, "given")
			noSecret()
		}},
		{authentication(v1alpha1.Authentication{Type: v1alpha1.TLSExternal}), func() {
			w.awaitUser(t, name, name, has{rights: fewer, reason: "InSync"})
			noSecret()
		}},
		{authentication(v1alpha1.Authentication{Type: v1alpha1.ScramSHA512}), func() {
			w.awaitUser(t, name, name, has{rights: fewer, iterations: 4096, secret: name, reason: "InSync"})
			w.awaitIn(t, name, string(w.secret(t, name)["password"]))
		}},
		{func() { w.remove(t, r) }, func() {
			w.awaitUser(t, name, name, has{})
			noSecret()
		}},
	})
}

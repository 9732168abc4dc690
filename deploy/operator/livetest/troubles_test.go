package livetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/internal/testport"
)

// While no broker is there resources say so, and a deletion waits; then all is done.
func testBrokersDown(t *testing.T, w *world) {
	stays, goes := newTopic("stays", v1alpha1.KafkaTopicSpec{Partitions: new(int32(1))}), newTopic("goes", v1alpha1.KafkaTopicSpec{})
	user := newUser("lasts", v1alpha1.KafkaUserSpec{Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512}})
	for _, r := range []client.Object{stays, goes, user} {
		must(t, w.c.Create(t.Context(), r))
	}
	w.awaitTopic(t, "stays", "stays", wanted{partitions: 1, reason: "InSync"})
	w.awaitTopic(t, "goes", "goes", wanted{partitions: 2, reason: "InSync"})
	w.awaitUser(t, "lasts", "lasts", has{iterations: 4096, secret: "lasts", reason: "InSync"})
	w.secrets = append(w.secrets, string(w.secret(t, "lasts")["password"]))
	var wg sync.WaitGroup
	for _, b := range w.brokers {
		wg.Go(func() { b.p.end(t, syscall.SIGKILL) })
	}
	wg.Wait()
	w.remove(t, goes)
	w.remove(t, user)
	change(t, w, stays, func(r *v1alpha1.KafkaTopic) { r.Spec.Partitions = new(int32(4)) })
	comes, never := newTopic("comes", v1alpha1.KafkaTopicSpec{}), newTopic("never", v1alpha1.KafkaTopicSpec{})
	must(t, w.c.Create(t.Context(), comes))
	must(t, w.c.Create(t.Context(), never))
	says := func(r client.Object, message string) {
		t.Helper()
		eventually(t, r.GetName()+" says that the cluster is gone", func() string {
			if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
				return err.Error()
			}
			conditions, observed := statusOf(r)
			if is := ready(conditions, observed, r.GetGeneration()); is != "ClusterUnreachable" || !strings.Contains(conditions[0].Message, message) {
				return fmt.Sprintf("%s: %v", is, conditions)
			}
			return ""
		})
	}
	says(goes, "the deletion waits: describe topic goes")
	says(user, "the deletion waits: ")
	says(stays, "describe topic stays")
	says(comes, "describe topic comes")
	says(never, "describe topic never")
	w.awaitEvent(t, "comes", "ClusterUnreachable")
	w.remove(t, never) // nothing was ever done for it
	eventually(t, "what never was is gone", func() string {
		if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(never), never); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Sprint(err)
		}
		return ""
	})
	for _, b := range w.brokers {
		b.start(w)
	}
	w.awaitBrokers(t)
	w.awaitTopic(t, "goes", "goes", wanted{gone: true})
	w.awaitUser(t, "lasts", "lasts", has{})
	w.awaitTopic(t, "stays", "stays", wanted{partitions: 4, reason: "InSync"})
	w.awaitTopic(t, "comes", "comes", wanted{partitions: 2, reason: "InSync"})
	w.remove(t, stays)
	w.remove(t, comes)
	w.awaitTopic(t, "stays", "stays", wanted{gone: true})
	w.awaitTopic(t, "comes", "comes", wanted{gone: true})
}

// A broker that hangs keeps nobody waiting for long.
func testBrokerHangs(t *testing.T, w *world) {
	hung := w.brokers[0].p
	hung.signal(t, syscall.SIGSTOP)
	r := newTopic("meanwhile", v1alpha1.KafkaTopicSpec{})
	must(t, w.c.Create(t.Context(), r))
	eventually(t, "a topic is made meanwhile", func() string {
		must(t, w.c.Get(t.Context(), client.ObjectKeyFromObject(r), r))
		if is := ready(r.Status.Conditions, r.Status.ObservedGeneration, r.Generation); is != "InSync" {
			return fmt.Sprint(is, r.Status.Conditions)
		}
		return ""
	})
	hung.signal(t, syscall.SIGCONT)
	w.awaitBrokers(t)
	w.remove(t, r)
	w.awaitTopic(t, r.Name, r.Name, wanted{gone: true})
}

// The API server is killed. What is changed when it is back, the operator does, whether it sees
// it as it comes, or has looked away for longer: new ones, changes, deletions.
func testAPIServerKilled(t *testing.T, w *world) {
	for _, away := range []bool{false, true} {
		made := []*v1alpha1.KafkaTopic{newTopic("kept", v1alpha1.KafkaTopicSpec{Partitions: new(int32(1))}), newTopic("dropped", v1alpha1.KafkaTopicSpec{})}
		for _, r := range made {
			must(t, w.c.Create(t.Context(), r))
		}
		vault := &corev1.Secret{ObjectMeta: named("rotates"), Data: map[string][]byte{"password": []byte("before-the-kill")}}
		must(t, w.c.Create(t.Context(), vault))
		user := newUser("rotates", v1alpha1.KafkaUserSpec{Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512, PasswordFrom: &v1alpha1.SecretKey{Name: "rotates"}}})
		must(t, w.c.Create(t.Context(), user))
		w.awaitTopic(t, "kept", "kept", wanted{partitions: 1, reason: "InSync"})
		w.awaitTopic(t, "dropped", "dropped", wanted{partitions: 2, reason: "InSync"})
		w.awaitUser(t, "rotates", "rotates", has{iterations: 4096, secret: "rotates", reason: "InSync"})
		if away {
			w.operators[0].signal(t, syscall.SIGSTOP)
		}
		w.killAPI(t)
		change(t, w, made[0], func(r *v1alpha1.KafkaTopic) { r.Spec.Partitions = new(int32(3)) })
		w.remove(t, made[1])
		must(t, w.c.Create(t.Context(), newTopic("added", v1alpha1.KafkaTopicSpec{})))
		password := "after-the-kill-" + strconv.FormatBool(away)
		w.secrets = append(w.secrets, "before-the-kill", "after-the-kill")
		change(t, w, vault, func(s *corev1.Secret) { s.Data["password"] = []byte(password) })
		if away {
			w.operators[0].signal(t, syscall.SIGCONT)
		}
		w.awaitTopic(t, "kept", "kept", wanted{partitions: 3, reason: "InSync"})
		w.awaitTopic(t, "dropped", "dropped", wanted{gone: true})
		w.awaitTopic(t, "added", "added", wanted{partitions: 2, reason: "InSync"})
		w.awaitIn(t, "rotates", password)
		for _, name := range []string{"kept", "added"} {
			w.remove(t, newTopic(name, v1alpha1.KafkaTopicSpec{}))
			w.awaitTopic(t, name, name, wanted{gone: true})
		}
		w.remove(t, user)
		w.awaitUser(t, "rotates", "rotates", has{})
		w.remove(t, vault)
	}
	if !running(w.operators[0]) {
		t.Error("the operator has not lived through it")
	}
}

func running(p *process) bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// The operator is killed again and again while resources come, change and go.
func testOperatorKilled(t *testing.T, w *world) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	w.operators[0].end(t, syscall.SIGTERM) // it gives its Lease back
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for alive := true; alive; {
			p := launch(w.t, w.said, w.bin["operator"], w.operatorFlags("--leader-election=false")...)
			select {
			case <-done:
				alive = false
			case <-time.After(time.Duration(250+rng.IntN(600)) * time.Millisecond):
			}
			p.end(t, syscall.SIGKILL)
		}
	})
	const n = 12
	name := func(i int) string { return fmt.Sprint("killed-", i) }
	for i := range n {
		must(t, w.c.Create(t.Context(), newTopic(name(i), v1alpha1.KafkaTopicSpec{Partitions: new(int32(1)), Configs: configs{"retention.ms": "1000"}})))
		must(t, w.c.Create(t.Context(), newUser(name(i), v1alpha1.KafkaUserSpec{Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512},
			ACLs: []v1alpha1.ACL{allow(v1alpha1.Topic, name(i), "", "Read")}})))
	}
	for i := range n {
		w.awaitTopic(t, name(i), name(i), wanted{partitions: 1, configs: configs{"retention.ms": "1000"}, reason: "InSync"})
		change(t, w, newTopic(name(i), v1alpha1.KafkaTopicSpec{}), func(r *v1alpha1.KafkaTopic) {
			r.Spec.Partitions, r.Spec.Configs = new(int32(2)), configs{"segment.bytes": "1048576"}
		})
		change(t, w, newUser(name(i), v1alpha1.KafkaUserSpec{}), func(r *v1alpha1.KafkaUser) {
			r.Spec.ACLs, r.Spec.Quotas = nil, &v1alpha1.Quotas{RequestPercentage: new(int32(i + 1))}
		})
	}
	for i := range n {
		w.awaitTopic(t, name(i), name(i), wanted{partitions: 2, configs: configs{"segment.bytes": "1048576"}, reason: "InSync"})
		w.awaitUser(t, name(i), name(i), has{quotas: map[string]float64{"request_percentage": float64(i + 1)}, iterations: 4096, secret: name(i), reason: "InSync"})
		password := string(w.secret(t, name(i))["password"])
		w.secrets = append(w.secrets, password)
		w.awaitIn(t, name(i), password)
		w.remove(t, newTopic(name(i), v1alpha1.KafkaTopicSpec{}))
		w.remove(t, newUser(name(i), v1alpha1.KafkaUserSpec{}))
	}
	for i := range n {
		w.awaitTopic(t, name(i), name(i), wanted{gone: true})
		w.awaitUser(t, name(i), name(i), has{})
		if w.secret(t, name(i)) != nil {
			t.Errorf("Secret %s is still there", name(i))
		}
	}
	close(done)
	wg.Wait()
	w.operators = nil
	w.operator()
}

// Of two operators one works; it ends in order, and the other one goes on at once.
func testTwoOperators(t *testing.T, w *world) {
	first := w.operators[0]
	r := newTopic("by-the-first", v1alpha1.KafkaTopicSpec{})
	must(t, w.c.Create(t.Context(), r))
	w.awaitTopic(t, r.Name, r.Name, wanted{partitions: 2, reason: "InSync"})
	probes, metrics := testport.Addr(t), testport.Addr(t)
	second := w.operator("--probes", probes, "--metrics", metrics)
	page := func(addr, path, has string) {
		t.Helper()
		eventually(t, path+" has "+has, func() string {
			b, err := get(addr, path)
			if err == nil && !strings.Contains(b, has) {
				return b
			}
			return problem(err)
		})
	}
	page(probes, "/healthz", "200 OK")
	page(probes, "/readyz", "200 OK")
	page(metrics, "/metrics", `kaas_operator_resources{kind="KafkaTopic",reason="InSync"} 1`)
	began := time.Now()
	if state := first.end(t, syscall.SIGTERM); state.ExitCode() != 0 {
		t.Errorf("the first operator has ended with %v", state)
	}
	t.Logf("the first one has ended after %v", time.Since(began))
	change(t, w, r, func(r *v1alpha1.KafkaTopic) { r.Spec.Configs = configs{"retention.ms": "9"} })
	w.awaitTopic(t, r.Name, r.Name, wanted{partitions: 2, configs: configs{"retention.ms": "9"}, reason: "InSync"})
	took := time.Since(began)
	t.Logf("the second one goes on after %v", took)
	if took > 45*time.Second {
		t.Error("the Lease was not given back")
	}
	page(metrics, "/metrics", `kaas_operator_changes_total{change="Altered",kind="KafkaTopic"} 1`)
	w.operators = []*process{second}
	w.remove(t, r)
	w.awaitTopic(t, r.Name, r.Name, wanted{gone: true})
}

// Another release, for resources of another namespace, works beside the first in the same one. It
// may touch neither the first's Lease nor that of brokers.
func testAnotherRelease(t *testing.T, w *world) {
	const other, depot = "teamb-kaas-operator", "depot"
	w.release(t, other, depot)
	launch(t, w.said, w.bin["operator"], w.operatorFlags("--kubeconfig", w.operatorConfig(other), "--namespaces", depot, "--leader-election-name", other)...)
	r := newTopic("of-the-depot", v1alpha1.KafkaTopicSpec{})
	r.Namespace = depot
	must(t, w.c.Create(t.Context(), r))
	eventually(t, "the other one works", func() string {
		if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err.Error()
		}
		if is := ready(r.Status.Conditions, r.Status.ObservedGeneration, r.Generation); is != "InSync" {
			return is
		}
		return ""
	})
	mine := newTopic("of-the-shop", v1alpha1.KafkaTopicSpec{})
	must(t, w.c.Create(t.Context(), mine))
	w.awaitTopic(t, mine.Name, mine.Name, wanted{partitions: 2, reason: "InSync"})
	for lease, want := range map[string]bool{other: true, firstRelease: false, "kaas-controller": false} {
		for _, verb := range []string{"get", "update", "patch", "delete"} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + home + ":" + other,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: home, Group: "coordination.k8s.io", Resource: "leases", Verb: verb, Name: lease}}}
			must(t, w.c.Create(t.Context(), review))
			if may := want && (verb == "get" || verb == "update"); review.Status.Allowed != may {
				t.Errorf("may %s Lease %s: %v", verb, lease, review.Status.Allowed)
			}
		}
	}
	w.remove(t, r)
	w.remove(t, mine)
	w.awaitTopic(t, mine.Name, mine.Name, wanted{gone: true})
	eventually(t, "the depot's topic is gone", func() string {
		is, err := w.topic(t.Context(), r.Name)
		if err == nil && is != nil {
			return "it is there"
		}
		return problem(err)
	})
}

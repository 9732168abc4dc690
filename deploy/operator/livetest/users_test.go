package livetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
)

func newUser(name string, spec v1alpha1.KafkaUserSpec) *v1alpha1.KafkaUser {
	return &v1alpha1.KafkaUser{ObjectMeta: named(name), Spec: spec}
}

// has is what a user is to have.
type has struct {
	rights     []string
	quotas     map[string]float64
	iterations int32
	of256      int32  // iterations for SCRAM-SHA-256
	secret     string // that the status names
	reason     string // of the resource; empty: there is none
	message    string
}

// awaitUser waits until the resource and the user are as wanted, all of them at once.
func (w *world) awaitUser(t *testing.T, resource, user string, want has) *v1alpha1.KafkaUser {
	t.Helper()
	r := &v1alpha1.KafkaUser{}
	eventually(t, "user "+user, func() string {
		ctx := t.Context()
		err := w.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: resource}, r)
		if want.reason == "" {
			if err = client.IgnoreNotFound(err); err == nil && r.Name != "" {
				r = &v1alpha1.KafkaUser{}
				return "the resource is there"
			}
		} else if err == nil {
			if is := ready(r.Status.Conditions, r.Status.ObservedGeneration, r.Generation); is != want.reason {
				return fmt.Sprintf("%s: %v", is, r.Status.Conditions)
			}
			if c := r.Status.Conditions[0]; !strings.Contains(c.Message, want.message) {
				return c.Message
			}
			is := ""
			if r.Status.Secret != nil {
				is = r.Status.Secret.Name
			}
			if want.reason == "InSync" && is != want.secret {
				return fmt.Sprintf("the Secret is %q", is)
			}
		}
		if err != nil {
			return err.Error()
		}
		rights, err := w.rights(ctx, user)
		quotas, qerr := w.quotas(ctx, user)
		iterations, of256, serr := w.scram(ctx, user)
		if err := errors.Join(err, qerr, serr); err != nil {
			return err.Error()
		}
		if !slices.Equal(rights, want.rights) || !maps.Equal(quotas, want.quotas) || iterations != want.iterations || of256 != want.of256 {
			return fmt.Sprintf("%q, %v, %d iterations, and %d of SCRAM-SHA-256", rights, quotas, iterations, of256)
		}
		return ""
	})
	return r
}

// as is a client of a user.
func (w *world) as(t *testing.T, user, password string) *kgo.Client {
	return w.client(t, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), kgo.RecordDeliveryTimeout(10*time.Second))
}

// getsIn is whether a user gets in by a password, asking each broker.
func (w *world) getsIn(t *testing.T, user, password string) error {
	t.Helper()
	return w.getsInBy(t, scram.Auth{User: user, Pass: password}.AsSha512Mechanism())
}

func (w *world) getsInBy(t *testing.T, m sasl.Mechanism) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, b := range w.brokers {
		cl := w.client(t, kgo.SeedBrokers(b.addr), kgo.SASL(m))
		err := cl.Ping(ctx)
		cl.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) awaitIn(t *testing.T, user, password string) {
	t.Helper()
	eventually(t, user+" gets in", func() string { return problem(w.getsIn(t, user, password)) })
}

// awaitOut waits until a user gets in with a password by neither mechanism.
func (w *world) awaitOut(t *testing.T, user, password string) {
	t.Helper()
	auth := scram.Auth{User: user, Pass: password}
	for _, m := range []sasl.Mechanism{auth.AsSha512Mechanism(), auth.AsSha256Mechanism()} {
		eventually(t, user+" does not get in by "+m.Name(), func() string {
			if err := w.getsInBy(t, m); !errors.Is(err, kerr.SaslAuthenticationFailed) {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
}

// produces is nil if the user may write to a topic.
func (w *world) produces(t *testing.T, user, password, topic string) error {
	t.Helper()
	cl := w.as(t, user, password)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
}

func allow(kind v1alpha1.ResourceType, name string, pattern v1alpha1.PatternType, ops ...v1alpha1.Operation) v1alpha1.ACL {
	return v1alpha1.ACL{Resource: v1alpha1.ACLResource{Type: kind, Name: name, PatternType: pattern}, Operations: ops}
}

// The life of a user with a generated password, step by step.
func testUserLife(t *testing.T, w *world) {
	ctx := t.Context()
	for _, topic := range []string{"sales-eu", "sales-secret", "stock"} {
		w.createTopic(t, topic, 1, nil)
		defer w.deleteTopic(t, topic)
	}
	deny := allow(v1alpha1.Topic, "sales-secret", "", "Write")
	deny.Permission = v1alpha1.Deny
	reads := allow(v1alpha1.Group, "readers-", v1alpha1.Prefixed, "Read")
	reads.Host = "127.0.0.1"
	r := newUser("clerk", v1alpha1.KafkaUserSpec{
		UserName: "Clerk_1", Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512},
		ACLs:   []v1alpha1.ACL{allow(v1alpha1.Topic, "sales-", v1alpha1.Prefixed, "Write", "Describe"), deny, reads, allow(v1alpha1.Cluster, "", "", "IdempotentWrite")},
		Quotas: &v1alpha1.Quotas{ProducerByteRate: new(int64(1 << 20)), ControllerMutationRate: new(int32(5))},
	})
	writes := []string{"allow describe topic prefixed:sales- from *", "allow write topic prefixed:sales- from *"}
	full := has{
		rights: slices.Sorted(slices.Values(append(writes, "allow idempotent_write cluster literal:kafka-cluster from *", "allow read group prefixed:readers- from 127.0.0.1", "deny write topic literal:sales-secret from *"))),
		quotas: map[string]float64{"producer_byte_rate": 1 << 20, "controller_mutation_rate": 5}, iterations: 4096, secret: "clerk", reason: "InSync",
	}
	must(t, w.c.Create(ctx, r))
	w.awaitUser(t, "clerk", "Clerk_1", full)
	made := w.secret(t, "clerk")
	first := string(made["password"])
	w.secrets = append(w.secrets, first)
	if string(made["username"]) != "Clerk_1" || string(made["sasl.jaas.config"]) != `org.apache.kafka.common.security.scram.ScramLoginModule required username="Clerk_1" password="`+first+`";` {
		t.Error("the Secret has not what a client needs")
	}
	w.awaitIn(t, "Clerk_1", first)
	for topic, want := range map[string]error{"sales-eu": nil, "sales-secret": kerr.TopicAuthorizationFailed, "stock": kerr.TopicAuthorizationFailed} {
		if err := w.produces(t, "Clerk_1", first, topic); !errors.Is(err, want) {
			t.Errorf("%s: %v", topic, err)
		}
	}

	// The Secret is changed: so is the password, and what else is in the Secret.
	s := &corev1.Secret{ObjectMeta: named("clerk")}
	change(t, w, s, func(s *corev1.Secret) { s.Data["password"] = []byte(`a "new" one\ `) })
	w.secrets = append(w.secrets, `a "new" one`)
	w.awaitIn(t, "Clerk_1", `a "new" one\ `)
	w.awaitOut(t, "Clerk_1", first)
	eventually(t, "the Secret's login follows", func() string {
		if got := string(w.secret(t, "clerk")["sasl.jaas.config"]); !strings.HasSuffix(got, `password="a \"new\" one\\ ";`) {
			return got
		}
		return ""
	})
	w.awaitUser(t, "clerk", "Clerk_1", full)

	// The Secret is deleted: there is another one.
	w.remove(t, s)
	eventually(t, "another Secret", func() string {
		if w.secret(t, "clerk") == nil {
			return "there is none"
		}
		return ""
	})
	third := string(w.secret(t, "clerk")["password"])
	w.secrets = append(w.secrets, third)
	w.awaitIn(t, "Clerk_1", third)

	for _, step := range []struct {
		name string
		do   func(t *testing.T)
		want has
		says string
	}{
		{"fewer ACLs, other quotas, more iterations", func(t *testing.T) {
			change(t, w, r, func(r *v1alpha1.KafkaUser) {
				r.Spec.ACLs, r.Spec.Quotas = r.Spec.ACLs[:1], &v1alpha1.Quotas{ConsumerByteRate: new(int64(7))}
				r.Spec.Authentication.Iterations = new(int32(8192))
			})
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, secret: "clerk", reason: "InSync"}, "User:Clerk_1 has got 0 ACLs, and lost 3"},
		{"a client has taken an ACL, and given one", func(t *testing.T) {
			b := kadm.NewACLs().Topics("sales-").Allow("User:Clerk_1").AllowHosts("*").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpWrite)
			_, err := w.admin.DeleteACLs(ctx, b)
			must(t, err)
			b = kadm.NewACLs().Topics("*").Allow("User:Clerk_1").AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAll)
			_, err = w.admin.CreateACLs(ctx, b)
			must(t, err)
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, secret: "clerk", reason: "InSync"}, "User:Clerk_1 has got "},
		{"a client has changed quotas", func(t *testing.T) {
			user := "Clerk_1"
			_, err := w.admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}},
				Ops: []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Remove: true}, {Key: "producer_byte_rate", Value: 1}}}})
			must(t, err)
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, secret: "clerk", reason: "InSync"}, "User:Clerk_1 has got 1 quotas, and lost 1"},
		{"a client has taken the password", func(t *testing.T) {
			_, err := w.admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "Clerk_1", Mechanism: kadm.ScramSha512}}, nil)
			must(t, err)
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, secret: "clerk", reason: "InSync"}, "User:Clerk_1 has the password of Secret clerk"},
		{"a client has given another one", func(t *testing.T) { w.upsert(t, "Clerk_1", kadm.ScramSha256, "for-the-back-door") },
			has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, secret: "clerk", reason: "InSync"}, "User:Clerk_1 has no password for SCRAM-SHA-256 any more"},
		{"a password from elsewhere, which is not there", func(t *testing.T) {
			change(t, w, r, func(r *v1alpha1.KafkaUser) { r.Spec.Authentication.PasswordFrom = &v1alpha1.SecretKey{Name: "vault"} })
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, reason: "SecretMissing", message: "no Secret vault"}, ""},
		{"nor has its key", func(t *testing.T) {
			must(t, w.c.Create(ctx, &corev1.Secret{ObjectMeta: named("vault"), Data: map[string][]byte{"other": []byte("x")}}))
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, reason: "SecretMissing", message: "no key password"}, ""},
		{"with a slip", func(t *testing.T) {
			change(t, w, &corev1.Secret{ObjectMeta: named("vault")}, func(s *corev1.Secret) { s.Data["password"] = []byte("from-the-vault\n") })
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, reason: "SecretInvalid", message: "control character"}, ""},
		{"and there it is", func(t *testing.T) {
			change(t, w, &corev1.Secret{ObjectMeta: named("vault")}, func(s *corev1.Secret) { s.Data["password"] = []byte("from-the-vault") })
		}, has{rights: writes, quotas: map[string]float64{"consumer_byte_rate": 7}, iterations: 8192, secret: "vault", reason: "InSync"}, ""},
		{"external", func(t *testing.T) {
			change(t, w, r, func(r *v1alpha1.KafkaUser) {
				r.Spec.Authentication, r.Spec.Quotas = v1alpha1.Authentication{Type: v1alpha1.TLSExternal}, nil
			})
		}, has{rights: writes, reason: "InSync"}, ""},
		{"a client has given it a password", func(t *testing.T) { w.upsert(t, "Clerk_1", kadm.ScramSha512, "for-the-side-door") },
			has{rights: writes, reason: "InSync"}, "User:Clerk_1 has no password for SCRAM-SHA-512 any more"},
		{"and back", func(t *testing.T) {
			change(t, w, r, func(r *v1alpha1.KafkaUser) { r.Spec.Authentication.Type = v1alpha1.ScramSHA512 })
		}, has{rights: writes, iterations: 4096, secret: "clerk", reason: "InSync"}, ""},
		{"deleted, with one that a client has given meanwhile", func(t *testing.T) {
			w.operators[0].signal(t, syscall.SIGSTOP)
			defer w.operators[0].signal(t, syscall.SIGCONT)
			w.upsert(t, "Clerk_1", kadm.ScramSha256, "for-the-attic")
			w.remove(t, r)
		}, has{}, "what User:Clerk_1 had is gone"},
	} {
		t.Log(step.name)
		before := strings.Count(w.said.String(), step.says)
		step.do(t)
		eventually(t, step.says, func() string {
			if step.says == "" || strings.Count(w.said.String(), step.says) > before {
				return ""
			}
			return "not said"
		})
		w.awaitUser(t, "clerk", "Clerk_1", step.want)
		if step.want.secret != "" {
			w.awaitIn(t, "Clerk_1", string(w.secret(t, step.want.secret)["password"]))
			w.secrets = append(w.secrets, string(w.secret(t, step.want.secret)["password"]))
		}
	}
	if w.secret(t, "clerk") != nil {
		t.Error("the generated Secret is still there")
	}
	if w.secret(t, "vault") == nil {
		t.Error("somebody's Secret is gone")
	}
	for _, password := range []string{"from-the-vault", "for-the-back-door", "for-the-side-door", "for-the-attic"} {
		w.awaitOut(t, "Clerk_1", password)
	}
}

// Users that are not made here, that two resources want, or that the operator itself is.
func testUsersRefused(t *testing.T, w *world) {
	external := v1alpha1.Authentication{Type: v1alpha1.TLSExternal}
	by := newUser("by-certificate", v1alpha1.KafkaUserSpec{UserName: "CN=app,OU=shop", Authentication: external, ACLs: []v1alpha1.ACL{allow(v1alpha1.TransactionalID, "*", "", "All")}})
	must(t, w.c.Create(t.Context(), by))
	rights := []string{"allow all transactional_id literal:* from *"}
	w.awaitUser(t, by.Name, "CN=app,OU=shop", has{rights: rights, reason: "InSync"})
	second := newUser("a-second", v1alpha1.KafkaUserSpec{UserName: "CN=app,OU=shop", Authentication: external})
	must(t, w.c.Create(t.Context(), second))
	w.awaitUser(t, second.Name, "CN=app,OU=shop", has{rights: rights, reason: "NameTaken", message: "shop/by-certificate"})
	w.remove(t, by)
	w.awaitUser(t, second.Name, "CN=app,OU=shop", has{reason: "InSync"})
	w.remove(t, second)

	own := newUser("operator", v1alpha1.KafkaUserSpec{Authentication: external})
	must(t, w.c.Create(t.Context(), own))
	eventually(t, "the operator keeps its rights", func() string {
		must(t, w.c.Get(t.Context(), client.ObjectKeyFromObject(own), own))
		if is := ready(own.Status.Conditions, own.Status.ObservedGeneration, own.Generation); is != "OperatorsOwnUser" {
			return is
		}
		return ""
	})
	w.remove(t, own)
	if rs, err := w.rights(t.Context(), "operator"); err != nil || len(rs) != 10 {
		t.Errorf("%v, %v", rs, err)
	}

	w.usersThatAreThere(t)

	must(t, w.c.Create(t.Context(), &corev1.Secret{ObjectMeta: named("theirs"), Data: map[string][]byte{"password": []byte("of-theirs")}}))
	w.secrets = append(w.secrets, "of-theirs")
	theirs := newUser("theirs", v1alpha1.KafkaUserSpec{Authentication: v1alpha1.Authentication{Type: v1alpha1.ScramSHA512}})
	must(t, w.c.Create(t.Context(), theirs))
	w.awaitUser(t, "theirs", "theirs", has{reason: "SecretOfAnother"})
	w.remove(t, theirs)
	w.awaitUser(t, "theirs", "theirs", has{})
	if w.secret(t, "theirs") == nil {
		t.Error("somebody's Secret is gone")
	}
}

// usersThatAreThere have a password, an ACL or a quota that no resource has given them: they stay
// as they are, unless a resource is to adopt them. Reserved ones stay in any case.
func (w *world) usersThatAreThere(t *testing.T) {
	t.Helper()
	ctx, scram512 := t.Context(), v1alpha1.Authentication{Type: v1alpha1.ScramSHA512}
	w.upsert(t, "there", kadm.ScramSha512, "of-there")
	w.upsert(t, "there-256", kadm.ScramSha256, "of-there-256")
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		w.upsert(t, "there-external", m, "of-there-external")
	}
	_, err := w.admin.CreateACLs(ctx, kadm.NewACLs().Topics("x").Allow("User:there-by-right").AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead))
	must(t, err)
	byQuota := "there-by-quota"
	_, err = w.admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &byQuota}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 9}}}})
	must(t, err)
	right, quota := []string{"allow read topic literal:x from *"}, map[string]float64{"producer_byte_rate": 9}
	for name, has := range map[string]has{
		"there": {iterations: 4097, reason: "UserExists", message: "spec.adopt"}, "there-256": {of256: 4097, reason: "UserExists", message: "password"},
		"there-by-right": {rights: right, reason: "UserExists", message: "ACLs"}, byQuota: {quotas: quota, reason: "UserExists", message: "quotas"},
		"kept": {reason: "ReservedUser"},
	} {
		r := newUser(name, v1alpha1.KafkaUserSpec{Authentication: scram512})
		must(t, w.c.Create(ctx, r))
		w.awaitUser(t, name, name, has)
		w.remove(t, r)
		has.reason = ""
		w.awaitUser(t, name, name, has)
		if w.secret(t, name) != nil {
			t.Errorf("there is a Secret for %s", name)
		}
	}
	w.awaitIn(t, "there", "of-there")
	eventually(t, "there-256 gets in", func() string {
		return problem(w.getsInBy(t, scram.Auth{User: "there-256", Pass: "of-there-256"}.AsSha256Mechanism()))
	})
	for _, name := range []string{"there", "there-256", "there-by-right", byQuota} {
		r := newUser(name, v1alpha1.KafkaUserSpec{Authentication: scram512, Adopt: true})
		must(t, w.c.Create(ctx, r))
		w.awaitUser(t, name, name, has{iterations: 4096, secret: name, reason: "InSync"})
		w.secrets = append(w.secrets, string(w.secret(t, name)["password"]))
		w.awaitOut(t, name, "of-"+name)
		change(t, w, r, func(r *v1alpha1.KafkaUser) { r.Spec.Adopt = false })
		w.awaitUser(t, name, name, has{iterations: 4096, secret: name, reason: "InSync"})
		w.remove(t, r)
		w.awaitUser(t, name, name, has{})
		w.awaitOut(t, name, "of-"+name)
	}
	external := newUser("there-external", v1alpha1.KafkaUserSpec{Authentication: v1alpha1.Authentication{Type: v1alpha1.TLSExternal}, Adopt: true})
	must(t, w.c.Create(ctx, external))
	w.awaitUser(t, external.Name, external.Name, has{reason: "InSync"})
	w.awaitOut(t, external.Name, "of-there-external")
	w.remove(t, external)
	w.awaitUser(t, external.Name, external.Name, has{})
}

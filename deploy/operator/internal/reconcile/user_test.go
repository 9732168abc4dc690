package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// there is a cluster where a user has something already. It can be asked, and not changed.
type there struct {
	Cluster
	password bool
	acls     []kafka.ACL
	quotas   map[string]float64
	err      error // of a question for ACLs
}

func (c there) Passwords(context.Context, string) (map[kafka.Mechanism]int32, error) {
	if c.password {
		return map[kafka.Mechanism]int32{kafka.SetsFor: 4096}, nil
	}
	return nil, nil
}
func (c there) ACLs(context.Context, string) ([]kafka.ACL, error)          { return c.acls, c.err }
func (c there) Quotas(context.Context, string) (map[string]float64, error) { return c.quotas, nil }

// Nothing is done for a resource whose user is somebody else's: neither the resource nor the
// cluster can be written to here.
func TestUsersThatAreThereAreLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster there
		reason  string
		says    string
	}{
		"with a password": {there{password: true}, ReasonUserExists, "a password"},
		"with ACLs":       {there{acls: []kafka.ACL{{}}}, ReasonUserExists, "ACLs"},
		"with quotas":     {there{quotas: map[string]float64{"producer_byte_rate": 1}}, ReasonUserExists, "quotas"},
		"with all":        {there{password: true, acls: []kafka.ACL{{}}, quotas: map[string]float64{"x": 1}}, ReasonUserExists, "a password, ACLs, quotas"},
		"not asked":       {there{err: &kafka.Error{Doing: "try", Err: kerr.ClusterAuthorizationFailed}}, ReasonUnauthorized, ""},
		"admin":           {there{}, ReasonReserved, "admin"},
		"self":            {there{}, ReasonOperatorsOwn, "self"},
	} {
		u := &v1alpha1.KafkaUser{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "1"}}
		r := &Users{Base: Base{Cluster: tc.cluster}, Self: func() string { return "self" }, Reserved: []string{"broker", "admin"},
			Named: func(context.Context, string) ([]v1alpha1.KafkaUser, error) { return []v1alpha1.KafkaUser{*u}, nil }}
		err := r.sync(t.Context(), u, u.DeepCopy())
		if reason, _ := judge(err); err == nil || reason != tc.reason || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %s, %v", name, reason, err)
		}
		u.Status.Principal, u.Spec.Adopt = "User:"+name, true
		if r.notOurs(u.KafkaName()) != nil { // it may have been ours before it was reserved
			if err := r.drop(t.Context(), u); err != nil {
				t.Errorf("%s: its deletion: %v", name, err)
			}
		}
	}
}

// Whose user it is already, or is to be by adoption, nobody asks.
func TestOwnUsersAreNotAskedFor(t *testing.T) {
	r := &Users{Base: Base{Cluster: there{password: true, err: errors.New("asked")}}}
	held, adopts := &v1alpha1.KafkaUser{}, &v1alpha1.KafkaUser{}
	held.Status.Principal, adopts.Spec.Adopt = "User:x", true
	for _, u := range []*v1alpha1.KafkaUser{held, adopts} {
		if err := r.unlessThere(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
	// Without an authorizer nobody has ACLs.
	r.Cluster = there{err: &kafka.Error{Doing: "try", Err: kerr.SecurityDisabled}}
	if err := r.unlessThere(t.Context(), &v1alpha1.KafkaUser{}); err != nil {
		t.Error(err)
	}
}

// holding is a cluster where a user has passwords, ACLs and quotas aside.
type holding struct {
	there
	passwords map[kafka.Mechanism]int32
}

func (c holding) Passwords(context.Context, string) (map[kafka.Mechanism]int32, error) {
	return maps.Clone(c.passwords), nil
}

func (c holding) RemovePassword(_ context.Context, _ string, m kafka.Mechanism) error {
	delete(c.passwords, m)
	return nil
}

// Whoever has given a user a password, for whichever mechanism: none is left where the user is to
// have none, and none but its own otherwise.
func TestNoOtherPasswordIsLeft(t *testing.T) {
	const of256, of512 = kadm.ScramSha256, kadm.ScramSha512
	for name, has := range map[string][]kafka.Mechanism{"none": nil, "of 256": {of256}, "of 512": {of512}, "both": {of256, of512}} {
		for what, do := range map[string]func(*Users, *v1alpha1.KafkaUser) error{
			"external": func(r *Users, u *v1alpha1.KafkaUser) error { return r.syncPassword(t.Context(), u) },
			"deleted":  func(r *Users, u *v1alpha1.KafkaUser) error { return r.drop(t.Context(), u) },
		} {
			c := holding{passwords: map[kafka.Mechanism]int32{}}
			for _, m := range has {
				c.passwords[m] = 4096
			}
			told := events.NewFakeRecorder(10)
			u := &v1alpha1.KafkaUser{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "u", UID: "1"}}
			u.Spec.Authentication.Type, u.Status.Principal = v1alpha1.TLSExternal, u.Principal()
			r := &Users{Base: Base{Cluster: c, Log: slog.New(slog.DiscardHandler), Events: told}, Self: func() string { return "self" },
				Named: func(context.Context, string) ([]v1alpha1.KafkaUser, error) { return []v1alpha1.KafkaUser{*u}, nil }}
			if err := do(r, u); err != nil || len(c.passwords) > 0 {
				t.Errorf("%s, %s: there is left %v, %v", name, what, c.passwords, err)
			}
			removed := 0
			for len(told.Events) > 0 {
				if strings.Contains(<-told.Events, "PasswordRemoved") {
					removed++
				}
			}
			if removed != len(has) {
				t.Errorf("%s, %s: %d removals are told", name, what, removed)
			}
		}
	}
}

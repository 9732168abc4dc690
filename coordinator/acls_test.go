package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections"
)

func aclFor(name string) projections.ACL {
	return projections.ACL{Resource: projections.ACLTopic, Pattern: projections.ACLLiteral, Name: name, Principal: "User:alice", Host: "*",
		Operation: projections.ACLRead, Permission: projections.ACLAllow}
}

func TestAlterACLs(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	c := ctx(t, 5*time.Minute)
	alter := func(created, deleted []projections.ACL) error {
		return b.AlterACLs(c, func(*projections.Cluster) ([]projections.ACL, []projections.ACL, error) { return created, deleted, nil })
	}
	is := func(what string, want ...projections.ACL) {
		t.Helper()
		if got := b.View().ACLs().All(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	one, two := aclFor("a"), aclFor("b")
	if err := alter([]projections.ACL{two, one, one}, nil); err != nil {
		t.Fatal(err)
	}
	is("made", one, two)
	before := b.Shown()
	if err := alter([]projections.ACL{one}, []projections.ACL{aclFor("c")}); err != nil || b.Shown() != before {
		t.Errorf("what is so already: %v, published %s", err, b.Shown())
	}
	if err := alter(nil, []projections.ACL{one, one}); err != nil {
		t.Fatal(err)
	}
	is("deleted", two)
	refused := errors.New("no")
	if err := b.AlterACLs(c, func(*projections.Cluster) ([]projections.ACL, []projections.ACL, error) {
		return nil, nil, fmt.Errorf("%w: %w", kerr.InvalidRequest, refused)
	}); !errors.Is(err, refused) {
		t.Errorf("an edit that refuses: %v", err)
	}
	var many []projections.ACL
	for i := range mostAtOnce + 1 {
		many = append(many, aclFor(fmt.Sprint(i)))
	}
	wantCode(t, "too many at once", alter(many, nil), kerr.InvalidRequest)
	is("nothing of them is made", two)
	for i := 0; i < projections.MaxACLs-1; i += mostAtOnce {
		many = many[:0]
		for j := range min(mostAtOnce, projections.MaxACLs-1-i) {
			many = append(many, aclFor(fmt.Sprint("x", i+j)))
		}
		if err := alter(many, nil); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, "more than there may be", alter([]projections.ACL{aclFor("c")}, nil), kerr.PolicyViolation)
}

func TestQuotasAndCredentialsHaveBounds(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	c := ctx(t, 5*time.Minute)
	quotas := func(of string, n int) error {
		var cs []projections.QuotasChanged
		for i := range n {
			cs = append(cs, projections.QuotasChanged{Entity: projections.QuotaEntity{User: projections.QuotaName{Name: fmt.Sprint(of, i)}}, Set: projections.QuotaValues{"x": 1}})
		}
		return b.AlterQuotas(c, cs)
	}
	users := func(of string, n int) error {
		return b.AlterUsers(c, func(view *projections.Cluster) (fs []projections.Fact, err error) {
			for i := range n {
				if user := fmt.Sprint(of, i); view.ScramCredential(user, projections.ScramSHA256) == nil {
					fs = append(fs, &projections.ScramCredentialSet{User: user, Mechanism: projections.ScramSHA256})
				}
			}
			return fs, nil
		})
	}
	for what, alter := range map[string]func(string, int) error{"quotas": quotas, "users": users} {
		before := b.Shown()
		wantCode(t, what+": too many at once", alter("x", mostAtOnce+1), kerr.InvalidRequest)
		if b.Shown() != before {
			t.Errorf("%s: published %s", what, b.Shown())
		}
		for i := range 10 {
			if err := alter(fmt.Sprint(i, "-"), mostAtOnce); err != nil {
				t.Fatal(what, err)
			}
		}
		before = b.Shown()
		wantCode(t, what+": more than there may be", alter("x", 1), kerr.PolicyViolation)
		if b.Shown() != before {
			t.Errorf("%s: published %s", what, b.Shown())
		}
	}
	if n, m := len(b.View().Quotas().Entities()), len(b.View().ScramCredentials()); n != projections.MaxQuotaEntities || m != projections.MaxScramCredentials {
		t.Errorf("there are %d and %d", n, m)
	}
}

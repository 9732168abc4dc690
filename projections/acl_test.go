package projections

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
)

func anACL(op ACLOperation) ACL {
	return ACL{ACLTopic, ACLLiteral, "orders", "User:alice", "10.0.0.0/8", op, ACLAllow}
}

// someACL draws few, so that many are the same.
var someACL = rapid.Custom(func(t *rapid.T) ACL {
	a := anACL(rapid.SampledFrom([]ACLOperation{ACLRead, ACLWrite, ACLAll}).Draw(t, "operation"))
	a.Name = rapid.SampledFrom([]string{"orders", "*", "o"}).Draw(t, "name")
	a.Permission = rapid.SampledFrom([]ACLPermission{ACLAllow, ACLDeny}).Draw(t, "permission")
	return a
})

func TestACLIsJudged(t *testing.T) {
	for what, f := range map[string]func(*ACL){
		"any resource": func(a *ACL) { a.Resource = ACLAnyResource }, "unknown resource": func(a *ACL) { a.Resource = 8 },
		"match": func(a *ACL) { a.Pattern = ACLMatch }, "no pattern": func(a *ACL) { a.Pattern = 0 },
		"any operation": func(a *ACL) { a.Operation = ACLAnyOperation }, "unknown operation": func(a *ACL) { a.Operation = 16 },
		"any permission": func(a *ACL) { a.Permission = ACLAnyPermission }, "no name": func(a *ACL) { a.Name = "" },
		"another cluster": func(a *ACL) { a.Resource = ACLCluster }, "no type of principal": func(a *ACL) { a.Principal = "alice" },
		"no host": func(a *ACL) { a.Host = "" }, "no range": func(a *ACL) { a.Host = "10.0.0.0/33" }, "no address": func(a *ACL) { a.Host = "host/8" },
		"all IPv4 in IPv6 and more": func(a *ACL) { a.Host = "::ffff:10.0.0.0/95" },
		"long name":                 func(a *ACL) { a.Name = strings.Repeat("x", MaxACLString+1) }, "long host": func(a *ACL) { a.Host = strings.Repeat("x", MaxACLString+1) },
	} {
		a := anACL(ACLRead)
		if f(&a); !errors.Is(a.Validate(), kerr.InvalidRequest) {
			t.Errorf("%s: %v", what, a.Validate())
		}
	}
	for what, f := range map[string]func(*ACL){
		"as it is": func(*ACL) {}, "cluster": func(a *ACL) { a.Resource, a.Name = ACLCluster, ACLClusterName },
		"wildcards": func(a *ACL) { a.Name, a.Host, a.Principal = "*", "*", ACLEverybody }, "IPv6": func(a *ACL) { a.Host = "fe80::/10" }, "all IPv4 in IPv6": func(a *ACL) { a.Host = "::ffff:10.0.0.0/96" },
		"set bits": func(a *ACL) { a.Host = "10.1.2.3/8" }, "host name": func(a *ACL) { a.Host = "host" }, "empty user": func(a *ACL) { a.Principal = ":" },
		"two-phase commit": func(a *ACL) { a.Resource, a.Operation = ACLTransactionalID, ACLTwoPhaseCommit },
		"prefix of user":   func(a *ACL) { a.Resource, a.Pattern, a.Permission = ACLUser, ACLPrefixed, ACLDeny },
	} {
		a := anACL(ACLRead)
		if f(&a); a.Validate() != nil {
			t.Errorf("%s: %v", what, a.Validate())
		}
	}
}

func TestACLsInTheView(t *testing.T) {
	change := func(c *Cluster, f Fact) *Cluster { return fold(t, c, []metalog.Event{mustEvent(t, f)}) }
	read, write := anACL(ACLRead), anACL(ACLWrite)
	one := change(NewCluster(), &ACLsCreated{ACLs: []ACL{write, read, write}})
	if got := one.ACLs().All(); !slices.Equal(got, []ACL{read, write}) {
		t.Fatalf("created: %v", got)
	}
	two := change(one, &ACLsDeleted{ACLs: []ACL{read, anACL(ACLAlter)}})
	if two.ACLs().Has(read) || !two.ACLs().Has(write) || two.ACLs().Len() != 1 || !one.ACLs().Has(read) {
		t.Errorf("one of them deleted: %v, before it %v", two.ACLs().All(), one.ACLs().All())
	}
	if other := change(one, &TopicCreated{ID: id(1), Name: "a", Partitions: 1}); other.ACLs() != one.ACLs() {
		t.Error("a change of something else has made the ACLs anew")
	}
	again, err := Decode(mustEncode(t, one))
	if err != nil || !again.Equal(one) || again.Equal(two) {
		t.Errorf("read back: %v, %v", again.ACLs().All(), err)
	}
	b, err := json.Marshal(read)
	if want := `{"resource":"TOPIC","pattern":"LITERAL","name":"orders","principal":"User:alice","host":"10.0.0.0/8","operation":"READ","permission":"ALLOW"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}

func TestACLsHaveBounds(t *testing.T) {
	var many, long []ACL
	for i := range MaxACLs {
		a := anACL(ACLRead)
		a.Name = strconv.Itoa(i)
		many = append(many, a)
	}
	for range MaxACLBytes/MaxACLString + 1 {
		a := anACL(ACLRead)
		a.Name = strings.Repeat("x", MaxACLString)
		long = append(long, a)
	}
	for what, tc := range map[string]struct {
		have, added []ACL
		fit         bool
	}{
		"as many as may be": {nil, many, true}, "one too many": {many, many[:1], false},
		"too long together": {nil, long, false}, "none": {many, nil, true},
	} {
		if err := newACLs(tc.have).Fits(tc.added); (err == nil) != tc.fit || !tc.fit && !errors.Is(err, kerr.PolicyViolation) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRestoreBringsACLsBack(t *testing.T) {
	view := func(acls ...ACL) *Cluster {
		return fold(t, NewCluster(), []metalog.Event{mustEvent(t, &ACLsCreated{ACLs: acls})})
	}
	then, now := view(anACL(ACLRead), anACL(ACLWrite)), view(anACL(ACLWrite), anACL(ACLAlter))
	r := Restore(then, now, func(TopicID) int32 { return 0 })
	if !slices.Equal(r.View.ACLs().All(), then.ACLs().All()) || !slices.Contains(r.Restored, "1 ACL(s) made again and 1 made since deleted") {
		t.Errorf("%v, said %q", r.View.ACLs().All(), r.Restored)
	}
	if again := Restore(then, r.View, func(TopicID) int32 { return 0 }); len(again.Restored) > 0 {
		t.Errorf("the second time: %q", again.Restored)
	}
}

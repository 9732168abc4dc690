package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// scramAsk is a change of a user: up to set it, - to remove it.
type scramAsk struct {
	what, user string
	mechanism  int8
	iterations int32
}

func alterScram(asks ...scramAsk) *kmsg.AlterUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, a := range asks {
		if a.what == "-" {
			req.Deletions = append(req.Deletions, kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: a.user, Mechanism: a.mechanism})
			continue
		}
		req.Upsertions = append(req.Upsertions, kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: a.user, Mechanism: a.mechanism,
			Iterations: a.iterations, Salt: []byte("salt"), SaltedPassword: make([]byte, 32*max(1, int(a.mechanism)))})
	}
	return req
}

// scramSteps are changes, one request after the other, with what Kafka 4.4 answers for each user;
// and what it tells of users then.
var scramSteps = []struct {
	asks []scramAsk
	want map[string]int16
}{
	{[]scramAsk{{"+", "alice", 1, 4096}, {"+", "bob", 2, 16384}}, map[string]int16{"alice": 0, "bob": 0}},
	{[]scramAsk{{"+", "alice", 2, 8192}}, map[string]int16{"alice": 0}},
	{[]scramAsk{{"+", "a", 1, 4095}, {"+", "b", 2, 16385}, {"+", "", 1, 4096}, {"+", "c", 0, 4096}, {"+", "d", 3, 4096}, {"+", "e", 1, 4096}}, map[string]int16{"a": 93, "b": 93, "": 93, "c": 33, "d": 33, "e": 0}},
	{[]scramAsk{{"+", "twice", 1, 4096}, {"+", "twice", 2, 4096}, {"+", "once", 1, 4096}}, map[string]int16{"twice": 92, "once": 0}},
	{[]scramAsk{{"-", "alice", 1, 0}, {"+", "alice", 2, 4096}}, map[string]int16{"alice": 92}},
	{[]scramAsk{{"-", "mallory", 1, 0}, {"-", "bob", 1, 0}, {"-", "", 1, 0}, {"-", "x", 7, 0}}, map[string]int16{"mallory": 91, "bob": 91, "": 93, "x": 33}},
	{[]scramAsk{{"-", "mallory", 1, 0}, {"-", "mallory", 2, 0}}, map[string]int16{"mallory": 91}},
	{[]scramAsk{{"-", "e", 1, 0}}, map[string]int16{"e": 0}},
}

var scramTold = map[string]string{
	"alice": "0 1:4096 2:8192", "bob": "0 2:16384", "once": "0 1:4096", "e": "91", "twice": "91", "": "91",
}

func TestScramCredentialsByRequests(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	checkScram(t, c)
	for _, cred := range n.broker.View().ScramCredentials() {
		if strings.Contains(fmt.Sprintf("%+v", *cred), "salt ") {
			t.Errorf("%+v", cred)
		}
	}
	// An answer may be lost and the request come again; nothing is wrong then.
	cs := newScramChanges(alterScram(scramAsk{"-", "alice", 1, 0}, scramAsk{"+", "new", 1, 4096}), n.broker.View().ScramCredentials()[0].SetAt)
	view := n.broker.View()
	for i, want := range []int{2, 0} {
		fs, err := cs.decide(view)
		if err != nil || len(fs) != want || len(cs.errs) != 0 {
			t.Fatalf("run %d comes to %v, %v, errors %v", i, fs, err, cs.errs)
		}
		evs, err := projections.NewEvents(fs...)
		if err != nil {
			t.Fatal(err)
		}
		if view, err = projections.Apply(view, evs); err != nil {
			t.Fatal(err)
		}
	}
}

// A credential has a salt within bounds, and a salted password as long as its hash.
func TestScramCredentialsAreBounded(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	for what, tc := range map[string]struct {
		mechanism    int8
		salt, salted int
		code         int16
	}{
		"least":               {1, 1, 32, 0},
		"most":                {2, 1024, 64, 0},
		"no salt":             {1, 0, 32, 93},
		"a long salt":         {1, 1025, 32, 93},
		"no password":         {1, 4, 0, 93},
		"a short password":    {2, 4, 32, 93},
		"a long password":     {1, 4, 64, 93},
		"a very long one":     {2, 4, 100_000, 93},
		"an unknown, of none": {3, 0, 0, 33},
	} {
		req := alterScram(scramAsk{"+", what, tc.mechanism, 4096})
		req.Upsertions[0].Salt, req.Upsertions[0].SaltedPassword = make([]byte, tc.salt), make([]byte, tc.salted)
		if got := c.ask(req).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode; got != tc.code {
			t.Errorf("%s: error %d, want %d", what, got, tc.code)
		}
	}
}

// checkScram takes a broker without users through scramSteps.
func checkScram(t *testing.T, c *client) {
	t.Helper()
	for i, s := range scramSteps {
		got := map[string]int16{}
		for _, r := range c.ask(alterScram(s.asks...)).(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
			if _, ok := got[r.User]; ok {
				t.Errorf("step %d: %q is answered twice", i, r.User)
			}
			got[r.User] = r.ErrorCode
			if (r.ErrorMessage == nil) != (r.ErrorCode == 0) {
				t.Errorf("step %d: %q is told %v", i, r.User, r.ErrorMessage)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(s.want) {
			t.Errorf("step %d: %v, want %v", i, got, s.want)
		}
	}
	all := c.describeScram()
	if len(all) != 3 || all["alice"] != scramTold["alice"] || all["bob"] == "" || all["once"] == "" {
		t.Errorf("all users are %v", all)
	}
	var names []string
	for name := range scramTold {
		names = append(names, name)
	}
	for user, told := range c.describeScram(append(names, "double", "double")...) {
		if want, ok := scramTold[user]; told != want && (ok || told != "92") {
			t.Errorf("%q: told %q, want %q", user, told, want)
		}
	}
}

func (c *client) describeScram(users ...string) map[string]string {
	c.t.Helper()
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, u := range users {
		req.Users = append(req.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: u})
	}
	resp := c.ask(req).(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("error %d", resp.ErrorCode)
	}
	out := map[string]string{}
	for _, r := range resp.Results {
		if out[r.User] = fmt.Sprint(r.ErrorCode); r.ErrorMessage == nil || (*r.ErrorMessage == "") != (r.ErrorCode == 0) {
			c.t.Errorf("%q is told %v", r.User, r.ErrorMessage)
		}
		for _, i := range r.CredentialInfos {
			out[r.User] += fmt.Sprintf(" %d:%d", i.Mechanism, i.Iterations)
		}
	}
	return out
}

// Each broker makes such changes, and shows them at once.
func TestScramCredentialsThroughEveryBroker(t *testing.T) {
	nodes, _ := threeNodes(t)
	for i, n := range nodes {
		c, user := dial(t, n.Addr()), fmt.Sprint("user-", i)
		if r := c.ask(alterScram(scramAsk{"+", user, 1, 4096})).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0]; r.ErrorCode != 0 {
			t.Errorf("broker %d: error %d", i+1, r.ErrorCode)
		}
		if got := c.describeScram(user)[user]; got != "0 1:4096" {
			t.Errorf("broker %d shows %q", i+1, got)
		}
	}
}

package server

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaParts are the parts of an entity, such as "user=alice client-id": those without a name
// are the default.
func quotaParts(entity string) (out []kmsg.AlterClientQuotasRequestEntryEntity) {
	for _, part := range strings.Fields(entity) {
		kind, name, named := strings.Cut(part, "=")
		p := kmsg.AlterClientQuotasRequestEntryEntity{Type: kind}
		if named {
			p.Name = &name
		}
		out = append(out, p)
	}
	return out
}

// quotaEntryFor asks for KEY=VALUE and -KEY of an entity.
func quotaEntryFor(entity string, ops ...string) kmsg.AlterClientQuotasRequestEntry {
	e := kmsg.NewAlterClientQuotasRequestEntry()
	e.Entity = quotaParts(entity)
	for _, op := range ops {
		o := kmsg.NewAlterClientQuotasRequestEntryOp()
		key, value, set := strings.Cut(op, "=")
		if set {
			o.Value, _ = strconv.ParseFloat(value, 64)
		} else {
			key = strings.TrimPrefix(key, "-")
		}
		o.Key, o.Remove = key, !set
		e.Ops = append(e.Ops, o)
	}
	return e
}

func (c *client) alterQuotas(only bool, es ...kmsg.AlterClientQuotasRequestEntry) (codes []int16) {
	c.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version, req.ValidateOnly, req.Entries = 1, only, es
	for _, e := range c.ask(req).(*kmsg.AlterClientQuotasResponse).Entries {
		codes = append(codes, e.ErrorCode)
	}
	return codes
}

// quota sets an entity's quotas.
func (c *client) quota(entity string, ops ...string) {
	c.t.Helper()
	if codes := c.alterQuotas(false, quotaEntryFor(entity, ops...)); !slices.Equal(codes, []int16{0}) {
		c.t.Fatalf("quotas of %s: errors %v", entity, codes)
	}
}

// What is asked for, and what Apache Kafka 4.4 answers, but for what it knows of names of
// hosts.
func TestQuotasAltered(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	for _, tc := range []struct {
		entity, ops string
		code        int16
	}{
		{"user=alice", "producer_byte_rate=1000", 0},
		{"user=alice client-id", "producer_byte_rate=2000 request_percentage=12.5", 0},
		{"client-id", "consumer_byte_rate=3000 controller_mutation_rate=1.5", 0},
		{"ip=10.0.0.1", "connection_creation_rate=7", 0},
		{"ip", "connection_creation_rate=8", 0},
		{"", "producer_byte_rate=1", 42},
		{"user=bob", "", 0},
		{"user=", "producer_byte_rate=1", 42},
		{"planet=x", "producer_byte_rate=1", 42},
		{"=x", "producer_byte_rate=1", 42},
		{"user=a user=b", "producer_byte_rate=1", 0}, // the last counts
		{"user=a ip=10.0.0.1", "connection_creation_rate=1", 42},
		{"ip=no.such.host.invalid", "connection_creation_rate=1", 42},
		{"ip=10.0.0.0/8", "connection_creation_rate=1", 42},
		{"ip=10.0.0.1", "producer_byte_rate=1", 42},
		{"user=a", "connection_creation_rate=1", 42},
		{"user=a", "nonsense=1", 42},
		{"user=a", "-nonsense", 0},
		{"user=a", "producer_byte_rate=0", 42},
		{"user=a", "producer_byte_rate=1.5", 42},
		{"user=a", "request_percentage=NaN", 42},
		{"user=a", "request_percentage=+Inf", 42},
		{"user=a", "producer_byte_rate=1e19", 42},
		{"ip=10.0.0.9", "connection_creation_rate=2147483648", 42},
		{"user=a", "producer_byte_rate=1 producer_byte_rate=2", 42},
		{"user=alice", "-producer_byte_rate consumer_byte_rate=5", 0},
		{"user=alice", "-consumer_byte_rate consumer_byte_rate=6", 42},
	} {
		if got := c.alterQuotas(false, quotaEntryFor(tc.entity, strings.Fields(tc.ops)...)); !slices.Equal(got, []int16{tc.code}) {
			t.Errorf("%s: %s: errors %v, want %d", tc.entity, tc.ops, got, tc.code)
		}
	}
	if got := c.alterQuotas(true, quotaEntryFor("user=zed", "producer_byte_rate=1"), quotaEntryFor("user=zed2", "producer_byte_rate=0")); !slices.Equal(got, []int16{0, 42}) {
		t.Errorf("only to validate: %v", got)
	}
	if got := c.alterQuotas(false, quotaEntryFor("user=twice", "producer_byte_rate=1"), quotaEntryFor("user=twice", "consumer_byte_rate=2")); !slices.Equal(got, []int16{42}) {
		t.Errorf("an entity twice: %v", got)
	}
	if got := c.alterQuotas(false, quotaEntryFor("user=good", "producer_byte_rate=1"), quotaEntryFor("user=bad", "producer_byte_rate=0", "consumer_byte_rate=2")); !slices.Equal(got, []int16{0, 42}) {
		t.Errorf("good and bad: %v", got)
	}
	if got := c.alterQuotas(false); got != nil {
		t.Errorf("nothing: %v", got)
	}
	c.describesQuotas()
}

// describesQuotas checks what TestQuotasAltered has left.
func (c *client) describesQuotas() {
	c.t.Helper()
	const (
		client = "client-id [consumer_byte_rate=3000 controller_mutation_rate=1.5]"
		both   = "user=alice client-id [producer_byte_rate=2000 request_percentage=12.5]"
		alice  = "user=alice [consumer_byte_rate=5]"
		ip     = "ip [connection_creation_rate=8]"
		one    = "ip=10.0.0.1 [connection_creation_rate=7]"
		b      = "user=b [producer_byte_rate=1]"
		good   = "user=good [producer_byte_rate=1]"
		twice  = "user=twice [producer_byte_rate=1]"
	)
	for _, tc := range []struct {
		filter string
		strict bool
		code   int16
		want   []string
	}{
		{"", false, 0, []string{client, one, ip, alice, both, b, good, twice}},
		{"", true, 0, nil},
		{"user:2", false, 0, []string{alice, both, b, good, twice}},
		{"user:2", true, 0, []string{alice, b, good, twice}},
		{"user:0=alice", false, 0, []string{alice, both}},
		{"user:0=alice", true, 0, []string{alice}},
		{"client-id:1", false, 0, []string{client, both}},
		{"user:0=alice client-id:1", false, 0, []string{both}},
		{"user:1", false, 0, nil},
		{"ip:2", false, 0, []string{one, ip}},
		{"user:0=nobody", false, 0, nil},
		{"ip:2 user:2", false, 42, nil},
		{"user:2 user:0=a", false, 42, nil},
		{"planet:2", false, 35, nil},
		{":2", false, 42, nil},
		{"user:9", false, 42, nil},
		{"user:0", false, 42, nil},
		{"user:1=x", false, 42, nil},
		{"user:2=x", false, 42, nil},
	} {
		got, code := c.describeQuotas(tc.filter, tc.strict)
		slices.Sort(got)
		slices.Sort(tc.want)
		if code != tc.code || !slices.Equal(got, tc.want) {
			c.t.Errorf("%q, strict %v: error %d, %q\nwant %d, %q", tc.filter, tc.strict, code, got, tc.code, tc.want)
		}
	}
}

// describeQuotas asks for TYPE:MATCH[=NAME], several with spaces between them.
func (c *client) describeQuotas(filter string, strict bool) (out []string, code int16) {
	c.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Version, req.Strict = 1, strict
	for _, part := range strings.Fields(filter) {
		comp := kmsg.NewDescribeClientQuotasRequestComponent()
		kind, match, _ := strings.Cut(part, ":")
		match, name, named := strings.Cut(match, "=")
		m, _ := strconv.Atoi(match)
		if comp.EntityType, comp.MatchType = kind, kmsg.QuotasMatchType(m); named {
			comp.Match = &name
		}
		req.Components = append(req.Components, comp)
	}
	resp := c.ask(req).(*kmsg.DescribeClientQuotasResponse)
	if (resp.Entries == nil) != (resp.ErrorCode != 0) {
		c.t.Errorf("%q: error %d, %v", filter, resp.ErrorCode, resp.Entries)
	}
	for _, e := range resp.Entries {
		s := ""
		for _, p := range e.Entity {
			if s += " " + p.Type; p.Name != nil {
				s += "=" + *p.Name
			}
		}
		var values []string
		for _, v := range e.Values {
			values = append(values, fmt.Sprintf("%s=%v", v.Key, v.Value))
		}
		out = append(out, cmp.Or(strings.TrimSpace(s), "nobody")+" "+fmt.Sprint(values))
	}
	return out, resp.ErrorCode
}

func TestTooManyAtOnce(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	var entries []kmsg.AlterClientQuotasRequestEntry
	var asks []scramAsk
	for i := range mostAltered + 1 {
		entries = append(entries, quotaEntryFor(fmt.Sprint("user=", i), "producer_byte_rate=1"))
		asks = append(asks, scramAsk{[]string{"+", "-"}[i%2], fmt.Sprint(i), 1, 4096})
	}
	all := func(what string, codes []int16, n int, want int16) {
		t.Helper()
		if len(codes) != n || slices.ContainsFunc(codes, func(c int16) bool { return c != want }) {
			t.Errorf("%s: %d answers, first %v", what, len(codes), codes[:min(3, len(codes))])
		}
	}
	before := n.broker.Shown()
	for _, only := range []bool{true, false} {
		all("quotas", c.alterQuotas(only, entries...), mostAltered+1, 42)
	}
	var codes []int16
	for _, r := range c.ask(alterScram(asks...)).(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
		codes = append(codes, r.ErrorCode)
	}
	all("credentials", codes, mostAltered+1, 42)
	if n.broker.Shown() != before {
		t.Errorf("published %s", n.broker.Shown())
	}
	all("quotas, as many as may be", c.alterQuotas(false, entries[1:]...), mostAltered, 0)
}

package acl_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// set is what a cluster has that ACLs were made in.
func set(t rapid.TB, acls ...projections.ACL) *projections.ACLs {
	t.Helper()
	ev, err := projections.NewEvent(&projections.ACLsCreated{ACLs: acls})
	if err != nil {
		t.Fatal(err)
	}
	c, err := projections.Apply(projections.NewCluster(), []metalog.Event{ev})
	if err != nil {
		t.Fatal(err)
	}
	return c.ACLs()
}

// parse reads ACLs such as "User:alice ALLOW READ TOPIC:LITERAL:orders from *".
func parse(t rapid.TB, lines ...string) (out []projections.ACL) {
	t.Helper()
	for _, line := range lines {
		f := strings.Fields(line)
		r := strings.SplitN(f[3], ":", 3)
		a := projections.ACL{Principal: f[0], Name: r[2], Host: f[5]}
		for _, err := range []error{a.Permission.UnmarshalText([]byte(f[1])), a.Operation.UnmarshalText([]byte(f[2])),
			a.Resource.UnmarshalText([]byte(r[0])), a.Pattern.UnmarshalText([]byte(r[1])), a.Validate()} {
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		out = append(out, a)
	}
	return out
}

var (
	alice = auth.User("alice")
	bob   = auth.User("bob")
	here  = netip.MustParseAddr("10.1.2.3")
	there = netip.MustParseAddr("192.168.0.9")
)

func TestDecisions(t *testing.T) {
	for what, tc := range map[string]struct {
		acls    []string
		op      acl.Operation
		name    string
		by      auth.Principal
		from    netip.Addr
		allowed bool
	}{
		"nothing":                 {nil, acl.Read, "a", alice, here, false},
		"the very thing":          {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *"}, acl.Read, "a", alice, here, true},
		"another name":            {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *"}, acl.Read, "ab", alice, here, false},
		"another user":            {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *"}, acl.Read, "a", bob, here, false},
		"another type":            {[]string{"User:alice ALLOW READ GROUP:LITERAL:a from *"}, acl.Read, "a", alice, here, false},
		"another kind of user":    {[]string{"Team:alice ALLOW READ TOPIC:LITERAL:a from *"}, acl.Read, "a", alice, here, false},
		"of a team":               {[]string{"Team:x ALLOW READ TOPIC:LITERAL:a from *"}, acl.Read, "a", auth.Principal{Type: "Team", Name: "x"}, here, true},
		"everybody":               {[]string{"User:* ALLOW READ TOPIC:LITERAL:a from *"}, acl.Read, "a", bob, here, true},
		"everybody, of a team":    {[]string{"User:* ALLOW READ TOPIC:LITERAL:a from *"}, acl.Read, "a", auth.Principal{Type: "Team", Name: "x"}, here, true},
		"prefix":                  {[]string{"User:alice ALLOW READ TOPIC:PREFIXED:ab from *"}, acl.Read, "abc", alice, here, true},
		"the prefix itself":       {[]string{"User:alice ALLOW READ TOPIC:PREFIXED:ab from *"}, acl.Read, "ab", alice, here, true},
		"shorter than it":         {[]string{"User:alice ALLOW READ TOPIC:PREFIXED:ab from *"}, acl.Read, "a", alice, here, false},
		"star as a prefix":        {[]string{"User:alice ALLOW READ TOPIC:PREFIXED:* from *"}, acl.Read, "a", alice, here, false},
		"wildcard":                {[]string{"User:alice ALLOW READ TOPIC:LITERAL:* from *"}, acl.Read, "a", alice, here, true},
		"all":                     {[]string{"User:alice ALLOW ALL TOPIC:LITERAL:a from *"}, acl.AlterConfigs, "a", alice, here, true},
		"read describes":          {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *"}, acl.Describe, "a", alice, here, true},
		"write describes":         {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:a from *"}, acl.Describe, "a", alice, here, true},
		"delete describes":        {[]string{"User:alice ALLOW DELETE TOPIC:LITERAL:a from *"}, acl.Describe, "a", alice, here, true},
		"alter describes":         {[]string{"User:alice ALLOW ALTER TOPIC:LITERAL:a from *"}, acl.Describe, "a", alice, here, true},
		"create does not":         {[]string{"User:alice ALLOW CREATE TOPIC:LITERAL:a from *"}, acl.Describe, "a", alice, here, false},
		"configs":                 {[]string{"User:alice ALLOW ALTER_CONFIGS TOPIC:LITERAL:a from *"}, acl.DescribeConfigs, "a", alice, here, true},
		"configs only":            {[]string{"User:alice ALLOW ALTER_CONFIGS TOPIC:LITERAL:a from *"}, acl.Describe, "a", alice, here, false},
		"describe is no read":     {[]string{"User:alice ALLOW DESCRIBE TOPIC:LITERAL:a from *"}, acl.Read, "a", alice, here, false},
		"denied":                  {[]string{"User:alice ALLOW ALL TOPIC:LITERAL:a from *", "User:alice DENY READ TOPIC:LITERAL:a from *"}, acl.Read, "a", alice, here, false},
		"denied by prefix":        {[]string{"User:alice ALLOW ALL TOPIC:LITERAL:ab from *", "User:* DENY READ TOPIC:PREFIXED:a from *"}, acl.Read, "ab", alice, here, false},
		"denied all":              {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *", "User:alice DENY ALL TOPIC:LITERAL:* from *"}, acl.Describe, "a", alice, here, false},
		"denied for others":       {[]string{"User:* ALLOW READ TOPIC:LITERAL:a from *", "User:bob DENY READ TOPIC:LITERAL:a from *"}, acl.Read, "a", alice, here, true},
		"denial implies none":     {[]string{"User:alice ALLOW DESCRIBE TOPIC:LITERAL:a from *", "User:alice DENY READ TOPIC:LITERAL:a from *"}, acl.Describe, "a", alice, here, true},
		"from there":              {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from 192.168.0.9"}, acl.Read, "a", alice, there, true},
		"not from here":           {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from 192.168.0.9"}, acl.Read, "a", alice, here, false},
		"from a range":            {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from 10.0.0.0/8"}, acl.Read, "a", alice, here, true},
		"its first address":       {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from 10.1.2.3/32"}, acl.Read, "a", alice, here, true},
		"with bits set":           {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from 10.9.9.9/8"}, acl.Read, "a", alice, here, true},
		"out of the range":        {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from 10.0.0.0/16"}, acl.Read, "a", alice, here, false},
		"IPv6 range":              {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from fe80::/10"}, acl.Read, "a", alice, netip.MustParseAddr("fe80::1%eth0"), true},
		"IPv4 in IPv6":            {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from 10.0.0.0/8"}, acl.Read, "a", alice, netip.MustParseAddr("::ffff:10.1.2.3"), true},
		"a range of IPv4 in IPv6": {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *", "User:* DENY READ TOPIC:LITERAL:a from ::ffff:10.0.0.0/104"}, acl.Read, "a", alice, here, false},
		"out of such a range":     {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from ::ffff:10.0.0.0/112"}, acl.Read, "a", alice, here, false},
		"a host's name":           {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from host"}, acl.Read, "a", alice, here, false},
		"denied from here":        {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *", "User:* DENY READ TOPIC:LITERAL:a from 10.0.0.0/8"}, acl.Read, "a", alice, here, false},
		"allowed from there":      {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *", "User:* DENY READ TOPIC:LITERAL:a from 10.0.0.0/8"}, acl.Read, "a", alice, there, true},
	} {
		s := acl.New(set(t, parse(t, tc.acls...)...), acl.Options{}).Of(tc.by, tc.from)
		if got := s.Allows(tc.op, acl.Topic, tc.name); got != tc.allowed {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestSuperUsersAndTheDefault(t *testing.T) {
	acls := set(t, parse(t, "User:* DENY ALL TOPIC:LITERAL:* from *", "User:x ALLOW READ GROUP:PREFIXED:a from *")...)
	v := acl.New(acls, acl.Options{SuperUsers: map[auth.Principal]bool{alice: true}, AllowIfNone: true})
	for what, tc := range map[string]struct {
		by      auth.Principal
		r       acl.Resource
		name    string
		allowed bool
		rule    string
	}{
		"super user, denied":      {alice, acl.Topic, "a", true, "SuperUser"},
		"denied":                  {bob, acl.Topic, "a", false, "User:* DENY ALL TOPIC:LITERAL:* from *"},
		"no ACL for it":           {bob, acl.Group, "b", true, "DefaultAllow"},
		"one for others":          {bob, acl.Group, "ab", false, "DefaultDeny"},
		"none for the cluster":    {bob, acl.Cluster, acl.ClusterName, true, "DefaultAllow"},
		"none for a transaction":  {bob, acl.TransactionalID, "x", true, "DefaultAllow"},
		"allowed for whom it is":  {auth.User("x"), acl.Group, "ab", true, "User:x ALLOW READ GROUP:PREFIXED:a from *"},
		"nobody, who is everyone": {auth.Principal{}, acl.Topic, "a", false, "User:* DENY ALL TOPIC:LITERAL:* from *"},
	} {
		s := v.Of(tc.by, here)
		if got, rule := s.Allows(acl.Read, tc.r, tc.name), s.Rule(acl.Read, tc.r, tc.name); got != tc.allowed || rule != tc.rule {
			t.Errorf("%s: %v by %s", what, got, rule)
		}
	}
	var none *acl.Subject
	if !none.Allows(acl.Alter, acl.Cluster, acl.ClusterName) || none.Operations(acl.Topic, "a") != acl.Supported(acl.Topic) || !none.AllowsSome(acl.Write, acl.Topic) {
		t.Error("without an authorizer something is denied")
	}
}

func TestOperationsAreBits(t *testing.T) {
	s := acl.New(set(t, parse(t, "User:alice ALLOW READ TOPIC:LITERAL:a from *", "User:alice ALLOW ALTER_CONFIGS TOPIC:LITERAL:a from *",
		"User:alice DENY DESCRIBE_CONFIGS TOPIC:LITERAL:a from *", "User:alice ALLOW ALL GROUP:LITERAL:g from *")...), acl.Options{}).Of(alice, here)
	for what, tc := range map[string][2]int32{
		"topic":   {s.Operations(acl.Topic, "a"), 1<<3 | 1<<8 | 1<<11},
		"group":   {s.Operations(acl.Group, "g"), 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11},
		"cluster": {s.Operations(acl.Cluster, acl.ClusterName), 0},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%s: %b, want %b", what, tc[0], tc[1])
		}
	}
}

// Kafka's authorizeByResourceType: some topic that may be written to.
func TestAllowsSome(t *testing.T) {
	for what, tc := range map[string]struct {
		acls    []string
		allowed bool
	}{
		"nothing":                       {nil, false},
		"one":                           {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:a from *"}, true},
		"all of one":                    {[]string{"User:alice ALLOW ALL TOPIC:LITERAL:a from *"}, true},
		"another operation":             {[]string{"User:alice ALLOW READ TOPIC:LITERAL:a from *"}, false},
		"elsewhere":                     {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:a from 192.168.0.0/16"}, false},
		"one that is denied":            {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:a from *", "User:alice DENY WRITE TOPIC:LITERAL:a from *"}, false},
		"denied by prefix":              {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:ab from *", "User:* DENY ALL TOPIC:PREFIXED:a from *"}, false},
		"prefix denied by a shorter":    {[]string{"User:alice ALLOW WRITE TOPIC:PREFIXED:ab from *", "User:* DENY ALL TOPIC:PREFIXED:a from *"}, false},
		"prefix not by a longer":        {[]string{"User:alice ALLOW WRITE TOPIC:PREFIXED:ab from *", "User:* DENY ALL TOPIC:PREFIXED:abc from *"}, true},
		"prefix not by a literal":       {[]string{"User:alice ALLOW WRITE TOPIC:PREFIXED:ab from *", "User:* DENY ALL TOPIC:LITERAL:ab from *"}, true},
		"one of two":                    {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:a from *", "User:alice ALLOW WRITE TOPIC:LITERAL:b from *", "User:* DENY WRITE TOPIC:LITERAL:a from *"}, true},
		"everything, but one is denied": {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:* from *", "User:* DENY WRITE TOPIC:LITERAL:a from *"}, true},
		"everything is denied":          {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:* from *", "User:* DENY WRITE TOPIC:LITERAL:* from *"}, false},
		"reading is denied":             {[]string{"User:alice ALLOW WRITE TOPIC:LITERAL:* from *", "User:* DENY READ TOPIC:LITERAL:* from *"}, true},
	} {
		if got := acl.New(set(t, parse(t, tc.acls...)...), acl.Options{}).Of(alice, here).AllowsSome(acl.Write, acl.Topic); got != tc.allowed {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// anyACL draws few names, so that many ACLs are about the same.
var anyACL = rapid.Custom(func(t *rapid.T) projections.ACL {
	return projections.ACL{
		Resource:   rapid.SampledFrom([]acl.Resource{acl.Topic, acl.Group}).Draw(t, "resource"),
		Pattern:    rapid.SampledFrom([]projections.ACLPattern{projections.ACLLiteral, projections.ACLPrefixed}).Draw(t, "pattern"),
		Name:       rapid.SampledFrom([]string{"a", "ab", "abc", "b", "*"}).Draw(t, "name"),
		Principal:  rapid.SampledFrom([]string{"User:alice", "User:bob", "User:*"}).Draw(t, "principal"),
		Host:       rapid.SampledFrom([]string{"*", "*", "10.1.2.3", "10.0.0.0/8", "192.168.0.0/16"}).Draw(t, "host"),
		Operation:  rapid.SampledFrom([]acl.Operation{projections.ACLAll, acl.Read, acl.Write, acl.Describe, acl.AlterConfigs}).Draw(t, "operation"),
		Permission: rapid.SampledFrom([]projections.ACLPermission{projections.ACLAllow, projections.ACLAllow, projections.ACLDeny}).Draw(t, "permission"),
	}
})

// decide is the rule as it is told, over all ACLs one by one.
func decide(acls []projections.ACL, defaultAllow bool, p auth.Principal, from string, op acl.Operation, r acl.Resource, name string) bool {
	allowed, denied, some := false, false, false
	implied := map[acl.Operation][]acl.Operation{acl.Describe: {acl.Read, acl.Write, acl.Delete, acl.Alter}, acl.DescribeConfigs: {acl.AlterConfigs}}
	for _, a := range acls {
		if a.Resource != r || !(a.Pattern == projections.ACLLiteral && (a.Name == name || a.Name == "*") || a.Pattern == projections.ACLPrefixed && strings.HasPrefix(name, a.Name)) {
			continue
		}
		some = true
		hosts := a.Host == "*" || a.Host == from || a.Host == "10.0.0.0/8" && strings.HasPrefix(from, "10.") || a.Host == "192.168.0.0/16" && strings.HasPrefix(from, "192.168.")
		if (a.Principal != p.String() && a.Principal != "User:*") || !hosts {
			continue
		}
		same := a.Operation == op || a.Operation == projections.ACLAll
		if a.Permission == projections.ACLDeny {
			denied = denied || same
		} else {
			allowed = allowed || same || slices.Contains(implied[op], a.Operation)
		}
	}
	return !denied && (allowed || !some && defaultAllow)
}

func TestDecisionsAreThoseOfTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		acls := rapid.SliceOfN(anyACL, 0, 8).Draw(t, "acls")
		byDefault := rapid.Bool().Draw(t, "allow if none")
		v := acl.New(set(t, acls...), acl.Options{AllowIfNone: byDefault})
		for _, p := range []auth.Principal{alice, bob, auth.User("*"), {Type: "Team", Name: "x"}} {
			for _, from := range []string{"10.1.2.3", "10.9.9.9", "192.168.0.1"} {
				s := v.Of(p, netip.MustParseAddr(from))
				for _, r := range []acl.Resource{acl.Topic, acl.Group, acl.Cluster} {
					for _, name := range []string{"a", "ab", "abcd", "b", "*", "*x", ""} {
						for op := acl.Read; op <= acl.TwoPhaseCommit; op++ {
							want := decide(acls, byDefault, p, from, op, r, name)
							if got := s.Allows(op, r, name); got != want {
								t.Fatalf("%s from %s, %s %s %q: %v, want %v", p, from, op, r, name, got, want)
							}
							if rule := s.Rule(op, r, name); strings.Contains(rule, " ALLOW ") && !want || strings.Contains(rule, " DENY ") && want {
								t.Fatalf("%s from %s, %s %s %q: by %s", p, from, op, r, name, rule)
							}
						}
					}
				}
			}
		}
	})
}

func TestFilter(t *testing.T) {
	str := func(s string) *string { return &s }
	acls := parse(t, "User:alice ALLOW READ TOPIC:LITERAL:ab from *", "User:bob DENY WRITE TOPIC:LITERAL:* from 10.1.2.3",
		"User:alice ALLOW READ TOPIC:PREFIXED:a from *", "User:alice ALLOW READ GROUP:LITERAL:ab from *", "User:bob ALLOW READ TOPIC:PREFIXED:b from *")
	anything := acl.Filter{Resource: projections.ACLAnyResource, Pattern: projections.ACLAnyPattern, Operation: projections.ACLAnyOperation, Permission: projections.ACLAnyPermission}
	for what, tc := range map[string]struct {
		f    func(*acl.Filter)
		want []int
	}{
		"everything":       {func(*acl.Filter) {}, []int{0, 1, 2, 3, 4}},
		"topics":           {func(f *acl.Filter) { f.Resource = acl.Topic }, []int{0, 1, 2, 4}},
		"a name":           {func(f *acl.Filter) { f.Name = str("ab") }, []int{0, 3}},
		"a literal":        {func(f *acl.Filter) { f.Pattern, f.Name = projections.ACLLiteral, str("ab") }, []int{0, 3}},
		"the wildcard":     {func(f *acl.Filter) { f.Pattern, f.Name = projections.ACLLiteral, str("*") }, []int{1}},
		"prefixes":         {func(f *acl.Filter) { f.Pattern = projections.ACLPrefixed }, []int{2, 4}},
		"a prefix":         {func(f *acl.Filter) { f.Pattern, f.Name = projections.ACLPrefixed, str("a") }, []int{2}},
		"no prefix's name": {func(f *acl.Filter) { f.Pattern, f.Name = projections.ACLPrefixed, str("ab") }, nil},
		"what matches":     {func(f *acl.Filter) { f.Resource, f.Pattern, f.Name = acl.Topic, projections.ACLMatch, str("ab") }, []int{0, 1, 2}},
		"matches no name":  {func(f *acl.Filter) { f.Pattern = projections.ACLMatch }, []int{0, 1, 2, 3, 4}},
		"a principal":      {func(f *acl.Filter) { f.Principal = str("User:bob") }, []int{1, 4}},
		"a host":           {func(f *acl.Filter) { f.Host = str("10.1.2.3") }, []int{1}},
		"an operation":     {func(f *acl.Filter) { f.Operation = acl.Write }, []int{1}},
		"a permission":     {func(f *acl.Filter) { f.Permission = projections.ACLDeny }, []int{1}},
		"nothing":          {func(f *acl.Filter) { f.Operation = projections.ACLAll }, nil},
	} {
		f := anything
		tc.f(&f)
		var got []int
		for i, a := range acls {
			if f.Matches(a) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, tc.want) || !f.Known() {
			t.Errorf("%s: %v, want %v", what, got, tc.want)
		}
	}
	for _, f := range []acl.Filter{{}, {Resource: 8, Pattern: 1, Operation: 1, Permission: 1}, {Resource: 1, Pattern: 5, Operation: 1, Permission: 1},
		{Resource: 1, Pattern: 1, Operation: 16, Permission: 1}, {Resource: 1, Pattern: 1, Operation: 1, Permission: 4}, {Resource: -1, Pattern: 1, Operation: 1, Permission: 1}} {
		if f.Known() {
			t.Errorf("%+v is known", f)
		}
	}
}

// What views keep has a bound, and what they do not keep decides all the same.
func TestSubjectsAreKeptWithinABound(t *testing.T) {
	if v := acl.New(set(t, parse(t, "User:* ALLOW READ TOPIC:LITERAL:t from *")...), acl.Options{}); v.Of(alice, here) != v.Of(alice, there) {
		t.Error("who may do the same from anywhere is worked out for each address")
	}
	var lines []string
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf("User:* ALLOW READ TOPIC:LITERAL:t%d from 10.0.0.0/8", i))
	}
	v := acl.New(set(t, parse(t, lines...)...), acl.Options{})
	from := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	for i := range 1000 {
		if p := auth.User(fmt.Sprint("u", i)); !v.Of(p, from(i)).Allows(acl.Read, acl.Topic, "t7") {
			t.Fatalf("%s is denied", p)
		}
	}
	if kept := v.Kept(); kept > acl.MostKept {
		t.Errorf("subjects of %d bytes are kept", kept)
	}
	last := v.Of(acl.Everybody, from(999))
	if again := v.Of(acl.Everybody, from(999)); again == last {
		t.Error("a subject above the bound is kept")
	}
}

// Strangers cost no more where a lot is said of everybody: it is worked out once.
func TestWhatIsForEverybodyIsShared(t *testing.T) {
	var lines []string
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf("User:* ALLOW READ TOPIC:LITERAL:t%d from *", i))
	}
	v := acl.New(set(t, parse(t, lines...)...), acl.Options{})
	v.Of(alice, here)
	before := v.Kept()
	for i := range 100 {
		v.Of(auth.User(fmt.Sprint("u", i)), here)
	}
	if grown := v.Kept() - before; grown > 1<<20 {
		t.Errorf("100 strangers take %d KiB", grown>>10)
	}
}

// A decision takes no memory, and neither does finding who asks.
func TestDecisionsDoNotAllocate(t *testing.T) {
	v := acl.New(set(t, parse(t, "User:alice ALLOW READ TOPIC:PREFIXED:or from *", "User:* DENY WRITE TOPIC:LITERAL:x from 10.0.0.0/16")...), acl.Options{AllowIfNone: true})
	s := v.Of(alice, here)
	if n := testing.AllocsPerRun(100, func() { s.Allows(acl.Read, acl.Topic, "orders"); s.Allows(acl.Read, acl.Topic, "invoices") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAllows(b *testing.B) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("User:u%d ALLOW READ TOPIC:LITERAL:t%d from *", i%100, i), fmt.Sprintf("User:u%d ALLOW WRITE TOPIC:PREFIXED:%s from *", i%100, strings.Repeat("p", i%20+1)))
	}
	s := acl.New(set(b, parse(b, lines...)...), acl.Options{}).Of(auth.User("u7"), here)
	b.ReportAllocs()
	for b.Loop() {
		s.Allows(acl.Write, acl.Topic, "pppppppp-orders")
	}
}

func BenchmarkNewViewOf10000(b *testing.B) {
	var lines []string
	for i := range 10_000 {
		lines = append(lines, fmt.Sprintf("User:u%d ALLOW READ TOPIC:LITERAL:t%d from *", i%500, i))
	}
	acls := set(b, parse(b, lines...)...)
	b.ReportAllocs()
	for b.Loop() {
		acl.New(acls, acl.Options{}).Of(auth.User("u7"), here)
	}
}

package server

import (
	"flag"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// manyACLs are as many as there may be: a tenth for everybody, a half for alice, most of them
// prefixes of one another and with hosts, and the rest for as many users.
func manyACLs(n int) (out []projections.ACL) {
	long := make([]byte, 200)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	for i := range n {
		a := allow("alice", acl.Read, acl.Topic, fmt.Sprintf("%s%d", long[:i%200], i))
		switch {
		case i%10 == 0:
			a.Principal = "User:*"
		case i%2 == 0:
			a.Principal = fmt.Sprintf("User:u%d", i)
		case i%3 == 0:
			a.Host = fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255)
		default:
			a.Pattern = projections.ACLPrefixed
		}
		out = append(out, a)
	}
	return out
}

// manyOfACLs is how many there are in TestManyACLs: a tenth of what there may be, unless asked.
var manyOfACLs = flag.Int("acls", 10_000, "how many ACLs TestManyACLs makes, from 10 to 99999")

// With a lot of ACLs a cluster is used and administered as with few: nothing takes seconds, and who is denied costs no more than who is allowed.
func TestManyACLs(t *testing.T) {
	dir := t.TempDir()
	sets := []string{"authorizer.class.name=" + standardAuthorizer, "super.users=User:admin"}
	cfg := testConfig(t, dir, sets...)
	cfg.identify = identified
	n := startConfig(t, cfg)
	admin := dialAs(t, "admin", n.Addr())
	timed := func(what string, most time.Duration, f func()) {
		t.Helper()
		began := time.Now()
		f()
		d := time.Since(began)
		if t.Logf("%s: %v", what, d); d > most {
			t.Errorf("%s took %v", what, d)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := manyACLs(*manyOfACLs)
	timed("create all", 60*time.Second, func() {
		for part := range slices.Chunk(all, 10_000) {
			admin.grant(part...)
		}
	})
	timed("one more", 5*time.Second, func() { admin.grant(allow("bob", acl.Read, acl.Topic, "t")) })
	alice := dialAs(t, "alice", n.Addr())
	denied := kmsg.NewPtrMetadataRequest()
	denied.Version = 9
	for i := range 5000 {
		denied.Topics = append(denied.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(fmt.Sprint("denied-", i))})
	}
	timed("the first decision about alice", 5*time.Second, func() { alice.ask(kmsg.NewPtrMetadataRequest()) })
	timed("5000 denials", 5*time.Second, func() { alice.ask(denied) })
	timed("100,000 decisions", 20*time.Second, func() {
		s := n.server.subject(auth.User("alice"), netip.MustParseAddr("127.0.0.1"))
		for i := range 100_000 {
			s.Allows(acl.Read, acl.Topic, all[i%len(all)].Name)
		}
	})
	timed("1000 strangers", 10*time.Second, func() {
		for i := range 1000 {
			n.server.subject(auth.User(fmt.Sprint("stranger", i)), netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
		}
	})
	timed("describe those of one", 5*time.Second, func() {
		d := kmsg.NewPtrDescribeACLsRequest()
		anyACL(d)
		d.Version, d.Principal = 3, kmsg.StringPtr("User:bob")
		if got := len(admin.ask(d).(*kmsg.DescribeACLsResponse).Resources); got != 1 {
			t.Errorf("%d resources", got)
		}
	})
	timed("describe all", 10*time.Second, func() {
		d := kmsg.NewPtrDescribeACLsRequest()
		anyACL(d)
		d.Version = 3
		if got := len(admin.ask(d).(*kmsg.DescribeACLsResponse).Resources); got != len(all)+1 {
			t.Errorf("%d resources", got)
		}
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("the heap has %d MiB more", (int64(after.HeapAlloc)-int64(before.HeapAlloc))>>20)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 400<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	timed("the next broker, which is controller", 30*time.Second, func() {
		cfg := testConfig(t, dir, sets...)
		cfg.identify = identified
		n = startConfig(t, cfg)
		admin = dialAs(t, "admin", n.Addr())
		admin.create("made-by-the-next", 1)
	})
	timed("delete those of everybody", 30*time.Second, func() {
		d := kmsg.NewPtrDeleteACLsRequest()
		d.Version = 3
		f := anyFilter()
		f.Principal = kmsg.StringPtr("User:*")
		d.Filters = append(d.Filters, f)
		if got := admin.ask(d).(*kmsg.DeleteACLsResponse).Results[0]; got.ErrorCode != 0 || len(got.MatchingACLs) != (len(all)+9)/10 {
			t.Errorf("error %d, %d are deleted", got.ErrorCode, len(got.MatchingACLs))
		}
	})
}

package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

// An API that does not say what it asks of those who use it is open to everybody by mistake.
func TestEveryAPISaysWhoMayUseIt(t *testing.T) {
	for _, a := range apis {
		said := 0
		for _, is := range []bool{a.access.cluster != 0, len(a.access.checks) > 0, a.access.open != ""} {
			if is {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%s: its access says %d things of onCluster, checks and open, and is to say one", kmsg.NameForKey(int16(a.key)), said)
		}
	}
}

// auditRecorder keeps what the audit log is told.
type auditRecorder struct {
	slog.Handler
	mu   *sync.Mutex
	seen map[string]bool // request, operation and type of resource
}

func (a auditRecorder) Enabled(context.Context, slog.Level) bool { return true }
func (a auditRecorder) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a auditRecorder) WithGroup(string) slog.Handler            { return a }

func (a auditRecorder) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]string{}
	r.Attrs(func(at slog.Attr) bool { attrs[at.Key] = at.Value.String(); return true })
	if attrs["rule"] == "" {
		return nil
	}
	kind, _, _ := strings.Cut(attrs["resource"], ":")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[attrs["request"]+" "+attrs["operation"]+" "+kind] = true
	return nil
}

// What handlers ask for is what their APIs say, no more and no less.
func TestHandlersCheckWhatTheirAPIsSay(t *testing.T) {
	rec := auditRecorder{mu: new(sync.Mutex), seen: map[string]bool{}}
	cfg := testConfig(t, t.TempDir(), "authorizer.class.name="+standardAuthorizer, "super.users=User:admin")
	cfg.identify = identified
	n, err := Open(context.Background(), cfg, slog.New(rec))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Stop(context.Background()) })
	admin, alice, bob := dialAs(t, "admin", n.Addr()), dialAs(t, "alice", n.Addr()), dialAs(t, "bob", n.Addr())
	s := &sweepTopics{dir: n.cfg.LogDir}
	for _, name := range []string{"sweep-a", "sweep-b"} {
		s.names, s.ids = append(s.names, name), append(s.ids, admin.create(name, 3))
	}
	admin.commit("sweep", "sweep-a", 7)
	admin.grant(allow("bob", acl.Describe, acl.Topic, "sweep*"))
	served(t, n)
	for _, a := range apis {
		for v := max(a.min, a.works); v <= a.max; v++ {
			for _, c := range []*client{alice, bob, admin} { // who is allowed the first things is asked for the next
				full := kmsg.RequestForKey(int16(a.key))
				full.SetVersion(v)
				s.fill(t, admin, full)
				fillAlso(full)
				also(full)
				c.ask(full)
			}
		}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	want := map[string]bool{}
	for _, a := range apis {
		name := kmsg.NameForKey(int16(a.key))
		if a.access.cluster != 0 {
			want[fmt.Sprintf("%s %s CLUSTER", name, a.access.cluster)] = true
		}
		for _, r := range a.access.checks {
			want[fmt.Sprintf("%s %s %s", name, r.op, r.res)] = true
		}
	}
	for w := range want {
		if !rec.seen[w] && !unseen[w] {
			t.Errorf("%s: said, and never asked for", w)
		}
	}
	for got := range rec.seen {
		if !want[got] {
			t.Errorf("%s: asked for, and not said", got)
		}
	}
}

// unseen are rights that only requests ask for which the sweep does not make: those of
// listeners with authentication, of transactions and members that there are none of, and of
// topics that are made by the way.
var unseen = map[string]bool{
	"CreateDelegationToken CREATE_TOKENS USER": true,
	"DescribeTransactions DESCRIBE TOPIC":      true,
	"ConsumerGroupDescribe DESCRIBE TOPIC":     true,
}

// also has requests ask for what is asked of them only in passing.
func also(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		if r.Version%2 == 1 {
			r.TransactionID = kmsg.StringPtr("sweep-x")
			r.Topics[0].Partitions[0].Records = newBatch(func(b *kmsg.RecordBatch) {
				b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1<<4, 1, 0, 0
			}, "v")
		}
	case *kmsg.FetchRequest:
		if r.Version%2 == 1 {
			r.ReplicaID, r.ReplicaState.ID = 7, 7
		}
	case *kmsg.MetadataRequest:
		name := fmt.Sprintf("sweep-made-%d", r.Version)
		r.AllowAutoTopicCreation, r.IncludeClusterAuthorizedOperations = true, true
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		r.Topics = append(r.Topics, rt)
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorType = []int8{0, 1, 0, 1, 0, 1, 2}[r.Version]
	case *kmsg.InitProducerIDRequest:
		if r.Version%2 == 1 {
			r.TransactionalID, r.TransactionTimeoutMillis = kmsg.StringPtr("sweep-x"), 60_000
		}
	case *kmsg.TxnOffsetCommitRequest:
		r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "sweep-a"}}
	case *kmsg.DescribeClusterRequest:
		r.IncludeClusterAuthorizedOperations = true
	case *kmsg.DescribeConfigsRequest:
		r.Resources = append(r.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "sweep"})
	case *kmsg.AlterConfigsRequest:
		r.Resources = append(r.Resources, kmsg.AlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "sweep"})
	case *kmsg.IncrementalAlterConfigsRequest:
		r.Resources = append(r.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "sweep"})
	}
}

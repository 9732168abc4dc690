package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// auditOf is a request of alice's, and what the audit log has of it.
func auditOf(t testing.TB, level slog.Level, acls ...string) (*request, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	cfg := &Config{Authorizer: true, ACL: acl.Options{AllowIfNone: len(acls) == 0}}
	s := &Server{cfg: cfg, backend: noCluster{}, metrics: newMetrics(), authorizer: newAuthorizer(cfg, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))}
	r := &request{head: head{key: kmsg.Produce.Int16()}, conn: &conn{s: s}, principal: auth.User("alice"), from: netip.MustParseAddr("10.1.2.3")}
	r.subject = s.subject(r.principal, r.from)
	return r, &out
}

func TestDenialsAreAudited(t *testing.T) {
	for what, tc := range map[string]struct {
		level slog.Level
		ask   func(*request)
		want  []string
	}{
		"denied":             {slog.LevelInfo, func(r *request) { r.may(acl.Write, acl.Topic, "a") }, []string{"level=INFO", "denied", "logger=kafka.authorizer.logger", "principal=User:alice", "operation=WRITE", "host=10.1.2.3", "resource=TOPIC:LITERAL:a", "request=Produce", "rule=DefaultDeny"}},
		"left out":           {slog.LevelInfo, func(r *request) { r.sees(acl.Write, acl.Topic, "a") }, nil},
		"left out, in debug": {slog.LevelDebug, func(r *request) { r.sees(acl.Write, acl.Topic, "a") }, []string{"level=DEBUG", "denied"}},
		"the cluster":        {slog.LevelInfo, func(r *request) { r.mayCluster(acl.Alter) }, []string{"resource=CLUSTER:LITERAL:kafka-cluster", "operation=ALTER"}},
	} {
		r, out := auditOf(t, tc.level, "none")
		tc.ask(r)
		for _, w := range tc.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: %q lacks %s", what, out, w)
			}
		}
		if len(tc.want) == 0 && out.Len() > 0 {
			t.Errorf("%s: %q", what, out)
		}
	}
	r, out := auditOf(t, slog.LevelDebug)
	if r.may(acl.Write, acl.Topic, "a"); !strings.Contains(out.String(), "level=DEBUG msg=allowed") || !strings.Contains(out.String(), "rule=DefaultAllow") {
		t.Errorf("allowed: %q", out)
	}
}

// A denial is logged once a request, and of thousands how many there were.
func TestDenialsOfOneRequest(t *testing.T) {
	r, out := auditOf(t, slog.LevelInfo, "none")
	for i := range 5000 {
		r.may(acl.Write, acl.Topic, "a")
		r.may(acl.Write, acl.Topic, fmt.Sprint("t", i/2))
	}
	r.auditRest()
	r.auditRest()
	if lines := strings.Count(out.String(), "\n"); lines != mostDenials+1 || strings.Count(out.String(), "LITERAL:a ") != 1 || !strings.Contains(out.String(), "denials=3002") {
		t.Errorf("%d lines, %q", lines, out.String()[max(0, out.Len()-300):])
	}
}

// denyAll has a principal be denied so many things by one request.
func denyAll(s *Server, who string, things int) {
	r := &request{head: head{key: kmsg.Produce.Int16()}, conn: &conn{s: s}, principal: auth.User(who), from: netip.MustParseAddr("10.1.2.3")}
	r.subject = s.subject(r.principal, r.from)
	for i := range things {
		r.may(acl.Write, acl.Topic, fmt.Sprint("t", i))
	}
	r.auditRest()
}

// countOf is what a counter has come to.
func countOf(t *testing.T, s *Server, name string) int {
	t.Helper()
	all, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == name {
			return int(m.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

var toldDenials = regexp.MustCompile(` denials=(\d+)`)

// denialsIn counts the lines of single denials in a log, those that tell of more, and how many
// denials all of these are.
func denialsIn(t *testing.T, log string) (single, telling, all int) {
	t.Helper()
	single = strings.Count(log, " msg=denied ")
	all = single
	for _, m := range toldDenials.FindAllStringSubmatch(log, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		telling, all = telling+1, all+n
	}
	return single, telling, all
}

// Whoever is denied something all the time fills the log no faster than a line a second, and
// none of it is lost: what has no line is counted, in a line a minute, and by the metrics.
// Somebody else's denials are logged all the same.
func TestDenialsOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, out := auditOf(t, slog.LevelInfo, "none")
		s, stop, done := r.conn.s, make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			s.authorizer.audit.run(stop)
		}()
		const seconds, things = 1800, 50
		for range seconds {
			denyAll(s, "alice", things)
			time.Sleep(time.Second)
		}
		denyAll(s, "bob", 1)
		time.Sleep(2 * auditTold) // the last are told though nobody asks any more
		close(stop)
		<-done
		single, telling, all := denialsIn(t, out.String())
		denied, unlogged := countOf(t, s, "kafka_server_authorizer_metrics_authorization_denied_total"), countOf(t, s, "kaas_audit_denials_not_logged_total")
		if want := seconds*things + 1; all != want || denied != want || unlogged != all-single {
			t.Errorf("%d denials are in the log, %d of them by themselves; the metrics have %d and %d without a line; want %d", all, single, denied, unlogged, want)
		}
		if most := auditPace.burst + seconds + 2; single > most || telling > seconds/60+2 {
			t.Errorf("%d denials have a line, at most %d; %d lines tell of more", single, most, telling)
		}
		if strings.Count(out.String(), "principal=User:bob") != 1 {
			t.Error("bob's denial has no line")
		}
	})
}

// However many there are who are denied something, they fill neither log nor memory, and what
// is left at the end is told.
func TestDenialsOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, out := auditOf(t, slog.LevelInfo, "none")
		s := r.conn.s
		const many = 30_000
		for i := range many {
			denyAll(s, fmt.Sprint("u", i), 1)
		}
		s.authorizer.audit.tell(time.Now(), true)
		single, telling, all := denialsIn(t, out.String())
		if all != many || single > auditAllPace.burst || telling > mostAudited+1 || !strings.Contains(out.String(), "principal=others") {
			t.Errorf("%d denials in the log, %d by themselves, %d lines tell of more", all, single, telling)
		}
		if n := len(s.authorizer.audit.mu.by); n > mostAudited+1 {
			t.Errorf("%d are told apart", n)
		}
		time.Sleep(time.Hour) // then all of these are as good as new
		denyAll(s, "later", 1)
		if n := len(s.authorizer.audit.mu.by); n > 2 {
			t.Errorf("%d are kept", n)
		}
	})
}

// What is not told yet of denials is told when their client has gone, and when the broker stops.
func TestDenialsAreToldAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lockedBuffer{}
		cfg := testConfig(t, "unused", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:admin")
		s := Start(cfg, "cluster", noCluster{}, nil, newMetrics(), slog.New(slog.NewTextHandler(log, nil)))
		for range 2 { // the first is told at once, the second waits for its minute
			r := &request{head: head{key: kmsg.Produce.Int16()}, conn: &conn{s: s}, principal: auth.User("alice"), from: netip.MustParseAddr("10.1.2.3")}
			r.subject = s.subject(r.principal, r.from)
			for i := range mostDenials + 7 {
				r.may(acl.Write, acl.Topic, fmt.Sprint("t", i))
			}
			(&pending{req: r}).forget() // nobody is there for the answer
		}
		s.Shutdown(t.Context())
		single, telling, all := denialsIn(t, log.String())
		if single != auditPace.burst || telling != 2 || all != 2*(mostDenials+7) {
			t.Errorf("%d denials have a line, %d lines tell of more, %d in all", single, telling, all)
		}
	})
}

// What a client calls something fills no line.
func TestDenialOfALongName(t *testing.T) {
	r, out := auditOf(t, slog.LevelInfo, "none")
	r.may(acl.Read, acl.Group, strings.Repeat("x", 1<<20))
	if out.Len() == 0 || out.Len() > 1000 {
		t.Errorf("a line of %d bytes", out.Len())
	}
}

// What is allowed costs nothing while nobody listens.
func TestAllowsAreNotAllocated(t *testing.T) {
	r, out := auditOf(t, slog.LevelInfo)
	if n := testing.AllocsPerRun(100, func() { r.may(acl.Write, acl.Topic, "orders") }); n > 0 || out.Len() > 0 {
		t.Errorf("%v allocations, %q", n, out)
	}
	r.subject = nil
	if n := testing.AllocsPerRun(100, func() { r.may(acl.Write, acl.Topic, "orders") }); n > 0 {
		t.Errorf("without an authorizer: %v allocations", n)
	}
}

// Those who share a place because they are too many are told as that: what they did is none of
// the one who came last.
func TestDenialsOfOthersAreNobodys(t *testing.T) {
	out := &lockedBuffer{}
	a := newAudit(slog.New(slog.NewTextHandler(out, nil)))
	now := time.Now()
	for i := range mostAudited {
		a.allow(fmt.Sprint("u", i), now) // each has a place
	}
	a.leaveOut("User:alice", asking{principal: "User:alice", host: "10.0.0.1"}, 7, now) // told at once
	a.leaveOut("User:bob", asking{principal: "User:bob", host: "10.0.0.1"}, 7, now)
	a.tell(now, true)
	if told := out.String(); strings.Count(told, "principal=others") != 2 || strings.Contains(told, "User:") {
		t.Errorf("told is %s", told)
	}
}

package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// audited is a request of alice's, and what the audit log has of it.
func audited(t testing.TB, level slog.Level, acls ...string) (*request, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	cfg := &Config{Authorizer: true, ACL: acl.Options{AllowIfNone: len(acls) == 0}}
	s := &Server{cfg: cfg, backend: noCluster{}, authorizer: newAuthorizer(cfg, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))}
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
		r, out := audited(t, tc.level, "none")
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
	r, out := audited(t, slog.LevelDebug)
	if r.may(acl.Write, acl.Topic, "a"); !strings.Contains(out.String(), "level=DEBUG msg=allowed") || !strings.Contains(out.String(), "rule=DefaultAllow") {
		t.Errorf("allowed: %q", out)
	}
}

// A denial is logged once a request, and of thousands how many there were.
func TestDenialsOfOneRequest(t *testing.T) {
	r, out := audited(t, slog.LevelInfo, "none")
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

// What is allowed costs nothing while nobody listens.
func TestAllowsAreNotAllocated(t *testing.T) {
	r, out := audited(t, slog.LevelInfo)
	if n := testing.AllocsPerRun(100, func() { r.may(acl.Write, acl.Topic, "orders") }); n > 0 || out.Len() > 0 {
		t.Errorf("%v allocations, %q", n, out)
	}
	r.subject = nil
	if n := testing.AllocsPerRun(100, func() { r.may(acl.Write, acl.Topic, "orders") }); n > 0 {
		t.Errorf("without an authorizer: %v allocations", n)
	}
}

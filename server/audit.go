package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

// auditLogger is how Kafka calls the log of what is denied (info) and allowed (debug).
const auditLogger = "kafka.authorizer.logger"

const (
	// mostDenials is how many denials of one request are logged.
	mostDenials = 1000
	// mostAudited is how many of those who are denied are told apart; all others are as one.
	mostAudited = 1000
	// auditSwept is how often it is looked whose places can be given to others, at most.
	auditSwept = time.Second
	// auditTold is how often it is told, of each of them, how many denials were not logged.
	auditTold = time.Minute
)

// auditPace and auditAllPace bound the denials that are logged of one principal, or address
// of those without one, and of all: who has no rights fills no disk. A line has some 300 bytes.
var (
	auditPace    = pace{1000, time.Second}
	auditAllPace = pace{10_000, 50 * time.Millisecond}
)

// audit is the log of what is denied and allowed. Every denial is logged, or counted among those
// of which a line tells how many they were.
type audit struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		used  time.Time           // of auditAllPace
		by    map[string]*audited // by tenant; "" is all that are too many
		swept time.Time           // when those were looked for last of whom there is nothing to say
	}
}

// audited is one of those who are denied something.
type audited struct {
	used  time.Time // of auditPace
	told  time.Time // when it was told last how many were left out
	since time.Time // when the first of those was left out that are not told yet
	left  int64     // how many these are
	last  asking    // the last of them
	many  bool      // it is the place that those share who are too many
}

// asking is who asks for something, with what.
type asking struct{ principal, host, request string }

func newAudit(log *slog.Logger) *audit {
	a := &audit{log: log.With("logger", auditLogger)}
	a.mu.by = map[string]*audited{}
	return a
}

// ofLocked is a tenant, whom others may share a place with. a.mu is held.
func (a *audit) ofLocked(tenant string, now time.Time) *audited {
	if x := a.mu.by[tenant]; x != nil {
		return x
	}
	if len(a.mu.by) >= mostAudited && now.Sub(a.mu.swept) >= auditSwept {
		a.mu.swept = now
		for k, x := range a.mu.by {
			if x.left == 0 && auditPace.fresh(x.used, now) && now.Sub(x.told) >= auditTold {
				delete(a.mu.by, k)
			}
		}
	}
	if len(a.mu.by) >= mostAudited {
		tenant = ""
	}
	x := a.mu.by[tenant]
	if x == nil {
		x = &audited{many: tenant == ""}
		a.mu.by[tenant] = x
	}
	return x
}

// allow reports whether to log a denial of a tenant now. One that is not logged is to be left out.
func (a *audit) allow(tenant string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return auditPace.take(&a.ofLocked(tenant, now).used, now) && auditAllPace.take(&a.mu.used, now)
}

// leaveOut counts denials of a tenant that are not logged. How many is told at once if that was
// not told lately, and else by the next tell.
func (a *audit) leaveOut(tenant string, by asking, n int64, now time.Time) {
	a.mu.Lock()
	x := a.ofLocked(tenant, now)
	if x.left == 0 {
		x.since = now
	}
	x.left, x.last = x.left+n, by
	tell := x.tellLocked(now, false)
	a.mu.Unlock()
	a.tellOf(tell)
}

// untold is what a line tells of denials that were left out.
type untold struct {
	asking
	denials int64
	since   time.Time
}

// tellLocked takes what there is to tell of somebody, nil if that has to wait, or is nothing. The audit's mu is held.
func (x *audited) tellLocked(now time.Time, last bool) *untold {
	if x.left == 0 || !last && now.Sub(x.told) < auditTold {
		return nil
	}
	u := &untold{x.last, x.left, x.since}
	if x.many {
		u.principal, u.host = "others", ""
	}
	x.left, x.told = 0, now
	return u
}

func (a *audit) tellOf(u *untold) {
	if u != nil {
		a.log.Info("denied, and not logged one by one", "principal", short(u.principal), "host", u.host, "request", u.request, "denials", u.denials, "since", u.since)
	}
}

// tell tells how many denials were left out, of all of whom that was not told lately; with last, of all.
func (a *audit) tell(now time.Time, last bool) {
	a.mu.Lock()
	var all []*untold
	for _, x := range a.mu.by {
		if u := x.tellLocked(now, last); u != nil {
			all = append(all, u)
		}
	}
	a.mu.Unlock()
	for _, u := range all {
		a.tellOf(u)
	}
}

// run tells what is left until stop is closed. What is left then is for a last tell, when
// nobody asks for anything any more.
func (a *audit) run(stop <-chan struct{}) {
	tick := time.NewTicker(auditTold)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			a.tell(now, false)
		}
	}
}

// short is what is logged of a name that a client has chosen.
func short(name string) string { return fmt.Sprintf("%.*s", longestCause, name) }

// denials are what a request was denied: each is logged once, and then how many more there were.
type denials struct {
	mu     sync.Mutex
	logged map[denial]bool
	passed int64
}

type denial struct {
	op   acl.Operation
	res  acl.Resource
	name string
}

// first reports whether a denial is one to log: it is not logged yet, and they are not too many.
func (d *denials) first(op acl.Operation, res acl.Resource, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := denial{op, res, name}
	if d.logged[k] {
		return false
	}
	if len(d.logged) >= mostDenials {
		d.passed++
		return false
	}
	if d.logged == nil {
		d.logged = map[denial]bool{}
	}
	d.logged[k] = true
	return true
}

func (d *denials) pass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.passed++
}

// auditRest counts the denials of a request that were not logged for themselves.
func (r *request) auditRest() {
	r.denials.mu.Lock()
	n := r.denials.passed
	r.denials.passed = 0
	r.denials.mu.Unlock()
	if n > 0 {
		s := r.conn.s
		s.metrics.unlogged.Add(float64(n))
		s.authorizer.audit.leaveOut(r.tenant(), asking{r.principal.String(), r.from.String(), kmsg.NameForKey(r.key)}, n, time.Now())
	}
}

// audit tells of a decision: what is denied at info, once a request and as often as there is
// room for, all else at debug. While debug is off what is allowed costs nothing but the question.
func (r *request) audit(allowed, asked bool, op acl.Operation, res acl.Resource, name string) {
	s := r.conn.s
	if !allowed {
		s.metrics.denied.Inc()
	}
	level, log := slog.LevelDebug, s.authorizer.audit.log
	if asked && !allowed {
		level = slog.LevelInfo
	}
	if !log.Enabled(context.Background(), level) || level == slog.LevelInfo && !r.logs(op, res, name) {
		return
	}
	what := "allowed"
	if !allowed {
		what = "denied"
	}
	log.Log(context.Background(), level, what, "principal", short(r.principal.String()), "operation", op.String(), "host", r.from.String(),
		"resource", res.String()+":LITERAL:"+short(name), "request", kmsg.NameForKey(r.key), "rule", r.subject.Rule(op, res, name))
}

// logs reports whether a denial is to be logged now.
func (r *request) logs(op acl.Operation, res acl.Resource, name string) bool {
	if !r.denials.first(op, res, name) {
		return false
	}
	if r.conn.s.authorizer.audit.allow(r.tenant(), time.Now()) {
		return true
	}
	r.denials.pass()
	return false
}

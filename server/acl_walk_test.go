package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/testport"
	"kaas.dev/kaas/projections"
)

// The walk asks every advertised key and version as somebody without any grant, with exactly
// the grants that are needed, and with each of them taken away. What Apache Kafka answers to
// it is in this file, which is made by
//
//	task acl:kafka
const walkFile = "testdata/authorization.txt"

var asKafka = flag.String("as-kafka", "", "the command that runs Apache Kafka, to have it answer the walk anew")

// aclWalk is the walk on its way.
type aclWalk struct {
	sweepTopics
	t     *testing.T
	admin *client // may do everything
	// login connects a user.
	login func(user string) *client
	count int
	made  map[string]bool
	// doomed is the topic that is to be deleted next, if nothing has deleted it yet.
	doomed   string
	doomedID [16]byte
	out      []walkLine
}

// walkLine is what came of one request.
type walkLine struct {
	what    string // the API, and the way to use it
	version int16
	who     string
	told    string
}

// fresh is a name that nobody had.
func (w *aclWalk) fresh(prefix string) string {
	w.count++
	return fmt.Sprintf("%s-%d", prefix, w.count)
}

// ensure makes a topic, once.
func (w *aclWalk) ensure(topic string) {
	if w.made == nil {
		w.made = map[string]bool{}
	}
	if !w.made[topic] {
		w.admin.create(topic, 1)
		w.made[topic] = true
	}
}

// doom makes a topic that may be deleted.
func (w *aclWalk) doom() {
	if w.doomed == "" {
		w.doomed = w.fresh("sweep-d")
		w.doomedID = w.admin.create(w.doomed, 1)
	}
}

// walkName is what a name is called that is told, or nothing.
func walkName(name string) string {
	switch name {
	case "sweep-a", "sweep-b", "sweep-p", "sweep-none", "sweep", "sweep-next", "sweep-x", "sweep-neither", "Dead", "Empty":
		return name
	}
	if strings.HasPrefix(name, "sweep-d-") {
		return "sweep-d"
	}
	return ""
}

// walkUsers are a case's users: with all grants, and with all but one.
func walkUsers(c *walkCase, at int) map[string]int {
	users := map[string]int{fmt.Sprintf("c%d", at): -1}
	for i := range c.grants {
		users[fmt.Sprintf("c%dm%d", at, i)] = i
	}
	return users
}

// without is how a user is told of who lacks a grant.
func (c *walkCase) without(i int) string {
	if i < 0 {
		return "with all"
	}
	return fmt.Sprintf("without %s %s", c.grants[i].op, c.grants[i].res)
}

// run makes what is asked about, grants, and asks.
func (w *aclWalk) run() {
	for _, name := range []string{"sweep-a", "sweep-b"} {
		w.names, w.ids = append(w.names, name), append(w.ids, w.admin.create(name, 3))
	}
	w.dir = "/elsewhere"
	w.warm()
	cases := walkCases()
	var acls []projections.ACL
	for i := range cases {
		for user, but := range walkUsers(&cases[i], i) {
			acls = append(acls, cases[i].acls(user, but)...)
		}
	}
	w.admin.grant(acls...)
	for began := time.Now(); strings.Count(w.admin.acls(everything), "\n") < len(acls)-1; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			w.t.Fatal("the ACLs do not come to be")
		}
	}
	for i := range cases {
		w.ask(&cases[i], i)
	}
}

// warm waits until groups and transactions have coordinators that serve, and commits.
func (w *aclWalk) warm() {
	until := func(what string, ok func() bool) {
		for began := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > 60*time.Second {
				w.t.Fatalf("%s: never", what)
			}
		}
	}
	until("records", func() bool {
		req := kmsg.NewPtrProduceRequest()
		req.Version = 9
		w.fill(w.t, w.admin, req)
		return !strings.Contains(answerTold(w.admin.ask(req), walkName), "ErrorCode=3")
	})
	until("coordinators", func() bool { // which Kafka makes the topics for when they are asked for
		group, txn := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorRequest()
		group.Version, group.CoordinatorKey = 3, "sweep"
		txn.Version, txn.CoordinatorKey, txn.CoordinatorType = 3, "sweep-x", 1
		return w.admin.ask(group).(*kmsg.FindCoordinatorResponse).ErrorCode == 0 && w.admin.ask(txn).(*kmsg.FindCoordinatorResponse).ErrorCode == 0
	})
	until("a group", func() bool { return w.admin.commit("sweep", "sweep-a", 5) == 0 })
	until("a transaction", func() bool {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 4, kmsg.StringPtr("sweep-x"), 60_000, -1, -1
		return w.admin.ask(req).(*kmsg.InitProducerIDResponse).ErrorCode == 0
	})
}

func (w *aclWalk) ask(c *walkCase, at int) {
	a := apiFor(int16(c.key))
	if a == nil {
		return
	}
	what := kmsg.NameForKey(int16(c.key))
	if c.name != "" {
		what += ", " + c.name
	}
	last := a.max
	if c.to > 0 {
		last = min(last, c.to)
	}
	type asker struct{ user, who string }
	const unauthenticated = "unauthenticated"
	askers := []asker{{"", unauthenticated}, {"none", "with none"}}
	for but := -1; but < len(c.grants); but++ {
		for user, b := range walkUsers(c, at) {
			if b == but && (but < 0 || len(c.grants) > 1) && len(c.grants) > 0 {
				askers = append(askers, asker{user, c.without(but)})
			}
		}
	}
	for _, by := range askers {
		var conn *client
		for v := max(a.min, a.works, c.from); v <= last; v++ {
			if conn == nil {
				conn = w.login(by.user)
			}
			req := minimal(*a, v)
			if c.fill != nil {
				c.fill(w, req)
			} else if r, ok := req.(*kmsg.ApiVersionsRequest); ok {
				r.ClientSoftwareName, r.ClientSoftwareVersion = "sweep", "1.0"
			}
			told, open := conn.try(req)
			if c.key == kmsg.DeleteTopics && strings.Contains(told, "sweep-d") && strings.Contains(told, "ErrorCode=0") {
				w.doomed = ""
			}
			if w.out = append(w.out, walkLine{what, v, by.who, told}); !open || by.who == unauthenticated {
				conn = nil
			}
		}
	}
}

// try asks for what may cost the connection, and tells what came of it.
func (c *client) try(req kmsg.Request) (told string, open bool) {
	c.t.Helper()
	c.send(req)
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			return "no answer", false
		}
		return "closed", false
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, b); err != nil {
		return "closed", false
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	c.decode(resp, b[4:])
	if _, ok := resp.(*kmsg.ApiVersionsResponse); ok {
		return "versions", true
	}
	return answerTold(resp, walkName), true
}

// lines are the outcomes, those of neighbouring versions in one.
func (w *aclWalk) lines() []string {
	var out []string
	for i := 0; i < len(w.out); {
		l, j := w.out[i], i+1
		for j < len(w.out) && w.out[j].what == l.what && w.out[j].who == l.who && w.out[j].told == l.told {
			j++
		}
		versions := fmt.Sprint(l.version)
		if last := w.out[j-1].version; last > l.version {
			versions += fmt.Sprintf("-%d", last)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s v%s %s: %s", l.what, versions, l.who, l.told)))
		i = j
	}
	return out
}

// byVersion are lines taken apart again.
func byVersion(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		head, told, _ := strings.Cut(line, ":")
		at := strings.LastIndex(head, " v")
		var from, to int
		versions, who, _ := strings.Cut(head[at+2:], " ")
		if n, _ := fmt.Sscanf(versions, "%d-%d", &from, &to); n == 1 {
			to = from
		}
		for v := from; v <= to; v++ {
			out[fmt.Sprintf("%s v%d %s", head[:at], v, who)] = strings.TrimSpace(told)
		}
	}
	return out
}

// TestAuthorizationIsKafkas compares what the walk is answered with what Apache Kafka answers.
func TestAuthorizationIsKafkas(t *testing.T) {
	if *asKafka != "" {
		w := walkKafka(t)
		text := "# What Apache Kafka 4.4 answers to the walk of acl_walk_test.go, which says how to make this anew.\n" + strings.Join(w.lines(), "\n") + "\n"
		if err := os.WriteFile(walkFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(walkFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	w := walkHere(t)
	kafka, mine := byVersion(lines), byVersion(w.lines())
	unused := map[string]bool{}
	for k := range differs {
		unused[k] = true
	}
	for _, l := range w.out {
		at := fmt.Sprintf("%s v%d %s", l.what, l.version, l.who)
		want, ok := kafka[at]
		if !ok {
			t.Errorf("%s: Kafka was not asked", at)
			continue
		}
		if got := mine[at]; got != want {
			if k, known := knownDifference(l); known {
				delete(unused, k)
				continue
			}
			t.Errorf("%s:\n  kaas  %s\n  Kafka %s", at, got, want)
		}
	}
	for k := range unused {
		t.Errorf("no difference any more: %s", k)
	}
	for at := range kafka {
		if _, ok := mine[at]; !ok {
			t.Errorf("%s: only Kafka was asked", at)
		}
	}
}

// Every key that is advertised is walked. Those between brokers are not on Kafka's own
// listeners for clients.
func TestTheWalkKnowsEveryKey(t *testing.T) {
	known := map[kmsg.Key]bool{}
	for _, c := range walkCases() {
		known[c.key] = true
	}
	for _, a := range apis {
		if !known[a.key] && !a.inner {
			t.Errorf("the walk does not know %s", kmsg.NameForKey(int16(a.key)))
		}
	}
}

// differs are the outcomes that are not Kafka's, by what is asked and by whom, and why.
var differs = map[string]string{
	"Fetch, as a replica: with all":                  "There are no followers: who may act for the cluster reads as anybody does.",
	"Metadata, to be made: with all":                 "The answer waits until the topic is there, where Kafka has its client ask again.",
	"Metadata, to be made, by the cluster: with all": "Likewise.",
}

func knownDifference(l walkLine) (string, bool) {
	for _, k := range []string{l.what + ": " + l.who, l.what} {
		if _, ok := differs[k]; ok {
			return k, true
		}
	}
	return "", false
}

// walkSettings are those of either: who comes without a password may do everything.
func walkSettings() []string {
	users := `user_none="none-secret"`
	for i, c := range walkCases() {
		for user := range walkUsers(&c, i) {
			users += fmt.Sprintf(` user_%s="%s-secret"`, user, user)
		}
	}
	return []string{"authorizer.class.name=" + standardAuthorizer, "super.users=User:ANONYMOUS", "sasl.enabled.mechanisms=PLAIN",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required " + users + ";"}
}

// walkHere is the walk of a broker in this process.
func walkHere(t *testing.T) *aclWalk {
	n := startNode(t, t.TempDir(), append(walkSettings(), "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0")...)
	return walkBoth(t, n.Addr(), n.lns[1].Addr().String())
}

// walkKafka is that of Apache Kafka.
func walkKafka(t *testing.T) *aclWalk {
	addrs := []string{testport.Addr(t), testport.Addr(t)}
	args := []string{"--set", "listeners=PLAINTEXT://" + addrs[0] + ",SASL_PLAINTEXT://" + addrs[1], "--set", "log.dirs=" + t.TempDir(),
		"--set", "group.initial.rebalance.delay.ms=0", "--set", "transaction.state.log.num.partitions=4"}
	for _, set := range walkSettings() {
		args = append(args, "--set", set)
	}
	k := exec.Command(*asKafka, args...)
	k.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	k.Stdout, k.Stderr = &out, &out
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-k.Process.Pid, syscall.SIGKILL)
		_ = k.Wait()
		if t.Failed() {
			t.Log(lastLines(out.String(), 50))
		}
	})
	for began := time.Now(); !accepting(addrs); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("Kafka does not start:\n%s", out.String())
		}
	}
	return walkBoth(t, addrs[0], addrs[1])
}

// walkBoth is the walk of whoever listens at these addresses: the first for an admin, the
// second for users with passwords.
func walkBoth(t *testing.T, admin, users string) *aclWalk {
	w := &aclWalk{t: t, admin: dial(t, admin)}
	_ = w.admin.nc.SetDeadline(time.Now().Add(20 * time.Minute))
	w.login = func(user string) *client {
		c := dial(t, users)
		if user != "" {
			c.plain(user, user+"-secret")
		}
		return c
	}
	w.run()
	return w
}

// plain authenticates by PLAIN.
func (c *client) plain(user, password string) {
	c.t.Helper()
	h := kmsg.NewPtrSASLHandshakeRequest()
	h.Version, h.Mechanism = 1, "PLAIN"
	if code := c.ask(h).(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		c.t.Fatalf("SaslHandshake: error %d", code)
	}
	a := kmsg.NewPtrSASLAuthenticateRequest()
	a.Version, a.SASLAuthBytes = 2, []byte("\x00"+user+"\x00"+password)
	if code := c.ask(a).(*kmsg.SASLAuthenticateResponse).ErrorCode; code != 0 {
		c.t.Fatalf("SaslAuthenticate of %s: error %d", user, code)
	}
}

// accepting reports whether somebody listens everywhere.
func accepting(addrs []string) bool {
	for _, addr := range addrs {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		nc.Close()
	}
	return true
}

func lastLines(s string, n int) string {
	var lines []string
	for sc := bufio.NewScanner(strings.NewReader(s)); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

package timeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

func pageOf(t *testing.T, tl *Timeline) string {
	t.Helper()
	var b bytes.Buffer
	check(t, tl.WritePage(&b))
	return b.String()
}

var dataElement = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// readBack decodes the page's data as its script does.
func readBack(t *testing.T, page string) pageData {
	t.Helper()
	m := dataElement.FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page has no data")
	}
	var d pageData
	check(t, json.Unmarshal([]byte(m[1]), &d))
	return d
}

func TestDataIsTheHistory(t *testing.T) {
	tl := sample(t, 600)
	d := readBack(t, pageOf(t, tl))
	if len(d.Entries) != len(tl.Entries) || len(d.Lanes) != len(tl.Lanes) || d.From != tl.From.UnixMilli() || d.To != tl.To.UnixMilli() {
		t.Fatalf("%d entries, %d lanes from %d to %d", len(d.Entries), len(d.Lanes), d.From, d.To)
	}
	str := func(v any) string { return d.Strings[int(v.(float64))] }
	for i, r := range d.Entries {
		e := tl.Entries[i]
		if str(r[1]) != e.Position || str(r[0]) != e.Stream || str(r[6]) != visible(e.Reason) || d.From+int64(r[3].(float64)) != e.Time.UnixMilli() {
			t.Fatalf("entry %d is %v, not %+v", i, r, e)
		}
		events := 0
		if len(r) > 11 {
			events = len(r[11].([]any)) / 2
		}
		if events != len(e.Events) {
			t.Fatalf("entry %d has %d events, not %d", i, events, len(e.Events))
		}
	}
	for i, l := range d.Lanes {
		want := tl.Lanes[i]
		if d.Strings[l.Name] != visible(want.Name) || len(l.Spans) != 6*len(want.Spans) || len(l.Marks) != len(want.Marks) || l.Parent != want.Parent {
			t.Fatalf("lane %d is %+v, not %+v", i, l, want)
		}
	}
}

// TestNamesAreNotMarkup: whatever clients call their things, the page has the elements
// that it is made of, and its policy lets in nothing else.
func TestNamesAreNotMarkup(t *testing.T) {
	page := pageOf(t, sample(t, 600))
	if n := strings.Count(strings.ToLower(page), "</script"); n != 2 {
		t.Errorf("%d elements of script end, not 2", n)
	}
	for _, bad := range []string{"<img", "<svg", "<!--", "harmed=1\"", "\u202e", "\u2028", "sample <b>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	d := readBack(t, page)
	for _, want := range []string{hostileGroup, visible(hostileTxn), hostileReason} {
		if !slices.Contains(d.Strings, want) {
			t.Errorf("the data lack %q", want)
		}
	}
	policy := html.UnescapeString(regexp.MustCompile(`http-equiv="Content-Security-Policy" content="(.*?)"`).FindStringSubmatch(page)[1])
	for _, el := range []string{"script", "style"} {
		text := regexp.MustCompile(`(?s)<` + el + `>(.*?)</` + el + `>`).FindStringSubmatch(page)[1]
		sum := sha256.Sum256([]byte(text))
		if want := fmt.Sprintf("%s-src 'sha256-%s'", el, base64.StdEncoding.EncodeToString(sum[:])); !strings.Contains(policy, want) {
			t.Errorf("the policy is %s, and the %s needs %s", policy, el, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the policy is %s", policy)
	}
}

// TestPageNeedsNothing: no file of the page's names anything outside of it.
func TestPageNeedsNothing(t *testing.T) {
	outside := regexp.MustCompile(`(?i)https?:|//[a-z0-9-]+\.[a-z]|@import|url\(|\bsrc=|\bimport\b|\bfetch\(|XMLHttpRequest|WebSocket|innerHTML|insertAdjacentHTML|document\.write|\beval\(`)
	check(t, fs.WalkDir(web, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := web.ReadFile(name)
		if found := outside.Find(b); found != nil {
			t.Errorf("%s has %q", name, found)
		}
		return err
	}))
}

func TestSameHistorySamePage(t *testing.T) {
	first, again := sample(t, 400), sample(t, 400)
	if pageOf(t, first) != pageOf(t, again) {
		t.Error("the same history makes two pages")
	}
}

func laneNamed(t *testing.T, tl *Timeline, section Section, name string) *Lane {
	t.Helper()
	for i := range tl.Lanes {
		if tl.Lanes[i].Section == section && tl.Lanes[i].Name == name {
			return &tl.Lanes[i]
		}
	}
	t.Fatalf("there is no lane %q", name)
	return nil
}

// spansOf says spans in words.
func spansOf(l *Lane) (out []string) {
	for _, s := range l.Spans {
		out = append(out, fmt.Sprintf("%s %d %s", s.Style, s.Broker, s.Label))
	}
	return out
}

func wantSpans(t *testing.T, l *Lane, want ...string) {
	t.Helper()
	if got := spansOf(l); !slices.Equal(got, want) {
		t.Errorf("%s shows %q, not %q", l.Name, got, want)
	}
}

// TestLossOfABroker: what is seen of it in each lane.
func TestLossOfABroker(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(time.Hour)
	lost := w.now
	w.lose(2)
	tl := w.page(Options{})
	wantSpans(t, laneNamed(t, tl, SectionBrokers, "broker 2"), "broker 2 up, epoch 2", "fenced 0 fenced", "broker 2 up, epoch 4")
	wantSpans(t, laneNamed(t, tl, SectionBrokers, "broker 3"), "broker 3 up, epoch 3")
	orders := laneNamed(t, tl, SectionTopics, "orders/1")
	wantSpans(t, orders, "broker 2 broker 2, epoch 1", "nobody 0 nobody", "broker 3 broker 3, epoch 3")
	if s := orders.Spans; !s[0].To.Equal(lost) || !s[1].From.Equal(lost) || s[1].To.Sub(lost) != 20*time.Second || !s[2].To.Equal(tl.To) {
		t.Errorf("orders/1 changes hands at %v", s)
	}
	wantSpans(t, laneNamed(t, tl, SectionTopics, "orders"), "exists 0 3 partitions")
	wantSpans(t, laneNamed(t, tl, SectionCluster, "controller"), "broker 1 broker 1")
	e := tl.Entries[orders.Spans[1].Entry]
	i := slices.IndexFunc(e.Changes, func(c Change) bool { return c.Object == "partition orders/1" })
	if i < 0 || fmt.Sprint(e.Changes[i].Fields) != "[{leader 2 nobody} {leader epoch 1 2}]" {
		t.Errorf("%s changed %v", e.Position, e.Changes)
	}
	if e.Reason != "broker 2 is gone" || !strings.Contains(e.Events[1].Text, "audit.log/1 is led by nobody") {
		t.Errorf("%s: %s: %v", e.Position, e.Reason, e.Events)
	}
}

// TestDisownedEntries are shown as what they are, and change nothing.
func TestDisownedEntries(t *testing.T) {
	w := newWorld(t)
	w.lose(1) // the controller
	tl := w.page(Options{})
	i := slices.IndexFunc(tl.Entries, func(e Entry) bool { return e.Status == metalog.StatusDisowned })
	if i < 0 {
		t.Fatal("it is not there")
	}
	if e := tl.Entries[i]; len(e.Changes) > 0 || !strings.HasPrefix(e.Problem, "disowned") || len(e.Events) != 1 {
		t.Errorf("it is %+v", e)
	}
	marks := laneNamed(t, tl, SectionCluster, "cluster-wide").Marks
	if m := marks[len(marks)-1]; m.Entry != i || m.Kind != KindTrouble {
		t.Errorf("it is marked as %+v", m)
	}
	wantSpans(t, laneNamed(t, tl, SectionCluster, "controller"), "broker 1 broker 1", "broker 2 broker 2")
}

// TestGroupsAndTransactions: generations, members, offsets by the names of topics.
func TestGroupsAndTransactions(t *testing.T) {
	w := newWorld(t)
	w.commit("billing")
	w.rebalance("billing", 0)
	w.transact("etl-1")
	tl := w.page(Options{})
	l := laneNamed(t, tl, SectionGroups, "billing")
	wantSpans(t, l, "active 0 3 members, generation 1", "idle 0 empty")
	kinds := []Kind{}
	for _, m := range l.Marks {
		kinds = append(kinds, m.Kind)
	}
	if !slices.Equal(kinds, []Kind{KindMembers, KindCommit, KindMembers}) {
		t.Errorf("marks are %v", kinds)
	}
	e := tl.Entries[l.Marks[1].Entry]
	if c := e.Changes[0]; !strings.HasPrefix(c.Object, "offset billing ") || strings.Contains(c.Object, "aa0000") || c.Fields[0].Name != "offset" || c.Fields[0].Before != "" {
		t.Errorf("the commit changed %+v", c)
	}
	wantSpans(t, laneNamed(t, tl, SectionTxns, "etl-1"), "ongoing 0 open", "ending 0 PrepareCommit", "idle 0 CompleteCommit")
}

// TestDeletedTopic ends its lanes, and one made again under its name goes on in them.
func TestDeletedTopic(t *testing.T) {
	w := newWorld(t)
	old := w.topics[1]
	w.tick()
	w.cluster.publish(w.now, "DeleteTopics from a client", w.all(&projections.TopicDeleted{ID: old.id, Name: old.name})...)
	w.tick()
	w.cluster.publish(w.now, "files gone", w.all(&projections.TopicRemoved{ID: old.id})...)
	w.tick()
	w.create("payments", 1)
	tl := w.page(Options{})
	wantSpans(t, laneNamed(t, tl, SectionTopics, "payments"), "exists 0 5 partitions", "exists 0 1 partition")
	wantSpans(t, laneNamed(t, tl, SectionTopics, "payments/4"), "broker 2 broker 2, epoch 1")
	if n := len(laneNamed(t, tl, SectionTopics, "payments").Marks); n != 4 {
		t.Errorf("%d marks, not 4", n)
	}
}

// TestSince: what was so before is known, and who did it is not said.
func TestSince(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(time.Hour)
	since := w.now
	w.now = w.now.Add(time.Minute)
	w.rebalance("billing", 1)
	b := newBuilder(Options{Since: since})
	b.learnAll(w.cluster.state)
	// As history.Steps gives it: the first step has the state before it.
	followAll(b, w.groups.stream, w.groups.out[len(w.groups.out)-1:])
	tl := b.finish()
	l := laneNamed(t, tl, SectionGroups, "billing")
	wantSpans(t, l, "active 0 3 members, generation 1", "active 0 1 member, generation 2")
	if s := l.Spans[0]; !s.From.Equal(since) || s.Entry != -1 || !tl.From.Equal(since) || len(tl.Entries) != 1 {
		t.Errorf("the first span is %+v, of %d entries", s, len(tl.Entries))
	}
	wantSpans(t, laneNamed(t, tl, SectionGroups, "analytics"), "active 0 3 members, generation 1")
}

// TestWithoutATime: plugs and unreadable entries have no time of their own, and are shown.
func TestWithoutATime(t *testing.T) {
	w := newWorld(t)
	bad := step{Record: history.Record{Err: fmt.Errorf("checksum")}}
	plug := step{Record: history.Record{Plug: true}}
	b := newBuilder(Options{})
	followAll(b, w.cluster.stream, append([]step{bad, plug}, w.cluster.out...))
	tl := b.finish()
	for i, want := range []string{"unreadable: checksum", "a plug: the position was closed to its epoch's owner"} {
		if e := tl.Entries[i]; e.Problem != want || !e.Time.Equal(noon) {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	if l := laneNamed(t, tl, SectionCluster, "controller"); l.Marks[0].Kind != KindTrouble || l.Marks[1].Kind != KindStream {
		t.Errorf("they are marked as %+v", l.Marks[:2])
	}
	b = newBuilder(Options{})
	followAll(b, w.cluster.stream, []step{bad})
	if tl := b.finish(); len(tl.Notes) != 1 {
		t.Errorf("nothing is told of a stream without a readable entry: %q", tl.Notes)
	}
}

// TestClockBehind: a writer's clock is behind that of the one before.
func TestClockBehind(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(time.Minute)
	w.rebalance("billing", 2)
	w.now = w.now.Add(-30 * time.Second)
	w.rebalance("billing", 1)
	l := laneNamed(t, w.page(Options{}), SectionGroups, "billing")
	for i, s := range l.Spans {
		if s.To.Before(s.From) || i > 0 && s.From.Before(l.Spans[i-1].To) {
			t.Errorf("span %d goes from %v to %v", i, s.From, s.To)
		}
	}
}

// TestManyRows: an entry that changes very much is cut, and says so.
func TestManyRows(t *testing.T) {
	w := newWorld(t)
	w.create("wide", 1000)
	tl := w.page(Options{})
	e := tl.Entries[slices.IndexFunc(tl.Entries, func(e Entry) bool { return len(e.Events) > 1000 })]
	rows := 0
	for _, c := range e.Changes {
		rows += len(c.Fields)
	}
	if rows != mostRows || e.Untold < 1500 {
		t.Errorf("%d rows are told, %d not", rows, e.Untold)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"orders": "orders", "größe 日本": "größe 日本", "a\nb": `a\u{a}b`, "a\x00": `a\u{0}`, "\u202egnp": `\u{202e}gnp`,
		"non\u00a0break": `non\u{a0}break`, "bad\xff": "bad\ufffd", "": "",
	} {
		got, err := json.Marshal(visible(in))
		check(t, err)
		want, err := json.Marshal(want)
		check(t, err)
		if string(got) != string(want) {
			t.Errorf("%q is shown as %s, not %s", in, got, want)
		}
	}
}

package timeline

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is a page in a headless Chromium that reaches no network.
type browser struct {
	t    *testing.T
	ctx  context.Context
	file string
	mu   struct {
		sync.Mutex
		requests, complaints []string
	}
}

// findChromium skips the test unless KAAS_E2E is set, as in tools/e2e.
func findChromium(t *testing.T) string {
	t.Helper()
	mode := os.Getenv("KAAS_E2E")
	if mode == "" {
		t.Skip("starts a browser: set KAAS_E2E=1 to run it")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	if mode == "all" {
		t.Fatal("KAAS_E2E=all, but chromium is not installed")
	}
	t.Skip("chromium is not installed")
	return ""
}

// openPage writes a timeline's page to a file and opens that.
func openPage(t *testing.T, tl *Timeline, opts ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	bin := findChromium(t)
	file := filepath.Join(t.TempDir(), "page.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := tl.WritePage(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	opts = append(append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(bin), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(2*time.Minute), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.WindowSize(1440, 900)), opts...)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, file: (&url.URL{Scheme: "file", Path: file}).String()}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(b.file))
	b.await(`window.kaasTimeline !== undefined`)
	return b
}

// hear notes what a page that minds its own business never does.
func (b *browser) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.mu.requests = append(b.mu.requests, ev.Request.URL)
	case *runtime.EventConsoleAPICalled:
		b.mu.complaints = append(b.mu.complaints, fmt.Sprintf("console.%s", ev.Type))
	case *runtime.EventExceptionThrown:
		b.mu.complaints = append(b.mu.complaints, fmt.Sprintf("%+v", ev.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		b.mu.complaints = append(b.mu.complaints, ev.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		b.mu.complaints = append(b.mu.complaints, "a dialog: "+ev.Message)
	}
}

func (b *browser) do(as ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, as...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is the value of an expression of the page's script.
func eval[T any](b *browser, expr string, opts ...chromedp.EvaluateOption) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expr, opts...))
	if err != nil {
		b.t.Fatalf("%s: %v", expr, err)
	}
	return v
}

// await waits until an expression is true, looking at each frame.
func (b *browser) await(expr string) {
	b.t.Helper()
	ok := eval[bool](b, fmt.Sprintf(`new Promise((done) => {
		const end = Date.now() + 60000;
		const look = () => (%s) ? done(true) : Date.now() > end ? done(false) : requestAnimationFrame(look);
		look();
	})`, expr), chromedp.EvalAwaitPromise)
	if !ok {
		b.t.Fatalf("this never came about: %s", expr)
	}
}

// text is what an element says when what was changed before is drawn, which the next frame does.
func (b *browser) text(id string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`new Promise((done) =>
		requestAnimationFrame(() => requestAnimationFrame(() => done(document.getElementById(%q).innerText))))`, id), chromedp.EvalAwaitPromise)
}

type span struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

func (s span) width() float64 { return s.To - s.From }

func (b *browser) view() span {
	b.t.Helper()
	return eval[span](b, `kaasTimeline.view()`)
}

// viewIs waits for a view, for some hundred frames.
func (b *browser) viewIs(what string, ok func(span) bool) {
	b.t.Helper()
	v := b.view()
	for range 300 {
		if ok(v) {
			return
		}
		eval[bool](b, `new Promise((done) => requestAnimationFrame(() => done(true)))`, chromedp.EvalAwaitPromise)
		v = b.view()
	}
	b.t.Fatalf("%s: the view is %+v", what, v)
}

type glyph struct {
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Count int     `json:"count"`
	Entry int     `json:"entry"`
}

func (b *browser) glyphs(lane string) []glyph {
	b.t.Helper()
	name, err := json.Marshal(lane)
	if err != nil {
		b.t.Fatal(err)
	}
	return eval[[]glyph](b, fmt.Sprintf(`kaasTimeline.glyphs(%s)`, name))
}

func (b *browser) wheel(x, y, by float64) {
	b.t.Helper()
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseWheel, x, y, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 1e-9, by }))
}

// find types into the search box, from the beginning.
func (b *browser) find(s string) {
	b.t.Helper()
	eval[chromedp.Void](b, `{ const s = document.getElementById("search"); s.value = ""; s.dispatchEvent(new Event("input")); }`)
	b.do(chromedp.SendKeys(chromedp.ID("search"), s))
}

// shot leaves a picture among the test's artifacts, for a person to look at.
func (b *browser) shot(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// quiet fails the test if the page asked for anything or complained.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.mu.requests {
		if r != b.file && !strings.HasPrefix(r, "data:") {
			b.t.Errorf("the page asked for %s", r)
		}
	}
	for _, c := range b.mu.complaints {
		b.t.Errorf("the browser says: %s", c)
	}
}

// TestPageInBrowser uses the page as a person would, at ten thousand events.
func TestPageInBrowser(t *testing.T) {
	findChromium(t)
	tl := sample(t, 10_000)
	began := time.Now()
	b := openPage(t, tl)
	t.Logf("%d events in %d entries; browser and page up after %v", tl.Events(), len(tl.Entries), time.Since(began).Round(time.Millisecond))
	for _, step := range []struct {
		name string
		run  func(*testing.T, *browser, *Timeline)
	}{
		{"lanes", lanesAreShown}, {"speed", tellSpeed}, {"zoom", zoomWorks}, {"hover", hoverTells}, {"click", clickOpens},
		{"many", clickLists}, {"keyboard", keysWork}, {"groups", groupsShow}, {"kinds", kindsHide}, {"search", searchFinds}, {"names", namesDoNothing},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			b.t = t
			b.do(chromedp.KeyEvent(kb.Escape), chromedp.Click(chromedp.ID("fit")))
			step.run(t, b, tl)
			b.shot("page-" + step.name)
		}) {
			break // the page is where nobody knows
		}
	}
	b.t = t
	b.quiet()
}

func lanesAreShown(t *testing.T, b *browser, tl *Timeline) {
	type laneOf struct {
		Section string `json:"section"`
		Name    string `json:"name"`
		Marks   int    `json:"marks"`
		Events  int    `json:"events"`
		Spans   int    `json:"spans"`
	}
	got := eval[[]laneOf](b, `kaasTimeline.lanes()`)
	var want []laneOf
	for _, l := range tl.Lanes {
		n := 0
		for _, m := range l.Marks {
			n += len(m.Events)
		}
		want = append(want, laneOf{sectionNames[l.Section], visible(l.Name), len(l.Marks), n, len(l.Spans)})
	}
	if len(got) != len(want) {
		t.Fatalf("the page has %d lanes, the history %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("lane %d is %+v, not %+v", i, got[i], want[i])
		}
	}
	if s := b.text("summary"); !strings.HasPrefix(s, fmt.Sprintf("10,000 events in %s entries", grouped(len(tl.Entries)))) {
		t.Errorf("summary: %s", s)
	}
	for _, l := range tl.Lanes {
		if l.Parent >= 0 || l.Section == SectionShards {
			continue
		}
		sum := 0
		for _, g := range b.glyphs(visible(l.Name)) {
			sum += g.Count
		}
		if sum != len(l.Marks) {
			t.Errorf("%s: the glyphs stand for %d events of %d", l.Name, sum, len(l.Marks))
		}
	}
}

func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// tellSpeed reports and does not judge, but for what would be unusable on any machine.
func tellSpeed(t *testing.T, b *browser, _ *Timeline) {
	b.await(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	paint := eval[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	all := eval[float64](b, `kaasTimeline.draw()`)
	b.do(chromedp.Click(chromedp.ID("in")), chromedp.Click(chromedp.ID("in")))
	narrow := eval[float64](b, `kaasTimeline.draw()`)
	t.Logf("first paint after %.0f ms; a frame of everything %.1f ms, after two steps of zoom %.1f ms", paint, all, narrow)
	if paint > 60_000 || all > 30_000 || narrow > 30_000 {
		t.Error("that is too slow to use")
	}
}

func zoomWorks(t *testing.T, b *browser, _ *Timeline) {
	all := b.view()
	at := eval[float64](b, `document.getElementById("plot").getBoundingClientRect().left + 600`)
	share := func(v span) float64 {
		return v.From + 600/eval[float64](b, `document.getElementById("plot").clientWidth`)*v.width()
	}
	b.wheel(at, 300, -200)
	b.viewIs("the wheel zooms", func(v span) bool { return v.width() < all.width()*0.7 && v.width() > all.width()/10 })
	if a, z := share(all), share(b.view()); a-z > all.width()/500 || z-a > all.width()/500 {
		t.Errorf("the time under the pointer went from %.0f to %.0f", a, z)
	}
	b.wheel(at, 300, 5000)
	b.viewIs("the wheel zooms out", func(v span) bool { return v == all })
	b.do(chromedp.Click(chromedp.ID("in")))
	near := b.view()
	b.viewIs("the button zooms", func(v span) bool { return v.width() < all.width() })
	b.do(chromedp.MouseEvent(chromedp.MousePressed, at, 300, chromedp.ButtonLeft), chromedp.MouseEvent(chromedp.MouseMoved, at-200, 300, chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseReleased, at-200, 300, chromedp.ButtonLeft))
	b.viewIs("dragging moves", func(v span) bool {
		return v.From > near.From && v.width()-near.width() < 1 && near.width()-v.width() < 1
	})
	b.do(chromedp.KeyEvent("+"))
	b.viewIs("the key zooms", func(v span) bool { return v.width() < near.width()*0.8 })
	b.do(chromedp.KeyEvent("0"))
	b.viewIs("all is shown", func(v span) bool { return v == all })
	for range 60 {
		b.wheel(at, 300, -600)
	}
	b.viewIs("there is an end to it", func(v span) bool { return v.width() >= 19 && v.width() < 1000 })
}

// single is a glyph of a lane that is one event.
func single(t *testing.T, b *browser, lane string) glyph {
	t.Helper()
	for _, g := range b.glyphs(lane) {
		if g.Count == 1 {
			return g
		}
	}
	t.Fatalf("%s has no glyph of one event", lane)
	return glyph{}
}

func hoverTells(t *testing.T, b *browser, tl *Timeline) {
	g := single(t, b, "controller")
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, g.X, g.Y))
	b.await(`!document.getElementById("tip").hidden`)
	e, tip := tl.Entries[g.Entry], b.text("tip")
	for _, want := range []string{e.Position + " of cluster", e.Time.Format("2006-01-02 15:04:05.000 UTC"), fmt.Sprintf("by broker %d", e.Node), e.Reason, e.Events[0].Text} {
		if !strings.Contains(tip, want) {
			t.Errorf("hovering over an event does not tell %q: %s", want, tip)
		}
	}
}

func clickOpens(t *testing.T, b *browser, tl *Timeline) {
	g := single(t, b, "orders")
	b.do(chromedp.MouseClickXY(g.X, g.Y))
	b.await(`!document.getElementById("panel").hidden`)
	e := tl.Entries[g.Entry]
	if s := b.text("panel"); !strings.Contains(s, e.Position) || !strings.Contains(s, e.Events[0].Text) {
		t.Errorf("the panel does not tell the entry: %s", s)
	}
	if len(e.Changes) == 0 {
		t.Fatalf("entry %s changed nothing", e.Position)
	}
	var want [][]string
	got := eval[[][]string](b, `[...document.querySelectorAll(".change")].flatMap((c) => [...c.querySelectorAll("tr")].map((r) => [c.querySelector("h4 span").textContent, ...[...r.children].map((x) => x.textContent)]))`)
	for _, c := range e.Changes {
		for _, f := range c.Fields {
			row := []string{c.Object, f.Name}
			for _, v := range []string{f.Before, f.After} {
				if v != "" {
					row = append(row, v)
				}
			}
			want = append(want, row)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the diff is\n%v, not\n%v", got, want)
	}
}

func clickLists(t *testing.T, b *browser, _ *Timeline) {
	var g glyph
	for _, o := range b.glyphs("cluster-wide") {
		if o.Count > g.Count {
			g = o
		}
	}
	if g.Count < 2 {
		t.Fatal("no glyph stands for several events")
	}
	all := b.view()
	b.do(chromedp.MouseClickXY(g.X, g.Y))
	b.await(`!document.getElementById("panel").hidden`)
	if n := eval[int](b, `document.querySelectorAll("#panel li").length`); n != g.Count {
		t.Errorf("the panel lists %d events of %d", n, g.Count)
	}
	b.do(chromedp.Click(chromedp.CSS("#panel .more")))
	b.viewIs("the view is theirs", func(v span) bool { return v.width() < all.width()/5 })
	b.do(chromedp.Click(chromedp.CSS("#panel li button")))
	b.await(`document.querySelector("#panel dl") !== null`)
}

func keysWork(t *testing.T, b *browser, _ *Timeline) {
	b.do(chromedp.Focus(chromedp.ID("plot")), chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.ArrowRight))
	b.await(`document.getElementById("say").textContent.startsWith("controller: ")`)
	first := b.text("say")
	b.do(chromedp.KeyEvent(kb.ArrowRight))
	if s := b.text("say"); s == first {
		t.Errorf("the key goes to no other event: %s", s)
	}
	b.do(chromedp.KeyEvent(kb.ArrowDown))
	b.await(`document.getElementById("say").textContent.startsWith("cluster-wide: ")`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await(`!document.getElementById("panel").hidden`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await(`document.getElementById("panel").hidden`)
}

// groupsShow is for the pictures: the lower half of the page.
func groupsShow(t *testing.T, b *browser, _ *Timeline) {
	eval[chromedp.Void](b, `{ const s = document.getElementById("scroll"); s.scrollTop = s.scrollHeight; }`)
	b.await(`document.getElementById("names").innerText.includes("etl-1")`)
	g := b.glyphs("billing")[20]
	for b.view().width() > float64((10 * time.Minute).Milliseconds()) {
		b.wheel(g.X, g.Y, -400)
	}
	g = single(t, b, "billing")
	b.do(chromedp.MouseClickXY(g.X, g.Y))
	b.await(`!document.getElementById("panel").hidden`)
}

func kindsHide(t *testing.T, b *browser, tl *Timeline) {
	var name string
	for _, l := range tl.Lanes {
		if l.Section == SectionGroups {
			name = visible(l.Name)
		}
	}
	before := len(b.glyphs(name))
	b.do(chromedp.Click(`//div[@id="legend"]/button[contains(., "commit")]`))
	if n := len(b.glyphs(name)); n >= before || n == 0 {
		t.Errorf("%s has %d glyphs with commits and %d without", name, before, n)
	}
	b.do(chromedp.Click(`//div[@id="legend"]/button[contains(., "commit")]`))
}

func searchFinds(t *testing.T, b *browser, _ *Timeline) {
	find := func(s string) []string {
		b.find(s)
		return eval[[]string](b, `kaasTimeline.rows()`)
	}
	if rows := find("payments/2"); fmt.Sprint(rows) != "[Topics payments payments/2]" {
		t.Errorf("payments/2 finds %q", rows)
	}
	if rows := find("BILLING"); fmt.Sprint(rows) != "[Consumer groups billing]" {
		t.Errorf("BILLING finds %q", rows)
	}
	if rows := find("</SCRIPT>"); len(rows) != 4 || rows[1] != hostileGroup {
		t.Errorf("</SCRIPT> finds %q", rows)
	}
	if s := b.text("names"); !strings.Contains(s, hostileGroup) {
		t.Errorf("the name is not shown as it is: %s", s)
	}
	if rows := find("nobody has this name"); len(rows) != 0 {
		t.Errorf("found %q", rows)
	}
	find("1-2")
	b.do(chromedp.SendKeys(chromedp.ID("search"), kb.Enter))
	b.await(`!document.getElementById("panel").hidden`)
	if s := b.text("panel"); !strings.Contains(s, "1-2 of ") {
		t.Errorf("the position opens %s", s)
	}
	b.find("")
}

// namesDoNothing opens what has hostile names, in every place that shows one.
func namesDoNothing(t *testing.T, b *browser, tl *Timeline) {
	b.find("script")
	shown := 0
	for _, name := range []string{hostileGroup, visible(hostileTxn)} {
		for _, g := range b.glyphs(name) {
			if shown++; shown%9 != 0 {
				continue
			}
			b.do(chromedp.MouseEvent(chromedp.MouseMoved, g.X, g.Y), chromedp.MouseClickXY(g.X, g.Y))
			b.await(`!document.getElementById("panel").hidden`)
		}
	}
	e := tl.Entries[slices.IndexFunc(tl.Entries, func(e Entry) bool { return e.Reason == hostileReason })]
	b.find(e.Position)
	for range tl.Entries { // other streams have the position too
		b.do(chromedp.SendKeys(chromedp.ID("search"), kb.Enter))
		if s := b.text("panel"); strings.Contains(s, hostileReason) && strings.Contains(s, visible(hostileMember)) {
			break
		}
	}
	if s := b.text("panel"); !strings.Contains(s, hostileReason) {
		t.Fatalf("the entry %s of %s is not found: %s", e.Position, e.Stream, s)
	}
	if shown == 0 {
		t.Fatal("nothing hostile was shown")
	}
	harm := eval[bool](b, `window.harmed !== undefined`)
	elements := eval[int](b, `document.querySelectorAll("img, svg, iframe, object, embed, a").length`)
	scripts := eval[int](b, `document.scripts.length`)
	if harm || elements != 0 || scripts != 2 {
		t.Errorf("a name was taken for markup: harmed %v, %d elements, %d scripts", harm, elements, scripts)
	}
}

// TestPageInTheDark is for looking at; that it draws at all is what is tested.
func TestPageInTheDark(t *testing.T) {
	b := openPage(t, sample(t, 2000), chromedp.Flag("force-dark-mode", true), chromedp.Flag("blink-settings", "preferredColorScheme=0"))
	for range 4 {
		b.do(chromedp.Click(chromedp.ID("in")))
	}
	g := b.glyphs("orders")
	if len(g) > 0 {
		b.do(chromedp.MouseClickXY(g[0].X, g[0].Y))
	}
	b.shot("dark")
	b.do(chromedp.Click(chromedp.ID("theme")))
	b.shot("light")
	b.quiet()
}

// TestEmptyPage: nothing happened, and the page says so.
func TestEmptyPage(t *testing.T) {
	b := openPage(t, newBuilder(Options{}).finish())
	if s := b.text("summary"); s != "Nothing happened in this time." {
		t.Errorf("summary: %q", s)
	}
	b.do(chromedp.Focus(chromedp.ID("plot")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent("+"))
	b.quiet()
}

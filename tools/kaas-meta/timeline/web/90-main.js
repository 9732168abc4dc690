// Input, and the first frame.

// --- the pointer on the plot

let drag = null;

plot.addEventListener("pointerdown", (ev) => {
	if (ev.button !== 0) return;
	drag = { x: ev.clientX, y: ev.clientY, from: view.from, to: view.to, top: scroll.scrollTop, moved: false };
	plot.setPointerCapture(ev.pointerId);
});
plot.addEventListener("pointermove", (ev) => {
	if (!drag) return hoverAt(ev.clientX, ev.clientY);
	const dx = ev.clientX - drag.x, dy = ev.clientY - drag.y;
	if (!drag.moved && Math.hypot(dx, dy) < 4) return;
	drag.moved = true;
	plot.classList.add("moving");
	const by = (dx / plotWidth()) * (drag.to - drag.from);
	setView(drag.from - by, drag.to - by);
	scroll.scrollTop = drag.top - dy;
});
plot.addEventListener("pointerup", (ev) => {
	const was = drag;
	drag = null;
	plot.classList.remove("moving");
	if (was && !was.moved) clickAt(ev.clientX, ev.clientY);
});
plot.addEventListener("pointercancel", () => { drag = null; });
plot.addEventListener("pointerleave", () => { if (!drag) { hideTip(); redraw(); } });

function clickAt(clientX, clientY) {
	const box = plot.getBoundingClientRect();
	const hit = under(clientX - box.left, clientY - box.top);
	if (!hit) return closePanel();
	at.row = hit.row.index;
	hideTip();
	if (hit.glyph) {
		at.mark = hit.glyph.first;
		if (hit.glyph.count === 1) openEntry(hit.glyph.first.entry);
		else openMany(hit.glyph, hit.row.lane);
	} else if (hit.span.entry >= 0) openEntry(hit.span.entry);
}

plot.addEventListener("dblclick", (ev) => zoom(4, ev.clientX - plot.getBoundingClientRect().left));
plot.addEventListener("wheel", (ev) => {
	ev.preventDefault();
	const unit = ev.deltaMode === 1 ? 16 : ev.deltaMode === 2 ? 400 : 1;
	const across = ev.shiftKey ? ev.deltaX || ev.deltaY : ev.deltaX;
	if (Math.abs(across) > Math.abs(ev.shiftKey ? 0 : ev.deltaY)) return pan(across * unit);
	zoom(Math.exp(-Math.max(-600, Math.min(600, ev.deltaY * unit)) / 400), ev.clientX - plot.getBoundingClientRect().left);
}, { passive: false });

// --- the overview

let brushing = null;

function brush(ev) {
	const box = overview.getBoundingClientRect();
	const time = most.from + ((ev.clientX - box.left) / box.width) * (most.to - most.from);
	const width = view.to - view.from;
	setView(time - brushing - width / 2, time - brushing + width / 2);
}
overview.addEventListener("pointerdown", (ev) => {
	const box = overview.getBoundingClientRect();
	const time = most.from + ((ev.clientX - box.left) / box.width) * (most.to - most.from);
	const inside = time >= view.from && time <= view.to;
	brushing = inside ? time - (view.from + view.to) / 2 : 0;
	overview.setPointerCapture(ev.pointerId);
	brush(ev);
});
overview.addEventListener("pointermove", (ev) => { if (brushing !== null) brush(ev); });
overview.addEventListener("pointerup", () => { brushing = null; });
overview.addEventListener("pointercancel", () => { brushing = null; });
overview.addEventListener("wheel", (ev) => { ev.preventDefault(); zoom(Math.exp(-ev.deltaY / 400)); }, { passive: false });

// --- the keyboard

const say = (s) => { $("say").textContent = s; };

// toMark moves the keyboard's place to a mark of its row, before or after where it is.
function toMark(by) {
	const row = laneRow(at.row < 0 ? 0 : at.row, 1);
	if (!row) return;
	const marks = marksOf(row);
	if (marks.length === 0) return say(row.lane.name + " has no events");
	let i = at.mark ? marks.indexOf(at.mark) : -1;
	if (i >= 0) i = Math.min(Math.max(i + by, 0), marks.length - 1);
	else i = Math.min(lowerBound(marks, at.mark ? at.mark.time : view.from), marks.length - 1);
	at.row = row.index;
	at.mark = marks[i];
	reveal(at.mark.time, row);
	tellMark();
}

// laneRow is the next row with a lane from one on, in a direction.
function laneRow(from, by) {
	let i = from;
	while (rows[i] && !rows[i].lane) i += by;
	return rows[i];
}

function toRow(by) {
	const row = laneRow(at.row < 0 ? 0 : at.row + by, by);
	if (!row) return;
	at.row = row.index;
	const marks = marksOf(row);
	const near = at.mark ? at.mark.time : view.from;
	const i = Math.min(lowerBound(marks, near), marks.length - 1);
	if (marks.length > 0) at.mark = i > 0 && near - marks[i - 1].time < Math.abs(marks[i].time - near) ? marks[i - 1] : marks[i];
	else at.mark = null;
	reveal(at.mark ? at.mark.time : near, row);
	tellMark();
}

function tellMark() {
	const row = rows[at.row];
	if (at.mark) say(row.lane.name + ": " + whenOf(at.mark.time) + ", " + entries[at.mark.entry].position + ", " + sayMark(at.mark));
	else say(row.lane.name + ": no events");
	redraw();
}

plot.addEventListener("keydown", (ev) => {
	if (ev.ctrlKey || ev.metaKey || ev.altKey) return;
	const far = plotWidth() / 4;
	const keys = {
		ArrowLeft: () => (ev.shiftKey ? pan(-far) : toMark(-1)), ArrowRight: () => (ev.shiftKey ? pan(far) : toMark(1)),
		ArrowUp: () => toRow(-1), ArrowDown: () => toRow(1),
		Enter: () => at.mark && openEntry(at.mark.entry), " ": () => at.mark && openEntry(at.mark.entry),
		PageUp: () => scroll.scrollBy(0, -scroll.clientHeight), PageDown: () => scroll.scrollBy(0, scroll.clientHeight),
		Home: () => setView(most.from, most.from + view.to - view.from), End: () => setView(most.to - view.to + view.from, most.to),
	};
	if (!keys[ev.key]) return;
	ev.preventDefault();
	keys[ev.key]();
});

document.addEventListener("keydown", (ev) => {
	if (ev.ctrlKey || ev.metaKey || ev.altKey) return;
	if (ev.key === "Escape") {
		if (document.activeElement === $("search") && $("search").value !== "") return;
		return closePanel();
	}
	if (document.activeElement === $("search")) return;
	const keys = { "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: fit, "/": () => $("search").focus() };
	if (!keys[ev.key]) return;
	ev.preventDefault();
	keys[ev.key]();
});

// --- the tools

$("in").addEventListener("click", () => zoom(1.6));
$("out").addEventListener("click", () => zoom(1 / 1.6));
$("fit").addEventListener("click", fit);
$("theme").addEventListener("click", () => {
	const root = document.documentElement;
	const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	root.dataset.theme = dark ? "light" : "dark";
	restyle();
});

$("search").addEventListener("input", () => {
	query = $("search").value.trim().toLowerCase();
	const positions = /^\d+-\d+$/.test(query) ? entries.filter((e) => e.position === query).length : 0;
	position = positions > 0;
	const found = layOut();
	at.row = -1;
	at.mark = null;
	scroll.scrollTop = 0;
	$("found").textContent = query === "" ? "" : positions > 0 ? plural(positions, "position") + ", Enter" : plural(found, "lane");
	redraw();
});
$("search").addEventListener("keydown", (ev) => {
	if (ev.key !== "Enter") return;
	const from = at.selected >= 0 && entries[at.selected].position === query ? at.selected + 1 : 0;
	const hit = entries.find((e) => e.index >= from && e.position === query) || entries.find((e) => e.position === query);
	if (!hit) return;
	openEntry(hit.index);
	reveal(hit.time);
});

for (const k of kinds) {
	const n = lanes.reduce((sum, l) => sum + l.marks.filter((m) => m.kind === k.kind).length, 0);
	if (n === 0) continue;
	const glyph = el("canvas", "");
	glyph.dataset.kind = k.kind;
	const b = el("button", "", glyph, k.name);
	b.type = "button";
	b.setAttribute("aria-pressed", "true");
	b.title = plural(n, "event") + "; click to hide or show";
	b.addEventListener("click", () => {
		if (!hiddenKinds.delete(k.kind)) hiddenKinds.add(k.kind);
		b.setAttribute("aria-pressed", String(!hiddenKinds.has(k.kind)));
		showKinds();
		at.mark = null;
		redraw();
	});
	$("legend").append(b);
}

function restyle() {
	readInk();
	for (const glyph of $("legend").querySelectorAll("canvas")) paintShape(fitted(glyph, 14, 14), glyph.dataset.kind, 7, 7, ink, ink.ground);
	redraw();
}

// --- the start

$("cluster").textContent = raw.cluster;
const eventCount = entries.reduce((sum, e) => sum + e.events.length, 0);
$("summary").textContent = entries.length === 0 ? "Nothing happened in this time." :
	plural(eventCount, "event") + " in " + plural(entries.length, "entry", "entries") + ", " + whenOf(whole.from).slice(0, 19) + " to " + whenOf(whole.to);
if (raw.notes.length > 0) {
	const note = el("span", "", " · " + plural(raw.notes.length, "note"));
	note.title = raw.notes.join("\n");
	$("summary").append(note);
}
layOut();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
scroll.addEventListener("scroll", () => { hideTip(); redraw(); });
new ResizeObserver(redraw).observe($("stage"));
plot.addEventListener("focus", redraw);
plot.addEventListener("blur", redraw);
readInk();
drawAll();
restyle();

// For the browser's console, and for tests: what is there, and where it is on the screen.
window.kaasTimeline = {
	lanes: () => lanes.map((l) => ({ section: raw.sections[l.section], name: l.name, marks: l.marks.length, events: l.marks.reduce((n, m) => n + m.events.length, 0), spans: l.spans.length })),
	rows: () => rows.map((r) => r.head ?? r.lane.name),
	view: () => ({ from: raw.from + view.from, to: raw.from + view.to }),
	glyphs: (name) => {
		const row = rows.find((r) => r.lane && r.lane.name === name);
		const box = plot.getBoundingClientRect();
		return row ? glyphsOf(marksOf(row), view, plotWidth()).filter((g) => g.x >= 0 && g.x < plotWidth()).map((g) => ({ x: box.left + g.x, y: box.top + markY(row, row.top - scroll.scrollTop), count: g.count, entry: g.first.entry })) : [];
	},
	draw: () => { const began = performance.now(); drawAll(); return performance.now() - began; },
};

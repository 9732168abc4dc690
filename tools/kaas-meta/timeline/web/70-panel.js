// The panel shows an entry with what it changed, or the entries of a glyph.

const panel = $("panel");
const mostListed = 200;
let cameFrom = null;

function closePanel() {
	if (panel.hidden) return;
	const inside = panel.contains(document.activeElement);
	panel.hidden = true;
	at.selected = -1;
	if (inside) (cameFrom && cameFrom.isConnected ? cameFrom : plot).focus({ preventScroll: true });
	redraw();
}

function openPanel(label, ...children) {
	if (!panel.contains(document.activeElement)) cameFrom = document.activeElement;
	panel.setAttribute("aria-label", label);
	panel.replaceChildren(...children);
	panel.hidden = false;
	panel.scrollTop = 0;
	redraw();
}

function step(label, glyph, go) {
	const b = el("button", "step", glyph);
	b.type = "button";
	b.setAttribute("aria-label", label);
	b.title = label;
	if (go) b.addEventListener("click", go);
	else b.disabled = true;
	return b;
}

const writerOf = (e) => (e.node >= 0 ? "broker " + e.node : e.session === "" ? "the stream's birth" : "node " + e.node);

// neighbour is the entry before or after one in its stream.
function neighbour(e, by) {
	for (let i = e.index + by; i >= 0 && i < entries.length; i += by) if (entries[i].stream === e.stream) return entries[i];
	return null;
}

function openEntry(index) {
	const e = entries[index];
	at.selected = index;
	const title = el("h2", "", el("span", "pos", e.position), " of " + e.stream);
	const before = neighbour(e, -1), after = neighbour(e, 1);
	const go = (n) => n && (() => { openEntry(n.index); reveal(n.time); });
	const top = el("div", "top", title, step("Entry before it in the stream", "←", go(before)), step("Entry after it in the stream", "→", go(after)), step("Close", "✕", closePanel));
	const parts = [top, facts(e)];
	if (e.events.length > 0) parts.push(el("h3", "", plural(e.events.length, "event")), listOf(e.events, (v) => el("li", "", v.text)));
	parts.push(el("h3", "", "What changed"));
	if (e.changes.length === 0) parts.push(el("p", "", e.status === "disowned" ? "Nothing: this entry never counted." : "Nothing that this page can tell."));
	parts.push(...listOf(e.changes, changeBox, "div").childNodes);
	if (e.untold > 0) parts.push(el("p", "", "and " + plural(e.untold, "more row") + ", which kaas-meta diff tells."));
	openPanel("Entry " + e.position + " of " + e.stream, ...parts);
}

function facts(e) {
	const dl = el("dl", "");
	const add = (name, ...value) => dl.append(el("dt", "", name), el("dd", "", ...value));
	add("Time", whenOf(e.time));
	add("Writer", writerOf(e));
	if (e.reason !== "") add("Reason", e.reason);
	const bad = e.status !== "" && e.status !== "committed";
	const badges = el("span", "", el("span", bad ? "badge bad" : "badge", e.status || "no entry"));
	if (e.closed) badges.append(" ", el("span", "badge", "closed"));
	add("Status", badges);
	if (e.previous !== "") add("After", e.previous);
	if (e.session !== "") add("Session", e.session);
	if (e.problem !== "") add("Note", e.problem);
	return dl;
}

// listOf shows the first of a long list, and the rest when asked.
function listOf(items, make, tag) {
	const list = el(tag || "ul", "");
	list.append(...items.slice(0, mostListed).map(make));
	if (items.length > mostListed) {
		const more = el("button", "more", "Show all " + items.length.toLocaleString("en"));
		more.type = "button";
		more.addEventListener("click", () => more.replaceWith(...items.slice(mostListed).map(make)));
		list.append(more);
	}
	return list;
}

function changeBox(ch) {
	const made = ch.fields.every((f) => f.before === ""), gone = ch.fields.every((f) => f.after === "");
	const box = el("section", "change" + (made ? " made" : gone ? " gone" : ""));
	box.append(el("h4", "", el("span", "", ch.object), el("span", "how", made ? "new" : gone ? "gone" : "changed")));
	const body = el("tbody", "");
	for (const f of ch.fields) {
		const tr = el("tr", "", el("th", "", f.name));
		tr.firstChild.scope = "row";
		const side = (value, className) => {
			const td = el("td", value === "" ? "none" : className, value === "" ? "–" : value);
			td.setAttribute("aria-label", className + ": " + (value === "" ? "absent" : value));
			return td;
		};
		if (!made) tr.append(side(f.before, "before"));
		if (!gone) tr.append(side(f.after, "after"));
		body.append(tr);
	}
	box.append(el("table", "", body));
	return box;
}

// openMany lists the entries of a glyph that stands for several.
function openMany(g, lane) {
	at.selected = -1;
	const title = plural(g.count, "event") + " of " + lane.name;
	const wide = el("button", "more", "Zoom to them");
	wide.type = "button";
	wide.addEventListener("click", () => zoomTo(g));
	const marks = g.marks.slice(g.from, g.to);
	openPanel(title, el("div", "top", el("h2", "", title), step("Close", "✕", closePanel)),
		el("p", "", whenOf(g.first.time) + " to " + iso(g.last.time).slice(11, 23)),
		g.last.time > g.first.time ? wide : "",
		listOf(marks, (m) => {
			const b = el("button", "", el("span", "when", iso(m.time).slice(11, 23) + "  " + entries[m.entry].position + "  " + entries[m.entry].stream), sayMark(m));
			b.type = "button";
			b.addEventListener("click", () => openEntry(m.entry));
			return el("li", "", b);
		}));
}

function zoomTo(g) {
	const room = Math.max((g.last.time - g.first.time) * 0.15, 5);
	setView(g.first.time - room, g.last.time + room);
}

// sayMark is a mark in a line: its events, or what its entry is.
function sayMark(m) {
	const e = entries[m.entry];
	if (m.events.length > 0) {
		const said = m.events.slice(0, 3).map((i) => e.events[i].text).join("; ");
		return m.events.length > 3 ? said + "; and " + (m.events.length - 3) + " more" : said;
	}
	return e.problem || e.reason || "entry without events";
}


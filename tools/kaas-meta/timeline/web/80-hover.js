// The pointer: what is under it, and the box that tells.

const tip = $("tip");

function hideTip() {
	tip.hidden = true;
	at.hover = null;
}

// under is the glyph, or else the span, at a place of the plot.
function under(x, y) {
	const row = rowAt(y + scroll.scrollTop);
	if (!row || !row.lane) return null;
	let best = null;
	for (const g of glyphsOf(marksOf(row), view, plotWidth())) {
		const far = Math.abs(g.x - x);
		if (far <= 9 && (!best || far < Math.abs(best.x - x))) best = g;
	}
	const span = spansIn(row.lane).filter((s) => s.from <= timeOf(x) && timeOf(x) <= s.to).pop();
	const inBar = y + scroll.scrollTop >= barOf(row, row.top).y;
	if (best && span && inBar && Math.abs(best.x - x) > 6) best = null;
	return best || span ? { row, glyph: best, span } : null;
}

function tellOf(hit) {
	const p = (className, s) => el("p", className, s);
	if (!hit.glyph) {
		const s = hit.span;
		const open = s.to >= whole.to;
		return [p("what", hit.row.lane.name + (s.label ? ": " + s.label : "")),
			p("when", (s.entry < 0 ? "since before " : "") + whenOf(s.from) + (open ? "" : " to " + iso(s.to).slice(11, 23))),
			p("why", (s.entry >= 0 ? entries[s.entry].position + " of " + entries[s.entry].stream + ", " : "") + "for " + duration(s.to - s.from) + (open ? " and on" : ""))];
	}
	const g = hit.glyph, e = entries[g.first.entry];
	if (g.count === 1) {
		const out = [p("when", e.position + " of " + e.stream + "   " + whenOf(e.time)), p("what", sayMark(g.first)),
			p("why", "by " + writerOf(e) + (e.reason ? ": " + e.reason : ""))];
		if (e.status !== "committed" && e.status !== "") out.push(p("why", "This entry is " + e.status + "."));
		return out;
	}
	const out = [p("when", whenOf(g.first.time) + (g.last.time > g.first.time ? " to " + iso(g.last.time).slice(11, 23) : "")), p("what", plural(g.count, "event"))];
	for (let i = g.from; i < Math.min(g.to, g.from + 4); i++) out.push(p("", sayMark(g.marks[i])));
	if (g.count > 4) out.push(p("why", "and " + plural(g.count - 4, "more", "more")));
	return out;
}

function placeTip(x, y) {
	tip.hidden = false;
	const box = tip.getBoundingClientRect();
	tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
	tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(6, y - box.height - 14) : y + 18) + "px";
}

function hoverAt(clientX, clientY) {
	const box = plot.getBoundingClientRect();
	const hit = under(clientX - box.left, clientY - box.top);
	plot.classList.toggle("over", !!hit);
	if (!hit) {
		const was = at.hover;
		hideTip();
		if (was) redraw();
		return;
	}
	at.hover = hit;
	tip.replaceChildren(...tellOf(hit));
	placeTip(clientX, clientY);
	redraw();
}


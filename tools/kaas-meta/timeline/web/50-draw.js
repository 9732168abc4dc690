// Drawing. Only the rows and the times that are in view are looked at, so a frame costs what
// is on the screen, whatever the page holds.

const $ = (id) => document.getElementById(id);
const plot = $("plot"), axis = $("axis"), overview = $("overview"), scroll = $("scroll"), names = $("names");
const view = { from: most.from, to: most.to };
const at = { row: -1, mark: null, hover: null, selected: -1 }; // the keyboard's place, the pointer's glyph, the open entry
let ink = {};
let waiting = false;

function readInk() {
	const s = getComputedStyle(document.documentElement);
	const v = (n) => s.getPropertyValue(n).trim();
	ink = {
		ground: v("--ground"), band: v("--band"), line: v("--line"), rule: v("--rule"), mark: v("--ink"), soft: v("--soft"), faint: v("--faint"),
		accent: v("--accent"), trouble: v("--trouble"), exists: v("--exists"), active: v("--active"), ongoing: v("--ongoing"), ending: v("--ending"), sans: v("--sans"),
	};
	for (let i = 0; i < 8; i++) ink["--b" + i] = v("--b" + i);
}

// fitted gives a canvas the pixels of the screen, and returns its context in CSS pixels.
function fitted(canvas, w, h) {
	const ratio = window.devicePixelRatio || 1;
	const pw = Math.max(1, Math.round(w * ratio)), ph = Math.max(1, Math.round(h * ratio));
	if (canvas.width !== pw || canvas.height !== ph) {
		canvas.width = pw;
		canvas.height = ph;
	}
	const c = canvas.getContext("2d");
	c.setTransform(ratio, 0, 0, ratio, 0, 0);
	c.clearRect(0, 0, w, h);
	return c;
}

const plotWidth = () => plot.clientWidth;
const xOf = (time) => ((time - view.from) / (view.to - view.from)) * plotWidth();
const timeOf = (x) => view.from + (x / plotWidth()) * (view.to - view.from);

function redraw() {
	if (waiting) return;
	waiting = true;
	requestAnimationFrame(() => {
		waiting = false;
		drawAll();
	});
}

function drawAll() {
	const w = plotWidth(), h = scroll.clientHeight;
	plot.style.height = h + "px";
	$("rows").style.height = Math.max(total, h) + "px";
	const shown = ticks(view.from, view.to, w);
	drawAxis(shown, axis.clientWidth, axis.clientHeight);
	drawOverview(overview.clientWidth, overview.clientHeight);
	drawPlot(shown, w, h);
	drawNames(h);
	$("range").textContent = dateOf(Math.max(view.from, whole.from)) + "  ·  " + duration(view.to - view.from) + " in view";
}

function drawAxis(shown, w, h) {
	const c = fitted(axis, w, h);
	c.font = "11px " + ink.sans;
	c.textBaseline = "middle";
	c.textAlign = "left";
	for (const t of shown.out) {
		const x = Math.round(xOf(t.time)) + 0.5;
		c.strokeStyle = t.strong ? ink.soft : ink.rule;
		c.beginPath();
		c.moveTo(x, t.strong ? 4 : h - 9);
		c.lineTo(x, h);
		c.stroke();
		c.fillStyle = t.strong ? ink.mark : ink.soft;
		if (x + 4 + c.measureText(t.label).width < w - 40) c.fillText(t.label, x + 4, h / 2 - 1);
	}
	c.textAlign = "right";
	c.font = "600 10px " + ink.sans;
	c.fillStyle = ink.soft;
	c.fillText("UTC", w - 10, h / 2 - 1);
}

let density = null;

// densityOf counts the events of all entries by columns of the overview.
function densityOf(columns) {
	if (density && density.length === columns) return density;
	density = new Array(columns).fill(0);
	for (const e of entries) {
		const i = Math.floor(((e.time - most.from) / (most.to - most.from)) * columns);
		density[Math.min(columns - 1, Math.max(0, i))] += Math.max(1, e.events.length);
	}
	return density;
}

const overviewX = (time, w) => ((time - most.from) / (most.to - most.from)) * w;

function drawOverview(w, h) {
	const c = fitted(overview, w, h);
	const counts = densityOf(Math.max(1, Math.floor(w / 3)));
	const top = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 1));
	c.fillStyle = ink.faint;
	counts.forEach((n, i) => {
		if (n === 0) return;
		const bar = Math.max(2, (Math.log1p(n) / top) * (h - 8));
		c.fillRect(i * 3, h - 3 - bar, 2, bar);
	});
	const a = overviewX(view.from, w), b = Math.max(a + 3, overviewX(view.to, w));
	c.globalAlpha = 0.14;
	c.fillStyle = ink.accent;
	c.fillRect(a, 0, b - a, h);
	c.globalAlpha = 1;
	c.strokeStyle = ink.accent;
	c.lineWidth = 1.5;
	c.strokeRect(a + 0.75, 0.75, b - a - 1.5, h - 1.5);
}

function drawPlot(shown, w, h) {
	const c = fitted(plot, w, h);
	const top = scroll.scrollTop;
	c.strokeStyle = ink.line;
	c.lineWidth = 1;
	c.beginPath();
	for (const t of shown.out) {
		const x = Math.round(xOf(t.time)) + 0.5;
		c.moveTo(x, 0);
		c.lineTo(x, h);
	}
	c.stroke();
	for (let i = (rowAt(top) || { index: rows.length }).index; i < rows.length && rows[i].top < top + h; i++) drawRow(c, rows[i], rows[i].top - top, w);
	drawSelection(c, h);
}

function drawRow(c, row, y, w) {
	if (row.head !== undefined) {
		c.fillStyle = ink.band;
		c.fillRect(0, y, w, row.height);
		return;
	}
	c.strokeStyle = ink.line;
	c.lineWidth = 1;
	c.beginPath();
	c.moveTo(0, y + row.height - 0.5);
	c.lineTo(w, y + row.height - 0.5);
	c.stroke();
	const bar = barOf(row, y);
	for (const s of spansIn(row.lane)) drawSpan(c, s, bar, w);
	if (row.shut) for (const p of row.lane.parts) drawGaps(c, p, bar);
	for (const g of glyphsOf(marksOf(row), view, w)) paintGlyph(c, g, markY(row, y), ink);
}

const barOf = (row, y) => (row.part ? { y: y + 13, h: 12 } : { y: y + 17, h: 13 });
const markY = (row, y) => y + (row.part ? 7 : 9.5);

// spansIn are the spans of a lane that reach into the view.
function spansIn(lane) {
	let lo = 0, hi = lane.spans.length;
	while (lo < hi) {
		const mid = (lo + hi) >> 1;
		if (lane.spans[mid].to < view.from) lo = mid + 1;
		else hi = mid;
	}
	const out = [];
	for (; lo < lane.spans.length && lane.spans[lo].from <= view.to; lo++) out.push(lane.spans[lo]);
	return out;
}

function colourOf(s) {
	switch (s.style) {
	case "broker": return ink[brokerColour.get(s.broker)];
	case "nobody": return ink.trouble;
	case "fenced": return ink.faint;
	case "active": return ink.active;
	case "ongoing": return ink.ongoing;
	case "ending": return ink.ending;
	}
	return ink.exists;
}

function drawSpan(c, s, bar, w) {
	const from = xOf(s.from), x = Math.max(-4, from);
	const right = Math.min(w + 4, Math.max(xOf(s.to), from + 1.5));
	const colour = colourOf(s);
	const broken = s.style === "nobody" || s.style === "fenced";
	if (right - x < 3) {
		c.globalAlpha = 0.55;
		c.fillStyle = colour;
		c.fillRect(x, bar.y, Math.max(1, right - x), bar.h);
		c.globalAlpha = 1;
		return;
	}
	if (s.style === "exists" || s.style === "idle") {
		c.fillStyle = colour;
		c.globalAlpha = s.style === "exists" ? 0.35 : 0.22;
		c.fillRect(x, bar.y + bar.h / 2 - 1.5, right - x, 3);
		c.globalAlpha = 1;
		spanLabel(c, s, x, right, bar, true);
		return;
	}
	c.beginPath();
	c.roundRect(x + 0.5, bar.y + 0.5, right - x - 1, bar.h - 1, 3);
	c.globalAlpha = broken ? 0.1 : 0.22;
	c.fillStyle = colour;
	c.fill();
	c.globalAlpha = broken ? 0.9 : 0.65;
	c.strokeStyle = colour;
	c.lineWidth = 1;
	c.setLineDash(broken ? [3, 3] : []);
	c.stroke();
	c.setLineDash([]);
	c.globalAlpha = 1;
	if (!broken && from > -4) {
		c.fillStyle = colour;
		c.fillRect(x, bar.y, Math.min(3, right - x), bar.h);
	}
	spanLabel(c, s, x, right, bar, false);
}

// drawGaps shows on a folded lane when one of its parts was in nobody's hands.
function drawGaps(c, part, bar) {
	c.fillStyle = ink.trouble;
	for (const s of spansIn(part)) {
		if (s.style === "nobody") c.fillRect(xOf(s.from), bar.y + bar.h / 2 - 1.5, Math.max(1.5, xOf(s.to) - xOf(s.from)), 3);
	}
}

// spanLabel writes what fits, from where the span comes into view.
function spanLabel(c, s, x, right, bar, thin) {
	const left = Math.max(x, 0) + 7, room = right - left - 4;
	if (s.label === "" || room < 6) return;
	c.font = "10px " + ink.sans;
	let label = s.label, width = c.measureText(label).width;
	if (width > room && s.style === "broker") {
		label = String(s.broker);
		width = c.measureText(label).width;
	}
	if (width > room) return;
	if (thin) {
		c.fillStyle = ink.ground;
		c.fillRect(left - 3, bar.y, width + 6, bar.h);
	}
	c.fillStyle = thin ? ink.soft : s.style === "nobody" ? ink.trouble : ink.mark;
	c.textAlign = "left";
	c.textBaseline = "middle";
	c.fillText(label, left, bar.y + bar.h / 2 + 0.5);
}

// drawSelection draws what the pointer is on, where the keyboard is, and the open entry.
function drawSelection(c, h) {
	if (at.selected >= 0) {
		const x = Math.round(xOf(entries[at.selected].time)) + 0.5;
		c.strokeStyle = ink.accent;
		c.lineWidth = 1;
		c.beginPath();
		c.moveTo(x, 0);
		c.lineTo(x, h);
		c.stroke();
	}
	const ring = (row, x) => {
		c.strokeStyle = ink.accent;
		c.lineWidth = 2;
		c.beginPath();
		c.arc(x, markY(row, row.top - scroll.scrollTop), 8.5, 0, 7);
		c.stroke();
	};
	if (at.hover && at.hover.glyph) ring(at.hover.row, at.hover.glyph.x);
	if (at.mark && rows[at.row] && document.activeElement === plot) ring(rows[at.row], xOf(at.mark.time));
}

// drawNames makes the labels of the rows in view.
function drawNames(h) {
	const top = scroll.scrollTop;
	const made = [];
	for (let i = (rowAt(top) || { index: rows.length }).index; i < rows.length && rows[i].top < top + h; i++) made.push(nameOf(rows[i]));
	const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : "";
	names.replaceChildren(...made);
	if (focused) made.find((n) => n.dataset.key === focused)?.focus({ preventScroll: true });
}

function el(tag, className, ...children) {
	const e = document.createElement(tag);
	if (className) e.className = className;
	e.append(...children);
	return e;
}

// lit underlines what the search has found in a name.
function lit(name) {
	const e = el("span", "name");
	const i = query === "" ? -1 : name.toLowerCase().indexOf(query);
	if (i < 0 || name.toLowerCase().length !== name.length) e.append(name);
	else e.append(name.slice(0, i), el("b", "", name.slice(i, i + query.length)), name.slice(i + query.length));
	return e;
}

function nameOf(row) {
	const e = el(row.key ? "button" : "div", "row");
	e.style.top = row.top + "px";
	e.style.height = row.height + "px";
	if (row.key) {
		e.type = "button";
		e.dataset.key = row.key;
		e.setAttribute("aria-expanded", String(!row.shut));
		const turn = el("span", "turn", row.shut ? "▶" : "▼");
		turn.setAttribute("aria-hidden", "true");
		e.append(turn);
		e.addEventListener("click", () => fold(row.key));
	}
	if (row.head !== undefined) {
		e.classList.add("head");
		e.append(el("span", "name", row.head), el("span", "count", row.count.toLocaleString("en")));
		return e;
	}
	e.classList.toggle("part", !!row.part);
	e.classList.toggle("current", row.index === at.row);
	const n = marksOf(row).length;
	e.append(lit(row.lane.name));
	if (n > 0) e.append(el("span", "count", n.toLocaleString("en")));
	e.title = row.lane.name;
	e.setAttribute("aria-label", row.lane.name + ", " + plural(n, "event"));
	return e;
}

function fold(key) {
	if (!folded.delete(key)) folded.add(key);
	at.row = -1;
	layOut();
	redraw();
}


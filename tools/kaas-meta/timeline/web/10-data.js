// The data, unpacked: see encode.go for how it is packed.

const raw = JSON.parse(document.getElementById("data").textContent);
const text = (i) => raw.strings[i];

const entries = (raw.entries || []).map((r, index) => {
	const events = [], changes = [];
	const evs = r[11] || [];
	for (let i = 0; i < evs.length; i += 2) events.push({ type: text(evs[i]), text: text(evs[i + 1]) });
	for (const c of r[12] || []) {
		const fields = [];
		for (let i = 1; i < c.length; i += 3) fields.push({ name: text(c[i]), before: text(c[i + 1]), after: text(c[i + 2]) });
		changes.push({ object: text(c[0]), fields });
	}
	return {
		index, stream: text(r[0]), position: text(r[1]), previous: text(r[2]), time: r[3], node: r[4], session: text(r[5]),
		reason: text(r[6]), status: text(r[7]), closed: r[8] === 1, problem: text(r[9]), untold: r[10], events, changes,
	};
});

const lanes = (raw.lanes || []).map((l, index) => {
	const spans = [], marks = [];
	for (let i = 0; i < l.spans.length; i += 6) {
		const [from, to, style, broker, label, entry] = l.spans.slice(i, i + 6);
		spans.push({ from, to, style: text(style), broker, label: text(label), entry });
	}
	for (const m of l.marks) marks.push({ entry: m[0], time: entries[m[0]].time, kind: text(m[1]), events: m.slice(2) });
	marks.sort((a, b) => a.time - b.time || a.entry - b.entry);
	return { index, section: l.s, name: text(l.n), parent: l.p, parts: [], spans, marks, shown: marks, joined: null };
});
for (const l of lanes) if (l.parent >= 0) lanes[l.parent].parts.push(l);

// All that there is, with room at both sides. An open end of a span is at whole.to.
const whole = { from: 0, to: raw.to - raw.from };
const margin = Math.max((whole.to - whole.from) * 0.02, 500);
const most = { from: whole.from - margin, to: whole.to + margin };
const leastWidth = 20; // milliseconds across the plot

const kinds = [
	{ kind: "leader", name: "leader" },
	{ kind: "change", name: "change" },
	{ kind: "members", name: "members" },
	{ kind: "commit", name: "commit" },
	{ kind: "txn", name: "transaction" },
	{ kind: "segment", name: "segment" },
	{ kind: "stream", name: "stream" },
	{ kind: "trouble", name: "disowned, unreadable" },
];
const hiddenKinds = new Set();

// Brokers have colours in the order of their IDs.
const brokerColour = new Map();
for (const id of [...new Set(lanes.flatMap((l) => l.spans.filter((s) => s.style === "broker").map((s) => s.broker)))].sort((a, b) => a - b)) {
	brokerColour.set(id, "--b" + (brokerColour.size % 8));
}

// showKinds leaves out the marks of hidden kinds.
function showKinds() {
	for (const l of lanes) {
		l.shown = hiddenKinds.size ? l.marks.filter((m) => !hiddenKinds.has(m.kind)) : l.marks;
		l.joined = null;
	}
}

// lowerBound is the first mark at or after a time.
function lowerBound(marks, time) {
	let lo = 0, hi = marks.length;
	while (lo < hi) {
		const mid = (lo + hi) >> 1;
		if (marks[mid].time < time) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}


// Rows are what the stage shows from top to bottom: headings, and the lanes below them that
// are not folded away and that the search finds.

const headHeight = 26, laneHeight = 34, partHeight = 28;
const fewLanes = 60; // parts are shown from the start if there are no more lanes than that
const fewParts = 12; // and no more in one lane
const folded = new Set(); // "s0" a section, "l12" the parts of lane 12
let rows = [];
let total = 0;
let query = "";
let position = false; // the query is one

const shardSection = raw.sections.length - 1;
const many = lanes.filter((l) => l.section !== shardSection).length > fewLanes;
for (const l of lanes) if (l.parts.length > 0 && (many || l.parts.length > fewParts)) folded.add("l" + l.index);
folded.add("s" + shardSection);

// matches reports a lane that the search finds: by its name, or by a position in it.
function matches(l) {
	return query === "" || l.name.toLowerCase().includes(query) || (position && l.marks.some((m) => entries[m.entry].position === query));
}

// layOut makes the rows anew. While something is searched, all that is found is shown.
function layOut() {
	rows = [];
	total = 0;
	let found = 0;
	raw.sections.forEach((name, section) => {
		const mine = lanes.filter((l) => l.section === section && l.parent < 0);
		const hits = mine.filter((l) => matches(l) || l.parts.some(matches));
		if (hits.length === 0) return;
		const key = "s" + section;
		const shut = query === "" && folded.has(key);
		push({ head: name, key, shut, count: mine.length }, headHeight);
		if (shut) return;
		for (const l of hits) {
			const parts = l.parts.filter((p) => query === "" || matches(p) || matches(l));
			const partKey = "l" + l.index;
			const partsShut = folded.has(partKey) && (query === "" || matches(l));
			push({ lane: l, key: parts.length ? partKey : "", shut: partsShut }, laneHeight);
			found += matches(l) ? 1 : 0;
			if (!partsShut) for (const p of parts) push({ lane: p, part: true, key: "" }, partHeight);
			found += query === "" ? 0 : parts.filter(matches).length;
		}
	});
	return found;
}

function push(row, height) {
	row.top = total;
	row.height = height;
	row.index = rows.length;
	rows.push(row);
	total += height;
}

// rowAt is the row at a height from the top of all, or undefined.
function rowAt(y) {
	let lo = 0, hi = rows.length;
	while (lo < hi) {
		const mid = (lo + hi) >> 1;
		if (rows[mid].top + rows[mid].height <= y) lo = mid + 1;
		else hi = mid;
	}
	return y >= 0 ? rows[lo] : undefined;
}

// marksOf are what a row shows: a lane whose parts are folded away shows theirs too.
function marksOf(row) {
	const l = row.lane;
	if (!row.shut || l.parts.length === 0) return l.shown;
	if (!l.joined) l.joined = l.parts.reduce((all, p) => all.concat(p.shown), l.shown.slice()).sort((a, b) => a.time - b.time || a.entry - b.entry);
	return l.joined;
}


// Moving: what is in view, and how it changes.

function setView(from, to) {
	let width = Math.min(Math.max(to - from, leastWidth), most.to - most.from);
	const middle = (from + to) / 2;
	from = middle - width / 2;
	from = Math.min(Math.max(from, most.from), most.to - width);
	view.from = from;
	view.to = from + width;
	hideTip();
	redraw();
}

// zoom makes the view narrower by a factor, with the time at x staying where it is.
function zoom(factor, x) {
	const w = plotWidth();
	if (x === undefined) x = at.mark && at.mark.time >= view.from && at.mark.time <= view.to ? xOf(at.mark.time) : w / 2;
	const time = timeOf(x);
	const width = Math.min(Math.max((view.to - view.from) / factor, leastWidth), most.to - most.from);
	setView(time - (x / w) * width, time - (x / w) * width + width);
}

const pan = (pixels) => setView(view.from + (pixels / plotWidth()) * (view.to - view.from), view.to + (pixels / plotWidth()) * (view.to - view.from));
const fit = () => setView(most.from, most.to);

// reveal brings a time, and a row if there is one, into view.
function reveal(time, row) {
	const width = view.to - view.from;
	if (time < view.from + width * 0.04 || time > view.to - width * 0.04) setView(time - width / 2, time + width / 2);
	if (!row) return;
	if (row.top < scroll.scrollTop) scroll.scrollTop = row.top;
	if (row.top + row.height > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = row.top + row.height - scroll.clientHeight;
}


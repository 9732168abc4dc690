// Glyphs are what is drawn for marks: one for each where there is room, one for several where
// they would lie upon each other. They are gathered by a grid in time, not on the screen, so
// that moving the view does not make them jump; two that touch across a line of the grid are
// made one.

const cell = 15; // pixels at least for a glyph
const edge = 12; // pixels that a glyph reaches beyond its time

function glyphsOf(marks, view, width) {
	const perPixel = (view.to - view.from) / width;
	const grid = 2 ** Math.ceil(Math.log2(perPixel * cell));
	const out = [];
	let i = lowerBound(marks, view.from - grid - edge * perPixel);
	const last = lowerBound(marks, view.to + grid + edge * perPixel);
	let slot, joined = false;
	for (; i < last; i++) {
		const m = marks[i], mine = Math.floor(m.time / grid);
		const g = out[out.length - 1];
		if (g && mine === slot) {
			add(g, m);
			continue;
		}
		const near = g && !joined && mine === slot + 1 && (m.time - g.last.time) / perPixel < cell * 0.8;
		slot = mine;
		joined = near;
		if (near) add(g, m);
		else out.push({ from: i, to: i + 1, count: 1, kind: m.kind, trouble: m.kind === "trouble", marks, first: m, last: m, sum: m.time });
	}
	for (const g of out) g.x = (g.sum / g.count - view.from) / perPixel;
	return out;
}

function add(g, m) {
	g.to++;
	g.count++;
	g.sum += m.time;
	g.last = m;
	g.trouble = g.trouble || m.kind === "trouble";
	if (m.kind !== g.kind) g.kind = "";
}

// paintShape draws one mark around a point.
function paintShape(c, kind, x, y, ink, ground) {
	c.beginPath();
	c.lineWidth = 1.5;
	c.strokeStyle = ground;
	c.fillStyle = ink.mark;
	switch (kind) {
	case "leader":
		c.moveTo(x, y - 5); c.lineTo(x + 5, y); c.lineTo(x, y + 5); c.lineTo(x - 5, y); c.closePath();
		break;
	case "members":
		c.moveTo(x, y - 4.5); c.lineTo(x + 5, y + 4); c.lineTo(x - 5, y + 4); c.closePath();
		break;
	case "commit":
		c.rect(x - 1, y - 4.5, 2, 9);
		c.fillStyle = ink.soft;
		break;
	case "txn":
		c.rect(x - 3.5, y - 3.5, 7, 7);
		break;
	case "segment":
		c.rect(x - 4.5, y - 2, 9, 4);
		c.fillStyle = ink.soft;
		break;
	case "stream":
		c.arc(x, y, 3, 0, 7);
		c.fillStyle = ground;
		c.fill();
		c.strokeStyle = ink.soft;
		c.stroke();
		return;
	case "trouble":
		c.strokeStyle = ink.trouble;
		c.lineWidth = 2.2;
		c.moveTo(x - 4, y - 4); c.lineTo(x + 4, y + 4); c.moveTo(x + 4, y - 4); c.lineTo(x - 4, y + 4);
		c.stroke();
		return;
	default:
		c.arc(x, y, 4, 0, 7);
	}
	c.stroke();
	c.fill();
}

// paintGlyph draws a glyph with its middle at y. Of several marks it shows how many.
function paintGlyph(c, g, y, ink) {
	if (g.count === 1) {
		paintShape(c, g.kind, g.x, y, ink, ink.ground);
		return;
	}
	const label = g.count < 1000 ? String(g.count) : Math.round(g.count / 1000) + "k";
	const w = Math.max(13, 5.6 * label.length + 4);
	c.beginPath();
	c.roundRect(g.x - w / 2, y - 5.5, w, 11, 3.5);
	c.fillStyle = ink.ground;
	c.fill();
	c.globalAlpha = Math.min(0.42, 0.16 + Math.log10(g.count) * 0.1);
	c.fillStyle = g.trouble ? ink.trouble : ink.soft;
	c.fill();
	c.globalAlpha = 1;
	c.fillStyle = ink.mark;
	c.font = "600 8.5px " + ink.sans;
	c.textAlign = "center";
	c.textBaseline = "middle";
	c.fillText(label, g.x, y + 0.5);
}


// Times are milliseconds after raw.from; people read them in UTC.

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
const steps = [
	1, 2, 5, 10, 20, 50, 100, 200, 500,
	second, 2 * second, 5 * second, 10 * second, 15 * second, 30 * second,
	minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
	hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day,
];

function iso(time) {
	const d = new Date(Math.round(raw.from + time));
	return isNaN(d) ? "" : d.toISOString();
}
const dateOf = (time) => iso(time).slice(0, 10);
const whenOf = (time) => iso(time).slice(0, 10) + " " + iso(time).slice(11, 23) + " UTC";

// clockOf shows as much of the clock as a step needs.
function clockOf(time, step) {
	const s = iso(time);
	if (step >= day) return s.slice(0, 10);
	if (step >= minute) return s.slice(11, 16);
	if (step >= second) return s.slice(11, 19);
	return s.slice(11, 23);
}

// ticks are at round times, at least so many pixels apart. One that begins a day says so.
function ticks(from, to, width) {
	const least = ((to - from) / width) * (to - from < 20 * second ? 110 : 86);
	const step = steps.find((s) => s >= least) || steps[steps.length - 1];
	const out = [];
	for (let t = Math.ceil((raw.from + from) / step) * step - raw.from; t <= to; t += step) {
		const midnight = (raw.from + t) % day === 0;
		out.push({ time: t, label: midnight || step >= day ? dateOf(t) : clockOf(t, step), strong: midnight });
	}
	return { step, out };
}

function duration(ms) {
	const parts = [];
	for (const [unit, name] of [[day, "d"], [hour, "h"], [minute, "min"], [second, "s"]]) {
		if (ms >= unit && parts.length < 2) {
			parts.push(Math.floor(ms / unit) + " " + name);
			ms %= unit;
		}
	}
	return parts.join(" ") || Math.round(ms) + " ms";
}

const plural = (n, one, many) => n.toLocaleString("en") + " " + (n === 1 ? one : many || one + "s");


// The data of the page, decoded once, and the words for figures and times. All text goes into the page as text, never as HTML.
'use strict';
const DATA = JSON.parse(document.getElementById('data').textContent);

// The mark and words of each killer, and whether its colour is softer.
const KILLERS = DATA.killers;
// The mark of several deaths with different killers.
const MIXED = '•';

function size(kib) {
  return kib < 104858 ? `${Math.round(kib / 1024)} MiB` : `${(kib / 1048576).toFixed(1)} GiB`;
}

// A moment, given in ms since the recording began, as a time of day.
function clock(ms, exact) {
  const text = new Date(DATA.began + ms + DATA.offset_s * 1000).toISOString();
  return (DATA.dated ? text.slice(0, 10) + ' ' : '') + text.slice(11, exact ? 23 : 19) + DATA.zone;
}

function length(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120e3) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 7200e3 ? `${(ms / 60e3).toFixed(1)} min` : `${(ms / 3600e3).toFixed(1)} h`;
}

// An element with properties and children; strings become text.
function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name.includes('-') || name === 'role' || name === 'scope') made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

// Flat `[ms since the last, KiB, …]` as two arrays.
function decode(flat, width = 2) {
  const count = flat.length / width;
  const t = new Float64Array(count);
  const columns = Array.from({ length: width - 1 }, () => new Float64Array(count));
  let now = 0;
  for (let at = 0; at < count; at++) {
    now += flat[at * width];
    t[at] = now;
    for (let column = 1; column < width; column++) columns[column - 1][at] = flat[at * width + column];
  }
  return { t, columns };
}

const FULL = { from: 0, to: Math.max(DATA.length, 1) };
const DEATHS = new Map(DATA.deaths.map(death => [death.id, death]));
// One lane for each node; a page of one recording has one.
const LANES = DATA.lanes.map((lane, number) => {
  const { t, columns } = series(lane.node, 3);
  return {
    ...lane, number, node: { t, used: columns[0], store: columns[1] },
    cgroups: lane.cgroups.map(({ label, points }) => { const { t, columns } = series(points); return { label, t, v: columns[0] }; }),
    processes: lane.processes.map(process => decoded(process, lane, number)),
  };
});
const PROCESSES = LANES.flatMap(lane => lane.processes);
const FLEET = LANES.length > 1;

// A series with its figures in KiB.
function series(flat, width) {
  const { t, columns } = decode(flat, width);
  if (DATA.unit_kib !== 1) for (const column of columns) for (let at = 0; at < column.length; at++) column[at] *= DATA.unit_kib;
  return { t, columns };
}

function decoded(process, lane, number) {
  const { t, columns } = series(process.points);
  const start = process.start ?? (t.length ? t[0] : 0);
  // Who outlived a recording is not known to have lived after it.
  const last = t.length ? t[t.length - 1] : start;
  const seen = lane.spans.find(([, until]) => until >= last);
  const end = process.end ?? (seen ? seen[1] : FULL.to);
  return { ...process, lane: number, t, v: columns[0], start, end, lives: process.end === null, peak: columns[0].reduce((a, b) => Math.max(a, b), 0) };
}

// The first index whose time is after `moment`.
function after(times, moment) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= moment) low = middle + 1; else high = middle;
  }
  return low;
}

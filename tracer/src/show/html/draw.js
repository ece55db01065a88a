// What is drawn: private memory stacked by class, read at one moment for each column of pixels.

// The classes that held most have a colour of their own, if they matter; the last layer holds all others, in one grey.
const SHOWN = 9;
const MATTERS = 0.03;
// A class has the same colour on every page, unless a larger class has that colour there.
function colours(names) {
  const taken = new Set();
  return names.map(name => {
    let at = [...name].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 9973, 7) % SHOWN;
    while (taken.has(at) && taken.size < SHOWN) at = (at + 1) % SHOWN;
    taken.add(at);
    return `--c${at}`;
  });
}

const LAYERS = (() => {
  const peaks = new Map();
  for (const process of PROCESSES) if (!process.outside) peaks.set(process.group, (peaks.get(process.group) || 0) + process.peak);
  const ranked = [...peaks].filter(([, peak]) => peak > 0).sort((one, other) => other[1] - one[1]);
  const highest = LANES.reduce((top, lane) => lane.node.used.reduce((a, b) => Math.max(a, b), top), 0) || (ranked[0]?.[1] ?? 0);
  const own = ranked.filter(([, peak], rank) => rank === 0 || peak >= MATTERS * highest).slice(0, SHOWN);
  const names = own.map(([group]) => DATA.groups[group]), paints = colours(names);
  const left = ranked.length - own.length;
  if (left) { names.push(left === 1 ? DATA.groups[ranked[own.length][0]] : `${left} smaller classes`); paints.push('--c9'); }
  const of = new Map(ranked.map(([group], rank) => [group, Math.min(rank, names.length - 1)]));
  return { names, paints, of, least: MATTERS * highest };
})();

// In each column the moment of the machine's highest use, so that a short peak is seen at any zoom; else its middle.
function moments({ node }, from, to, count) {
  const found = new Float64Array(count);
  const width = (to - from) / count;
  let at = after(node.t, from);
  for (let column = 0; column < count; column++) {
    const end = from + (column + 1) * width;
    found[column] = end - width / 2;
    let highest = -1;
    for (; at < node.t.length && node.t[at] <= end; at++) {
      if (node.used[at] > highest) { highest = node.used[at]; found[column] = node.t[at]; }
    }
  }
  return found;
}

// Whether a recording of the lane's node reaches over that moment: else nothing is known, and nothing is drawn.
function isSeen(lane, moment) {
  return lane.spans.some(([from, until]) => moment >= from && moment <= until);
}

function readNode(lane, found) {
  const { node } = lane;
  const used = new Float64Array(found.length), store = new Float64Array(found.length);
  let at = after(node.t, found[0]) - 1;
  for (let column = 0; column < found.length; column++) {
    while (at + 1 < node.t.length && node.t[at + 1] <= found[column]) at++;
    // Before the first sample the first one is the nearest that is known.
    const known = Math.max(at, 0);
    if (node.t.length && isSeen(lane, found[column])) { used[column] = node.used[known]; store[column] = node.store[known]; }
  }
  return { used, store };
}

// A cgroup's use at each moment; NaN before its first sample.
function readCgroup(lane, { t, v }, found) {
  const use = new Float64Array(found.length).fill(NaN);
  let at = after(t, found[0]) - 1;
  for (let column = 0; column < found.length; column++) {
    while (at + 1 < t.length && t[at + 1] <= found[column]) at++;
    if (at >= 0 && isSeen(lane, found[column])) use[column] = v[at];
  }
  return use;
}

function stack(lane, from, to, count) {
  const found = moments(lane, from, to, count);
  const layers = LAYERS.names.map(() => new Float64Array(count));
  for (const process of lane.processes) {
    if (process.outside || !process.t.length || process.end <= from || process.start > to) continue;
    const layer = layers[LAYERS.of.get(process.group)];
    if (!layer) continue;
    let column = after(found, Math.max(process.t[0], process.start) - 1e-6);
    let at = after(process.t, found[column] ?? to) - 1;
    for (; column < count && found[column] < process.end; column++) {
      while (at + 1 < process.t.length && process.t[at + 1] <= found[column]) at++;
      if (at >= 0) layer[column] += process.v[at];
    }
  }
  const sum = new Float64Array(count);
  for (const layer of layers) for (let column = 0; column < count; column++) sum[column] += layer[column];
  const { used, store } = readNode(lane, found);
  capped(layers, sum, used, store);
  return { lane, from, to, count, found, layers, sum, used, store, cgroups: lane.cgroups.map(one => readCgroup(lane, one, found)) };
}

// Children made by fork may each count what they share with their parent, and samples differ by moments: together no
// more is drawn than was in use.
const OVER = 1.05;
let isScaled = false;
function capped(layers, sum, used, store) {
  for (let column = 0; column < sum.length; column++) {
    const room = used[column] - store[column];
    if (!(used[column] > 0) || sum[column] <= room) continue;
    isScaled ||= sum[column] > OVER * room;
    const share = Math.max(room, 0) / sum[column];
    for (const layer of layers) layer[column] *= share;
    sum[column] = Math.max(room, 0);
  }
}

// The highest figure that is drawn; limits count where they are not far above all else.
function ceiling(stacked, onlyRay) {
  let top = 0;
  for (let column = 0; column < stacked.count; column++) {
    const ray = stacked.sum[column] + stacked.store[column];
    top = Math.max(top, onlyRay ? ray : Math.max(ray, stacked.used[column]));
  }
  for (const use of stacked.cgroups) for (const kib of use) if (kib > top) top = kib;
  for (const limit of stacked.lane.limits) if (limit.kib < 1.6 * top) top = Math.max(top, limit.kib);
  return Math.max(top * 1.06, 1024);
}

// Names of nodes stand left of their lanes.
const LEFT = !FLEET ? 62 : matchMedia('(max-width: 640px)').matches ? 96 : 160;
// What stands above and below the memory: marks, and the axis of time; `thin` has neither, nor figures.
const ALONE = { top: 46, bottom: 24, axis: true };
const LANE = { top: 46, bottom: 5 };
const THIN = { top: 3, bottom: 3, thin: true };

function prepare(canvas, width = canvas.clientWidth, height = canvas.clientHeight) {
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.round(width * ratio), high = Math.round(height * ratio);
  const brush = canvas.getContext('2d');
  if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
  brush.setTransform(ratio, 0, 0, ratio, 0, 0);
  brush.clearRect(0, 0, width, height);
  brush.font = '12px system-ui, sans-serif';
  return { brush, width, height };
}

// A step of 1, 2 or 5 that makes about `wanted` lines.
function roundStep(range, wanted) {
  const power = 10 ** Math.floor(Math.log10(range / wanted));
  const step = [1, 2, 5, 10].find(factor => range / (factor * power) <= wanted);
  return step * power;
}

const TIME_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3,
  10800e3, 21600e3, 43200e3, 86400e3];

// Draws `stacked` with its axes and limits into `canvas`; of a size that is known nothing needs to be laid out.
function draw(canvas, stacked, onlyRay, frame = ALONE, size = []) {
  const { brush, width, height } = prepare(canvas, ...size);
  const style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue(name).trim();
  const top = ceiling(stacked, onlyRay);
  const inner = { top: frame.top, width: width - LEFT, height: height - frame.top - frame.bottom };
  const y = kib => frame.top + inner.height * (1 - kib / top);
  const x = column => LEFT + column * inner.width / stacked.count;
  if (FLEET) {
    brush.fillStyle = colour('--panel');
    for (const span of stacked.lane.spans) {
      const [left, right] = span.map(moment => LEFT + (Math.min(Math.max(moment, stacked.from), stacked.to) - stacked.from) / (stacked.to - stacked.from) * inner.width);
      brush.fillRect(left, frame.top, right - left, inner.height);
    }
  }
  const base = new Float64Array(stacked.count);
  // A line along the columns; those of one level are one step.
  const steps = (level_of, first, end, by) => {
    let level = level_of(first);
    brush.lineTo(x(by > 0 ? first : first + 1), level);
    for (let column = first + by; column !== end; column += by) {
      const next = level_of(column);
      if (Math.abs(next - level) < 0.1) continue;
      const edge = x(by > 0 ? column : column + 1);
      brush.lineTo(edge, level);
      brush.lineTo(edge, next);
      level = next;
    }
    brush.lineTo(x(by > 0 ? end : 0), level);
  };
  const band = (height_of, paint) => {
    brush.beginPath();
    brush.moveTo(x(0), y(base[0]));
    steps(column => y(base[column] + height_of(column)), 0, stacked.count, 1);
    steps(column => y(base[column]), stacked.count - 1, -1, -1);
    brush.fillStyle = paint;
    brush.fill();
    for (let column = 0; column < stacked.count; column++) base[column] += height_of(column);
  };
  // What is lower than a quarter of a pixel throughout is not seen.
  const isHigh = layer => layer.some(kib => kib > top / inner.height / 4);
  stacked.layers.forEach((layer, index) => { if (isHigh(layer)) band(column => layer[column], colour(LAYERS.paints[index])); });
  if (isHigh(stacked.store)) band(column => stacked.store[column], colour('--store'));
  if (!onlyRay) band(column => Math.max(stacked.used[column] - base[column], 0), colour('--rest'));
  if (frame.thin) return;
  stacked.cgroups.forEach((use, index) => {
    line(brush, use, x, y, colour('--limit'));
    named(brush, stacked.lane.cgroups[index].label, use, x, y, colour('--limit'));
  });
  calls(brush, stacked, frame, inner, colour);
  kills(brush, stacked, height - frame.bottom, inner, colour);
  const place = { top, y, inner, width, bottom: height - frame.bottom, colour };
  levels(brush, place);
  if (frame.axis) times(brush, stacked, place);
  limits(brush, stacked.lane, place);
}

function line(brush, figures, x, y, paint) {
  brush.beginPath();
  figures.forEach((kib, column) => {
    if (Number.isNaN(kib)) return;
    brush.lineTo(x(column), y(kib));
    brush.lineTo(x(column + 1), y(kib));
  });
  brush.strokeStyle = paint;
  brush.lineWidth = 1.5;
  brush.stroke();
}

// The name of a line, where it is highest; it has none where names of limits stand. The legend has
// it too.
function named(brush, label, figures, x, y, paint) {
  let highest = -1;
  figures.forEach((kib, column) => { if (!(kib <= figures[highest])) highest = Number.isNaN(kib) ? highest : column; });
  if (highest < 0) return;
  const wide = brush.measureText(label).width, at = x(highest);
  if (at - LEFT < 2 * wide + 18) return;
  brush.textAlign = 'right';
  brush.textBaseline = 'middle';
  written(brush, label, at - 6, y(figures[highest]) - 8, paint);
}

// Text that can be read on any colour.
function written(brush, label, x, y, paint) {
  brush.lineWidth = 3;
  brush.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--back');
  brush.strokeText(label, x, y);
  brush.fillStyle = paint;
  brush.fillText(label, x, y);
}

// The calls of the process that held most, as a band above its memory.
function calls(brush, { lane, from, to }, frame, inner, colour) {
  if (!lane.calls?.length) return;
  const top = frame.top - 17, high = 14;
  brush.textBaseline = 'middle';
  brush.textAlign = 'left';
  for (const [began, ended, name] of lane.calls) {
    if (ended < from || began > to) continue;
    const [left, right] = [began, ended].map(moment => LEFT + (Math.min(Math.max(moment, from), to) - from) / (to - from) * inner.width);
    brush.fillStyle = colour('--panel');
    brush.strokeStyle = colour('--line');
    brush.lineWidth = 1;
    brush.fillRect(left, top, right - left, high);
    brush.strokeRect(Math.round(left) + 0.5, top + 0.5, Math.max(Math.round(right - left) - 1, 0), high - 1);
    brush.fillStyle = colour('--text');
    // The first words of a method are often those of its class.
    let label = name;
    while (label && brush.measureText(label).width > right - left - 8) label = label.split('_').length > 2 ? label.slice(label.indexOf('_') + 1) : '';
    brush.fillText(label, left + 4, top + high / 2 + 1);
  }
}

// A line at each kill, below its mark.
function kills(brush, { lane, from, to }, bottom, inner, colour) {
  for (const death of lane.deaths || []) {
    if (death.t < from || death.t > to || KILLERS[death.killer].soft) continue;
    const at = Math.round(LEFT + (death.t - from) / (to - from) * inner.width) + 0.5;
    brush.strokeStyle = colour('--kill');
    brush.lineWidth = 1.5;
    brush.beginPath();
    brush.moveTo(at, 24);
    brush.lineTo(at, bottom);
    brush.stroke();
  }
}

// Figures at the left.
function levels(brush, { top, y, inner, colour }) {
  brush.fillStyle = colour('--soft');
  brush.strokeStyle = colour('--line');
  brush.lineWidth = 1;
  brush.textBaseline = 'middle';
  brush.textAlign = 'right';
  const unit = top > 104858 ? [1048576, 'GiB'] : [1024, 'MiB'];
  const step = roundStep(top / unit[0], Math.max(2, inner.height / 55)) * unit[0];
  for (let level = 0; level <= top; level += step) {
    brush.globalAlpha = 0.6;
    brush.strokeRect(LEFT, Math.round(y(level)) + 0.5, inner.width, 0);
    brush.globalAlpha = 1;
    brush.fillText(`${+(level / unit[0]).toFixed(2)} ${unit[1]}`, LEFT - 7, y(level));
  }
}

// The axis of time; its line is at `bottom`.
function times(brush, { from, to }, { inner, width, bottom, colour }) {
  brush.fillStyle = colour('--soft');
  brush.strokeStyle = colour('--line');
  brush.lineWidth = 1;
  brush.textBaseline = 'middle';
  const range = to - from;
  const every = TIME_STEPS.find(one => range / one <= Math.max(2, inner.width / 110)) || 86400e3;
  brush.textAlign = 'center';
  const shift = (DATA.began + DATA.offset_s * 1000) % 86400e3;
  for (let moment = Math.ceil((from + shift) / every) * every - shift; moment <= to; moment += every) {
    const at = LEFT + (moment - from) / range * inner.width;
    const text = new Date(DATA.began + moment + DATA.offset_s * 1000).toISOString();
    const label = every < 1000 ? text.slice(17, 23) + ' s' : text.slice(11, every < 60e3 ? 19 : 16);
    brush.strokeRect(Math.round(at) + 0.5, bottom, 0, 4);
    if (at > LEFT + 24 && at < width - 24) brush.fillText(label, at, bottom + 14);
  }
}

function limits(brush, lane, { top, y, inner, width, colour }) {
  brush.textBaseline = 'middle';
  brush.textAlign = 'left';
  const labelled = [];
  for (const limit of lane.limits) {
    if (limit.kib > top || limit.kib < top / 12) continue;
    brush.strokeStyle = brush.fillStyle = colour(limit.ray ? '--ray' : '--limit');
    brush.setLineDash([6, 4]);
    brush.lineWidth = 1.5;
    brush.beginPath();
    brush.moveTo(LEFT, y(limit.kib));
    brush.lineTo(width, y(limit.kib));
    brush.stroke();
    brush.setLineDash([]);
    // Above the memory there are marks.
    const above = y(limit.kib) - 8;
    const place = above > inner.top ? above : y(limit.kib) + 9;
    // Labels of nearly one height would cover each other: the legend has all.
    if (labelled.some(at => Math.abs(at - place) < 13)) continue;
    labelled.push(place);
    brush.fillText(limit.label, LEFT + 6, place);
  }
}

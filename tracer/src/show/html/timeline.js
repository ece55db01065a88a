// The timeline: zoom, pan, hover, and the keys.

const chart = {
  view: { ...FULL }, width: 0, onlyRay: false, waiting: false,
  box: document.getElementById('chart'),
  content: document.getElementById('lanes'),
  axis: document.getElementById('axis'),
  lines: document.querySelector('#arrows .line'),
  heads: document.querySelector('#arrows .head'),
  hidden: document.getElementById('arrows-hidden'),
  cursor: document.getElementById('cursor'),
  drag: document.getElementById('drag'),
  tip: document.getElementById('tip'),
};

// Shows `from` to `to`, kept within the recording.
function look(from, to) {
  const whole = FULL.to - FULL.from;
  const range = Math.min(Math.max(to - from, Math.min(20, whole)), whole);
  const start = Math.min(Math.max(from, FULL.from), FULL.to - range);
  chart.view = { from: start, to: start + range };
  // What the tip says is of another moment now.
  chart.tip.hidden = chart.cursor.hidden = true;
  if (chart.waiting) return;
  chart.waiting = true;
  requestAnimationFrame(() => { chart.waiting = false; render(); });
}

function zoom(factor, around = (chart.view.from + chart.view.to) / 2) {
  const { from, to } = chart.view;
  look(around - (around - from) * factor, around + (to - around) * factor);
}

function pan(share) {
  const range = chart.view.to - chart.view.from;
  look(chart.view.from + share * range, chart.view.to + share * range);
}

function render() {
  const { from, to } = chart.view;
  // Read once: after a change of the page it would be laid out again for each reading.
  chart.width = chart.content.clientWidth;
  const above = chart.box.scrollTop, below = above + chart.box.clientHeight;
  const seen = LANES.filter(lane => chart.prints || (lane.top < below && lane.top + lane.height > above));
  // Two or three pixels a column: half the work, and no peak is lost.
  const count = Math.max(Math.round((chart.width - LEFT) / (FLEET ? 3 : 2)), 50);
  for (const lane of LANES) groupMarks(lane);
  for (const lane of seen.filter(lane => lane.hasMemory)) {
    lane.stacked = stack(lane, from, to, count);
    draw(lane.canvas, lane.stacked, chart.onlyRay, lane.frame, [chart.width, lane.height]);
  }
  placeAxis();
  // From here on the page is changed, and nothing is read of it.
  placeArrows(above, below);
  seen.forEach(placeMarks);
  placeBars();
  document.getElementById('span').textContent = `${clock(from)} to ${clock(to)} (${length(to - from)})`;
}

const toX = moment => LEFT + (moment - chart.view.from) / (chart.view.to - chart.view.from) * (chart.width - LEFT);
const toMoment = x => chart.view.from + (x - LEFT) / (chart.width - LEFT) * (chart.view.to - chart.view.from);

// The bars of the table of processes follow the view, but only while they are seen.
const bars = { seen: false, section: document.getElementById('processes') };
function placeBars() {
  if (bars.seen) for (const bar of bars.section.querySelectorAll('.life i')) placeBar(bar);
}

function placeBar(bar) {
  const { from, to } = chart.view, { start, end } = bar.process;
  const share = moment => Math.min(Math.max((moment - from) / (to - from), -0.01), 1.01) * 100;
  bar.style.left = `${share(start)}%`;
  bar.style.width = `${share(end) - share(start)}%`;
}

function hover(x, y) {
  const lane = laneAt(y), stacked = lane?.stacked;
  const column = stacked ? Math.floor((x - LEFT) / (chart.width - LEFT) * stacked.count) : -1;
  const inside = column >= 0 && column < stacked.count;
  chart.cursor.hidden = chart.tip.hidden = !inside;
  if (!inside) return;
  chart.cursor.style.left = `${x}px`;
  const { found, layers, used, store, sum, cgroups } = stacked;
  const row = (name, kib) => el('tr', {}, el('td', { textContent: name }), el('td', { textContent: size(kib) }));
  const classes = layers.map((layer, index) => [LAYERS.names[index], layer[column]]).filter(([, kib]) => kib > 0).sort((one, other) => other[1] - one[1]);
  const rows = classes.map(([name, kib]) => row(name, kib));
  if (!isSeen(lane, found[column])) rows.push(el('tr', {}, el('td', { textContent: 'not recorded' })));
  else {
    rows.push(row('shared memory (object store)', store[column]));
    if (lane.node.t.length) {
      rows.push(row('not these processes', Math.max(used[column] - sum[column] - store[column], 0)));
      rows.push(row(`in use of ${size(lane.total_kib)}`, used[column]));
    }
  }
  cgroups.forEach((use, index) => { if (use[column] >= 0) rows.push(row(lane.cgroups[index].label, use[column])); });
  const head = `${FLEET ? `${lane.name} ` : ''}${clock(found[column], true)}`;
  chart.tip.replaceChildren(el('b', { textContent: head }), el('table', {}, el('tbody', {}, ...rows)));
  const room = chart.width - chart.tip.offsetWidth;
  const beside = x > chart.width / 2 ? x - 12 - chart.tip.offsetWidth : x + 12;
  chart.tip.style.left = `${Math.max(Math.min(beside, room), 0)}px`;
  // Below what it is about, where there is room.
  const lowest = chart.box.scrollTop + chart.box.clientHeight - chart.tip.offsetHeight - 4;
  if (FLEET) chart.tip.style.top = `${Math.max(Math.min(lane.top + 32, lowest), chart.box.scrollTop + 26)}px`;
}

function nextDeath(direction) {
  const middle = (chart.view.from + chart.view.to) / 2;
  const ahead = MARKED.filter(death => direction * (death.t - middle) > 1e-3);
  const next = direction > 0 ? ahead[0] : ahead[ahead.length - 1];
  if (!next) return;
  const half = Math.min(chart.view.to - chart.view.from, 60e3) / 2;
  const lane = LANES[next.lane], box = chart.box;
  const isInView = lane.top >= box.scrollTop + 26 && lane.top + lane.height <= box.scrollTop + box.clientHeight;
  if (!isInView) box.scrollTop = lane.top - 60;
  look(next.t - half, next.t + half);
  document.getElementById('span').textContent = `${called(next)} ${next.headline}`;
}

const ACTIONS = {
  in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.3), right: () => pan(0.3), all: () => look(FULL.from, FULL.to),
  next: () => nextDeath(1), previous: () => nextDeath(-1),
};
const KEYS = { '+': 'in', '=': 'in', '-': 'out', '−': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'all', n: 'next', p: 'previous' };

function listen() {
  const pointers = new Map();
  let held = null;
  const place = event => event.clientX - chart.content.getBoundingClientRect().left;
  const height = event => event.clientY - chart.content.getBoundingClientRect().top;
  chart.box.addEventListener('pointerdown', event => {
    // What is right of the lanes is a bar to scroll with.
    if (event.target.closest('button') || event.button > 1 || place(event) > chart.width) return;
    pointers.set(event.pointerId, place(event));
    chart.box.setPointerCapture(event.pointerId);
    held = { x: place(event), view: { ...chart.view }, pans: event.shiftKey || event.button === 1 || event.pointerType === 'touch', apart: apart() };
  });
  const apart = () => { const [one, other] = [...pointers.values()]; return other === undefined ? null : Math.max(Math.abs(one - other), 10); };
  chart.box.addEventListener('pointermove', event => {
    const x = place(event);
    if (!held) { if (event.pointerType !== 'touch') hover(x, height(event)); return; }
    pointers.set(event.pointerId, x);
    const perPixel = (held.view.to - held.view.from) / (chart.width - LEFT);
    if (held.apart && pointers.size > 1) {
      const [one, other] = [...pointers.values()], factor = held.apart / apart();
      const around = held.view.from + ((one + other) / 2 - LEFT) * perPixel;
      look(around - (around - held.view.from) * factor, around + (held.view.to - around) * factor);
    } else if (held.pans) {
      look(held.view.from - (x - held.x) * perPixel, held.view.to - (x - held.x) * perPixel);
    } else {
      chart.tip.hidden = true;
      chart.drag.hidden = false;
      chart.drag.style.left = `${Math.max(Math.min(x, held.x), LEFT)}px`;
      chart.drag.style.width = `${Math.abs(x - held.x)}px`;
    }
  });
  const release = event => {
    const x = place(event), was = held;
    pointers.delete(event.pointerId);
    held = null;
    chart.drag.hidden = true;
    if (!was || event.type === 'pointercancel') return;
    if (!was.pans && Math.abs(x - was.x) > 5) look(toMoment(Math.max(Math.min(x, was.x), LEFT)), toMoment(Math.max(x, was.x)));
    else if (event.pointerType === 'touch' && Math.abs(x - was.x) < 5) hover(x, height(event));
  };
  chart.box.addEventListener('pointerup', release);
  chart.box.addEventListener('pointercancel', release);
  chart.box.addEventListener('pointerleave', () => { chart.tip.hidden = chart.cursor.hidden = true; });
  chart.box.addEventListener('dblclick', event => { if (!event.target.closest('button')) ACTIONS.all(); });
  // A plain wheel scrolls the page, unless the chart was chosen first.
  chart.box.addEventListener('wheel', event => {
    const chosen = event.ctrlKey || event.metaKey || document.activeElement === chart.box;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / chart.width);
    else if (chosen) zoom(Math.exp(event.deltaY / 400), toMoment(place(event)));
    else return;
    event.preventDefault();
  }, { passive: false });
  chart.box.addEventListener('keydown', event => {
    const action = ACTIONS[KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key]];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  for (const button of document.querySelectorAll('[data-do]')) button.addEventListener('click', ACTIONS[button.dataset.do]);
  document.getElementById('only-ray').addEventListener('change', event => { chart.onlyRay = event.target.checked; render(); });
  const again = () => look(chart.view.from, chart.view.to);
  new ResizeObserver(() => { measure(); again(); }).observe(chart.box);
  if (FLEET) chart.box.addEventListener('scroll', again, { passive: true });
  // A printed page has all lanes.
  addEventListener('beforeprint', () => { chart.prints = true; measure(); render(); });
  addEventListener('afterprint', () => { chart.prints = false; again(); });
  new IntersectionObserver(([entry]) => { bars.seen = entry.isIntersecting; placeBars(); }).observe(bars.section);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', render);
}

function legend() {
  const key = (colour, dashed) => {
    const made = el('span', { className: dashed ? 'key dashed' : 'key' });
    made.style.background = made.style.borderColor = `var(${colour})`;
    return made;
  };
  const items = LAYERS.names.map((name, index) => el('li', { title: name }, key(LAYERS.paints[index]), name));
  if (LANES.some(lane => lane.node.t.length)) {
    items.push(el('li', {}, key('--store'), 'shared memory (object store)'));
    items.push(el('li', {}, key('--rest'), 'other programs and the kernel'));
  }
  items.push(...(FLEET ? lanesLegend(key) : limitsLegend(LANES[0], key)));
  const glyphs = new Map(MARKED.map(death => KILLERS[death.killer]).map(({ mark, words }) => [words, mark]));
  if (glyphs.size > 1) glyphs.set('deaths of different kinds', MIXED);
  if (FOLDED.size) glyphs.set('deaths that followed', '+');
  for (const [words, glyph] of glyphs) items.push(el('li', {}, el('b', { textContent: glyph }), ` ${words}`));
  if (LANES.some(lane => lane.calls?.length)) items.push(el('li', {}, 'above: the calls of the process that held most'));
  document.getElementById('legend').append(...items);
  const over = el('p', { className: 'hint', hidden: !isScaled, textContent: 'The processes add up to more than was in use: they are sampled at other moments, or count what forks share. The colours are scaled to what was in use.' });
  document.getElementById('legend').after(over);
}

function limitsLegend(lane, key) {
  const items = lane.cgroups.map(({ label }) => el('li', { title: label }, key('--limit'), label));
  for (const limit of lane.limits) items.push(el('li', { title: limit.label }, key(limit.ray ? '--ray' : '--limit', true), limit.label));
  if (lane.limits_left_out) items.push(el('li', {}, `and ${lane.limits_left_out} smaller limits of cgroups: each death names its own`));
  return items;
}

// Of many nodes each lane names its own limits.
function lanesLegend(key) {
  const items = [];
  if (LANES.some(lane => lane.limits.some(limit => limit.ray))) items.push(el('li', {}, key('--ray', true), 'Ray kills above'));
  if (LANES.some(lane => lane.limits.some(limit => !limit.ray))) items.push(el('li', {}, key('--limit', true), 'limit of a cgroup'));
  if (LANES.some(lane => lane.cgroups.length)) items.push(el('li', {}, key('--limit'), 'in use in a cgroup with a limit, without page cache'));
  if (ARROWS.length) items.push(el('li', {}, el('b', { textContent: '↷' }), ' from a death to one that it caused on another node (inferred, by ids in Ray\'s words)'));
  if (LANES.some(lane => lane.quiet)) items.push(el('li', {}, 'thin: nothing died there; its name opens it'));
  return items;
}

// The timeline: zoom, pan, hover, and the deaths above it as buttons.

const chart = {
  view: { ...FULL }, width: 0, onlyRay: false, stacked: null, waiting: false,
  box: document.getElementById('chart'),
  canvas: document.querySelector('#chart canvas'),
  marks: document.getElementById('marks'),
  cursor: document.getElementById('cursor'),
  drag: document.getElementById('drag'),
  tip: document.getElementById('tip'),
};
// First causes only: what followed from them is folded into their marks.
const CAUSES = DATA.deaths.filter(death => death.t !== null && death.root === null && death.listed);

// Shows `from` to `to`, kept within the recording.
function look(from, to) {
  const whole = FULL.to - FULL.from;
  const range = Math.min(Math.max(to - from, Math.min(20, whole)), whole);
  const start = Math.min(Math.max(from, FULL.from), FULL.to - range);
  chart.view = { from: start, to: start + range };
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
  chart.width = chart.canvas.clientWidth;
  // Two pixels a column: half the work, and no peak is lost.
  const count = Math.max(Math.round((chart.width - LEFT) / 2), 50);
  chart.stacked = stack(from, to, count);
  draw(chart.canvas, chart.stacked, chart.onlyRay);
  placeMarks();
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

// Marks that would cover each other are one with a count.
function placeMarks() {
  const groups = [];
  for (const death of CAUSES) {
    if (death.t < chart.view.from || death.t > chart.view.to) continue;
    const x = toX(death.t), last = groups[groups.length - 1];
    if (last && x - last.x < last.wide) join(last, death); else groups.push(join({ x, deaths: [], wide: 0 }, death));
  }
  const kept = [...chart.marks.children];
  while (kept.length > groups.length) kept.pop().remove();
  while (kept.length < groups.length) {
    const button = el('button', { type: 'button', className: 'mark' });
    button.addEventListener('click', () => chooseMark(button));
    chart.marks.append(button);
    kept.push(button);
  }
  groups.forEach(({ x, deaths }, index) => mark(kept[index], x, deaths));
}

// A mark is as wide as its text, with a gap to the next.
function join(group, death) {
  group.deaths.push(death);
  group.wide = Math.max(27, 15 + 8 * words_of(group.deaths).length);
  return group;
}

function words_of(deaths) {
  const one = deaths.every(death => death.killer === deaths[0].killer);
  const followers = deaths.reduce((sum, death) => sum + death.cascade.length, 0);
  const glyph = one ? KILLERS[deaths[0].killer][0] : '•';
  return (deaths.length > 1 ? `${glyph}${deaths.length}` : glyph) + (followers ? `+${followers}` : '');
}

function mark(button, x, deaths) {
  const followers = deaths.reduce((sum, death) => sum + death.cascade.length, 0);
  button.deaths = deaths;
  button.textContent = words_of(deaths);
  button.classList.toggle('soft', deaths.every(death => SOFT.has(death.killer)));
  const what = deaths.length > 1 ? `${deaths.length} first causes from ${clock(deaths[0].t, true)}` : `${deaths[0].label} ${deaths[0].headline}`;
  button.title = followers ? `${what}; ${followers} deaths followed` : what;
  button.setAttribute('aria-label', button.title);
  button.style.transform = `translateX(${Math.min(Math.max(x - 11, LEFT - 11), chart.width - 34)}px)`;
}

// One death opens; several are zoomed into until they come apart.
function chooseMark(button) {
  const { deaths } = button;
  const first = deaths[0].t, last = deaths[deaths.length - 1].t;
  if (deaths.length === 1 || last - first < 30) openDeath(deaths[0].id);
  else { const margin = (last - first) * 0.3; look(first - margin, last + margin); }
}

function hover(x) {
  const column = Math.floor((x - LEFT) / (chart.width - LEFT) * chart.stacked.count);
  const inside = column >= 0 && column < chart.stacked.count;
  chart.cursor.hidden = chart.tip.hidden = !inside;
  if (!inside) return;
  chart.cursor.style.left = `${x}px`;
  const { found, layers, used, store, sum, cgroups } = chart.stacked;
  const row = (name, kib) => el('tr', {}, el('td', { textContent: name }), el('td', { textContent: size(kib) }));
  const classes = layers.map((layer, index) => [LAYERS.names[index], layer[column]]).filter(([, kib]) => kib > 0).sort((one, other) => other[1] - one[1]);
  const rows = classes.map(([name, kib]) => row(name, kib));
  rows.push(row('shared memory (object store)', store[column]));
  if (NODE.t.length) {
    rows.push(row('not these processes', Math.max(used[column] - sum[column] - store[column], 0)));
    rows.push(row(`in use of ${size(DATA.total_kib)}`, used[column]));
  }
  cgroups.forEach((use, index) => { if (use[column] >= 0) rows.push(row(CGROUPS[index].label, use[column])); });
  chart.tip.replaceChildren(el('b', { textContent: clock(found[column], true) }), el('table', {}, el('tbody', {}, ...rows)));
  const room = chart.width - chart.tip.offsetWidth;
  const beside = x > chart.width / 2 ? x - 12 - chart.tip.offsetWidth : x + 12;
  chart.tip.style.left = `${Math.max(Math.min(beside, room), 0)}px`;
}

function nextDeath(direction) {
  const middle = (chart.view.from + chart.view.to) / 2;
  const ahead = CAUSES.filter(death => direction * (death.t - middle) > 1e-3);
  const next = direction > 0 ? ahead[0] : ahead[ahead.length - 1];
  if (!next) return;
  const half = Math.min(chart.view.to - chart.view.from, 60e3) / 2;
  look(next.t - half, next.t + half);
  document.getElementById('span').textContent = `${next.label} ${next.headline}`;
}

const ACTIONS = {
  in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.3), right: () => pan(0.3), all: () => look(FULL.from, FULL.to),
  next: () => nextDeath(1), previous: () => nextDeath(-1),
};
const KEYS = { '+': 'in', '=': 'in', '-': 'out', '−': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'all', n: 'next', p: 'previous' };

function listen() {
  const pointers = new Map();
  let held = null;
  const place = event => event.clientX - chart.box.getBoundingClientRect().left;
  chart.box.addEventListener('pointerdown', event => {
    if (event.target.closest('.mark') || event.button > 1) return;
    pointers.set(event.pointerId, place(event));
    chart.box.setPointerCapture(event.pointerId);
    held = { x: place(event), view: { ...chart.view }, pans: event.shiftKey || event.button === 1 || event.pointerType === 'touch', apart: apart() };
  });
  const apart = () => { const [one, other] = [...pointers.values()]; return other === undefined ? null : Math.max(Math.abs(one - other), 10); };
  chart.box.addEventListener('pointermove', event => {
    const x = place(event);
    if (!held) { if (event.pointerType !== 'touch') hover(x); return; }
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
    else if (event.pointerType === 'touch' && Math.abs(x - was.x) < 5) hover(x);
  };
  chart.box.addEventListener('pointerup', release);
  chart.box.addEventListener('pointercancel', release);
  chart.box.addEventListener('pointerleave', () => { chart.tip.hidden = chart.cursor.hidden = true; });
  chart.box.addEventListener('dblclick', event => { if (!event.target.closest('.mark')) ACTIONS.all(); });
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
  new ResizeObserver(() => look(chart.view.from, chart.view.to)).observe(chart.box);
  new IntersectionObserver(([entry]) => { bars.seen = entry.isIntersecting; placeBars(); }).observe(bars.section);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', render);
}

function legend() {
  const key = (colour, dashed) => {
    const made = el('span', { className: dashed ? 'key dashed' : 'key' });
    made.style.background = made.style.borderColor = `var(${colour})`;
    return made;
  };
  const items = LAYERS.names.map((name, index) => el('li', { title: name }, key(`--c${index}`), name));
  if (NODE.t.length) {
    items.push(el('li', {}, key('--store'), 'shared memory (object store)'));
    items.push(el('li', {}, key('--rest'), 'other programs and the kernel'));
  }
  for (const { label } of CGROUPS) items.push(el('li', { title: label }, key('--limit'), label));
  for (const limit of DATA.limits) items.push(el('li', { title: limit.label }, key(limit.ray ? '--ray' : '--limit', true), limit.label));
  if (DATA.limits_left_out) items.push(el('li', {}, `and ${DATA.limits_left_out} smaller limits of cgroups: each death names its own`));
  const glyphs = new Map(CAUSES.map(death => KILLERS[death.killer]).map(([glyph, words]) => [words, glyph]));
  for (const [words, glyph] of glyphs) items.push(el('li', {}, el('b', { textContent: glyph }), ` ${words}`));
  document.getElementById('legend').append(...items);
}

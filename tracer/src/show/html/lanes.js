// The lanes of the chart, one a node: their places, the marks of deaths, and the arrows from causes to effects on other nodes.

// More arrows than these hide what they lie on.
const MOST_ARROWS = 300;

// The death whose mark stands for this one: what followed from a death of its own node is folded into that one's.
function headOf(death) {
  let head = death;
  for (let step = 0; step < 64; step++) {
    const above = DEATHS.get(head.cause);
    if (!above || above.lane !== head.lane) break;
    head = above;
  }
  return head;
}

const FOLDED = new Map();
const MARKED = (() => {
  const heads = new Set();
  for (const death of DATA.deaths) {
    const head = headOf(death);
    heads.add(head);
    if (head !== death) FOLDED.set(head.id, (FOLDED.get(head.id) || 0) + 1);
  }
  const shown = [...heads].filter(death => death.t !== null && death.lane !== null && death.listed);
  return shown.sort((one, other) => one.t - other.t);
})();
const ARROWS = MARKED.map(to => ({ to, from: DEATHS.has(to.cause) ? headOf(DEATHS.get(to.cause)) : null })).filter(({ from }) => from && from.t !== null && from.lane !== null);

// Of more lanes than these, those that are scrolled away are not laid out.
const MANY = 24;

// Puts the lanes into the chart.
function makeLanes() {
  chart.box.classList.toggle('fleet', FLEET);
  chart.box.classList.toggle('many', LANES.length > MANY);
  chart.content.style.setProperty('--left', `${LEFT}px`);
  for (const lane of LANES) {
    lane.hasMemory = lane.node.t.length > 0 || lane.processes.some(process => process.t.length);
    lane.deaths = MARKED.filter(death => death.lane === lane.number);
    lane.canvas = el('canvas', { 'aria-hidden': 'true' });
    lane.marks = el('div', { className: 'marks' });
    lane.box = el('div', { className: 'lane' }, lane.canvas);
    if (FLEET) nameLane(lane);
    lane.box.append(lane.marks);
    setOpen(lane, !lane.quiet);
    chart.content.insertBefore(lane.box, chart.cursor);
  }
}

function nameLane(lane) {
  lane.button = el('button', { type: 'button', className: 'name', textContent: lane.name, title: `${lane.name}: ${lane.about}` });
  lane.button.addEventListener('click', () => { setOpen(lane, !lane.open); measure(); look(chart.view.from, chart.view.to); });
  lane.box.append(lane.button);
  if (!lane.spans.length && lane.quiet) lane.box.append(el('span', { className: 'note', textContent: lane.about }));
}

// A lane in which nothing happened is thin until somebody asks for it; one without memory has no more than its marks.
function setOpen(lane, isOpen) {
  lane.open = isOpen;
  lane.frame = !FLEET ? ALONE : isOpen ? LANE : THIN;
  lane.box.className = ['lane', FLEET ? '' : 'alone', lane.hasMemory ? '' : 'bare', isOpen ? '' : 'thin'].filter(Boolean).join(' ');
  lane.button?.setAttribute('aria-expanded', String(isOpen));
}

// Where the lanes are; read once after each change, because reading lays out the page.
function measure() {
  for (const lane of LANES) { lane.top = lane.box.offsetTop; lane.height = lane.box.offsetHeight; }
}

// The lane at a height of the page's lanes.
const laneAt = y => LANES.find(lane => y >= lane.top && y < lane.top + lane.height);

// Marks that would cover each other are one with a count.
function groupMarks(lane) {
  lane.groups = [];
  lane.placed = new Map();
  for (const death of lane.deaths) {
    if (death.t < chart.view.from || death.t > chart.view.to) continue;
    const x = toX(death.t);
    let group = lane.groups[lane.groups.length - 1];
    if (group && x - group.x < group.wide) join(group, death);
    else lane.groups.push(group = join({ x, deaths: [], folded: 0, wide: 0 }, death));
    lane.placed.set(death.id, group);
  }
}

function placeMarks(lane) {
  const kept = [...lane.marks.children];
  while (kept.length > lane.groups.length) kept.pop().remove();
  while (kept.length < lane.groups.length) {
    const button = el('button', { type: 'button', className: 'mark' });
    button.addEventListener('click', () => chooseMark(button));
    lane.marks.append(button);
    kept.push(button);
  }
  lane.groups.forEach(({ x, deaths }, index) => mark(kept[index], x, deaths));
}

// A mark is as wide as its text, with a gap to the next.
function join(group, death) {
  group.deaths.push(death);
  group.folded += FOLDED.get(death.id) || 0;
  group.wide = Math.max(27, 12 + 8 * words_of(group.deaths).length);
  return group;
}

const folded = deaths => deaths.reduce((sum, death) => sum + (FOLDED.get(death.id) || 0), 0);

function words_of(deaths) {
  const one = deaths.every(death => death.killer === deaths[0].killer);
  const glyph = one ? KILLERS[deaths[0].killer].mark : MIXED;
  // Of one node there is room for its number.
  if (!FLEET && deaths.length <= 2 && deaths.every(death => death.label)) {
    const [first, second] = deaths.map(death => death.label.replace('\u00a0', ' '));
    return second ? `${first} and ${second.split(' ')[1]}` : first;
  }
  return (deaths.length > 1 ? `${glyph}${deaths.length}` : glyph) + (folded(deaths) ? `+${folded(deaths)}` : '');
}

// A death by its number, or by that of what it followed from.
function called(death) {
  const root = DEATHS.get(death.root);
  return death.label || (root ? `↳ ${root.label}${root.node && root.node !== death.node ? ` on ${root.node}` : ''}` : '');
}

function mark(button, x, deaths) {
  const followers = folded(deaths);
  const first = deaths.every(death => death.root === null) ? 'first causes' : 'deaths';
  button.deaths = deaths;
  button.textContent = words_of(deaths);
  button.classList.toggle('soft', deaths.every(death => KILLERS[death.killer].soft));
  const what = deaths.length > 1 ? `${deaths.length} ${first} from ${clock(deaths[0].t, true)}` : `${called(deaths[0])} ${deaths[0].headline}`;
  button.title = followers ? `${what}; ${followers} more ${followers === 1 ? 'death' : 'deaths'}${FLEET ? ' on this node' : ''}` : what;
  button.setAttribute('aria-label', button.title);
  button.style.transform = `translateX(${markX(x, 12 + 7 * button.textContent.length) - 11}px)`;
}

const markX = (x, wide = 23) => Math.min(Math.max(x, LEFT), chart.width - wide);

// One death opens; several are zoomed into until they come apart, or until less than some seconds are shown.
const CLOSEST = 4e3;
function chooseMark(button) {
  const { deaths } = button;
  const first = deaths[0].t, last = deaths[deaths.length - 1].t;
  const margin = Math.max((last - first) * 0.3, CLOSEST);
  const nearer = last - first + 2 * margin < 0.8 * (chart.view.to - chart.view.from);
  if (deaths.length === 1 || last - first < 30 || !nearer) openDeath(deaths[0].id);
  else look(first - margin, last + margin);
}

// Where the mark of a death is; of one outside of the view, beyond the edge on its side.
function markOf(death) {
  const lane = LANES[death.lane], group = lane.placed.get(death.id);
  const beyond = death.t < chart.view.from ? LEFT - 9 : chart.width + 4;
  return { x: Math.round(group ? markX(group.x) : beyond), top: lane.top + 2, bottom: lane.top + 25, lane: lane.number, shown: Boolean(group) };
}

// Two paths hold all arrows: their lines and their heads.
function placeArrows(above, below) {
  const lines = [], heads = [], known = new Set();
  let hidden = 0;
  for (const arrow of ARROWS) {
    const from = markOf(arrow.from), to = markOf(arrow.to);
    const key = `${from.lane} ${from.x} ${to.lane} ${to.x}`;
    const outside = (!from.shown && !to.shown) || Math.max(from.bottom, to.bottom) < above || Math.min(from.top, to.top) > below;
    if (outside || known.has(key)) continue;
    known.add(key);
    if (lines.length === MOST_ARROWS) { hidden++; continue; }
    const down = to.top > from.top;
    const start = down ? from.bottom : from.top, end = down ? to.top - 1 : to.bottom + 1;
    const bend = Math.min(Math.abs(end - start) / 2, 60) * (down ? 1 : -1), aside = from.x === to.x ? 14 : 0;
    lines.push(`M${from.x} ${start}C${from.x + aside} ${start + bend} ${to.x + aside} ${end - bend} ${to.x} ${end}`);
    heads.push(`M${to.x} ${end}l-4 ${down ? -8 : 8}h8z`);
  }
  chart.lines.setAttribute('d', lines.join(''));
  chart.heads.setAttribute('d', heads.join(''));
  chart.hidden.hidden = !hidden;
  chart.hidden.textContent = `${hidden} more arrows are not drawn: zoom in to see them.`;
}

// The axis of time above all lanes.
function placeAxis() {
  if (!FLEET) return;
  const { brush, width } = prepare(chart.axis, chart.width, 22);
  const style = getComputedStyle(document.documentElement);
  times(brush, chart.view, { inner: { width: width - LEFT }, width, bottom: 0, colour: name => style.getPropertyValue(name).trim() });
}

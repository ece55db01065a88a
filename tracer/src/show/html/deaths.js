// The table of deaths, the table of processes, and one section for each death, filled when it is opened.

function link(death, text) {
  const made = el('a', { href: `#death-${death.id}`, textContent: text });
  made.addEventListener('click', event => { event.preventDefault(); openDeath(death.id); });
  return made;
}

function openDeath(id) {
  const death = DEATHS.get(id);
  if (!death) return;
  const section = sectionOf(death);
  section.open = true;
  history.replaceState(null, '', `#death-${id}`);
  section.scrollIntoView({ block: 'start' });
  section.querySelector('summary').focus({ preventScroll: true });
}

const text = value => value ?? '';
const memory = kib => kib === null ? '' : size(kib);

function deathTable() {
  const section = document.getElementById('deaths');
  if (!DATA.deaths.length) { section.append(el('p', { className: 'hint', textContent: 'No death is listed.' })); return; }
  table(section, {
    caption: 'Deaths', placeholder: 'Filter: a name, pid, job, killer …', rows: DATA.deaths,
    text: death => [death.when, death.label, KILLERS[death.killer].words, death.killer, death.name, death.group, text(death.pid), text(death.job), death.sure, death.headline, text(death.node)].join(' '),
    columns: [
      { label: 'No.', value: death => death.number * 1e6 + (death.root === null ? 0 : 1 + death.place), cell: death => link(death, death.label || `↳ ${death.number}`) },
      { label: 'Time', value: death => death.t, cell: death => death.when },
      ...nodeColumn(death => text(death.node)),
      { label: 'Process', value: death => death.name, cell: death => death.name, kind: 'name' },
      { label: 'Pid', value: death => death.pid, cell: death => text(death.pid), kind: 'number minor' },
      { label: 'Private memory', value: death => death.kib, cell: death => memory(death.kib) + (death.shares ? ', the rest shared with its parent' : ''), kind: 'number' },
      { label: 'Ended by', value: death => death.killer, cell: death => KILLERS[death.killer].words, kind: 'words' },
      { label: 'Certainty', value: death => death.sure, cell: death => sure(death), kind: 'tiny' },
      { label: 'Job', value: death => death.job, cell: death => text(death.job), kind: 'minor' },
    ],
  });
  if (DATA.deaths_left_out) section.append(el('p', { className: 'hint', textContent: `${DATA.deaths_left_out} later deaths are too many for one page: narrow it with --since, --until or --match.` }));
}

// Each line that begins with settings gets a button that copies them.
function copyButtons() {
  for (const line of document.querySelectorAll('[data-copy]')) {
    const settings = line.dataset.copy;
    const button = el('button', { type: 'button', className: 'copy', textContent: 'Copy' });
    button.setAttribute('aria-label', `Copy ${settings}`);
    button.addEventListener('click', async () => {
      try { await navigator.clipboard.writeText(settings); button.textContent = 'Copied'; }
      catch { getSelection().selectAllChildren(line); button.textContent = 'Selected'; }
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
    line.append(' ', button);
  }
}

// Of one node nobody asks which.
function nodeColumn(name) {
  return FLEET ? [{ label: 'Node', value: name, cell: name, kind: 'name' }] : [];
}

function sure(death) {
  return el('span', { className: death.sure.startsWith('PROVEN') ? 'sure proven' : 'sure', textContent: death.sure });
}

function processTable() {
  const section = document.getElementById('processes');
  section.hidden = !PROCESSES.length;
  if (section.hidden) return;
  // What held most comes first. What held little and lived on, as Ray's own helpers do, is folded.
  const isSmall = process => process.lives && !DEATHS.has(process.death) && process.peak < LAYERS.least;
  const sorted = [...PROCESSES].sort((one, other) => other.peak - one.peak);
  const small = sorted.filter(isSmall), others = sorted.filter(process => !isSmall(process));
  processRows(section, others.length ? others : sorted, 'Processes');
  if (others.length && small.length) {
    const box = el('details', { className: 'more' }, el('summary', { textContent: `${small.length} small processes that lived on` }));
    box.addEventListener('toggle', () => { if (box.open && box.children.length === 1) processRows(box, small, 'Small processes that lived on'); });
    section.append(box);
  }
  if (DATA.left_out) section.append(el('p', { className: 'hint', textContent: `${DATA.left_out} more processes, short or small, are in the recording.` }));
}

function processRows(section, rows, caption) {
  table(section, {
    caption, placeholder: 'Filter: a name, pid, class …', rows,
    text: process => [process.name, DATA.groups[process.group], process.pid, process.role, text(process.worker), LANES[process.lane].name].join(' '),
    columns: [
      { label: 'Process', value: process => process.name, cell: process => process.name, kind: 'name' },
      { label: 'Pid', value: process => process.pid, cell: process => String(process.pid), kind: 'number' },
      ...nodeColumn(process => LANES[process.lane].name),
      { label: 'Role', value: process => process.role, cell: process => process.role, kind: 'minor' },
      { label: 'Lifetime', value: process => process.start, cell: life },
      { label: 'Peak', value: process => process.t.length ? process.peak : null, cell: process => process.t.length ? size(process.peak) : '', kind: 'number' },
      { label: 'Started', value: process => process.start, cell: process => clock(process.start), kind: 'minor' },
      { label: 'Ended', value: process => process.lives ? null : process.end, cell: process => process.lives ? 'alive' : clock(process.end, true), kind: 'minor' },
      { label: 'Death', value: process => DEATHS.get(process.death)?.number ?? null, cell: death_of },
    ],
  });
}

function death_of(process) {
  const death = DEATHS.get(process.death);
  return death ? link(death, death.label || `followed from ${death.number}`) : '';
}

function life(process) {
  const bar = el('i');
  const death = DEATHS.get(process.death);
  if (death) bar.className = KILLERS[death.killer].soft ? 'soft' : 'died';
  bar.process = process;
  placeBar(bar);
  const title = `${length(process.end - process.start)}${process.lives ? ', lives' : ''}`;
  return el('div', { className: 'life', title }, bar);
}

// The sections that are there already: thousands would slow down the whole page.
const SECTIONS = new Map();

function sections(count = PAGE) {
  const place = document.getElementById('details');
  place.hidden = !DATA.deaths.length;
  DATA.deaths.slice(0, count).forEach(sectionOf);
  const left = DATA.deaths.length - count;
  const more = el('button', { type: 'button', className: 'more', hidden: left <= 0, textContent: `Show ${Math.min(4 * PAGE, left)} more of ${DATA.deaths.length}` });
  more.addEventListener('click', () => { more.remove(); sections(count + 4 * PAGE); });
  place.append(more);
}

// The section of a death, made where it belongs.
function sectionOf(death) {
  const known = SECTIONS.get(death.id);
  if (known) return known;
  const head = el('summary', {}, el('b', { textContent: death.label || '↳' }), ' ', el('time', { textContent: death.when }), ` ${FLEET && death.node ? `${death.node}  ` : ''}${death.headline} `, sure(death));
  const section = el('details', { id: `death-${death.id}`, className: death.root === null ? '' : 'after' }, head);
  section.addEventListener('toggle', () => { if (section.open && section.children.length === 1) section.append(detail(death)); });
  SECTIONS.set(death.id, section);
  const next = DATA.deaths.slice(DATA.deaths.indexOf(death) + 1).find(one => SECTIONS.has(one.id));
  const place = document.getElementById('details');
  place.insertBefore(section, next ? SECTIONS.get(next.id) : place.querySelector(':scope > .more'));
  return section;
}

function detail(death) {
  const box = el('div', { className: 'death' });
  // Later rows of a table have no label of their own.
  let last = '';
  const facts = death.facts.flatMap(([label, words]) => {
    last = label || last;
    return [el('dt', { textContent: label }), el('dd', { textContent: words, className: last === 'minute' ? 'figures' : '' })];
  });
  if (death.root !== null && DEATHS.has(death.root)) {
    facts.unshift(el('dt', { textContent: 'cause' }), el('dd', {}, link(DEATHS.get(death.root), `${DEATHS.get(death.root).label} ${DEATHS.get(death.root).headline}`)));
  }
  if (facts.length) box.append(el('dl', {}, ...facts));
  if (death.evidence.length) box.append(el('h3', { textContent: 'Evidence' }), el('ol', {}, ...death.evidence.map(piece => el('li', { textContent: piece }))));
  if (death.cascade.length) {
    const links = death.cascade.map(id => DEATHS.get(id)).filter(Boolean).map(next => el('li', {}, link(next, `${next.when} ${next.headline}`)));
    box.append(el('h3', { textContent: death.cascade_counted }), el('ul', {}, ...links));
  }
  if (death.top.length) box.append(el('h3', { textContent: 'The biggest processes at that moment' }), biggest(death));
  if (death.t !== null && LANES[death.lane]?.node.t.length) lastMinute(death, box);
  return box;
}

function biggest(death) {
  const rows = death.top.map(one => el('tr', {},
    el('td', { className: 'name', textContent: one.name + (one.victim ? ' (this one)' : '') }), el('td', { className: 'number', textContent: text(one.pid) }),
    el('td', { className: 'number', textContent: size(one.kib) }), el('td', { className: 'number', textContent: one.age_ms === null ? '' : `${length(one.age_ms)} before` })));
  const heads = ['Process', 'Pid', 'Private memory', 'Measured'].map((label, index) => el('th', { scope: 'col', className: index ? 'number' : '', textContent: label }));
  return el('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'The biggest processes' }, el('table', {}, el('thead', {}, el('tr', {}, ...heads)), el('tbody', {}, ...rows)));
}

function lastMinute(death, box) {
  const canvas = el('canvas', { role: 'img', 'aria-label': 'Memory in the last 60 seconds before it' });
  box.append(el('h3', { textContent: 'Its last 60 seconds' }), canvas);
  requestAnimationFrame(() => {
    const from = Math.max(death.t - 60e3, FULL.from), to = Math.min(death.t + 2e3, Math.max(FULL.to, death.t + 1));
    const stacked = stack(LANES[death.lane], from, to, Math.max(Math.round(canvas.clientWidth - LEFT), 50));
    draw(canvas, stacked, chart.onlyRay);
    const brush = canvas.getContext('2d');
    const x = LEFT + (death.t - from) / (to - from) * (canvas.clientWidth - LEFT);
    brush.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--kill');
    brush.fillRect(x - 1, ALONE.top - 6, 2, canvas.clientHeight - ALONE.top - ALONE.bottom + 6);
    brush.textAlign = x > canvas.clientWidth - 120 ? 'right' : 'left';
    brush.fillText(death.label || 'this death', x + (brush.textAlign === 'right' ? -5 : 5), ALONE.top - 10);
  });
}

// Tables that sort and filter; a long one shows its first rows and more when asked.
const PAGE = 100;

// `columns`: {label, value(row), cell(row), kind}; `text(row)` is what the filter looks at.
function table(section, { caption, columns, rows, text, placeholder }) {
  let sorted = { column: null, down: false }, shown = PAGE, wanted = '';
  const prepared = rows.map(row => ({ row, text: text(row).toLowerCase() }));
  const count = el('output', { className: 'hint' });
  count.setAttribute('aria-live', 'polite');
  const body = el('tbody');
  const heads = columns.map((column, index) => {
    const button = el('button', { type: 'button', textContent: column.label });
    const head = el('th', { scope: 'col', className: column.kind || '', 'aria-sort': 'none' }, button);
    button.addEventListener('click', () => {
      sorted = { column: index, down: sorted.column === index ? !sorted.down : (column.kind || '').startsWith('number') };
      fill();
    });
    return head;
  });
  const more = el('button', { type: 'button', className: 'more' });
  more.addEventListener('click', () => { shown += 4 * PAGE; fill(); });
  const search = el('input', { type: 'search', placeholder, spellcheck: false });
  search.setAttribute('aria-label', `Filter: ${caption}`);
  search.addEventListener('input', () => { wanted = search.value.trim().toLowerCase(); shown = PAGE; fill(); });

  function order(list) {
    if (sorted.column === null) return list;
    const { value } = columns[sorted.column];
    const keyed = list.map(one => [value(one.row), one]);
    // What is not known stands last in both directions.
    keyed.sort(([one], [other]) => {
      const missing = (one === null || one === undefined) - (other === null || other === undefined);
      if (missing) return missing;
      const compared = typeof one === 'number' ? one - other : String(one).localeCompare(String(other), 'en', { numeric: true });
      return sorted.down ? -compared : compared;
    });
    return keyed.map(([, one]) => one);
  }

  function fill() {
    const words = wanted.split(/\s+/).filter(Boolean);
    const kept = order(prepared.filter(one => words.every(word => one.text.includes(word))));
    body.replaceChildren(...kept.slice(0, shown).map(({ row }) =>
      el('tr', {}, ...columns.map(column => el('td', { className: column.kind || '' }, column.cell(row))))));
    heads.forEach((head, index) => {
      const state = index !== sorted.column ? 'none' : sorted.down ? 'descending' : 'ascending';
      head.setAttribute('aria-sort', state);
      head.firstChild.textContent = columns[index].label + { none: '', ascending: ' ▲', descending: ' ▼' }[state];
    });
    count.textContent = kept.length === rows.length ? `${rows.length} rows` : `${kept.length} of ${rows.length} rows`;
    more.hidden = kept.length <= shown;
    more.textContent = `Show ${Math.min(4 * PAGE, kept.length - shown)} more of ${kept.length}`;
  }

  fill();
  section.append(
    el('div', { className: 'filter' }, search, count),
    el('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': caption },
      el('table', {}, el('caption', { className: 'unseen', textContent: caption }), el('thead', {}, el('tr', {}, ...heads)), body)),
    more);
}

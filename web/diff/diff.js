// Sections of the page and what a selection does: see base.js.

const TABLE_STEP = 200;  // rows of the table that are added at once
const MOST_USERS = 12;  // taps listed that a tap goes into
const OPEN_TAPS = 3000;  // up to so many taps every part of the timeline is open
// ---- verdict and legend ----

function showFiles() {
  const entries = [['Reference', data.reference], ['Ours', data.ours], ['Stages', data.model]];
  for (const [term, value] of entries) {
    byId('files').append(make('dt', {}, term), make('dd', {}, mono(value)));
  }
  if (data.forced) {
    byId('files').append(make('dt', {}, 'Forced'), make('dd', {},
      'ours was fed the reference\u2019s values at every stage: each tap is judged alone'));
  }
}

function fillList(section, list, lines) {
  byId(section).hidden = lines.length === 0;
  byId(list).append(...lines.map((line) => make('li', {}, line)));
}

function showLegend() {
  for (const [status, {says}] of Object.entries(STATUS)) {
    const count = data.counts[status] ?? 0;
    if (count > 0) {
      byId('legend').append(make('li', {}, markOf(status), `${says}: `,
        make('span', {class: 'number'}, format(count))));
    }
  }
  if (followers.size > 0) {
    byId('legend').append(make('li', {},
      make('span', {class: 'mark bad follows', 'aria-hidden': 'true'}, '\u00d7'),
      'pale: follows from what is off before it'));
  }
  if (taps.length < data.total) {
    byId('legend').append(make('li', {},
      `${format(data.total - taps.length)} taps are left out to keep the page small`));
  }
}

function markOf(status) {
  const {mark, tone} = STATUS[status];
  return make('span', {class: `mark ${tone}`, 'aria-hidden': 'true'}, mark);
}

// ---- timeline ----

// Bad taps that only pass on what is off before them: an input is off, or an earlier call is.
function findFollowers() {
  const isBad = (tap) => tap !== undefined && STATUS[tap.status].tone === 'bad';
  const callOf = (tap) => Number(/^c(\d+)$/.exec(tap.place.part)?.[1] ?? -1);
  const firstBad = taps.find(isBad);
  const follows = (tap) => isBad(tap) && (callOf(tap) > Math.max(0, callOf(firstBad)) ||
    tap.parents.some((parent) => isBad(byIndex.get(parent))));
  return new Set(data.forced ? [] : taps.filter(follows).map((tap) => tap.index));
}
const followers = findFollowers();

function sayStatus(tap) {
  const {says} = STATUS[tap.status];
  if (tap.index === data.first) {
    return `${data.verdict === 'tie' ? 'first tie' : 'first divergence'}: ${says}`;
  }
  return followers.has(tap.index) ? `${says}, as something before it` : says;
}

// Runs of taps with the same value of `key`, in order.
function runs(list, key) {
  const out = [];
  for (const tap of list) {
    const last = out.at(-1);
    if (last && key(last[0]) === key(tap)) {
      last.push(tap);
    } else {
      out.push([tap]);
    }
  }
  return out;
}

const cells = new Map();  // buttons by tap
const partOf = new Map();  // the part of the timeline by tap

function makeCell(tap) {
  const {mark, tone} = STATUS[tap.status];
  const isFirst = tap.index === data.first;
  const words = `${tap.name}: ${sayStatus(tap)}`;
  const cell = make('button', {
    type: 'button', tabindex: '-1', title: words, 'aria-label': words,
    class: `mark ${tone}${isFirst ? ' first' : ''}${followers.has(tap.index) ? ' follows' : ''}`,
  }, mark);
  cell.dataset.tap = tap.index;
  cells.set(tap.index, cell);
  return cell;
}

function makeRow(row) {
  const {part, row: name, cell} = row[0].place;
  const label = name || (row.length > 1 ? `${cell} \u2026` : cell);
  const shown = label.split('.').slice(name ? -2 : 0).join('.');
  const group = make('div', {class: 'cells', role: 'group', 'aria-label': `${part} ${label}`});
  group.append(...row.map(makeCell));
  return make('div', {class: 'row'},
    make('span', {class: 'row-name mono', title: label}, shown), group);
}

function describePart(name) {
  const call = /^c(\d+)$/.exec(name);
  const rows = call && data.calls[Number(call[1])];
  if (!rows) {
    return name === '' ? 'prompt' : '';
  }
  return rows[1] === 1 ? `position ${rows[0]}` : `positions ${rows[0]} to ${rows[0] + rows[1] - 1}`;
}

function countsOf(list) {
  const bad = list.filter((tap) => STATUS[tap.status].tone === 'bad').length;
  const changed = list.filter(isChanged).length - bad;
  return `${list.length} taps` + (bad > 0 ? `, ${bad} off` : '') +
    (changed > 0 ? `, ${changed} within the noise` : '');
}

// A part of the timeline; its cells are made when it is opened for the first time.
function makePart(list, position) {
  const name = list[0].place.part;
  const element = make('details', {class: 'part'},
    make('summary', {}, make('h3', {}, mono(name || 'prompt'), ` ${name && describePart(name)} `),
      make('span', {class: 'quiet'}, ` ${countsOf(list)}`)));
  let isBuilt = false;
  const build = () => {
    if (!isBuilt) {
      isBuilt = true;
      element.append(...runs(list, (tap) => tap.place.row).map(makeRow));
    }
  };
  const part = {open: () => { build(); element.open = true; }, element};
  list.forEach((tap) => partOf.set(tap.index, part));
  element.addEventListener('toggle', () => { if (element.open) { build(); } });
  const isBad = list.some((tap) => STATUS[tap.status].tone === 'bad');
  if (taps.length <= OPEN_TAPS || position < 2 || (isBad && position < 12)) {
    part.open();
  }
  return element;
}

function showTimeline() {
  const parts = runs(taps, (tap) => tap.place.part);
  byId('timeline').append(...parts.map(makePart));
  byId('timeline').addEventListener('click', (event) => {
    const cell = event.target.closest('button[data-tap]');
    if (cell) {
      select(Number(cell.dataset.tap), {reveals: true});
      if (event.detail === 0) {  // by Enter; the tab order leads back
        byId('details').focus({preventScroll: true});
      }
    }
  });
  byId('timeline').addEventListener('keydown', onTimelineKey);
}

const isShown = (cell) => cell !== undefined && cell.offsetParent !== null;

// The next cell that is shown, in order of the computation.
function neighbour(position, step) {
  for (let i = position + step; i >= 0 && i < taps.length; i += step) {
    const cell = cells.get(taps[i].index);
    if (isShown(cell) && partOf.get(taps[i].index).element.open) {
      return i;
    }
  }
  return position;
}

// The nearest cell of the next line in the direction of `step`.
function nextLine(position, step) {
  const box = (i) => cells.get(taps[i].index).getBoundingClientRect();
  const from = box(position);
  let best = position;
  let line = null;
  for (let i = neighbour(position, step), last = position; i !== last;
    last = i, i = neighbour(i, step)) {
    const {top, left} = box(i);
    if (Math.abs(top - from.top) < 2) {
      continue;
    }
    if (line !== null && Math.abs(top - line) > 2) {
      break;
    }
    if (line === null || Math.abs(left - from.left) < Math.abs(box(best).left - from.left)) {
      best = i;
    }
    line = top;
  }
  return best;
}

function onTimelineKey(event) {
  const cell = event.target.closest('button[data-tap]');
  const walk = {
    ArrowRight: (at) => neighbour(at, 1),
    ArrowLeft: (at) => neighbour(at, -1),
    ArrowDown: (at) => nextLine(at, 1),
    ArrowUp: (at) => nextLine(at, -1),
    Home: () => neighbour(-1, 1),
    End: () => neighbour(taps.length, -1),
  }[event.key];
  if (!cell || !walk || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  }
  event.preventDefault();
  const at = taps.indexOf(byIndex.get(Number(cell.dataset.tap)));
  const {index} = taps[walk(at)];
  select(index);
  cells.get(index).focus();
}

// ---- details of one tap ----

let selected = -1;

function linksTo(indices) {
  return make('ul', {class: 'links'}, ...indices.map((index) => {
    const tap = byIndex.get(index);
    if (!tap) {
      return make('li', {}, mono(typeof index === 'string' ? index : `tap ${index}, left out`));
    }
    return make('li', {}, markOf(tap.status),
      make('a', {href: `#tap-${index}`, class: 'mono'}, tap.name));
  }));
}

function limited(value, limit) {
  const isOver = limit !== null && toNumber(value) > toNumber(limit);
  const out = [make('span', {class: isOver ? 'number over' : 'number'}, format(value))];
  if (limit !== null) {
    out.push(make('span', {class: 'limit'},
      `${isOver ? 'more than the' : 'of the'} allowed ${format(limit)}`));
  }
  return out;
}

const number = (value, unit = '') => [make('span', {class: 'number'}, format(value) + unit)];

function metricFacts(tap) {
  const m = tap.metrics;
  if (NEITHER.has(tap.status)) {
    return [];
  }
  if (isPicks(tap)) {
    return [['Elements', number(m.elements)], ['Rows with other picks', number(m.changed)]];
  }
  const isValues = tap.stage.kind === 'values';
  const limit = (i) => (isValues ? tap.tolerance[i] : null);
  const share = m.elements > 0 ? ` (${percent(m.changed / m.elements)})` : '';
  const worst = m.worstRow >= 0 ? ` ${format(m.worstRow)}` : '';
  return [
    ['RMS of the difference, relative', limited(m.rms, limit(0))],
    [`The same of the worst row${worst}`, limited(m.worstRowRms, limit(1))],
    ['Largest difference', number(m.maxAbs)],
    ['Largest relative difference', number(m.maxRel)],
    ['In steps of the number grid', number(m.ulp)],
    ['Elements', number(m.elements)],
    ['Changed', number(m.changed, share)],
    ['Outside the row tolerance', number(m.outside)],
    ['NaN or infinite', number(m.broken)],
    ['Cosine', [make('span', {class: 'number'}, String(m.cosine))]],
    ['RMS of the reference', number(m.referenceRms)],
    ...(tap.stage.kind === 'image' ? [['Signal to noise', number(m.psnr, ' dB')]] : []),
  ];
}

function formFacts(tap) {
  const pair = (reference, ours) => [mono(ours === null ? reference || '\u2013'
    : `${reference || 'nothing'}, ours ${ours || 'nothing'}`)];
  const facts = [
    ['Shape', pair(tap.shape, tap.ourShape)],
    ['Stored as', pair(tap.dtype, tap.ourDtype)],
  ];
  if (tap.first) {
    const [row, column, reference, ours] = tap.first;
    const where = [mono(`row ${format(row)}` + (column >= 0 ? `, column ${format(column)}` : ''))];
    if (tap.label) {
      where.push(make('span', {class: 'limit'}, mono(tap.label)));
    }
    facts.push(['First element', where], ['Reference there', [mono(String(reference))]],
      ['Ours there', [mono(String(ours))]]);
  }
  return facts;
}

function detailsOf(tap) {
  const facts = make('dl', {class: 'facts'});
  for (const [term, value] of [...metricFacts(tap), ...formFacts(tap)]) {
    facts.append(make('dt', {}, term), make('dd', {}, ...value));
  }
  const out = [
    make('h2', {id: 'details-title'}, mono(tap.name)),
    make('p', {class: 'state'}, markOf(tap.status), sayStatus(tap)),
  ];
  if (tap.note) {
    out.push(make('p', {class: 'mono'}, tap.note));
  }
  const panel = panels.get(tap.index);
  if (panel) {
    out.push(...panelOf(tap, panel));
  }
  out.push(make('h3', {}, 'Numbers'), facts);
  const users = (children.get(tap.index) ?? []).slice(0, MOST_USERS);
  for (const [title, indices] of [['Made from', tap.parents], ['Goes into', users]]) {
    if (indices.length > 0) {
      out.push(make('h3', {}, title), linksTo(indices));
    }
  }
  if (isChanged(tap) && tap.index !== data.first && tap.stage.hints.length > 0) {
    out.push(make('h3', {}, 'What goes wrong here, usually'),
      make('ul', {}, ...tap.stage.hints.map((hint) => make('li', {}, hint))));
  }
  return out;
}

function panelOf(tap, panel) {
  const out = [];
  if (panel.histogram) {
    out.push(make('h3', {}, 'Differences'), histogramOf(tap, panel.histogram));
  }
  out.push(make('h3', {}, panel.grid ? 'On the picture' : 'Row by row'));
  out.push(panel.grid ? mapOf(tap, panel) : stripOf(tap, panel));
  return out;
}

function select(index, {reveals = false} = {}) {
  const tap = byIndex.get(index);
  if (!tap) {
    return;
  }
  const old = cells.get(selected);
  old?.removeAttribute('aria-current');
  old?.setAttribute('tabindex', '-1');
  selected = index;
  partOf.get(index).open();
  const cell = cells.get(index);
  cell.setAttribute('aria-current', 'true');
  cell.setAttribute('tabindex', '0');
  forgetSurfaces();
  byId('details').replaceChildren(...detailsOf(tap));
  byId('details').scrollTop = 0;
  byId('announcement').textContent = `${tap.name}: ${sayStatus(tap)}`;
  history.replaceState(null, '', `#tap-${index}`);
  markRow();
  if (reveals) {
    cell.scrollIntoView({block: 'nearest'});
    byId('details').scrollIntoView({block: 'nearest'});
  }
}

// On narrow screens the timeline scrolls inside: its selected cell comes into the middle.
function centreTimeline() {
  const box = byId('timeline');
  const cell = cells.get(selected)?.getBoundingClientRect();
  if (cell) {
    box.scrollTop = cell.top - box.getBoundingClientRect().top - box.clientHeight / 2;
  }
}

function tapOfHash() {
  const found = /^#tap-(\d+)$/.exec(location.hash);
  return found && byIndex.has(Number(found[1])) ? Number(found[1]) : -1;
}

// ---- table ----

const COLUMNS = [
  {title: '#', of: (tap) => tap.index},
  {title: 'Tap', of: (tap) => tap.name, isText: true},
  {title: 'Status', of: (tap) => tap.status.replace('_', ' '), isText: true},
  {title: 'RMS', of: (tap) => tap.metrics.rms, isError: true},
  {title: 'Worst row RMS', of: (tap) => tap.metrics.worstRowRms, isError: true},
  {title: 'Worst row', of: (tap) => (tap.metrics.worstRow < 0 ? null : tap.metrics.worstRow)},
  {title: 'Largest', of: (tap) => tap.metrics.maxAbs, isError: true},
  {title: 'Relative', of: (tap) => tap.metrics.maxRel, isError: true},
  {title: 'Changed', of: (tap) => tap.metrics.changed},
  {title: 'Outside', of: (tap) => tap.metrics.outside},
  {title: '1 \u2212 cosine', of: (tap) => 1 - tap.metrics.cosine, isError: true},
  {title: 'Steps', of: (tap) => tap.metrics.ulp},
  {title: 'Shape', of: (tap) => tap.shape || tap.ourShape, isText: true},
];
const FORM_COLUMNS = new Set(['#', 'Tap', 'Status', 'Shape']);
const table = {sorted: 0, isDescending: false, shown: TABLE_STEP, rows: new Map()};

// What a column shows of a tap: nothing where it was not measured.
function valueIn(column, tap) {
  const isMeasured = !NEITHER.has(tap.status) && (!isPicks(tap) || column.title === 'Changed');
  return FORM_COLUMNS.has(column.title) || isMeasured ? column.of(tap) : null;
}

function compareIn(column) {
  const size = (value) => (value === null ? -Infinity : Number.isNaN(value) ? Infinity : value);
  const sign = table.isDescending ? -1 : 1;
  return (a, b) => {
    const [x, y] = [valueIn(column, a), valueIn(column, b)];
    const order = column.isText ? String(x).localeCompare(String(y), 'en', {numeric: true})
      : size(toNumber(x)) - size(toNumber(y));
    return sign * (Number.isNaN(order) ? 0 : order) || a.index - b.index;
  };
}

function wantedTaps() {
  const words = byId('filter').value.toLowerCase().split(/\s+/);
  const isAll = byId('filters').elements.which.value === 'all';
  return taps.filter((tap) => (isAll || isChanged(tap)) &&
    words.every((word) => tap.name.toLowerCase().includes(word)));
}

function makeTableRow(tap) {
  const row = make('tr');
  for (const column of COLUMNS) {
    const value = valueIn(column, tap);
    if (column.title === 'Tap') {
      row.append(make('td', {class: 'name', title: tap.name},
        make('a', {href: `#tap-${tap.index}`, class: 'mono'}, tap.name)));
    } else if (column.title === 'Status') {
      row.append(make('td', {}, markOf(tap.status), value));
    } else {
      const spell = column.isError ? formatError : format;
      row.append(make('td', {class: 'number'}, column.isText ? value ?? '' : spell(value)));
    }
  }
  return row;
}

function showRows() {
  const wanted = wantedTaps().sort(compareIn(COLUMNS[table.sorted]));
  const shown = wanted.slice(0, table.shown);
  table.rows = new Map(shown.map((tap) => [tap.index, makeTableRow(tap)]));
  byId('rows').replaceChildren(...table.rows.values());
  byId('more').replaceChildren();
  if (wanted.length > shown.length) {
    const left = format(wanted.length - shown.length);
    const more = make('button', {type: 'button'}, `Show more (${left} left)`);
    more.addEventListener('click', () => { table.shown += TABLE_STEP; showRows(); });
    byId('more').append(more);
  } else if (wanted.length === 0) {
    byId('more').append('No tap is like this.');
  }
  markRow();
}

function markRow() {
  table.rows.forEach((row, index) => row.classList.toggle('chosen', index === selected));
}

function sortBy(i) {
  table.isDescending = table.sorted === i ? !table.isDescending : !COLUMNS[i].isText && i > 0;
  table.sorted = i;
  [...byId('columns').children].forEach((head, at) => {
    const order = table.isDescending ? 'descending' : 'ascending';
    head.setAttribute('aria-sort', at === i ? order : 'none');
  });
  showRows();
}

function showTable() {
  COLUMNS.forEach((column, i) => {
    const button = make('button', {type: 'button'}, column.title);
    button.addEventListener('click', () => sortBy(i));
    byId('columns').append(make('th', {
      scope: 'col', class: column.isText && column.title !== 'Shape' ? '' : 'number',
      'aria-sort': i === 0 ? 'ascending' : 'none',
    }, button));
  });
  const changed = taps.filter(isChanged).length;
  byId('changed-count').textContent = `not equal (${format(changed)})`;
  byId('all-count').textContent = `all (${format(taps.length)})`;
  byId('filters').elements.which.value = changed > 0 ? 'changed' : 'all';
  byId('filters').addEventListener('submit', (event) => event.preventDefault());
  byId('filters').addEventListener('input', () => { table.shown = TABLE_STEP; showRows(); });
  showRows();
}

// ---- start ----

function start() {
  showFiles();
  fillList('warnings', 'warning-list', data.warnings);
  fillList('hints', 'hint-list', byIndex.get(data.first)?.stage.hints ?? []);
  showLegend();
  showTimeline();
  showTable();
  const chosen = [tapOfHash(), data.first, taps.find(isChanged)?.index, taps[0]?.index];
  select(chosen.find((index) => byIndex.has(index)) ?? -1);
  centreTimeline();
  addEventListener('hashchange', () => select(tapOfHash(), {reveals: true}));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change',
    () => surfaces.forEach((draw) => draw()));
}

start();

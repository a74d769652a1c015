// The page of `tessera diff`. Its three files are one script: base.js (elements, numbers, data),
// charts.js (histogram, strip, map) and diff.js (verdict, timeline, details, table). It reads the
// JSON of #data (src/trace/diff_html_data.h says what is in it) and fills the sections of
// page.html. What comes from traces reaches the page as text, in words of attributes and on canvas
// only, never as markup.

const STATUS = {
  equal: {mark: '=', tone: 'good', says: 'every element equal'},
  within: {mark: '\u2248', tone: 'near', says: 'within the tolerance'},
  tie: {mark: '\u2194', tone: 'amber', says: 'other picks, explained by the noise of scores'},
  over: {mark: '\u00d7', tone: 'bad', says: 'outside the tolerance'},
  broken: {mark: '!', tone: 'bad', says: 'NaN or infinite on one side'},
  shape: {mark: '\u25a1', tone: 'bad', says: 'another shape'},
  missing: {mark: '\u2212', tone: 'bad', says: 'only in the reference'},
  extra: {mark: '+', tone: 'none', says: 'only in ours'},
  not_compared: {mark: '\u00b7', tone: 'none', says: 'not compared'},
};
const UNCHANGED = new Set(['equal', 'not_compared', 'extra']);
const NEITHER = new Set(['missing', 'extra', 'not_compared', 'shape']);  // without metrics

const byId = (id) => document.getElementById(id);

// An element with attributes and children; a child that is no node becomes text.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const mono = (text) => make('span', {class: 'mono'}, text);

function toNumber(value) {
  const spelled = {inf: Infinity, '-inf': -Infinity, nan: NaN};
  return typeof value === 'string' ? spelled[value] : value;
}

function format(value) {
  const x = toNumber(value);
  if (x === null || x === undefined) {
    return '\u2013';
  }
  if (!Number.isFinite(x)) {
    return Number.isNaN(x) ? 'NaN' : x > 0 ? '\u221e' : '\u2212\u221e';
  }
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e15) {
    return x.toLocaleString('en');
  }
  return size >= 1e-3 && size < 1e5 ? String(Number(x.toPrecision(4))) : x.toExponential(2);
}

// One form for a column of errors.
function formatError(value) {
  const x = toNumber(value);
  return Number.isFinite(x) && x !== 0 ? x.toExponential(2) : format(value);
}

function percent(share) {
  return share > 0 && share < 0.001 ? '< 0.1 %' : `${(100 * share).toFixed(1)} %`;
}

// ---- the data ----

const data = JSON.parse(byId('data').textContent);

function toTap(values) {
  const tap = Object.fromEntries(data.fields.map((field, i) => [field, values[i] ?? null]));
  tap.metrics = Object.fromEntries(data.metrics.map((name, i) => [name, tap.metrics[i]]));
  tap.stage = data.stages[tap.stage] ?? {kind: '', rows: '', hints: []};
  tap.place = placeOf(tap.name);
  return tap;
}

// Where a tap stands: 'c0.layers.3.attn.q' is cell 'attn.q' of row 'layers.3' of part 'c0'.
function placeOf(name) {
  const pieces = name.split('.');
  if (pieces.length === 1) {
    return {part: '', row: '', cell: name};
  }
  const numbered = pieces.findIndex((piece, i) => i > 0 && /^\d+$/.test(piece));
  const begin = numbered < 0 ? 1 : numbered + 1;
  return {
    part: pieces[0],
    row: pieces.slice(1, begin).join('.'),
    cell: pieces.slice(begin).join('.') || 'output',
  };
}

const taps = data.taps.map(toTap);
const byIndex = new Map(taps.map((tap) => [tap.index, tap]));
const panels = new Map(data.panels.map((panel) => [panel.tap, panel]));
const children = new Map();
for (const tap of taps) {
  for (const parent of tap.parents) {
    children.set(parent, [...(children.get(parent) ?? []), tap.index]);
  }
}

const isPicks = (tap) => tap.stage.kind === 'picks' || tap.stage.kind === 'mask';
const isChanged = (tap) => !UNCHANGED.has(tap.status);

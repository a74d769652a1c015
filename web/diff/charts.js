// Drawings of the details: see base.js.

const SURFACE = 760;  // pixels of a canvas from side to side; style.css scales it
const STRIP_COLUMNS = 64;

// ---- histogram ----

const powerOfTen = (exponent) => `1e${exponent}`.replace('-', '\u2212');

// Half decades from 1e-9 on; what is beyond the row tolerance has another colour.
function histogramOf(tap, {counts, equal, broken}) {
  const [width, height, bottom] = [480, 150, 22];
  const most = Math.max(1, ...counts);
  const bin = width / counts.length;
  const limit = tap.stage.kind === 'values' && tap.tolerance[1] > 0
    ? 2 * (Math.log10(tap.tolerance[1]) + 9) : 0;
  const svg = makeSvg('svg', {viewBox: `0 0 ${width} ${height + bottom}`, role: 'img'});
  counts.forEach((count, i) => {
    const centre = (10 ** (i / 2 - 8.75)).toExponential(0);
    const size = count > 0 ? Math.max(1.5, (height - 6) * count / most) : 0;
    svg.append(makeSvg('rect', {
      class: i >= limit - 0.5 ? 'bar beyond' : 'bar', x: i * bin + 1, width: bin - 2,
      y: height - size, height: size,
    }, makeSvg('title', {}, `${format(count)} elements around ${centre}`)));
    if (i % 4 === 2) {
      const place = {x: i * bin, y: height + 16, 'text-anchor': 'middle'};
      svg.append(makeSvg('text', place, powerOfTen(i / 2 - 9)));
    }
  });
  const line = (name, x1, y1, x2, y2) => makeSvg('line', {class: name, x1, y1, x2, y2});
  svg.append(line('axis', 0, height, width, height));
  if (limit > 0) {
    svg.append(line('allowed', limit * bin, 0, limit * bin, height));
  }
  const changed = counts.reduce((sum, count) => sum + count, 0);
  const words = `${format(changed)} elements differ, ${format(equal)} are equal` +
    (broken > 0 ? `, ${format(broken)} are NaN or infinite on one side` : '');
  svg.setAttribute('aria-label', `Histogram: ${words}`);
  return make('figure', {}, svg, make('figcaption', {},
    `${words}. |difference| / RMS of the reference` +
    (limit > 0 ? '; dashed: allowed for a row.' : '.')));
}

// ---- strips and maps ----

let surfaces = [];  // functions that draw the canvases of the page again
const forgetSurfaces = () => { surfaces = []; };

function palette() {
  const style = getComputedStyle(document.documentElement);
  const rgb = (name) => {
    const hex = style.getPropertyValue(name).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  };
  return Object.fromEntries(['same', 'low', 'middle', 'high', 'top', 'none', 'ink']
    .map((name) => [name, rgb(`--${name}`)]));
}

function mix(a, b, share) {
  const part = Math.min(1, Math.max(0, share));
  return a.map((x, i) => Math.round(x + (b[i] - x) * part));
}

const css = (rgb, alpha = 1) => `rgb(${rgb.join(' ')} / ${alpha})`;

// Up to the limit by the logarithm, three decades of it; beyond, evenly up to the worst.
function heat(value, {limit, worst}, colours) {
  const x = value === null ? 0 : toNumber(value);
  if (x === 0) {
    return {rgb: value === null ? colours.none : colours.same, alpha: 0};
  }
  if (x <= limit) {
    return {rgb: mix(colours.low, colours.middle, 1 + Math.log10(x / limit) / 3), alpha: 0.5};
  }
  const share = x < worst ? (x - limit) / (worst - limit) : 1;
  return {rgb: mix(colours.high, colours.top, share), alpha: 1, isOver: true};
}

// The largest value allowed and the largest of all.
function rangeOf(tap, panel) {
  const finite = panel.values.filter((value) => typeof value === 'number');
  return {
    limit: panel.measure === 'rms' ? toNumber(tap.tolerance[1]) : 0,
    worst: finite.reduce((a, b) => Math.max(a, b), 0),
  };
}

function spell(panel, value, {limit}) {
  if (value === null) {
    return 'not kept in the excerpt';
  }
  const x = toNumber(value);
  if (panel.measure === 'rms') {
    return `${format(x)} (allowed ${format(limit)})`;
  }
  return panel.measure === 'share' ? `${percent(x)} differ` : `${format(x)} levels of 255`;
}

function nameRow(panel, i) {
  const from = i * panel.step;
  const to = Math.min(panel.rows, from + panel.step) - 1;
  const names = [from === to ? `row ${from}` : `rows ${from} to ${to}`];
  if (panel.start > 0 && from === to) {
    names.push(`position ${panel.start + from}`);
  }
  const label = panel.labels === null ? '' : data.labels[panel.labels]?.[i];
  return label ? [...names, label].join(', ') : names.join(', ');
}

function scaleOf(panel) {
  const entries = [['same', 'equal'], ['low', 'allowed'], ['high', 'too far off (dot)'],
    ['top', 'worst']];
  const shown = panel.measure === 'rms' ? entries : entries.filter(([tone]) => tone !== 'low');
  return make('p', {class: 'scale'}, ...shown.map(([tone, words]) =>
    make('span', {}, make('span', {class: `swatch ${tone}`}), words)));
}

// A canvas of cells with a cursor: pointer and arrow keys say what is under it.
function surface({width, height, columns, boxOf, count, paint, name, words}) {
  const canvas = make('canvas', {width, height, tabindex: '0', role: 'img', 'aria-label': name});
  const readout = make('p', {class: 'readout mono', role: 'status'}, words(-1));
  const context = canvas.getContext('2d');
  let cursor = -1;
  const draw = () => {
    const colours = palette();
    context.clearRect(0, 0, width, height);
    paint(context, colours);
    if (cursor >= 0) {
      const [x, y, w, h] = boxOf(cursor);
      context.strokeStyle = css(colours.ink);
      context.lineWidth = 3;
      context.strokeRect(x - 1, y - 1, w + 2, h + 2);
    }
  };
  const move = (to) => {
    if (to >= 0 && to < count && to !== cursor) {
      cursor = to;
      readout.textContent = words(cursor);
      draw();
    }
  };
  canvas.addEventListener('pointermove', (event) => {
    const x = event.offsetX * width / canvas.clientWidth;
    const y = event.offsetY * height / canvas.clientHeight;
    const [, , w, h] = boxOf(0);
    const column = Math.min(columns - 1, Math.floor(x / w));
    move(Math.floor(y / h) * columns + column);
  });
  canvas.addEventListener('keydown', (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns}[event.key];
    if (step) {
      event.preventDefault();
      move(cursor < 0 ? 0 : cursor + step);
    }
  });
  draw();
  surfaces.push(draw);
  return {canvas, readout, draw};
}

function paintCell(context, [x, y, w, h], {rgb, alpha, isOver}, colours, strength) {
  context.fillStyle = css(rgb, strength === null ? 1 : alpha * strength);
  const gap = Math.min(2, w / 8);
  context.fillRect(x, y, w - gap, h - gap);
  if (isOver && w >= 8 && h >= 8) {
    context.fillStyle = css(colours.ink);
    context.fillRect(x + w / 2 - 2.5, y + h / 2 - 2.5, 4, 4);
  }
}

const sizeOf = (value) => (value === null ? -1 : toNumber(value));

function worstOf(values) {
  return values.reduce((best, value, i) => (sizeOf(value) > sizeOf(values[best]) ? i : best), 0);
}

function stripOf(tap, panel) {
  const {values} = panel;
  const range = rangeOf(tap, panel);
  const columns = Math.min(values.length, STRIP_COLUMNS);
  const lines = Math.ceil(values.length / columns);
  const [w, h] = [SURFACE / columns, lines === 1 ? 48 : lines <= 8 ? 30 : 18];
  const boxOf = (i) => [(i % columns) * w, Math.floor(i / columns) * h, w, h];
  const words = (i) => (i < 0 ? `worst: ${words(worstOf(values))}`
    : `${nameRow(panel, i)}: ${spell(panel, values[i], range)}`);
  const {canvas, readout} = surface({
    width: SURFACE, height: lines * h, columns, boxOf, count: values.length, words,
    name: `Differences of ${panel.rows} rows; ${words(-1)}`,
    paint: (context, colours) => values.forEach((value, i) =>
      paintCell(context, boxOf(i), heat(value, range, colours), colours, null)),
  });
  return make('figure', {}, canvas, readout, make('figcaption', {}, scaleOf(panel)));
}

// The picture as a canvas of its own, or null.
function pictureOf(name) {
  const picture = data.pictures[name];
  if (!picture) {
    return null;
  }
  const rgb = atob(picture.rgb);
  const image = new ImageData(picture.width, picture.height);
  for (let i = 0, j = 0; j < image.data.length; ++j) {
    image.data[j] = j % 4 === 3 ? 255 : rgb.charCodeAt(i++);
  }
  const canvas = make('canvas', {width: picture.width, height: picture.height});
  canvas.getContext('2d').putImageData(image, 0, 0);
  return {canvas, ratio: picture.fullHeight / picture.fullWidth};
}

function nameCell(panel, columns, i) {
  const {step, grid} = panel;
  const range = (at, end) => {
    const last = Math.min(end, (at + 1) * step) - 1;
    return last === at * step ? `${last}` : `${at * step}\u2013${last}`;
  };
  const line = range(Math.floor(i / columns), grid.rows);
  return `line ${line}, column ${range(i % columns, grid.columns)}`;
}

// Cells over the picture. The grid may reach beyond it, and the last cells of a coarser grid too.
function mapOf(tap, panel) {
  const {values, grid, step} = panel;
  const range = rangeOf(tap, panel);
  const picture = pictureOf(grid.picture);
  const columns = Math.ceil(grid.columns / step);
  const ratio = picture ? picture.ratio * grid.width / grid.height : grid.rows / grid.columns;
  const width = Math.round(Math.max(120, Math.min(SURFACE, 600 / ratio)));
  const height = Math.round(Math.max(24, width * ratio));
  const [w, h] = [width / grid.columns * step, height / grid.rows * step];
  const boxOf = (i) => [(i % columns) * w, Math.floor(i / columns) * h, w, h];
  const words = (i) => (i < 0 ? `worst: ${words(worstOf(values))}`
    : `${nameCell(panel, columns, i)}: ${spell(panel, values[i], range)}`);
  let strength = 0.7;
  const {canvas, readout, draw} = surface({
    width, height, columns, boxOf, count: values.length, words,
    name: `Differences over the picture; ${words(-1)}`,
    paint: (context, colours) => {
      context.fillStyle = css(colours.same);
      context.fillRect(0, 0, width, height);
      if (picture) {
        context.drawImage(picture.canvas, 0, 0, width * grid.width, height * grid.height);
      }
      values.forEach((value, i) =>
        paintCell(context, boxOf(i), heat(value, range, colours), colours, strength));
    },
  });
  const slider = make('input', {type: 'range', min: '0', max: '100', value: '70'});
  slider.addEventListener('input', () => { strength = slider.value / 100; draw(); });
  return make('figure', {}, canvas, readout, make('figcaption', {}, scaleOf(panel)),
    make('label', {class: 'slider no-print'}, 'Overlay', slider));
}

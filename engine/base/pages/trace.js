"use strict";
// The page of a trace: time runs to the right; tracks for iterations, streams and counters stand below each other.

const { spans, copies, counters, messages, names, types, paths, loops, devices, streams } = data;
const COUNT = spans.begin.length;
const LABELS = 176; // width of the names of tracks
const AXIS = 24;
const ROW = 17;
const THIN = 11; // height of a row of iterations
const GAP = 8;
const MOST_ROWS = 32; // of one track; what overlaps more shares the last one
const CURVE = 38;
const OVERLAPPING = ["awaited", "workers"]; // streams whose spans overlap

// ---- events ----

// Begins are differences, which have few digits.
const begin = new Float64Array(COUNT);
spans.begin.reduce((time, step, k) => (begin[k] = time + step), 0);
const end = begin.map((time, k) => time + spans.duration[k]);
const device = spans.lane.map((lane) => Math.floor(lane / streams.length));
const length = Math.max(1, data.length);

/** Put intervals into the fewest rows in which none overlap; `order` lists them by their beginnings. */
function pack(order, from, to) {
  const free = []; // the end of each row
  const rows = new Map();
  for (const k of order) {
    let row = free.findIndex((time) => time <= from(k));
    if (row < 0) row = free.length < MOST_ROWS ? free.length : MOST_ROWS - 1;
    free[row] = Math.max(free[row] ?? 0, to(k));
    rows.set(k, row);
  }
  return { rows, count: Math.max(1, free.length) };
}

const byBegin = [...begin.keys()].sort((a, b) => begin[a] - begin[b] || a - b);

/** Return the iterations of each loop: from the first span of each to its last. */
function collectIterations() {
  const found = new Map();
  for (const k of byBegin) {
    const loop = loops[spans.path[k]];
    if (!loop) continue;
    const track = `${device[k]} ${loop}`;
    if (!found.has(track)) found.set(track, { device: device[k], loop, all: new Map() });
    const key = `${spans.step[k]} ${spans.path[k]} ${spans.iteration[k]}`;
    const { all } = found.get(track);
    const known = all.get(key);
    if (known === undefined) {
      all.set(key, { begin: begin[k], end: end[k], iteration: spans.iteration[k], path: spans.path[k], step: spans.step[k], spans: 1, live: spans.live[k] });
    } else {
      known.begin = Math.min(known.begin, begin[k]);
      known.end = Math.max(known.end, end[k]);
      known.spans += 1;
      known.live |= spans.live[k];
    }
  }
  return [...found.values()].map(({ device, loop, all }) => ({ device, loop, bars: [...all.values()].filter((bar) => bar.live) }));
}
const iterations = collectIterations();

// ---- tracks ----

const tracks = []; // { kind, device, label, top, height, rows: lists of items by begin, ... }
function buildTracks() {
  devices.forEach((name, number) => {
    if (devices.length > 1) tracks.push({ kind: "title", label: name, height: 22 });
    for (const { loop, bars } of iterations.filter((each) => each.device === number)) {
      const order = [...bars.keys()].sort((a, b) => bars[a].begin - bars[b].begin);
      const packed = pack(order, (k) => bars[k].begin, (k) => bars[k].end);
      tracks.push({ kind: "iterations", label: loop, note: `${bars.length.toLocaleString("en")} iterations`, bars, rows: inRows(order, packed), height: packed.count * THIN });
    }
    streams.forEach((stream, lane) => {
      const order = byBegin.filter((k) => spans.lane[k] === number * streams.length + lane);
      if (order.length) addSpans(stream, order);
      const moved = [...copies.keys()].filter((k) => copies[k].device === number && copies[k].stream === stream);
      if (moved.length) {
        moved.sort((a, b) => copies[a].begin - copies[b].begin);
        const packed = pack(moved, (k) => copies[k].begin, (k) => copies[k].begin + copies[k].duration);
        tracks.push({ kind: "copies", label: stream, note: `${moved.length} copies of saved values`, rows: inRows(moved, packed), height: packed.count * ROW });
      }
    });
    for (const counter of counters.filter((each) => each.device === number)) {
      const most = counter.values.reduce((a, b) => Math.max(a, b), 0);
      tracks.push({ kind: "counter", label: counter.name, note: `at most ${write(counter.name, most)}`, counter, most: Math.max(1, most), height: CURVE });
    }
  });
  let top = GAP;
  for (const track of tracks) {
    track.top = top;
    top += track.height + GAP;
  }
  return top;
}

function addSpans(stream, order) {
  const overlaps = OVERLAPPING.includes(stream) || order.some((k, at) => at && begin[k] < end[order[at - 1]]);
  const packed = overlaps ? pack(order, (k) => begin[k], (k) => end[k]) : { rows: new Map(order.map((k) => [k, 0])), count: 1 };
  tracks.push({ kind: "spans", label: stream, note: `${order.length.toLocaleString("en")} spans`, rows: inRows(order, packed), height: packed.count * ROW });
}

function inRows(order, { rows, count }) {
  const found = Array.from({ length: count }, () => []);
  for (const k of order) found[rows.get(k)].push(k);
  return found;
}

// ---- words ----

function time(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${trim(ns)} ns`;
  if (size < 1e6) return `${trim(ns / 1e3)} µs`;
  return size < 1e9 ? `${trim(ns / 1e6)} ms` : `${trim(ns / 1e9)} s`;
}

const trim = (value) => String(Number(value.toPrecision(4)));

function bytes(value) {
  const [unit, size] = value < 1 << 10 ? ["B", 1] : value < 1 << 20 ? ["KiB", 1 << 10] : value < 2 ** 30 ? ["MiB", 1 << 20] : ["GiB", 2 ** 30];
  return `${trim(value / size)} ${unit}`;
}

const write = (counter, value) => (counter.includes("bytes") ? bytes(value) : String(value));
const tag = (k) => `${names[spans.name[k]]}@${paths[spans.path[k]]}/${spans.iteration[k]}`;

// ---- drawing ----

const view = document.getElementById("view");
const canvas = view.querySelector("canvas");
const pen = canvas.getContext("2d");
const dark = matchMedia("(prefers-color-scheme: dark)");
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const PALETTES = {
  light: ["#7fb2e5", "#f2b66b", "#86c99a", "#d99bc6", "#b3a4e6", "#e59a8b", "#6fc3c0", "#d6c05a", "#9db0c4", "#c99f79", "#a6c96a", "#e08fb0"],
  dark: ["#3f75ad", "#a8712a", "#45865a", "#94577f", "#6c5cab", "#a5584a", "#2f807d", "#8a7722", "#5f7388", "#87603d", "#66862f", "#9c4d6e"],
};
let colours = {};
let palette = [];
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "sheet", "ink", "soft", "line", "edge", "accent", "mark", "constant"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  palette = dark.matches ? PALETTES.dark : PALETTES.light;
}

const fullHeight = buildTracks();
let [width, height] = [0, 0];
let start = 0; // the time at the left edge, in ns
let scale = 1; // pixels per ns
let scroll = 0;
let chosen = null; // ["span", k], ["bar", bar] or ["copy", k]
let matching = null; // Uint8Array by name, or null
let asked = false;

const toX = (at) => LABELS + (at - start) * scale;
const toTime = (x) => start + (x - LABELS) / scale;

function request() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

function draw() {
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.fillStyle = colours.ground;
  pen.fillRect(0, 0, width, height);
  drawAxis();
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  for (const track of tracks) {
    const top = AXIS + track.top - scroll;
    if (top > height || top + track.height < AXIS) continue;
    if (track.kind === "title") {
      label(track.label, 10, top + 15, colours.ink, "600 12px");
      continue;
    }
    pen.save();
    pen.beginPath();
    pen.rect(LABELS, AXIS, width - LABELS, height - AXIS);
    pen.clip();
    if (track.kind === "counter") drawCounter(track, top);
    else drawRows(track, top);
    pen.restore();
    drawName(track, top);
  }
  drawMessages();
  pen.restore();
}

function label(text, x, y, colour, font = "12px") {
  pen.font = `${font} ${FONT}`;
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

function drawName(track, top) {
  const middle = top + Math.min(track.height, 34) / 2 + 4;
  const two = track.height >= 30 && track.note;
  label(shorten(track.label, LABELS - 20, "12px"), 10, two ? middle - 7 : middle, colours.ink);
  if (two) label(shorten(track.note, LABELS - 20, "11px"), 10, middle + 8, colours.soft, "11px");
  pen.fillStyle = colours.line;
  pen.fillRect(0, Math.round(top + track.height + GAP / 2), width, 0.5);
}

const widths = new Map();
function measure(text, font) {
  const key = `${font} ${text}`;
  if (!widths.has(key)) {
    pen.font = `${font} ${FONT}`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

/** Cut a text to a width, in front, where names of operations say least. */
function shorten(text, room, font) {
  const whole = measure(text, font);
  if (whole <= room) return text;
  const kept = Math.floor((text.length * (room - 10)) / whole);
  return kept > 1 ? `…${text.slice(-kept)}` : "";
}

function drawAxis() {
  const wanted = 110 / scale;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((k) => k * power).find((each) => each >= wanted);
  for (let at = Math.max(0, Math.ceil(start / step) * step); at <= Math.min(length * 1.05, toTime(width)); at += step) {
    const x = Math.round(toX(at)) + 0.5;
    pen.fillStyle = colours.line;
    pen.fillRect(x, AXIS - 6, 1, height);
    label(time(at), x + 4, AXIS - 9, colours.soft, "11px");
  }
}

/** Draw what can be seen of each row; spans that are less than a pixel wide share it. */
function drawRows(track, top) {
  const tall = track.kind === "iterations" ? THIN : ROW;
  const [from, to] = [toTime(LABELS), toTime(width)];
  track.rows.forEach((row, number) => {
    const y = top + number * tall;
    if (y > height || y + tall < AXIS) return;
    let last = -1;
    for (let at = firstAfter(track, row, from); at < row.length; at++) {
      const [b, e] = times(track, row[at]);
      if (b > to) break;
      if (e < from) continue;
      const x0 = Math.max(LABELS - 2, toX(b));
      const x1 = Math.min(width + 2, toX(e));
      const hit = isMatching(track, row[at]);
      if (x1 - x0 < 1 && Math.floor(x0) === last && !(hit && matching)) continue;
      last = Math.floor(x0);
      paint(track, row[at], x0, y, Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : 0)), tall - 1, hit);
    }
  });
}

/** Return the place in a row of the first item that may end after a time; all before it have ended. */
function firstAfter(track, row, from) {
  if (track.longest === undefined) {
    track.longest = 0;
    for (const each of track.rows) {
      for (const k of each) {
        const [b, e] = times(track, k);
        track.longest = Math.max(track.longest, e - b);
      }
    }
  }
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times(track, row[middle])[0] < from - track.longest) low = middle + 1;
    else high = middle;
  }
  return low;
}

function times(track, k) {
  if (track.kind === "spans") return [begin[k], end[k]];
  if (track.kind === "copies") return [copies[k].begin, copies[k].begin + copies[k].duration];
  return [track.bars[k].begin, track.bars[k].end];
}

function isMatching(track, k) {
  return matching === null || (track.kind === "spans" && matching[spans.name[k]] === 1);
}

function paint(track, k, x, y, wide, tall, hit) {
  const spanning = track.kind === "spans";
  const item = spanning ? null : track.kind === "copies" ? copies[k] : track.bars[k];
  const nested = spanning ? loops[spans.path[k]] !== "" : track.kind === "iterations";
  const iteration = spanning ? spans.iteration[k] : item.iteration;
  const dead = spanning && !spans.live[k];
  pen.globalAlpha = hit ? 1 : 0.18;
  pen.fillStyle = dead ? colours.line : nested ? palette[iteration % palette.length] : track.kind === "copies" ? colours.edge : colours.constant;
  pen.fillRect(x, y, wide, tall);
  if (!nested && !dead && wide > 2) {
    pen.strokeStyle = colours.edge;
    pen.lineWidth = 0.75;
    pen.strokeRect(x + 0.5, y + 0.5, wide - 1, tall - 1);
  }
  if (wide > 26) {
    const text = spanning ? names[spans.name[k]] : track.kind === "copies" ? bytes(item.bytes) : String(item.iteration);
    const font = track.kind === "iterations" ? "9px" : "11px";
    label(shorten(text, wide - 8, font), x + 4, y + tall - (track.kind === "iterations" ? 2 : 4.5), colours.ink, font);
  }
  pen.globalAlpha = 1;
  if (chosen && chosen[1] === (spanning ? k : item) && chosen[0] === track.kind) {
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(x, y, wide, tall);
  }
}

function drawCounter(track, top) {
  const { times: at, values } = track.counter;
  const base = top + track.height;
  pen.beginPath();
  pen.moveTo(Math.max(LABELS, toX(at[0])), base);
  let y = base;
  let lastX = -1;
  let peak = 0; // the most of values that share a pixel
  for (let k = 0; k < at.length; k++) {
    const x = toX(at[k]);
    const next = base - (values[k] / track.most) * (track.height - 4);
    if (x < LABELS) {
      y = next;
      continue;
    }
    if (x > width + 4) break;
    if (Math.floor(x) === lastX && values[k] <= peak) continue;
    if (Math.floor(x) !== lastX) peak = 0;
    peak = Math.max(peak, values[k]);
    pen.lineTo(x, y);
    pen.lineTo(x, next);
    y = next;
    lastX = Math.floor(x);
  }
  const right = Math.min(width, toX(length));
  pen.lineTo(Math.max(LABELS, right), y);
  pen.lineTo(Math.max(LABELS, right), base);
  pen.globalAlpha = 0.25;
  pen.fillStyle = colours.accent;
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 1;
  pen.stroke();
}

/** Draw the messages of the chosen span: from its Send to its Recv. */
function drawMessages() {
  if (!chosen || chosen[0] !== "spans") return;
  for (const [from, to] of messages) {
    if (from !== chosen[1] && to !== chosen[1]) continue;
    const [a, b] = [placeOf(from), placeOf(to)];
    if (!a || !b) continue;
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(toX(end[from]), a);
    pen.bezierCurveTo(toX(end[from]) + 30, a, toX(begin[to]) - 30, b, toX(begin[to]), b);
    pen.stroke();
  }
}

function placeOf(k) {
  for (const track of tracks) {
    if (track.kind !== "spans") continue;
    const row = track.rows.findIndex((each) => each.includes(k));
    if (row >= 0) return AXIS + track.top - scroll + row * ROW + ROW / 2;
  }
  return null;
}

// ---- moving ----

function clamp() {
  const room = width - LABELS;
  scale = Math.min(2, Math.max((room * 0.9) / length, scale)); // two pixels for a nanosecond at most
  const margin = (room * 0.05) / scale;
  start = Math.min(length + margin - room / scale, Math.max(-margin, start));
  if (length + 2 * margin < room / scale) start = -margin;
  scroll = Math.max(0, Math.min(scroll, fullHeight - (height - AXIS)));
}

function zoom(factor, x) {
  const at = x - view.getBoundingClientRect().left;
  const here = toTime(Math.max(LABELS, at));
  scale *= factor;
  clamp();
  start = here - (Math.max(LABELS, at) - LABELS) / scale;
  clamp();
  request();
}

function pan(x, y) {
  start -= x / scale;
  scroll -= y;
  clamp();
  request();
}

function show(from, to) {
  const room = width - LABELS;
  scale = (room * 0.8) / Math.max(1, to - from);
  clamp();
  start = (from + to) / 2 - room / 2 / scale;
  clamp();
  request();
}

function resize() {
  const box = view.getBoundingClientRect();
  const all = width === 0 || scale <= ((width - LABELS) * 0.9) / length + 1e-12;
  [width, height] = [box.width, box.height];
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  if (all) scale = 0;
  clamp();
  draw();
}

// ---- choosing and searching ----

/** Return [kind, item, track] of what is under the pointer, or null. */
function under(event) {
  const box = view.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  if (x < LABELS || y < AXIS) return null;
  const at = y - AXIS + scroll;
  const track = tracks.find((each) => at >= each.top && at < each.top + each.height);
  if (!track || !track.rows) return track?.kind === "counter" ? ["counter", toTime(x), track] : null;
  const row = track.rows[Math.floor((at - track.top) / (track.kind === "iterations" ? THIN : ROW))] || [];
  const reach = 3 / scale; // pixels beside a narrow span that still mean it
  let best = null;
  for (let k = firstAfter(track, row, toTime(x) - reach); k < row.length; k++) {
    const [b, e] = times(track, row[k]);
    if (b - reach > toTime(x)) break;
    const distance = Math.max(b - toTime(x), toTime(x) - e, 0);
    if (distance <= reach && (best === null || distance < best[0])) best = [distance, row[k]];
  }
  if (best === null) return null;
  return [track.kind, track.kind === "spans" ? best[1] : track.kind === "copies" ? copies[best[1]] : track.bars[best[1]], track];
}

function describe([kind, item, track]) {
  if (kind === "spans") {
    const state = spans.live[item] ? "" : "dead: it only passed deadness on";
    const loop = loops[spans.path[item]];
    return [`${names[spans.name[item]]} · ${types[spans.name[item]]}`, tag(item), time(spans.duration[item]), ...(loop ? [`iteration ${spans.iteration[item]} of ${loop}`] : []), ...(state ? [state] : [])];
  }
  if (kind === "copies") return [`copy, ${item.tier}`, bytes(item.bytes), time(item.duration)];
  if (kind === "iterations") return [`iteration ${item.iteration} of ${track.loop || track.label}`, `${time(item.end - item.begin)}, ${item.spans} spans`, paths[item.path]];
  const { times: at, values } = track.counter;
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] <= item) low = middle + 1;
    else high = middle;
  }
  return low ? [`${track.counter.name}: ${write(track.counter.name, values[low - 1])}`, `at ${time(item)}`] : [];
}

const panel = document.querySelector("aside");
const output = document.querySelector("header output");
let hits = [];
let place = -1;

const search = listenToSearch({
  found(text) {
    place = -1;
    matching = text ? Uint8Array.from(names, (name, k) => Number([name, types[k]].some((each) => each.toLowerCase().includes(text)))) : null;
    hits = matching ? byBegin.filter((k) => matching[spans.name[k]]) : [];
    output.textContent = text ? `${hits.length.toLocaleString("en")} found` : "";
    request();
  },
  next(direction) {
    if (!hits.length) return;
    place = (place + direction + hits.length) % hits.length;
    output.textContent = `${place + 1} of ${hits.length}`;
    choose(["spans", hits[place]], true);
  },
  done: () => choose(null),
});

function choose(found, go = false) {
  chosen = found;
  if (go && found) {
    const [kind, item] = found;
    const [b, e] = kind === "spans" ? [begin[item], end[item]] : [item.begin, item.end ?? item.begin + item.duration];
    const seen = (e - b) * scale > 30 && toX(b) > LABELS && toX(e) < width;
    if (!seen) show(b - (e - b) * 2, e + (e - b) * 2);
    const y = kind === "spans" ? placeOf(item) : null;
    if (y !== null && (y < AXIS || y > height - ROW)) scroll += y - height / 2;
    clamp();
  }
  if (found && found[0] !== "counter") tell(found);
  else tellOverview();
  request();
}

function facts(pairs) {
  return element("dl", {}, ...pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function tell([kind, item, track]) {
  let pairs;
  let title;
  if (kind === "spans") {
    title = names[spans.name[item]];
    pairs = [
      ["type", types[spans.name[item]]],
      ["tag", tag(item)],
      ["frame", paths[spans.path[item]]],
      ["iteration", String(spans.iteration[item])],
      ["step", String(spans.step[item])],
      ["device", devices[device[item]]],
      ["stream", streams[spans.lane[item] % streams.length]],
      ["begins at", time(begin[item])],
      ["duration", time(spans.duration[item])],
      ["value", spans.live[item] ? "live" : "dead"],
    ];
  } else if (kind === "copies") {
    title = `Copy of a saved value, ${item.tier}`;
    pairs = [["bytes", bytes(item.bytes)], ["device", devices[item.device]], ["stream", item.stream], ["begins at", time(item.begin)], ["duration", time(item.duration)]];
  } else {
    title = `Iteration ${item.iteration}`;
    pairs = [["of", track.label], ["frame", paths[item.path]], ["step", String(item.step)], ["begins at", time(item.begin)], ["duration", time(item.end - item.begin)], ["spans", String(item.spans)]];
  }
  const near = messages.filter((pair) => kind === "spans" && pair.includes(item)).map((pair) => pair.find((k) => k !== item));
  panel.replaceChildren(
    element("h2", {}, title),
    facts(pairs),
    ...(near.length ? [element("h3", {}, "Message"), ...near.map((k) => element("button", { class: "go", type: "button", onclick: () => choose(["spans", k], true) }, tag(k)))] : []),
    element("p", {}, element("button", { type: "button", onclick: () => choose(null) }, "Overview")),
  );
}

/** Return rows of [operation, times, total] of live spans, the longest first. */
function totals() {
  const found = names.map((_, k) => [k, 0, 0]);
  for (let k = 0; k < COUNT; k++) {
    if (!spans.live[k]) continue;
    found[spans.name[k]][1] += 1;
    found[spans.name[k]][2] += spans.duration[k];
  }
  return found.filter((row) => row[1]).sort((a, b) => b[2] - a[2] || a[0] - b[0]);
}

function table(headings, rows) {
  return element("table", {}, element("tr", {}, ...headings.map((each) => element("th", {}, each))), ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell)))));
}

function tellOverview() {
  const most = totals();
  const inFlight = iterations.filter(({ bars }) => bars.length).map(({ loop, device: number, bars }) => {
    const sum = bars.reduce((total, bar) => total + bar.end - bar.begin, 0);
    return [devices.length > 1 ? `${loop} on ${devices[number]}` : loop, bars.length.toLocaleString("en"), time(sum / bars.length), trim(sum / covered(bars))];
  });
  panel.replaceChildren(
    ...(data.dropped ? [element("h2", {}, `${data.dropped.toLocaleString("en")} older spans made room`), element("p", {}, "Trace(capacity=...) keeps more.")] : []),
    ...(inFlight.length ? [element("h3", {}, "Loops"), table(["loop", "iterations", "mean", "in flight"], inFlight)] : []),
    element("h3", {}, "Operations, by time"),
    table(["operation", "times", "total"], most.slice(0, 14).map(([k, times, total]) => [element("button", { class: "go", type: "button", onclick: () => search(names[k]) }, names[k]), times.toLocaleString("en"), time(total)])),
    ...(most.length > 14 ? [element("p", {}, `and ${most.length - 14} more`)] : []),
    element("p", {}, "Colours tell iterations apart; outlined spans are outside of loops, pale ones are dead."),
    ...keyTable([
      [["/"], "search; Enter goes to the next"],
      [["←", "→"], "move in time"],
      [["↑", "↓"], "move over tracks"],
      [["+", "−"], "zoom, as the wheel does"],
      [["0"], "all at once"],
      [["Enter"], "fill the view with what is chosen"],
      [["Esc"], "overview"],
    ]),
  );
}

/** Return the time in which at least one of some bars, sorted by their beginnings, is under way. */
function covered(bars) {
  let total = 0;
  let until = -Infinity;
  for (const bar of [...bars].sort((a, b) => a.begin - b.begin)) {
    total += Math.max(0, bar.end - Math.max(bar.begin, until));
    until = Math.max(until, bar.end);
  }
  return Math.max(1, total);
}

// ---- events ----

function fill() {
  if (!chosen || chosen[0] === "counter") return;
  const [kind, item] = chosen;
  if (kind === "spans") show(begin[item], end[item]);
  else show(item.begin, item.end ?? item.begin + item.duration);
}

listenToMoves(view, {
  pan,
  zoom: (factor, x) => zoom(factor, x),
  keys: {
    0: () => show(0, length),
    Enter: fill,
    Escape: () => choose(null),
  },
  click: (event) => choose(under(event)),
  hover(event) {
    const found = under(event);
    view.style.cursor = found ? "pointer" : "default";
    showTip(event, found ? describe(found) : []);
  },
  leave: () => showTip(null, []),
});
view.addEventListener("dblclick", fill);
dark.addEventListener("change", () => (readColours(), request()));
new ResizeObserver(resize).observe(view);
readColours();
resize();
tellOverview();

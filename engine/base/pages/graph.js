"use strict";
// The page of a graph: operations in layers, branches and loop bodies as frames that fold.

const { operations, regions } = data;
const MOST_VISIBLE = 250; // operations that are shown at first if some can be folded
const HEAD = 24;
const PAD = 12;
const ROLE = 18;
const KINDS = {
  input: "comes from outside",
  constant: "constant",
  state: "reads or writes state",
  effect: "has effects, or calls Python",
  flow: "control flow",
  compute: "computes",
};

// ---- the graph ----

const open = new Set(); // indices of operations whose regions are shown
const size = new Int32Array(operations.length); // operations inside of each
operations.forEach((op, index) => {
  op.index = index;
  op.outgoing = [];
});
regions.forEach((region, index) => region.operations.forEach((k) => (operations[k].region = index)));
for (let k = operations.length - 1; k >= 0; k--) {
  const owner = regions[operations[k].region].owner;
  if (owner >= 0) size[owner] += 1 + size[k];
}

/** Return the index of an operation that stands in region `region` and is `index` or around it; -1 if there is none. */
function liftTo(index, region) {
  while (index >= 0 && operations[index].region !== region) index = regions[operations[index].region].owner;
  return index;
}

const links = []; // { from, output, to, kind, back: region whose result it is, or -1 }
operations.forEach((op) => {
  op.inputs.forEach(([from, output], port) => links.push({ from, output, to: op.index, port, kind: "data", back: -1 }));
  op.controls.forEach((from, k) =>
    links.push({ from, output: -1, to: op.index, port: op.inputs.length + k, kind: "control", back: -1 }),
  );
});
regions.forEach((region, index) =>
  region.results.forEach(([from, output], port) =>
    links.push({ from, output, to: region.owner, port, kind: "result", back: index }),
  ),
);
for (const link of links) {
  link.tensor = link.output < 0 ? "" : operations[link.from].outputs[link.output];
  link.inside = operations[link.from].region; // the innermost region that both ends are in
  operations[link.from].outgoing.push(link);
}

/** Open branches and bodies from outside inwards while they fit; the others stay folded. */
function foldLarge() {
  const queue = operations.filter((op) => op.regions.length && op.region === 0);
  let visible = regions[0].operations.length;
  for (let op = queue.shift(); op; op = queue.shift()) {
    const inner = op.regions.flatMap((index) => regions[index].operations);
    if (visible + inner.length > MOST_VISIBLE) continue;
    visible += inner.length;
    open.add(op.index);
    queue.push(...inner.map((k) => operations[k]).filter((each) => each.regions.length));
  }
}

/** Return the operation that stands for `index` while frames are folded: itself, or the outermost folded one around. */
function shown(index) {
  let found = index;
  for (let owner = regions[operations[index].region].owner; owner >= 0; owner = regions[operations[owner].region].owner) {
    if (!open.has(owner)) found = owner;
  }
  return found;
}

// ---- sizes ----

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();
function textWidth(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    pen.font = `${font} system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

function cut(text, most = 30) {
  return text.length <= most ? text : `${text.slice(0, most - 13)}…${text.slice(-12)}`;
}

/** Return the lines of an operation's box. */
function labels(op) {
  if (op.kind === "constant" && op.brief) return [cut(op.brief, 16)];
  const name = cut(op.label || op.name.slice(op.name.lastIndexOf("/") + 1) || op.name);
  const inner = size[op.index] ? `${size[op.index]} operations` : "";
  const type = name === op.type || op.label ? "" : op.type;
  const second = [inner, type, inner ? "" : cut(op.outputs[0] || "", 24)].filter(Boolean).join(" · ");
  return second ? [name, second] : [name];
}

function leafSize(op) {
  const [first, second = ""] = labels(op);
  const width = Math.max(textWidth(first, "12px"), textWidth(second, "10.5px")) + (second || size[op.index] ? 20 : 14);
  return [Math.max(width, 30), second ? 38 : 22];
}

// ---- layout ----

/** Lay out a region and all that is open in it; returns boxes with places relative to the region's corner. */
function layOutRegion(index) {
  const region = regions[index];
  const place = new Map(region.operations.map((op, k) => [op, k]));
  const boxes = region.operations.map((k) => (open.has(k) ? layOutFrame(operations[k]) : { op: k, size: leafSize(operations[k]) }));
  if (index > 0 && region.results.length) boxes.push({ results: index, size: [58, 20] });
  const pairs = [];
  const owners = [];
  for (const link of linksOf[index]) {
    const end = link.back === index ? boxes.length - 1 : place.get(liftTo(link.to, index));
    const start = place.get(link.from);
    if (start === undefined || end === undefined) continue;
    pairs.push([start, end]);
    owners.push(link);
  }
  const found = layOut(boxes.map((box) => box.size), pairs);
  boxes.forEach((box, k) => ((box.x = found.left[k]), (box.y = found.top[k])));
  return { boxes, width: found.width, height: found.height, ways: owners.map((link, k) => [link, found.ways[k]]) };
}

function layOutFrame(op) {
  let x = PAD;
  let height = 0;
  const parts = op.regions.map((index) => {
    const inner = layOutRegion(index);
    const role = cut(regions[index].role, 40);
    const width = Math.max(inner.width + 2 * PAD, textWidth(role, "600 10.5px") + 2 * PAD);
    const part = { region: index, role, inner, x, y: HEAD + PAD, width, height: inner.height + ROLE + 2 * PAD };
    x += width + PAD;
    height = Math.max(height, part.height);
    return part;
  });
  parts.forEach((part) => (part.height = height));
  const title = titleOf(op);
  const width = Math.max(x, textWidth(title, "600 12px") + 40);
  return { op: op.index, parts, size: [width, HEAD + PAD + height + PAD] };
}

function titleOf(op) {
  return op.name === op.type ? op.name : `${cut(op.name, 44)} · ${op.type}`;
}

const linksOf = regions.map(() => []);
links.forEach((link) => linksOf[link.inside].push(link));

// ---- drawing ----

const view = document.getElementById("view");
const svg = view.querySelector("svg");
const space = svg.namespaceURI;
const world = svg.querySelector("g");
let boxOf = new Map(); // absolute places of operations, and of "results k"
let drawn = new Map(); // elements of operations
let edges = []; // [link, element]
let bounds = { width: 1, height: 1 };

function shape(tag, attributes, ...children) {
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function words(text, x, y, kind = "", anchor = "middle") {
  return shape("text", { x, y, class: kind, "text-anchor": anchor }, text);
}

function draw() {
  boxOf = new Map();
  drawn = new Map();
  edges = [];
  const root = layOutRegion(0);
  bounds = { width: Math.max(root.width, 1), height: Math.max(root.height, 1) };
  const layers = { frames: shape("g", {}), edges: shape("g", {}), nodes: shape("g", {}) };
  placeBoxes(root, 0, 0, layers);
  const ways = [];
  collectWays(root, 0, 0, ways);
  for (const [link, way] of ways) drawEdge(link, way, layers.edges);
  world.replaceChildren(layers.frames, layers.edges, layers.nodes);
  mark();
  tellFolded();
}

function placeBoxes(region, x, y, layers) {
  for (const box of region.boxes) {
    const at = { x: x + box.x, y: y + box.y, width: box.size[0], height: box.size[1] };
    if (box.results !== undefined) {
      boxOf.set(`results ${box.results}`, at);
      layers.nodes.append(
        shape("g", { class: "results" }, shape("rect", { ...at, rx: 10 }), words("results", at.x + at.width / 2, at.y + 14, "second")),
      );
      continue;
    }
    boxOf.set(box.op, at);
    if (box.parts) drawFrame(box, at, layers);
    else drawNode(operations[box.op], at, layers.nodes);
    for (const part of box.parts || []) {
      placeBoxes(part.inner, ...corner(part, at), layers);
    }
  }
}

function corner(part, at) {
  return [at.x + part.x + (part.width - part.inner.width) / 2, at.y + part.y + ROLE + PAD];
}

function collectWays(region, x, y, ways) {
  for (const [link, way] of region.ways) {
    ways.push([link, way && way.map(([px, top, bottom]) => [px + x, top + y, bottom + y])]);
  }
  for (const box of region.boxes) {
    for (const part of box.parts || []) {
      collectWays(part.inner, ...corner(part, { x: x + box.x, y: y + box.y }), ways);
    }
  }
}

function drawNode(op, at, layer) {
  const lines = labels(op);
  const middle = at.x + at.width / 2;
  const group = shape("g", { class: `node ${op.kind}`, "data-op": op.index });
  if (size[op.index]) group.append(shape("rect", { x: at.x + 3, y: at.y + 3, width: at.width, height: at.height, rx: 5 }));
  group.append(shape("rect", { ...at, rx: op.kind === "constant" || op.kind === "input" ? 10 : 5 }));
  group.append(words(lines[0], middle, at.y + (lines[1] ? 16 : 15)));
  if (lines[1]) group.append(words(lines[1], middle, at.y + 30, "second"));
  drawn.set(op.index, group);
  layer.append(group);
}

function drawFrame(box, at, layers) {
  const op = operations[box.op];
  const group = shape("g", { class: "frame", "data-op": op.index });
  group.append(shape("rect", { ...at, rx: 7, class: "outer" }));
  const head = shape("g", { class: "head", "data-fold": op.index });
  head.append(shape("rect", { x: at.x + 0.5, y: at.y + 0.5, width: at.width - 1, height: HEAD, rx: 6.5 }));
  head.append(words("−", at.x + 14, at.y + 16.5), words(titleOf(op), at.x + 26, at.y + 16.5, "title", "start"));
  group.append(head);
  for (const part of box.parts) {
    group.append(
      shape("rect", { x: at.x + part.x, y: at.y + part.y, width: part.width, height: part.height, rx: 5, class: "inner" }),
      words(part.role, at.x + part.x + PAD, at.y + part.y + 15, "role", "start"),
    );
  }
  drawn.set(op.index, group);
  layers.frames.append(group);
}

/** Return the x at which a link meets a box, whose inputs stand side by side in their order. */
function port(box, k, count) {
  return box.x + (box.width * (k + 1)) / (count + 1);
}

function drawEdge(link, way, layer) {
  const start = boxOf.get(link.from);
  const target = link.back >= 0 ? `results ${link.back}` : shown(link.to);
  const seen = boxOf.has(target) ? target : shown(regions[link.back]?.owner ?? link.to);
  const end = boxOf.get(seen);
  if (!start || !end) return;
  const count = link.back >= 0 ? regions[link.back].results.length : operations[link.to].inputs.length + operations[link.to].controls.length;
  const whole = seen === link.to || link.back >= 0; // else it ends at a folded frame
  const outputs = operations[link.from].outputs.length;
  const x0 = link.output < 0 ? port(start, 0, 1) : port(start, link.output, outputs);
  const x1 = port(end, whole ? link.port : 0, whole ? count : 1);
  const points = [[x0, start.y + start.height, start.y + start.height], ...(way || []), [x1, end.y - 5, end.y - 5]];
  let path = `M${round(points[0][0])} ${round(points[0][2])}`;
  for (let k = 1; k < points.length; k++) {
    const [[x, , y], [nx, ny, after]] = [points[k - 1], points[k]];
    const bend = Math.max(12, Math.abs(ny - y) / 2);
    path += `C${round(x)} ${round(y + bend)} ${round(nx)} ${round(ny - bend)} ${round(nx)} ${round(ny)}`;
    if (after !== ny) path += `V${round(after)}`;
  }
  const captured = operations[link.from].region !== (link.back >= 0 ? link.back : operations[link.to].region);
  const group = shape("g", { class: `edge ${link.kind}${captured ? " capture" : ""}`, "data-link": edges.length });
  const stub = `M${round(x1)} ${round(end.y - 12)}V${round(end.y - 5)}`;
  group.append(shape("path", { d: way ? path : stub, class: "line" }));
  if (!way) {
    group.append(shape("path", { d: path, class: "line whole" })); // seen when either end is chosen
    group.append(shape("circle", { cx: round(x1), cy: round(end.y - 14), r: 2.2 }));
  }
  group.append(shape("polygon", { points: `${round(x1)},${round(end.y)} ${round(x1 - 3)},${round(end.y - 6)} ${round(x1 + 3)},${round(end.y - 6)}` }));
  if (links.length < 2500) group.append(shape("path", { d: way ? path : stub, class: "hit" }));
  edges.push([link, group]);
  layer.append(group);
}

const round = (value) => Math.round(value * 10) / 10;

// ---- moving ----

let scale = 1;
let [dx, dy] = [0, 0];
function move() {
  world.setAttribute("transform", `translate(${round(dx)} ${round(dy)}) scale(${scale})`);
  world.classList.toggle("far", scale < 0.35);
}

function zoom(factor, x, y) {
  const box = view.getBoundingClientRect();
  const next = Math.min(4, Math.max(0.02, scale * factor));
  [dx, dy] = [(dx - x + box.left) * (next / scale) + x - box.left, (dy - y + box.top) * (next / scale) + y - box.top];
  scale = next;
  move();
}

function pan(x, y) {
  dx += x;
  dy += y;
  move();
}

/** Show the whole graph; or of one whose text could not be read then, the beginning of its first layer. */
function fit(whole = false) {
  const box = view.getBoundingClientRect();
  const margin = 24;
  const exact = Math.min((box.width - 2 * margin) / bounds.width, (box.height - 2 * margin) / bounds.height, 1.25);
  scale = Math.max(0.02, whole ? exact : Math.max(0.45, exact));
  const top = [...boxOf.values()].reduce((first, at) => (at.y < first.y ? at : first), { x: 0, y: Infinity, width: 0 });
  dx = (box.width - bounds.width * scale) / 2;
  if (bounds.width * scale > box.width) dx = box.width / 2 - (top.x + top.width / 2) * scale;
  dy = bounds.height * scale < box.height - 2 * margin ? (box.height - bounds.height * scale) / 2 : margin;
  move();
}

function centre(index) {
  const at = boxOf.get(index);
  const box = view.getBoundingClientRect();
  if (scale < 0.5) scale = 0.8;
  dx = box.width / 2 - (at.x + at.width / 2) * scale;
  dy = box.height / 2 - (at.y + Math.min(at.height, box.height / scale) / 2) * scale;
  move();
}

// ---- choosing, searching, folding ----

let chosen = -1;
let found = [];
let place = -1;
const panel = document.querySelector("aside");

function mark() {
  for (const element of drawn.values()) element.classList.remove("chosen", "found");
  if (chosen >= 0) drawn.get(shown(chosen))?.classList.add("chosen");
  for (const index of found) drawn.get(shown(index))?.classList.add("found");
  for (const [link, element] of edges) {
    element.classList.toggle("near", chosen >= 0 && (link.from === chosen || (link.to === chosen && link.back < 0)));
  }
}

function choose(index, { go = false } = {}) {
  chosen = index;
  if (index >= 0 && go) {
    const before = open.size;
    for (let owner = regions[operations[index].region].owner; owner >= 0; owner = regions[operations[owner].region].owner) {
      open.add(owner);
    }
    if (open.size !== before) draw();
    centre(index);
  }
  mark();
  if (index >= 0) tellOperation(operations[index]);
  else tellOverview();
}

function fold(index) {
  const [before, factor] = [boxOf.get(index), scale];
  if (open.has(index)) open.delete(index);
  else open.add(index);
  draw();
  const after = boxOf.get(index);
  if (before && after) pan((before.x - after.x) * factor, (before.y - after.y) * factor); // its corner stays
}

const output = document.querySelector("header output");
const search = listenToSearch({
  found(text) {
    found = text ? operations.filter((op) => matches(op, text)).map((op) => op.index) : [];
    place = -1;
    output.textContent = text ? `${found.length} found` : "";
    mark();
  },
  next(direction) {
    if (!found.length) return;
    place = (place + direction + found.length) % found.length;
    output.textContent = `${place + 1} of ${found.length}`;
    choose(found[place], { go: true });
  },
  done: () => choose(-1),
});

function matches(op, text) {
  return [op.name, op.type, op.label || "", op.device].some((each) => each.toLowerCase().includes(text));
}

// ---- the side panel ----

function opLink(index, text = operations[index].name) {
  return element("button", { class: "go", type: "button", onclick: () => choose(index, { go: true }) }, text);
}

function list(heading, items) {
  return items.length ? [element("h3", {}, heading), element("ul", {}, ...items.map((item) => element("li", {}, item)))] : [];
}

function facts(pairs) {
  return element("dl", {}, ...pairs.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function tellOperation(op) {
  const region = regions[op.region];
  const rows = [
    ["type", op.type],
    ["parameter", op.label],
    ["device", op.device],
    ["in", region.owner >= 0 ? `${region.role} of ${operations[region.owner].name}` : ""],
    ["inside", size[op.index] ? `${size[op.index]} operations` : ""],
  ];
  const inputs = op.inputs.map(([from, k]) => opLink(from, `${operations[from].name}:${k}  ${operations[from].outputs[k]}`));
  const users = [...new Set(op.outgoing.filter((each) => each.kind !== "result").map((each) => each.to))];
  panel.replaceChildren(
    element("h2", {}, op.name),
    facts(rows),
    ...(op.regions.length
      ? [element("p", {}, element("button", { type: "button", onclick: () => fold(op.index) }, open.has(op.index) ? "Fold" : "Unfold"))]
      : []),
    ...list("Outputs", op.outputs.map((each, k) => `${k}  ${each}`)),
    ...list("Inputs", inputs),
    ...list("Waits for", op.controls.map((from) => opLink(from))),
    ...list("Used by", users.map((to) => opLink(to))),
    ...(op.attributes.length
      ? [element("h3", {}, "Attributes"), facts(op.attributes.map(([name, value]) => [name, element("code", {}, value)]))]
      : []),
    ...(op.source ? [element("h3", {}, "Asked for at"), element("code", {}, op.source)] : []),
    element("p", {}, element("button", { type: "button", onclick: () => choose(-1) }, "Overview")),
  );
}

function tellOverview() {
  const counts = new Map();
  operations.forEach((op) => counts.set(op.type, (counts.get(op.type) || 0) + 1));
  const types = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const kinds = new Set(operations.map((op) => op.kind));
  const devices = new Map();
  operations.forEach((op) => op.device && devices.set(op.device, (devices.get(op.device) || 0) + 1));
  panel.replaceChildren(
    ...folded(),
    element("h3", {}, "Operations"),
    ...Object.keys(KINDS).filter((kind) => kinds.has(kind)).map((kind) => element("div", {}, element("span", { class: `swatch ${kind}` }), KINDS[kind])),
    element("h3", {}, "Edges"),
    element("div", {}, element("span", { class: "dot-data" }), "data"),
    element("div", {}, element("span", { class: "dot-control" }), "control: waits for"),
    element("div", {}, element("span", { class: "dot-result" }), "result of a branch or body"),
    ...(edges.some(([, group]) => group.querySelector("circle"))
      ? [element("div", {}, element("span", { class: "stub" }), "from far away; click an end to see it")]
      : []),
    element("h3", {}, "Types"),
    counted(types.slice(0, 14)),
    ...(types.length > 14 ? [element("p", {}, `and ${types.length - 14} more types`)] : []),
    ...(devices.size ? [element("h3", {}, "Devices asked for"), counted([...devices])] : []),
    ...keyTable([
      [["/"], "search; Enter goes to the next"],
      [["↑", "↓", "←", "→"], "move, as dragging does"],
      [["+", "−"], "zoom, as the wheel does"],
      [["0"], "all at once"],
      [["n", "p"], "next operation, previous"],
      [["f"], "fold or unfold"],
      [["Esc"], "overview"],
    ]),
  );
}

function counted(rows) {
  return element(
    "table",
    {},
    ...rows.map(([name, count]) =>
      element("tr", {}, element("td", {}, element("button", { class: "go", type: "button", onclick: () => search(name) }, name)), element("td", {}, String(count))),
    ),
  );
}

/** Return what is folded, the largest first, as links that unfold it. */
function folded() {
  const closed = operations.filter((op) => op.regions.length && !open.has(op.index) && shown(op.index) === op.index);
  if (!closed.length) return [];
  closed.sort((a, b) => size[b.index] - size[a.index]);
  const hidden = closed.reduce((sum, op) => sum + size[op.index], 0);
  const button = (op) =>
    element("button", { class: "go", type: "button", onclick: () => (fold(op.index), centre(op.index)) }, `${op.name}: ${size[op.index]} operations`);
  return [
    element("h2", {}, `${hidden} operations are folded`),
    element("ul", {}, ...closed.slice(0, 12).map((op) => element("li", {}, button(op)))),
    ...(closed.length > 12 ? [element("p", {}, `and ${closed.length - 12} more`)] : []),
  ];
}

function tellFolded() {
  if (chosen < 0) tellOverview();
  else tellOperation(operations[chosen]);
}

// ---- events ----

const opAt = (event) => {
  const at = event.target.closest("[data-op]");
  return at ? Number(at.dataset.op) : -1;
};

function step(direction) {
  const order = [...drawn.keys()].sort((a, b) => a - b);
  if (!order.length) return;
  const at = order.indexOf(shown(Math.max(chosen, 0)));
  choose(order[chosen < 0 ? 0 : (at + direction + order.length) % order.length], { go: true });
}

listenToMoves(view, {
  pan,
  zoom,
  keys: {
    0: () => fit(true),
    n: () => step(1),
    p: () => step(-1),
    f: () => chosen >= 0 && operations[chosen].regions.length && fold(chosen),
    Enter: () => chosen >= 0 && operations[chosen].regions.length && fold(chosen),
    Escape: () => choose(-1),
  },
  click(event) {
    const head = event.target.closest("[data-fold]");
    const index = opAt(event);
    if (head) fold(Number(head.dataset.fold));
    else if (index >= 0 && index === chosen && operations[index].regions.length && !open.has(index)) fold(index);
    else choose(index);
  },
  hover(event) {
    const at = event.target.closest("[data-link]");
    if (at) {
      const [each] = edges[Number(at.dataset.link)];
      const to = each.back >= 0 ? `results of the ${regions[each.back].role}` : operations[each.to].name;
      const first = each.kind === "control" ? "control edge" : each.tensor;
      return showTip(event, [first, `${operations[each.from].name}${each.output < 0 ? "" : `:${each.output}`} → ${to}`]);
    }
    const op = operations[opAt(event)];
    if (!op) return showTip(event, []);
    const inner = size[op.index] ? [`${size[op.index]} operations; click twice to unfold`] : [];
    if (size[op.index] && open.has(op.index)) inner[0] = `${size[op.index]} operations; click the title to fold`;
    return showTip(event, [`${op.name} · ${op.type}`, ...op.outputs.slice(0, 6).map((each, k) => `:${k}  ${each}`), ...(op.device ? [op.device] : []), ...inner, ...(op.source ? [op.source] : [])]);
  },
  leave: () => showTip(null, []),
});

foldLarge();
draw();
fit();
tellOverview();

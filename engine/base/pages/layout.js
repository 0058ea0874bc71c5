"use strict";
// A layered layout: layers by longest paths, orders by barycentres, places by isotonic regression.

const LAYER_GAP = 36;
const NODE_GAP = 22;
const LANE_GAP = 12; // between edges that pass through a layer
const SWEEPS = 10;
const MANY = 120; // boxes, from which on links over more than LONG layers take no place of their own
const LONG = 12;

/**
 * Place boxes in layers.
 *
 * `sizes` is a list of [width, height], `links` a list of [from, to]. Returns `{ width, height, left, top, ways }`: for
 * each box its left and top, and for each link the points [x, top, bottom] of the layers that it passes through; null
 * for a link that is too long to be followed by eye, which takes no place.
 */
function layOut(sizes, links) {
  if (sizes.length === 0) return { width: 0, height: 0, left: [], top: [], ways: links.map(() => []) };
  const count = sizes.length;
  const forward = withoutCycles(count, links);
  const layer = chooseLayers(count, forward);
  const { members, nodes, chains } = fillLayers(sizes, layer, forward);
  orderLayers(members, nodes);
  placeAcross(members, nodes);
  return placeDown(sizes, layer, members, nodes, chains, links);
}

/** Return each link as [low, high], turned round where it would close a cycle; null for one from a box to itself. */
function withoutCycles(count, links) {
  const after = Array.from({ length: count }, () => []);
  links.forEach(([from, to], k) => from !== to && after[from].push([to, k]));
  const state = new Uint8Array(count); // 1: on the path, 2: done
  const turned = new Set();
  for (let root = 0; root < count; root++) {
    if (state[root]) continue;
    const path = [[root, 0]];
    state[root] = 1;
    while (path.length) {
      const step = path[path.length - 1];
      const next = after[step[0]][step[1]++];
      if (next === undefined) {
        state[step[0]] = 2;
        path.pop();
      } else if (state[next[0]] === 1) turned.add(next[1]);
      else if (state[next[0]] === 0) {
        state[next[0]] = 1;
        path.push([next[0], 0]);
      }
    }
  }
  return links.map(([from, to], k) => (from === to ? null : turned.has(k) ? [to, from] : [from, to]));
}

/**
 * Return the layer of each box so that links point down and few of them are long.
 *
 * Longest paths give the number of layers. From the lowest layers that they allow, boxes with more links above than
 * below move up and others down again: so variables stand above their users, and what is read off a graph beside it.
 */
function chooseLayers(count, links) {
  const after = Array.from({ length: count }, () => []);
  const before = Array.from({ length: count }, () => []);
  for (const link of links) {
    if (!link) continue;
    after[link[0]].push(link[1]);
    before[link[1]].push(link[0]);
  }
  const waiting = before.map((each) => each.length);
  const order = [];
  const first = new Int32Array(count);
  for (let k = 0; k < count; k++) if (!waiting[k]) order.push(k);
  for (let at = 0; at < order.length; at++) {
    for (const next of after[order[at]]) {
      first[next] = Math.max(first[next], first[order[at]] + 1);
      if (--waiting[next] === 0) order.push(next);
    }
  }
  const last = first.reduce((most, each) => Math.max(most, each), 0);
  const layer = new Int32Array(count).fill(last);
  const back = [...order].reverse();
  const lower = (k) => after[k].reduce((least, next) => Math.min(least, layer[next] - 1), last);
  for (const k of back) layer[k] = after[k].length || before[k].length ? lower(k) : 0;
  for (let pass = 0; pass < 2; pass++) {
    for (const k of order) {
      if (before[k].length && before[k].length >= after[k].length) {
        layer[k] = before[k].reduce((most, each) => Math.max(most, layer[each] + 1), 0);
      }
    }
    for (const k of back) if (after[k].length > before[k].length) layer[k] = lower(k);
  }
  const least = layer.reduce((found, each) => Math.min(found, each), last);
  return layer.map((each) => each - least);
}

/** Put boxes, and a lane for each layer that a link passes through, into layers. */
function fillLayers(sizes, layer, links) {
  const members = Array.from({ length: layer.reduce((most, each) => Math.max(most, each), 0) + 1 }, () => []);
  const nodes = sizes.map(([width], k) => ({ width, layer: layer[k], up: [], down: [], lane: false, x: 0 }));
  nodes.forEach((node) => members[node.layer].push(node));
  const longest = sizes.length > MANY ? LONG : Infinity;
  const join = (high, low) => {
    high.down.push(low);
    low.up.push(high);
  };
  const shared = new Map(); // links from one box to several share lanes as long as they go the same way
  const chains = links.map((link) => {
    if (!link) return [];
    const [from, to] = [nodes[link[0]], nodes[link[1]]];
    const length = to.layer - from.layer - 1;
    const chain = [];
    if (length > longest) return null;
    let last = from;
    for (let k = 1; k <= length; k++) {
      const key = `${link[0]} ${from.layer + k}`;
      let lane = shared.get(key);
      if (lane === undefined) {
        lane = { width: 2, layer: from.layer + k, up: [], down: [], lane: true, x: 0 };
        shared.set(key, lane);
        members[lane.layer].push(lane);
        join(last, lane);
      }
      chain.push(lane);
      last = lane;
    }
    join(last, to);
    return chain;
  });
  return { members, nodes, chains };
}

/** Sort each layer by the mean places of neighbours, downwards and upwards in turn; keep what crosses least. */
function orderLayers(members, nodes) {
  const number = (row) => row.forEach((node, k) => (node.place = k));
  members.forEach(number);
  const sweeps = nodes.length > 1500 ? 4 : SWEEPS;
  let best = members.map((row) => [...row]);
  let fewest = crossings(members);
  for (let sweep = 0; sweep < sweeps && fewest > 0; sweep++) {
    const rows = sweep % 2 ? [...members].reverse() : members;
    for (const row of rows) {
      for (const node of row) {
        const near = sweep % 2 ? node.down : node.up;
        node.key = near.length ? near.reduce((sum, other) => sum + other.place, 0) / near.length : node.place;
      }
      row.sort((a, b) => a.key - b.key || a.place - b.place);
      number(row);
    }
    const found = crossings(members);
    if (found < fewest) {
      fewest = found;
      best = members.map((row) => [...row]);
    }
  }
  best.forEach((row, k) => {
    members[k].splice(0, row.length, ...row);
    number(members[k]);
  });
}

/** Count the pairs of links between neighbouring layers that cross, by a Fenwick tree. */
function crossings(members) {
  let total = 0;
  for (let k = 0; k + 1 < members.length; k++) {
    const ends = [];
    for (const node of members[k]) {
      ends.push(...node.down.map((other) => other.place).sort((a, b) => a - b));
    }
    const tree = new Int32Array(members[k + 1].length + 2);
    ends.forEach((end, seen) => {
      let notAfter = 0;
      for (let i = end + 1; i > 0; i -= i & -i) notAfter += tree[i];
      total += seen - notAfter;
      for (let i = end + 1; i < tree.length; i += i & -i) tree[i]++;
    });
  }
  return total;
}

/** Move each layer to where its neighbours are, as far as its own boxes leave room; lanes want to be straight. */
function placeAcross(members, nodes) {
  const gap = (a, b) => (a.lane && b.lane ? LANE_GAP : NODE_GAP);
  for (const row of members) {
    let x = 0;
    row.forEach((node, k) => {
      if (k) x += gap(row[k - 1], node);
      node.x = x + node.width / 2;
      x += node.width;
    });
  }
  const sweeps = nodes.length > 1500 ? 8 : 24;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const rows = sweep % 2 ? [...members].reverse() : members;
    for (const row of rows) {
      const wanted = row.map((node) => {
        const near = sweep % 2 ? node.down : node.up;
        const both = sweep >= sweeps - 4 ? [...node.up, ...node.down] : near;
        return both.length ? both.reduce((sum, other) => sum + other.x, 0) / both.length : node.x;
      });
      const weights = row.map((node) => (node.lane ? 8 : 1 + (node.up.length + node.down.length) / 4));
      const offsets = [0];
      for (let k = 1; k < row.length; k++) {
        offsets.push(offsets[k - 1] + row[k - 1].width / 2 + gap(row[k - 1], row[k]) + row[k].width / 2);
      }
      const moved = rising(wanted.map((x, k) => x - offsets[k]), weights);
      row.forEach((node, k) => (node.x = moved[k] + offsets[k]));
    }
  }
}

/** Return the rising sequence that is nearest to `values` by weighted squares: neighbours that fall are pooled. */
function rising(values, weights) {
  const pools = [];
  values.forEach((value, k) => {
    let pool = [value, weights[k], 1];
    while (pools.length && pools[pools.length - 1][0] > pool[0]) {
      const last = pools.pop();
      const weight = last[1] + pool[1];
      pool = [(last[0] * last[1] + pool[0] * pool[1]) / weight, weight, last[2] + pool[2]];
    }
    pools.push(pool);
  });
  return pools.flatMap(([value, , length]) => Array(length).fill(value));
}

/** Stack the layers, and return all places with the least x at 0. */
function placeDown(sizes, layer, members, nodes, chains, links) {
  const heights = members.map(() => 0);
  sizes.forEach(([, height], k) => (heights[layer[k]] = Math.max(heights[layer[k]], height)));
  const tops = [];
  heights.reduce((y, height, k) => ((tops[k] = y), y + height + LAYER_GAP), 0);
  const all = members.flat();
  const least = Math.min(...all.map((node) => node.x - node.width / 2));
  const most = Math.max(...all.map((node) => node.x + node.width / 2));
  return {
    width: most - least,
    height: tops[tops.length - 1] + heights[heights.length - 1],
    left: sizes.map(([width], k) => nodes[k].x - width / 2 - least),
    top: sizes.map(([, height], k) => tops[layer[k]] + (heights[layer[k]] - height) / 2),
    ways: chains.map((chain, k) => {
      if (chain === null) return null;
      const way = chain.map((lane) => [lane.x - least, tops[lane.layer], tops[lane.layer] + heights[lane.layer]]);
      const turned = links[k] && layer[links[k][0]] > layer[links[k][1]];
      return turned ? way.reverse().map(([x, top, bottom]) => [x, bottom, top]) : way;
    }),
  };
}

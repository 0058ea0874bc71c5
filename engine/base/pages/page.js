"use strict";
// Shared by all pages: elements, the tooltip, the search field, and moving by pointer, wheel and keys.

const data = JSON.parse(document.getElementById("data").textContent);

/** Return an element with attributes and children; text is never read as markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const tip = document.getElementById("tip");

/** Show lines near the pointer; an empty list hides the tooltip. */
function showTip(event, lines) {
  tip.hidden = lines.length === 0;
  if (tip.hidden) return;
  tip.replaceChildren(
    ...lines.map((line, k) => element("div", k ? { class: "soft" } : {}, line)),
  );
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 14;
  const top = event.clientY + 14 + box.height > innerHeight ? event.clientY - box.height - 14 : event.clientY + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

/** Call `found(text)` as the search field changes, and `next(direction)` for Enter and Shift+Enter. */
function listenToSearch({ found, next, done }) {
  const field = document.getElementById("search");
  field.addEventListener("input", () => found(field.value.trim().toLowerCase()));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      field.value = "";
      found("");
      field.blur();
      done();
    } else return;
    event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  });
  return (text) => {
    field.value = text;
    found(text.toLowerCase());
  };
}

/**
 * Let a pointer drag a view, two fingers and the wheel zoom it, and keys do both.
 *
 * In a frame of a notebook the wheel scrolls the notebook until the view has the focus.
 */
function listenToMoves(view, { pan, zoom, keys = {}, click, hover, leave }) {
  const pointers = new Map();
  let moved = 0;
  const embedded = self !== top;
  view.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    view.focus({ preventScroll: true });
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    moved = 0;
  });
  view.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (last === undefined) return hover(event);
    const now = [event.clientX, event.clientY];
    if (pointers.size === 2) {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const before = Math.hypot(last[0] - other[0], last[1] - other[1]);
      const after = Math.hypot(now[0] - other[0], now[1] - other[1]);
      zoom(after / Math.max(1, before), other[0], other[1]);
    } else pan(now[0] - last[0], now[1] - last[1]);
    moved += Math.abs(now[0] - last[0]) + Math.abs(now[1] - last[1]);
    if (moved > 4) {
      view.setPointerCapture(event.pointerId); // a capture from the start would take clicks from what is inside
      view.classList.add("moving");
    }
    pointers.set(event.pointerId, now);
  });
  const end = (event) => {
    pointers.delete(event.pointerId);
    view.classList.remove("moving");
  };
  view.addEventListener("pointerup", (event) => {
    const pressed = pointers.has(event.pointerId);
    end(event);
    if (pressed && moved <= 4) click(event);
  });
  view.addEventListener("pointercancel", end);
  view.addEventListener("pointerleave", (event) => {
    if (!view.hasPointerCapture(event.pointerId)) end(event);
    leave();
  });
  view.addEventListener(
    "wheel",
    (event) => {
      if (embedded && !event.ctrlKey && !event.metaKey && document.activeElement !== view) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
      if (event.shiftKey) pan(-(dx || dy), 0, event);
      else if (Math.abs(dx) > Math.abs(dy)) pan(-dx, 0, event);
      else zoom(Math.exp(-dy / 300), event.clientX, event.clientY);
    },
    { passive: false },
  );
  const middle = () => {
    const box = view.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const known = {
    ArrowLeft: () => pan(60, 0),
    ArrowRight: () => pan(-60, 0),
    ArrowUp: () => pan(0, 60),
    ArrowDown: () => pan(0, -60),
    "+": () => zoom(1.3, ...middle()),
    "=": () => zoom(1.3, ...middle()),
    "-": () => zoom(1 / 1.3, ...middle()),
    ...keys,
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, button, aside")) return;
    const act = known[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
}

/** Return rows of keys and what they do, for the foot of the side panel. */
function keyTable(rows) {
  return [
    element("h3", {}, "Keys"),
    element(
      "dl",
      {},
      ...rows.flatMap(([keys, meaning]) => [
        element("dt", {}, ...keys.map((key) => [element("kbd", {}, key), " "]).flat()),
        element("dd", {}, meaning),
      ]),
    ),
  ];
}

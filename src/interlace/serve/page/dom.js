// Elements and numbers. Text always becomes text nodes: nothing here, or elsewhere in the page, parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Say something to screen readers. */
export function announce(text) {
  byId("status").textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const compact = (digits) => new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: digits });

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));

export function plural(n, word) {
  return `${count(n)} ${word}${Number(n) === 1 ? "" : "s"}`;
}

export function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(digits - 1);
  const shown = Number(value.toPrecision(digits));
  return size >= 1e6 ? compact(digits).format(shown) : size >= 1e4 ? whole.format(shown) : String(shown);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit ? n.toPrecision(3) : count(n)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1) return `${value.toPrecision(3)} s`;
  if (value >= 1e-3) return `${(value * 1e3).toPrecision(3)} ms`;
  return `${(value * 1e6).toFixed(0)} µs`;
}

export function percent(share, digits = 1) {
  if (share === null || share === undefined) return "–";
  const size = Math.abs(share);
  if (size > 0 && size < 0.001) return `${number(share * 100, 2)} %`;
  if (size > 0.999 && size < 1) return `${(share * 100).toFixed(2)} %`;
  return `${(share * 100).toFixed(digits)} %`;
}

/** A box with a heading. */
export function panel(title, ...children) {
  const id = `h-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return el("section", { class: "panel", "aria-labelledby": id }, el("h2", { id }, title), ...children);
}

export function tile(label, value, note) {
  return el(
    "div", { class: "tile" }, el("dt", {}, label),
    el("dd", {}, el("span", { class: "figure" }, value), note ? el("small", {}, note) : null),
  );
}

/** Rows of cells; a first row of headings. */
export function table(caption, heads, rows, kind = "") {
  return el(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table", { class: kind }, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))),
    ),
  );
}

export function notice(kind, title, ...children) {
  return el(
    "div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "note" }, el("strong", {}, title), ...children,
  );
}

/** A figure that is drawn for the width that it has, and again when that changes. */
export function drawn(draw) {
  const box = el("div", { class: "chart" });
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width && width !== last) {
      last = width;
      box.replaceChildren(draw(width));
    }
  }).observe(box);
  box.redraw = () => last && box.replaceChildren(draw(last));
  return box;
}

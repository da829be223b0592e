// Figures as SVG. Each has a text for screen readers; colours come from the style sheet by class.

import { el, number, svg } from "./dom.js";

export function ticks(low, high, about = 4) {
  if (!(high > low)) return [low];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) {
    found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  }
  return found;
}

function frame(width, height, label, margins = {}) {
  const space = { left: 46, right: 12, top: 10, bottom: 30, ...margins };
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const inner = { x0: space.left, x1: width - space.right, y0: height - space.bottom, y1: space.top };
  return { root, ...inner };
}

/** Whether values differ so much that a linear scale would show one of them and a flat line. */
export function spansDecades(values) {
  const known = values.filter((value) => value > 0);
  return known.length > 1 && Math.max(...known) > 30 * Math.min(...known);
}

/** Powers of ten from one to another, at most about five of them. */
function decades(low, high) {
  const [first, last] = [Math.round(Math.log10(low)), Math.round(Math.log10(high))];
  const every = Math.ceil((last - first) / 4) || 1;
  return [...Array(Math.floor((last - first) / every) + 1).keys()].map((i) => 10 ** (first + i * every));
}

function yAxis(f, marks, format, y) {
  for (const tick of marks) {
    f.root.append(
      svg("line", { class: "grid", x1: f.x0, x2: f.x1, y1: y(tick), y2: y(tick) }),
      svg("text", { class: "tick", x: f.x0 - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)),
    );
  }
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** One measure over steps that are named: values by index, a marker at one of them; ``log``: on a logarithmic scale. */
export function steps({ width, values, names, format, label, low, high, at, kind = "", log = false }) {
  const f = frame(width, 160, label, { left: 62 });
  const known = values.filter((value) => (log ? value > 0 : value !== null));
  const scale = log ? Math.log10 : (value) => value;
  const bottom = log ? 10 ** Math.floor(Math.log10(Math.min(...known))) : low ?? 0;
  const top = log ? 10 ** Math.ceil(Math.log10(Math.max(...known))) : high ?? (Math.max(...known) * 1.08 || 1);
  const x = (i) => f.x0 + 8 + ((f.x1 - f.x0 - 16) * i) / Math.max(1, values.length - 1);
  const y = (value) => f.y0 - ((f.y0 - f.y1) * (scale(value) - scale(bottom))) / (scale(top) - scale(bottom) || 1);
  yAxis(f, log ? decades(bottom, top) : ticks(bottom, top), format, y);
  const points = values.map((value, i) => [x(i), y(log ? Math.max(value, bottom) : value ?? bottom)]);
  f.root.append(
    svg("line", { class: "marker", x1: x(at), x2: x(at), y1: f.y1, y2: f.y0 }),
    svg("path", { class: `line ${kind}`, d: path(points) }),
    ...points.map(([px, py], i) => svg("circle", { class: `dot ${kind}`, cx: px, cy: py, r: i === at ? 5.5 : 2.5 })),
  );
  const every = Math.ceil(values.length / Math.max(2, Math.floor((f.x1 - f.x0) / 46)));
  names.forEach((name, i) => {
    if (i % every && i !== at) return;
    if (i !== at && Math.abs(i - at) < every) return;
    const kinds = i === at ? "tick strong" : "tick";
    f.root.append(svg("text", { class: kinds, x: x(i), y: f.y0 + 18, "text-anchor": "middle" }, name));
  });
  return f.root;
}

/** Bars for numbers in order; some of them marked. */
export function bars({ width, values, marked, label, xLabel, format = (v) => number(v, 2) }) {
  const f = frame(width, 190, label, { left: 54, bottom: 36 });
  const top = Math.max(...values) * 1.05 || 1;
  const y = (value) => f.y0 - ((f.y0 - f.y1) * value) / top;
  yAxis(f, ticks(0, top), format, y);
  const step = (f.x1 - f.x0) / values.length;
  values.forEach((value, i) => {
    const bar = svg("rect", {
      class: marked[i] ? "bar first" : "bar second", x: f.x0 + i * step, y: y(value),
      width: Math.max(0.6, step - (step > 4 ? 1 : 0)), height: Math.max(0, f.y0 - y(value)),
    });
    bar.append(svg("title", {}, `dimension ${i}: ${number(value)}${marked[i] ? ", in psi" : ""}`));
    f.root.append(bar);
  });
  f.root.append(svg("text", { class: "tick", x: f.x0, y: f.y0 + 16 }, "0"));
  f.root.append(svg("text", { class: "tick", x: f.x1, y: f.y0 + 16, "text-anchor": "end" }, values.length - 1));
  f.root.append(
    svg("text", { class: "tick", x: (f.x0 + f.x1) / 2, y: f.y0 + 30, "text-anchor": "middle" }, xLabel),
  );
  return f.root;
}

/** Curves over a common logarithmic x axis, scaled each to its own largest value, with observations as ticks below. */
export function curves({ width, x, series, rug, marked, label, xLabel }) {
  const f = frame(width, 200, label, { left: 20, bottom: 46 });
  const low = x[0];
  const high = x[x.length - 1];
  const px = (value) => f.x0 + ((f.x1 - f.x0) * Math.log(Math.max(value, low) / low)) / (Math.log(high / low) || 1);
  for (const { values, kind } of series) {
    const top = Math.max(...values) || 1;
    const points = values.map((value, i) => [px(x[i]), f.y0 - ((f.y0 - f.y1) * value) / top]);
    f.root.append(svg("path", { class: `line ${kind}`, d: path(points) }));
  }
  f.root.append(svg("line", { class: "axis", x1: f.x0, x2: f.x1, y1: f.y0, y2: f.y0 }));
  rug.forEach((value, i) => {
    const kind = marked[i] ? "rug first" : "rug second";
    f.root.append(svg("line", { class: kind, x1: px(value), x2: px(value), y1: f.y0 + 2, y2: f.y0 + 12 }));
  });
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power += 1) {
    const tick = 10 ** power;
    f.root.append(svg("text", { class: "tick", x: px(tick), y: f.y0 + 27, "text-anchor": "middle" }, number(tick, 2)));
  }
  f.root.append(
    svg("text", { class: "tick", x: (f.x0 + f.x1) / 2, y: f.y0 + 42, "text-anchor": "middle" }, xLabel),
  );
  return f.root;
}

/** A line of measured points over a numeric axis. */
export function line({ width, points, label, xLabel, low = 0, high, formatX, formatY, kind = "" }) {
  const f = frame(width, 200, label, { left: 52, bottom: 44 });
  const xs = points.map((point) => point[0]);
  const x1 = Math.max(...xs);
  const top = high ?? (Math.max(...points.map((point) => point[1])) * 1.08 || 1);
  const px = (value) => f.x0 + ((f.x1 - f.x0 - 8) * value) / (x1 || 1);
  const y = (value) => f.y0 - ((f.y0 - f.y1) * (value - low)) / (top - low || 1);
  yAxis(f, ticks(low, top), formatY, y);
  const placed = points.map(([a, b]) => [px(a), y(b)]);
  f.root.append(svg("path", { class: `line ${kind}`, d: path(placed) }));
  placed.forEach(([a, b], i) => {
    const dot = svg("circle", { class: `dot ${kind}`, cx: a, cy: b, r: 3.5 });
    dot.append(svg("title", {}, `${formatX(points[i][0])}: ${formatY(points[i][1])}`));
    f.root.append(dot);
  });
  for (const tick of ticks(0, x1, Math.max(2, Math.floor(width / 90)))) {
    f.root.append(svg("text", { class: "tick", x: px(tick), y: f.y0 + 17, "text-anchor": "middle" }, formatX(tick)));
  }
  f.root.append(
    svg("text", { class: "tick", x: (f.x0 + f.x1) / 2, y: f.y0 + 36, "text-anchor": "middle" }, xLabel),
  );
  return f.root;
}

/** Parts of a whole side by side. */
export function stack(width, parts, label) {
  const root = svg("svg", { width, height: 34, viewBox: `0 0 ${width} 34`, role: "img", "aria-label": label });
  const total = parts.reduce((sum, part) => sum + part.size, 0) || 1;
  let x = 0;
  parts.forEach((part) => {
    const w = (width * part.size) / total;
    const box = svg("rect", { class: `part p${part.colour}`, x, y: 0, width: Math.max(0, w - 1.5), height: 34, rx: 3 });
    box.append(svg("title", {}, part.text));
    root.append(box);
    x += w;
  });
  return root;
}

export function legend(...items) {
  return el("ul", { class: "legend" }, items.map(([kind, text]) => el("li", {}, el("span", { class: `key ${kind}` }), text)));
}

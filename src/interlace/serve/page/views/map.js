// The map: a sample of the rows on their two principal axes, with what the query visited and found.

import * as api from "../api.js";
import { legend } from "../charts.js";
import { announce, count, el, panel, percent, plural } from "../dom.js";
import { fields, pictures } from "../payload.js";
import { body, idText, isAsked, label, query } from "../query.js";
import { Scatter } from "../scatter.js";

export const title = "Map";
export const waiting = "Projecting a sample of the rows";

const MOST_CELLS = 300; // more of them would hide the rows

export async function render(context) {
  const { name, signal } = context;
  const node = el("div", { class: "view" }, el("h1", {}, "Map"));
  const holder = el("div", {});
  node.append(holder);

  async function redraw() {
    holder.setAttribute("aria-busy", "true");
    const found = await api.map(name, isAsked() ? body() : {}, signal);
    holder.removeAttribute("aria-busy");
    holder.replaceChildren(...mapped(context, found, async (id) => {
      query.id = id;
      query.vector = null;
      context.remember();
      await redraw();
      holder.querySelector("canvas").focus({ preventScroll: true });
    }));
  }
  await redraw();
  return node;
}

function layersOf(found) {
  const asked = found.query;
  const visited = new Set(asked?.visited ?? []);
  const survived = new Set((asked?.survivors ?? []).map(idText));
  const in_ = (point) => visited.has(point.cell);
  const rest = found.points.filter((point) => !in_(point) && !survived.has(idText(point.id)));
  const seen = found.points.filter((point) => in_(point) && !survived.has(idText(point.id)));
  const left = found.points.filter((point) => survived.has(idText(point.id)));
  const most = Math.max(1, ...found.cells.map(({ rows }) => rows));
  const near = found.cells.length > MOST_CELLS ? found.cells.filter(({ cell }) => visited.has(cell)) : found.cells;
  const cells = found.cells.length > 1 && near.length <= MOST_CELLS
    ? near.map(({ cell, at, rows }) => ({ x: at[0], y: at[1], cell, radius: 3 + 4 * Math.sqrt(rows / most) })) : [];
  const hits = (asked?.hits ?? []).map((id, i) => ({ id, x: asked.hits_at[i][0], y: asked.hits_at[i][1], hit: i + 1 }));
  const layers = [
    { name: asked?.visited ? "not scanned" : "rows of the sample", points: rest, colour: "far", radius: 2, alpha: 0.75, picked: true },
    { name: "in cells that were visited", points: seen, colour: "blue", radius: 2.2, alpha: 0.6, picked: true },
    { name: "survivors of the crude step", points: left, colour: "warm", radius: 3, picked: true },
    { name: near === found.cells ? "centres of cells" : "centres of visited cells in the sample", points: cells, colour: "muted", radius: 5, shape: "cross", alpha: 0.55 },
    { name: "hits", points: hits, colour: "hit", radius: 6, shape: "dot", picked: true },
    { name: "query", points: asked ? [{ x: asked.at[0], y: asked.at[1], id: query.id, asked: true }] : [], colour: "query", radius: 12, shape: "star" },
  ];
  return layers.filter(({ points }) => points.length);
}

function extentOf(points) {
  const found = { x0: Infinity, x1: -Infinity, y0: Infinity, y1: -Infinity };
  for (const { x, y } of points) {
    found.x0 = Math.min(found.x0, x);
    found.x1 = Math.max(found.x1, x);
    found.y0 = Math.min(found.y0, y);
    found.y1 = Math.max(found.y1, y);
  }
  return found;
}

function mapped(context, found, pick) {
  const { name, signal, address } = context;
  const layers = layersOf(found);
  const kinds = { "centres of cells": "cross", "centres of visited cells in the sample": "cross", hits: "hit", query: "query", "survivors of the crude step": "warm",
    "in cells that were visited": "blue" };
  const asked = found.query;
  const summary = asked
    ? `The query is ${label()}. ` +
      (asked.visited ? `The search visited ${plural(asked.visited.length, "cell")}` : "Rows have no codes yet: all are compared") +
      (asked.survivors ? `; ${plural(asked.survivors.length, "row")} of this sample survived the crude step` : "") + "."
    : "Click a row to use it as the query, or use the arrow keys and Enter.";
  const readout = el("div", { class: "readout", "aria-live": "polite" }, el("p", { class: "quiet" }, "Point at a row to see it."));
  const canvas = el("canvas", {
    class: "map", tabindex: "0", role: "application", "aria-roledescription": "map",
    "aria-label": `Map of ${plural(found.points.length, "row")}. Arrow keys move between rows, Enter searches from one, plus and minus zoom.`,
  });
  const known = new Map();
  let waiting = 0;

  function show(point, payload) {
    const place = [point.hit ? `hit ${point.hit}` : null, point.cell === undefined || point.cell === null ? null : `cell ${point.cell}`].filter(Boolean);
    readout.replaceChildren(el("div", { class: "asked" }, pictures(payload, point.id), el("div", {},
      el("strong", {}, `Row ${idText(point.id)}`), el("p", { class: "quiet" }, place.join(", ")), fields(payload))));
  }

  const scatter = new Scatter(canvas, extentOf(layers.flatMap(({ points }) => points)), layers, {
    onPick: (point) => point.id !== null && pick(point.id),
    onPoint: (point) => {
      clearTimeout(waiting);
      if (!point || point.id === null || point.id === undefined) return;
      show(point, known.get(point.id));
      if (!known.has(point.id)) {
        waiting = setTimeout(async () => {
          const [one] = await api.points(name, [point.id], signal).catch(() => []);
          known.set(point.id, one?.payload ?? null);
          if (scatter.focused === point) show(point, one?.payload);
        }, 120);
      }
    },
  });
  new ResizeObserver(() => scatter.draw()).observe(canvas);
  const repaint = () => (canvas.isConnected ? scatter.draw() : window.removeEventListener("themechange", repaint));
  window.addEventListener("themechange", repaint);
  announce(summary);
  const tools = el("div", { class: "row zoom" },
    el("button", { type: "button", "aria-label": "Zoom in", onclick: () => scatter.zoom(1.4) }, "+"),
    el("button", { type: "button", "aria-label": "Zoom out", onclick: () => scatter.zoom(1 / 1.4) }, "–"),
    el("button", { type: "button", onclick: () => scatter.zoom(0) }, "Whole map"));
  const list = asked ? el("ol", { class: "short" }, asked.hits.map((id) =>
    el("li", {}, el("button", { type: "button", class: "link", onclick: () => pick(id) }, `row ${idText(id)}`)))) : null;
  return [
    el("p", { class: "lead" }, summary, " ", el("a", { href: address("search") }, asked ? "Change it" : "Choose a query")),
    el("div", { class: "columns wide-first" },
      el("section", { class: "panel mapbox", "aria-label": "Map" }, canvas,
        legend(...layers.map((layer) => [`mark-${kinds[layer.name] ?? "far"}`, `${layer.name} (${count(layer.points.length)})`])), tools,
        el("p", { class: "quiet" },
          `${plural(found.points.length, "row")} on the two principal axes of the sample, which hold ` +
          `${percent(found.variance[0])} and ${percent(found.variance[1])} of its variance. Distances on the map are only a hint.`)),
      el("div", {}, panel("Row", readout), asked ? panel("Hits on the map", list) : null)),
  ];
}

// The margin: a slider along the curve that was measured with rows of this collection.

import * as api from "../api.js";
import { spansDecades, steps } from "../charts.js";
import { announce, count, drawn, el, number, panel, percent, seconds, table } from "../dom.js";
import { DEFAULT_MARGIN, DEFAULT_RECALL, query } from "../query.js";

export const title = "Margin";
export const waiting = "Measuring every margin with rows of this collection";

const NAMES = { inf: "all", exact: "exact" };
const short = (margin) => NAMES[margin] ?? String(margin).replace(/^0\./, ".");
const CHARTS = [
  { key: "agreement", name: "Agreement", note: "with the scan of all codes", kind: "one", share: true, format: percent },
  { key: "recall", name: "Recall", note: "of the true neighbours, by code alone", kind: "two", share: true, format: percent },
  { key: "ops_per_vector", name: "Operations", note: "table additions per row", kind: "three", format: (v) => number(v, 3) },
  { key: "seconds", name: "Time", note: "per query, in a batch", kind: "four", format: seconds },
];

/** Whether a looser margin would run the same rule: calibration has one rule for all targets below its lowest. */
function same(rows, at) {
  const rule = (row) => String(row.ran).replace(/^\S+/, "");
  const first = rows.findIndex((row) => rule(row) && rule(row) === rule(rows[at]));
  return first >= 0 && first < at ? ` It is the same rule as for ${rows[first].margin}.` : "";
}

export async function render({ name, info, signal, go }) {
  const k = Math.min(100, query.k);
  const found = await api.insight(name, `margins?k=${k}`, signal);
  const rows = found.margins;
  const node = el("div", { class: "view" }, el("h1", {}, "What a margin buys"));
  node.append(el("p", { class: "lead" },
    "A search skips a row when its crude distance is too large to matter. The margin says how sure it must be: ",
    `a small one skips more and loses some hits. Measured with ${count(found.queries)} rows as queries, k = ${k}.`,
    info.interlace.originals
      ? ` These are searches by code alone; without a margin, a search here compares vectors for a recall of ${DEFAULT_RECALL}.`
      : ""));
  if (!rows.length) return node;
  const names = rows.map(({ margin }) => short(margin));
  let at = Math.max(0, rows.findIndex(({ margin }) => String(margin) === (query.margin || DEFAULT_MARGIN)));

  const shown = CHARTS.filter(({ key }) => rows.some((row) => row[key] !== null));
  const charts = shown.map((chart) => {
    const values = rows.map((row) => row[chart.key]);
    const log = !chart.share && spansDecades(values);
    const least = chart.share ? Math.max(0, Math.min(...values) - 0.05) : 0;
    const figure = el("span", { class: "figure" });
    const picture = drawn((width) => steps({
      width, values, names, at, log, kind: chart.kind, low: least, high: chart.share ? 1 : undefined,
      format: chart.share ? (v) => percent(v, least > 0.8 ? 1 : 0) : chart.format,
      label: `${chart.name} by margin: ${values.map((v, i) => `${names[i]} ${chart.format(v)}`).join(", ")}`,
    }));
    return { chart, figure, picture, values, log };
  });
  const ran = el("p", { class: "quiet", id: "ran" });
  const slider = el("input", {
    type: "range", min: 0, max: rows.length - 1, step: 1, value: at, id: "margin-slider", class: "wide",
    oninput: () => move(Number(slider.value)),
  });
  const use = el("button", {
    type: "button", class: "main", onclick: () => {
      query.margin = String(rows[at].margin);
      go("search");
    },
  }, "Search with this margin");
  const output = el("output", { for: "margin-slider", class: "figure" });

  function move(to) {
    at = to;
    const row = rows[at];
    output.textContent = row.margin === "inf" ? "all rows" : String(row.margin);
    slider.setAttribute("aria-valuetext", output.textContent);
    ran.textContent = `Scans ${percent(row.scanned)} of the rows; ${percent(row.survivors)} of the rows survive the crude step. ` +
      `Rule that ran: ${row.ran}.${same(rows, at)}`;
    for (const { chart, figure, picture, values } of charts) {
      figure.textContent = chart.format(values[at]);
      picture.redraw();
    }
    announce(`Margin ${output.textContent}: ${charts.map(({ chart, figure }) => `${chart.name} ${figure.textContent}`).join(", ")}`);
  }

  node.append(
    el("section", { class: "panel slider" },
      el("div", { class: "row" }, el("label", { for: "margin-slider" }, "Margin"), output, use), slider,
      el("div", { class: "ends", "aria-hidden": "true" }, el("span", {}, "less work"), el("span", {}, "surer")), ran),
    el("div", { class: "columns two" }, charts.map(({ chart, figure, picture, log }) =>
      panel(chart.name, el("p", { class: "reading" }, figure, el("small", {}, `${chart.note}${log ? ", on a logarithmic scale" : ""}`)), picture))),
    el("details", { class: "panel" }, el("summary", {}, "As a table"), table(
      "Every margin", ["Margin", "Agreement", "Recall", "Scanned", "Survivors", "Operations per row", "Time"],
      rows.map((row) => [
        String(row.margin), percent(row.agreement, 2), percent(row.recall, 2), percent(row.scanned), percent(row.survivors),
        number(row.ops_per_vector, 3), seconds(row.seconds),
      ]), "figures")),
  );
  move(at);
  return node;
}

// From all rows to the hits: how many are left after each step, and the time of the steps.

import { count, drawn, el, percent, seconds, svg, table } from "./dom.js";

/** Steps as label, number, and a note. Without codes, all vectors are compared and nothing is left out before. */
export function stepsOf({ steps, seconds: times }, coded) {
  if (!coded) {
    return [
      { key: "rows", label: "Rows", n: steps.rows, note: "in the collection" },
      { key: "scanned", label: "Compared", n: steps.scanned, note: "vector by vector", time: times.codes + times.originals },
      { key: "hits", label: "Hits", n: steps.hits, note: "" },
    ];
  }
  const found = [
    { key: "rows", label: "Rows", n: steps.rows, note: "in the collection" },
    {
      key: "scanned", label: "Scanned", n: steps.scanned, time: times.codes,
      note: steps.cells > 1
        ? `in ${count(steps.cells_visited)} of ${count(steps.cells)} cells`
        : `${percent(steps.scanned / Math.max(1, steps.rows))} of the rows`,
    },
    { key: "survivors", label: "Survivors", n: steps.survivors, note: "of the crude step" },
  ];
  if (steps.reranked) {
    found.push({
      key: "reranked", label: "Re-ranked", n: steps.reranked, note: "by original vectors",
      time: times.originals,
    });
  }
  found.push({ key: "hits", label: "Hits", n: steps.hits, note: "" });
  return found;
}

export function funnelFigure(answer, filtered, coded) {
  const rows = stepsOf(answer, coded);
  const most = Math.log10(Math.max(10, rows[0].n) + 1);
  const share = (n) => Math.log10(n + 1) / most;
  const text = rows.map(({ label, n }) => `${label} ${count(n)}`).join(", then ");
  return el(
    "div", { class: "funnel" },
    drawn((width) => picture(width, rows, share, text)),
    table(
      "Steps of the search", ["Step", "Rows", "Share", "Time"],
      [
        ...rows.slice(0, 1),
        ...(filtered ? [{ label: "Filter", time: answer.seconds.filter }] : []),
        ...(coded ? [{ label: "Cells visited", n: answer.steps.cells_visited, of: answer.steps.cells }] : []),
        ...rows.slice(1),
      ].map(({ label, n, of, time }) => [
        label, n === undefined ? "" : of === undefined ? count(n) : `${count(n)} of ${count(of)}`,
        n === undefined ? "" : percent(n / Math.max(1, of ?? answer.steps.rows)),
        time === undefined ? "" : seconds(time),
      ]),
      "figures",
    ),
    el("p", { class: "quiet" }, `Rule that ran: ${answer.stats.margin}. Widths are on a logarithmic scale. `,
      coded ? "Cells, rows scanned and survivors are one pass over the codes and share one time." : ""),
  );
}

function picture(width, rows, share, text) {
  const height = 58;
  const gap = 12;
  const middle = width / 2;
  const full = Math.max(60, width - 8);
  const total = rows.length * (height + gap) - gap;
  const root = svg("svg", {
    width, height: total, viewBox: `0 0 ${width} ${total}`, role: "img", "aria-label": `Funnel: ${text}`,
  });
  rows.forEach(({ label, n, note, key }, i) => {
    const top = i * (height + gap);
    const wide = Math.max(10, full * share(n)) / 2;
    const next = rows[i + 1] ? Math.max(10, full * share(rows[i + 1].n)) / 2 : wide;
    if (rows[i + 1]) {
      root.append(svg("polygon", {
        class: "slope",
        points: `${middle - wide},${top + height} ${middle + wide},${top + height} ` +
          `${middle + next},${top + height + gap} ${middle - next},${top + height + gap}`,
      }));
    }
    root.append(svg("rect", { class: `step s-${key}`, x: middle - wide, y: top, width: 2 * wide, height, rx: 4 }));
    root.append(
      svg("text", { class: "steptext", x: middle, y: top + (note ? 24 : 34), "text-anchor": "middle" },
        svg("tspan", { class: "strong" }, count(n)), ` ${label.toLowerCase()}`),
      svg("text", { class: "stepnote", x: middle, y: top + 43, "text-anchor": "middle" }, shortened(note, width)),
    );
  });
  return root;
}

const shortened = (text, width) => {
  const most = Math.floor(width / 6.6);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

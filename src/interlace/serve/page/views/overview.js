// Rows, bytes by part, cells, health and drift, recall by bytes.

import * as api from "../api.js";
import { legend, line, stack } from "../charts.js";
import { bytes, count, drawn, el, notice, number, panel, percent, plural, table, tile } from "../dom.js";
import { empty, learningNotice } from "../states.js";

export const title = "Overview";
export const waiting = "Reading the collection";

const METRICS = { l2: "Euclidean", ip: "dot product", cosine: "cosine" };
const PARTS = [
  ["codes", "Codes"], ["originals", "Original vectors"], ["row_numbers", "Row numbers"], ["ids", "Ids"],
  ["learned", "Learned arrays"], ["embedding", "Embedding"], ["tables", "Tables in memory"],
];

export async function render({ name, info, signal }) {
  const found = await api.insight(name, "overview", signal);
  const { health } = found;
  const { coded } = found;
  const node = el("div", { class: "view" }, el("h1", {}, name), learningNotice(found));
  node.append(tiles(found, info, coded));
  if (!found.rows) {
    node.append(empty(name));
    return node;
  }
  const side = el("div", { class: "columns" }, bytesPanel(found, coded), healthPanel(health));
  node.append(side);
  if (coded) {
    const recall = await recallPanel(name, signal);
    if (recall) node.append(recall);
  }
  return node;
}

function tiles(found, info, coded) {
  const { bytes: sizes } = found;
  return el(
    "dl", { class: "tiles" },
    tile("Rows", count(found.rows), plural(found.health.segments, "segment")),
    tile("Dimensions", count(found.dim), METRICS[found.metric] ?? found.metric),
    tile(
      coded ? "Code bytes per row" : "Bytes per row", found.rows ? number(sizes.per_vector, 3) : "–",
      found.rows && coded ? smaller(found) : null,
    ),
    tile("Cells", coded ? count(found.cells) : "–", coded ? `layout ${found.layout}` : "no codes yet"),
    tile("Filter fields", count(Object.keys(info.payload_schema ?? {}).length),
      Object.keys(info.payload_schema ?? {}).join(", ").slice(0, 60)),
  );
}

/** The size against float32 vectors, originals included where they are kept. */
function smaller({ bytes: { times_smaller: times }, originals }) {
  const what = originals ? " with the original vectors" : "";
  return times > 1 ? `${number(times, 3)}x smaller than float32${what}` : `no smaller than float32${what}`;
}

function bytesPanel(found, coded) {
  const sizes = found.bytes;
  const parts = PARTS.map(([key, label], colour) => ({ label, size: sizes[key] ?? 0, colour })).filter((p) => p.size);
  if (!coded) parts.forEach((part) => part.label === "Codes" && (part.label = "Vectors (no codes yet)"));
  for (const part of parts) part.text = `${part.label}: ${bytes(part.size)}`;
  return panel(
    "Bytes by part",
    drawn((width) => stack(width, parts, `Bytes by part: ${parts.map((part) => part.text).join(", ")}`)),
    table(
      "Bytes by part", ["Part", "Bytes", "Share"],
      parts.map((part) => [
        el("span", {}, el("span", { class: `key p${part.colour}` }), part.label), bytes(part.size),
        percent(part.size / sizes.total),
      ]),
      "figures",
    ),
    el("p", { class: "quiet" }, `${bytes(sizes.total)} in use, ${bytes(sizes.file)} in files. `,
      found.originals && coded ? `Original vectors are kept as ${found.originals} to re-rank hits.` : ""),
  );
}

function healthPanel(health) {
  const advice = health.advice.length
    ? notice("warn", "To do", el("ul", {}, health.advice.map((text) => el("li", {}, text))))
    : notice("good", "Healthy", el("p", {}, "There is nothing to do."));
  const facts = [
    ["State", health.state],
    ["Removed rows", `${count(health.removed)} (${percent(health.removed_share)})`],
    ["Rows in the log", count(health.log_rows)],
    ["Calibration", health.calibration],
    ["Added since learning", count(health.added)],
  ];
  if (health.learning_error) facts.push(["Last attempt to learn", health.learning_error]);
  return panel(
    "Health", advice, drift(health),
    el("dl", { class: "facts" }, facts.map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)])),
  );
}

function drift(health) {
  if (health.drift === null || health.drift === undefined) {
    return el("p", { class: "quiet" }, "Drift is not known yet: it needs rows that were added after learning.");
  }
  const most = Math.max(health.drift, health.drift_limit) * 1.2;
  return el(
    "div", { class: "drift" },
    el("label", { for: "drift" }, `Drift ${number(health.drift, 3)}, relearning is due above ${number(health.drift_limit, 3)}`),
    el("meter", {
      id: "drift", min: 0, max: most, low: health.drift_limit, high: health.drift_limit, optimum: 0, value: health.drift,
    }),
  );
}

async function recallPanel(name, signal) {
  let found;
  try {
    found = await api.insight(name, "recall", signal);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
  if (!found.bytes.length) return null;
  const points = found.bytes.map(({ bytes: n, recall }) => [n, recall]);
  const last = points[points.length - 1];
  return panel(
    "Recall by bytes",
    drawn((width) => line({
      width, points, high: 1, kind: "one", xLabel: "code bytes that are read",
      formatX: (value) => number(value, 3), formatY: (value) => percent(value, 0),
      label: `Recall by code bytes read: ${points.map(([n, r]) => `${n} bytes ${percent(r)}`).join(", ")}`,
    })),
    legend(["one", `recall@${found.k} among ${count(found.rows)} sampled rows, ${count(found.queries)} queries`]),
    el("p", { class: "quiet" },
      `With all ${last[0]} bytes, ${percent(last[1])} of the ${found.k} true neighbours are among the first ${found.k} by code. `,
      "Recall among all rows is lower than in a sample; re-ranking with original vectors adds to it."),
  );
}

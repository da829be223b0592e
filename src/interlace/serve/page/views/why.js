// Why not this row: each step of the search, and where one row was lost by how much.

import * as api from "../api.js";
import { queryLine } from "../controls.js";
import { announce, count, el, notice, number, panel } from "../dom.js";
import { fields, pictures } from "../payload.js";
import { body, idOf, idText, isAsked, label, query } from "../query.js";

export const title = "Why not this row?";
export const waiting = "Following the row";

export async function render(context) {
  const node = el("div", { class: "view" }, el("h1", {}, "Why not this row?"));
  if (!isAsked()) {
    const found = await api.insight(context.name, "random", context.signal);
    query.id = found.id;
  }
  const answer = el("div", { id: "explained" });
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "").get("row") ?? "";
  const input = el("input", { id: "row", autocomplete: "off", required: true, value: given, placeholder: "id of a row" });
  const form = el(
    "form", {
      class: "panel controls", "aria-label": "Row to explain", onsubmit: (event) => {
        event.preventDefault();
        show();
      },
    },
    el("div", { class: "row ask" }, el("label", { for: "row" }, "Row"), input, el("button", { class: "main" }, "Explain"),
      el("button", { type: "button", onclick: random }, "Random row")),
  );

  async function random() {
    const found = await api.insight(context.name, "random", context.signal).catch(() => null);
    if (!found) return;
    input.value = idText(found.id);
    show();
  }

  async function show() {
    try {
      answer.replaceChildren(...(await explained(context, idOf(input.value))));
    } catch (error) {
      if (error.name !== "AbortError") {
        answer.replaceChildren(notice("bad", "This row cannot be explained", el("p", {}, error.message)));
      }
    }
  }

  node.append(queryLine(context, label()), form, answer);
  if (given) await show();
  else answer.append(el("p", { class: "quiet" }, "Enter the id of a row that you expected among the hits."));
  return node;
}

async function explained({ name, info, signal }, id) {
  if (query.id !== null && idText(id) === idText(query.id)) {
    return [notice("note", "This row is the query", el("p", {}, "A search by id leaves the row itself out of its hits."))];
  }
  const request = { ...body(), id };
  const own = query.id === null ? 0 : 1; // a search by id finds the row itself too, and leaves it out
  let whole = await api.explain(name, request, signal);
  const depth = whole.rerank ? whole.rerank.depth + own : 0;
  const again = (limit, rerank) =>
    api.explain(name, { ...request, limit, params: { ...request.params, rerank } }, signal);
  if (own) whole = await again(request.limit + own, depth);
  // Re-ranking takes the best rows by code: a row is lost there if it is not among these.
  const codes = depth > whole.k ? await again(depth, 0) : whole;
  const before = own && info.config.params.vectors.distance !== "Dot" ? 1 : 0; // the row itself comes first
  const shown = await api.points(name, query.id === null ? [id] : [id, query.id], signal);
  const payload = shown.find((point) => point.id === id)?.payload;
  const steps = stepsOf(whole, codes, (rank) => count(Math.max(1, rank - before)), own);
  const last = steps[steps.length - 1];
  const kept = last.passed;
  const verdict = kept ? `Row ${idText(id)} is found` : `Row ${idText(id)} was lost: ${last.title.toLowerCase()}`;
  announce(verdict);
  return [panel(
    "Verdict",
    el("div", { class: "asked" }, pictures(payload, id), el("div", {}, el("strong", { class: kept ? "ok" : "lost" }, verdict), fields(payload))),
    el("ol", { class: "trail" }, steps.map((step) => el(
      "li", { class: step.passed ? "passed" : "stopped" },
      el("strong", {}, el("span", { class: "mark", "aria-hidden": "true" }, step.passed ? "✓" : "✗"), step.title,
        el("span", { class: "hidden" }, step.passed ? ", passed" : ", lost here")),
      el("p", {}, step.text), step.scale ?? null,
    ))),
    el("details", {}, el("summary", {}, "All numbers"), el("pre", { class: "code", tabindex: "0" }, codes.text)),
  )];
}

/** The steps up to the one where the row was lost. */
function stepsOf(whole, codes, place, own) {
  const found = [];
  const add = (title, passed, text, scale) => found.push({ title, passed, text, scale });
  const end = () => found.length && !found[found.length - 1].passed;
  if (codes.lost === "removed" || codes.lost === "filter") {
    add(codes.lost === "removed" ? "Removed" : "Filter", false,
      codes.lost === "removed" ? "The row was removed from the collection." : "The filter does not allow this row.");
    return found;
  }
  add("Filter", true, "The row may be returned.");
  const where = `Its cell ${codes.cell} is number ${count(codes.cell_rank)} of ${count(codes.cells)} by distance to the query.`;
  if (codes.lost === "cell not visited" || codes.lost === "cell passed over" || (codes.lost === "beyond k" && !codes.visited)) {
    const text = codes.lost === "cell not visited"
      ? `The cell is ${number(codes.value)} farther than the nearest one; the margin allows ${number(codes.limit)}.`
      : `No row of the cell can be nearer than ${number(codes.floor)}, and the ${count(codes.k - own)} best rows are within ${number(codes.kth_distance)}.`;
    const more = codes.lost === "beyond k"
      ? ` It would not have been a hit: by code it is row ${place(codes.rank)} of the collection.`
      : ` It is a miss of the margin: by code it is row ${place(codes.rank)}.`;
    add("Cell not visited", false, `${where} ${codes.lost === "beyond k" ? "The search ended before this cell." : text}${more}`,
      scale(codes.value, codes.limit, "cell"));
    return found;
  }
  add("Cell visited", true, where);
  if (codes.lost === "crude step" || (codes.lost === "beyond k" && codes.value > codes.limit)) {
    add("Crude step", false,
      `Its crude distance ${number(codes.crude)} is above the limit ${number(codes.limit)} by ${number(codes.crude - codes.limit)}, ` +
      `so the rest of its code was not read. By code it is row ${place(codes.rank)} of the collection.`,
      scale(codes.crude, codes.limit));
    return found;
  }
  add("Crude step", true,
    codes.limit === null
      ? `There was no limit yet when its crude distance ${number(codes.crude)} was compared: it survived.`
      : `Its crude distance ${number(codes.crude)} was within the limit ${number(codes.limit)}: it survived.`,
    scale(codes.crude, codes.limit));
  const among = whole.rerank ? `the ${count(codes.k - own)} rows to re-rank` : `the ${count(codes.k - own)} hits`;
  add(whole.rerank ? "Best by code" : "Full distance", codes.lost === "found",
    codes.lost === "found"
      ? `By code it is row ${place(codes.rank)}, among ${among}.`
      : `Its distance by code ${number(codes.distance)} is row ${place(codes.rank)}, beyond ${among}, which end at ` +
        `${number(codes.kth_distance)}: too far by ${number(codes.by)}.`,
    scale(codes.distance, codes.kth_distance));
  if (!end() && whole.rerank) {
    const { rank, distance, kth_distance: kth } = whole.rerank;
    add("Re-rank", whole.rerank.found,
      whole.rerank.found
        ? `Compared with its original vector it is hit ${place(rank)} of ${count(whole.k - own)}, at ${number(distance)}.`
        : `Compared with its original vector it is row ${place(rank)}, at ${number(distance)}. The hits end at ${number(kth)}: ` +
          `too far by ${number(distance - kth)}.`,
      scale(distance, kth));
  }
  return found;
}

/** What was compared beside what was allowed; null where these are not lengths. */
function scale(value, limit, name = "row") {
  if (!(value > 0) || !(limit > 0)) return null;
  const most = Math.max(value, limit);
  const bar = (kind, size, text) => {
    const fill = el("span", { class: `fill ${kind}` });
    fill.style.width = `${(100 * size) / most}%`;
    return el("div", { class: "compare" }, el("span", {}, text), el("span", { class: "distance" }, fill), el("span", {}, number(size)));
  };
  return el("div", { "aria-hidden": "true" }, bar(value > limit ? "over" : "under", value, name), bar("limit", limit, "limit"));
}

// Why not this row: each step of the search, and where one row was left out by how much.

import * as api from "../api.js";
import { queryLine } from "../controls.js";
import { announce, count, el, notice, number, panel } from "../dom.js";
import { fields, pictures } from "../payload.js";
import { body, idOf, idText, isAsked, label, query } from "../query.js";
import { stepsOf, traced, verdictOf } from "../trail.js";

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
  const { whole, codes } = await traced((asked) => api.explain(name, asked, signal), request, own);
  const before = own && info.config.params.vectors.distance !== "Dot" ? 1 : 0; // the row itself comes first
  const shown = await api.points(name, query.id === null ? [id] : [id, query.id], signal);
  const payload = shown.find((point) => point.id === id)?.payload;
  const steps = stepsOf(whole, codes, (rank) => count(Math.max(1, rank - before)), own);
  const { kind, text: verdict } = verdictOf(idText(id), whole, steps, own);
  announce(verdict);
  return [panel(
    "Verdict",
    el("div", { class: "asked" }, pictures(payload, id), el("div", {}, el("strong", { class: kind }, verdict), fields(payload))),
    el("ol", { class: "trail" }, steps.map((step) => el(
      "li", { class: step.passed ? "passed" : "stopped" },
      el("strong", {}, el("span", { class: "mark", "aria-hidden": "true" }, step.passed ? "✓" : "✗"), step.title,
        el("span", { class: "hidden" }, step.passed ? ", passed" : ", left out here")),
      el("p", {}, step.text), step.scale ? scale(...step.scale) : null,
    ))),
    el("details", {}, el("summary", {}, "All numbers"), el("pre", { class: "code", tabindex: "0" }, codes.text)),
  )];
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

// Search by id, by a random row or by a pasted vector; hits with payload, and the funnel that led to them.

import * as api from "../api.js";
import { searchForm } from "../controls.js";
import { announce, count, el, notice, number, panel, plural, seconds } from "../dom.js";
import { funnelFigure } from "../funnel.js";
import { fields, pictures } from "../payload.js";
import { body, idText, isAsked, label, query } from "../query.js";
import { learningNotice } from "../states.js";

export const title = "Search";
export const waiting = "Searching";

export async function render(context) {
  const { name, signal } = context;
  const answer = el("div", { class: "answer", id: "answer" });
  const overview = await api.insight(name, "overview", signal);
  const form = searchForm(context, () => run(true));
  let latest = 0;

  async function run(changed) {
    const turn = (latest += 1);
    if (changed) context.remember();
    answer.setAttribute("aria-busy", "true");
    try {
      const nodes = await results(context, overview, (id) => {
        form.use(id);
        window.scrollTo({ top: 0 });
      });
      if (turn === latest) answer.replaceChildren(...nodes);
    } catch (error) {
      if (error.name !== "AbortError" && turn === latest) {
        answer.replaceChildren(notice("bad", "This search did not work", el("p", {}, error.message)));
      }
    } finally {
      if (turn === latest) answer.removeAttribute("aria-busy");
    }
  }

  if (isAsked()) await run(false);
  else answer.append(el("p", { class: "quiet" }, "Take a random row, or enter the id of one."));
  return el("div", { class: "view" }, el("h1", {}, "Search"), learningNotice(overview), form.node, answer);
}

async function results({ name, signal, address }, { metric, coded }, use) {
  const request = body();
  const found = await api.funnel(name, request, signal);
  const wanted = found.points.map(({ id }) => id);
  if (query.id !== null) wanted.push(query.id);
  const payloads = new Map((wanted.length ? await api.points(name, wanted, signal) : []).map((p) => [idText(p.id), p.payload]));
  const time = found.seconds.codes + found.seconds.originals + found.seconds.filter;
  announce(`${plural(found.points.length, "hit")} for ${label()}`);
  const far = Math.max(...found.points.map(({ distance }) => Math.abs(distance)), 1e-30);
  const list = el("ol", { class: "hits" }, found.points.map((point, rank) => hit(point, rank, {
    payload: payloads.get(idText(point.id)), use, far, why: whyAddress(address, point.id),
  })));
  const hits = panel(
    "Hits",
    el("p", { class: "quiet" }, `${plural(found.points.length, "hit")} for ${label()} in ${seconds(time)}, ${meaning(metric)}`),
    query.id === null ? null : asked(query.id, payloads.get(idText(query.id))),
    found.points.length ? list : notice("note", "No hits", el("p", {}, "No row passes the filter.")),
    el("details", {}, el("summary", {}, "The same as a request"), el("pre", { class: "code", tabindex: "0" },
      `POST /collections/${name}/points/query\n${api.toJson({ ...request, with_payload: true }, request.query.length > 64 ? 0 : 1)}`)),
  );
  return [el("div", { class: "columns wide-first" }, hits, panel("Funnel", funnelFigure(found, Boolean(request.filter), coded)))];
}

function whyAddress(address, id) {
  const base = address("why");
  return `${base}${base.includes("?") ? "&" : "?"}row=${encodeURIComponent(idText(id))}`;
}

function meaning(metric) {
  if (metric === "l2") return "nearest first; the score is the Euclidean distance, the distance is its square. Bars show distances.";
  if (metric === "cosine") return "most similar first; the score is the cosine. Bars show distances.";
  return "largest product first; the score is the dot product.";
}

function asked(id, payload) {
  return el(
    "div", { class: "asked" }, pictures(payload, id),
    el("div", {}, el("strong", {}, `Query: row ${idText(id)}`), fields(payload) ?? el("p", { class: "quiet" }, "no payload")),
  );
}

function hit({ id, score, distance }, rank, { payload, use, far, why }) {
  const bar = el("span", { class: "distance", "aria-hidden": "true" }, el("span", { class: "fill" }));
  bar.firstChild.style.width = `${Math.min(100, (100 * Math.abs(distance)) / far)}%`;
  return el(
    "li", { class: "hit" },
    el("span", { class: "rank" }, count(rank + 1)), el("div", { class: "pictures" }, pictures(payload, id)),
    el("div", { class: "about" },
      el("p", { class: "name" }, el("strong", {}, idText(id)),
        el("span", { class: "measure" }, `score ${number(score)}`),
        el("span", { class: "measure" }, `distance ${number(distance)}`)),
      bar, fields(payload),
      el("p", { class: "links" },
        el("button", { type: "button", class: "link", onclick: () => use(id), "aria-label": `Search from row ${idText(id)}` }, "Search from here"),
        el("a", { href: why, "aria-label": `Why row ${idText(id)}` }, "Why this row"))),
  );
}

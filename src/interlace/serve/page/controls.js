// The form with which a query is chosen: a row by id, a random row, or a pasted vector; how to search; filters.

import * as api from "./api.js";
import { announce, el } from "./dom.js";
import { filterControls } from "./filters.js";
import { MARGINS, defaults, idOf, idText, query, vectorOf } from "./query.js";

const NAMES = { inf: "all rows" };

/** ``run`` is called when ``query`` has changed. */
export function searchForm({ name, info, signal }, run) {
  const { size: dim } = info.config.params.vectors;
  const { originals } = info.interlace;
  const id = el("input", {
    id: "query-id", autocomplete: "off", value: query.id === null ? "" : idText(query.id), placeholder: "id of a row",
  });
  const vector = el("textarea", {
    id: "query-vector", rows: 3, spellcheck: "false", placeholder: `${dim} numbers, as JSON or separated by spaces`,
    value: query.vector ? JSON.stringify(query.vector) : "",
  });
  const k = el("input", { id: "query-k", type: "number", min: 1, max: 1000, value: query.k, required: true });
  const margin = el(
    "select", { id: "query-margin", onchange: sayDefaults },
    MARGINS.map((value) => el("option", { value }, NAMES[value] ?? value)),
  );
  margin.value = MARGINS.includes(query.margin) ? query.margin : "";
  const rerank = el("input", {
    id: "query-rerank", type: "number", min: 0, value: query.rerank, disabled: !originals, oninput: sayDefaults,
  });
  sayDefaults();
  const filter = filterControls(info.payload_schema ?? {}, query.filter);
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const pasted = el("details", { open: Boolean(query.vector) }, el("summary", {}, "Paste a vector"), vector);

  function sayDefaults() {
    const found = defaults(originals, margin.value, rerank.value);
    margin.options[0].textContent = `default (${found.margin})`;
    rerank.placeholder = found.rerank;
  }

  function take(found) {
    try {
      query.k = Number(k.value);
      query.margin = margin.value;
      query.rerank = rerank.value;
      query.filter = filter.value();
      Object.assign(query, found ?? chosen());
      problem.hidden = true;
      run();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  }

  function chosen() {
    if (pasted.open && vector.value.trim()) return { id: null, vector: vectorOf(vector.value, dim) };
    if (!id.value.trim()) throw new Error("Enter the id of a row, take a random one, or paste a vector.");
    return { id: idOf(id.value), vector: null };
  }

  async function takeRandom() {
    try {
      const found = await api.insight(name, "random", signal);
      id.value = idText(found.id);
      vector.value = "";
      pasted.open = false;
      announce(`Random row ${id.value}`);
      take({ id: found.id, vector: null });
    } catch (error) {
      if (error.name === "AbortError") return;
      problem.textContent = error.message;
      problem.hidden = false;
    }
  }

  const random = el("button", { type: "button", id: "random", onclick: takeRandom }, "Random row");
  const node = el(
    "form", {
      class: "panel controls", "aria-label": "Query", onsubmit: (event) => {
        event.preventDefault();
        take();
      },
    },
    el("div", { class: "row ask" },
      el("label", { for: "query-id" }, "Row"), id,
      el("button", { class: "main", id: "go" }, "Search"), random),
    pasted,
    el("div", { class: "row" },
      el("label", { class: "small", for: "query-k" }, "Hits", k),
      el("label", { class: "small", for: "query-margin" }, "Margin", margin),
      el("label", { class: "small", for: "query-rerank" }, "Re-rank", rerank)),
    filter.node, problem,
  );
  // A label around a control is enough for browsers, but the accessible name should not contain the options.
  vector.setAttribute("aria-label", "Vector");
  return { node, use: (found) => {
    id.value = idText(found);
    vector.value = "";
    pasted.open = false;
    take({ id: found, vector: null });
  } };
}

/** What is asked, with a way to change it, for views that do not have the form. */
export function queryLine(context, label) {
  return el("p", { class: "lead" }, `The query is ${label}. `, el("a", { href: context.address("search") }, "Change it"));
}

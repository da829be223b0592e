// A filter made of conditions on declared fields; the same as JSON for those who need more.

import { el } from "./dom.js";

const ON_NUMBERS = ["=", "≠", "≥", "≤"];
const OPERATORS = {
  keyword: ["=", "≠"], bool: ["=", "≠"], integer: ON_NUMBERS, float: ["≥", "≤"], datetime: ["≥", "≤"],
};

function valueOf(text, kind) {
  if (kind === "bool") return text.trim().toLowerCase() === "true";
  if (kind !== "integer" && kind !== "float") return text;
  const found = Number(text);
  if (!text.trim() || !Number.isFinite(found)) throw new Error(`A filter needs a number, not "${text}".`);
  return found;
}

function conditionOf({ key, operator, text }, kind) {
  const value = valueOf(text, kind);
  if (operator === "=" || operator === "≠") return { key, match: { value } };
  return { key, range: { [operator === "≥" ? "gte" : "lte"]: value } };
}

/** Controls; ``value()`` is the filter of the API, or null. */
export function filterControls(schema, given) {
  const fields = Object.entries(schema).map(([key, { data_type: kind }]) => ({ key, kind }));
  const rows = el("div", { class: "conditions" });
  const raw = el("textarea", {
    rows: 3, spellcheck: "false", "aria-label": "Filter as JSON", placeholder: '{"must": [{"key": "label", "match": {"value": 3}}]}',
    value: given ? JSON.stringify(given) : "",
  });
  const all = [];

  function add(start) {
    const field = el(
      "select", { "aria-label": "Field", onchange: () => renew() },
      fields.map(({ key }) => el("option", { value: key }, key)),
    );
    const operator = el("select", { "aria-label": "Comparison" });
    const text = el("input", { "aria-label": "Value", size: 8, autocomplete: "off" });
    const kind = () => fields.find(({ key }) => key === field.value).kind;
    function renew() {
      operator.replaceChildren(...(OPERATORS[kind()] ?? ["="]).map((o) => el("option", { value: o }, o)));
      text.inputMode = ["integer", "float"].includes(kind()) ? "decimal" : "text";
    }
    if (start) field.value = start;
    renew();
    const one = { get: () => ({ key: field.value, operator: operator.value, text: text.value, kind: kind() }) };
    const line = el(
      "div", { class: "condition" }, field, operator, text,
      el("button", {
        type: "button", "aria-label": "Remove this condition", onclick: () => {
          all.splice(all.indexOf(one), 1);
          line.remove();
        },
      }, "×"),
    );
    all.push(one);
    rows.append(line);
    if (!start) field.focus();
  }

  const button = el("button", { type: "button", onclick: () => add() }, "Add a condition");
  const node = el(
    "fieldset", { class: "filter" }, el("legend", {}, "Filter"), rows,
    fields.length ? button : el("p", { class: "quiet" }, "No field of this collection is declared for filters."),
    el("details", { open: Boolean(given) }, el("summary", {}, "As JSON"), raw),
  );

  function value() {
    const found = {};
    for (const one of all) {
      const { kind, ...condition } = one.get();
      const where = condition.operator === "≠" ? "must_not" : "must";
      (found[where] ??= []).push(conditionOf(condition, kind));
    }
    if (all.length) {
      raw.value = JSON.stringify(found);
      return found;
    }
    if (!raw.value.trim()) return null;
    try {
      return JSON.parse(raw.value);
    } catch {
      throw new Error("The filter is not valid JSON.");
    }
  }
  return { node, value };
}

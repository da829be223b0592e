// The query that all views share: what is searched, and how. It is part of the address, except for pasted vectors.

export const MARGINS = ["", "0.5", "0.8", "0.9", "0.95", "0.98", "0.99", "0.995", "0.999", "exact", "inf"];

export const DEFAULT_MARGIN = "0.999";
export const DEFAULT_RECALL = "0.95";

/** What a search does where the form is silent, as texts: vectors that are kept are compared unless a margin is asked for. */
export function defaults(originals, margin, rerank) {
  if (!originals) return { margin: DEFAULT_MARGIN, rerank: "no originals" };
  return { margin: rerank === "" ? `recall ${DEFAULT_RECALL}` : DEFAULT_MARGIN, rerank: margin ? "none" : "default" };
}

const fresh = () => ({ id: null, vector: null, k: 10, margin: "", rerank: "", filter: null });

let owner = null;
export let query = fresh();

/** An id as the API has it: digits are a number, anything else, or text in quotes, is a string. */
export function idOf(text) {
  const given = text.trim();
  if (/^\d+$/.test(given)) return Number.isSafeInteger(Number(given)) ? Number(given) : BigInt(given);
  return given.replace(/^"(.*)"$/, "$1");
}

/** How idOf would read it. */
export function idText(id) {
  return typeof id === "string" && /^\d+$/.test(id) ? `"${id}"` : String(id);
}

/** Take what an address says. */
export function read(name, parameters) {
  if (owner !== name) {
    owner = name;
    query = fresh();
  }
  if (parameters.has("id")) {
    query.id = idOf(parameters.get("id"));
    query.vector = null;
  }
  const k = Number(parameters.get("k"));
  if (Number.isInteger(k) && k > 0) query.k = k;
  if (parameters.has("margin")) query.margin = parameters.get("margin");
  if (parameters.has("rerank")) query.rerank = parameters.get("rerank");
  if (parameters.has("filter")) {
    try {
      query.filter = JSON.parse(parameters.get("filter"));
    } catch {
      query.filter = null;
    }
  }
}

/** The part of an address after its view. */
export function parameters() {
  const found = new URLSearchParams();
  if (query.id !== null) found.set("id", idText(query.id));
  if (query.k !== 10) found.set("k", query.k);
  if (query.margin) found.set("margin", query.margin);
  if (query.rerank !== "") found.set("rerank", query.rerank);
  if (query.filter) found.set("filter", JSON.stringify(query.filter));
  const text = found.toString();
  return text ? `?${text}` : "";
}

export const isAsked = () => query.id !== null || query.vector !== null;

export const label = () =>
  query.vector ? `a pasted vector of ${query.vector.length} numbers` : `row ${idText(query.id)}`;

/** The body of a request. */
export function body() {
  const params = {};
  if (query.margin) params.margin = Number(query.margin) || query.margin;
  if (query.margin === "inf") params.margin = "inf";
  if (query.rerank !== "") params.rerank = Number(query.rerank);
  const found = { query: query.vector ?? query.id, limit: query.k };
  if (Object.keys(params).length) found.params = params;
  if (query.filter) found.filter = query.filter;
  return found;
}

/** Numbers of a pasted text: JSON, or separated by spaces, commas or lines. */
export function vectorOf(text, dim) {
  const parts = text.replace(/[[\]]/g, " ").split(/[\s,;]+/).filter(Boolean);
  const found = parts.map(Number);
  const wrong = found.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) throw new Error(`Number ${wrong + 1} of the vector is not a number: ${parts[wrong].slice(0, 40)}`);
  if (found.length !== dim) {
    throw new Error(`The vector must have ${dim} numbers, as the collection has; this one has ${found.length}.`);
  }
  return found;
}

// Requests to this server, with the API key if one was entered. The key stays in this tab (sessionStorage).

const KEY = "interlace-api-key";

export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

// Ids may be integers above 2^53. Where the browser shows the source of numbers, these stay exact.
function revived(_, value, context) {
  if (typeof value === "number" && !Number.isSafeInteger(value) && /^\d+$/.test(context?.source ?? "")) {
    return BigInt(context.source);
  }
  return value;
}

const replaced = (_, value) =>
  typeof value === "bigint" ? (JSON.rawJSON ? JSON.rawJSON(String(value)) : Number(value)) : value;

export const toJson = (value, indent) => JSON.stringify(value, replaced, indent);

export async function call(method, path, body, signal) {
  const headers = { accept: "application/json" };
  if (key.get()) headers["api-key"] = key.get();
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : toJson(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "The server does not answer. It may have been stopped.");
  }
  const text = await response.text();
  let content;
  try {
    content = JSON.parse(text, revived);
  } catch {
    throw new Problem(response.status, "answer", `The answer of the server is not JSON (status ${response.status}).`);
  }
  if (!response.ok) throw new Problem(response.status, content.code ?? "error", content.detail ?? "unknown error");
  return content.result;
}

const of = (name) => `collections/${encodeURIComponent(name)}`;

export const collections = (signal) => call("GET", "collections", undefined, signal).then((r) => r.collections);
export const described = (name, signal) => call("GET", of(name), undefined, signal);
export const insight = (name, what, signal) => call("GET", `${of(name)}/insight/${what}`, undefined, signal);
export const funnel = (name, query, signal) => call("POST", `${of(name)}/insight/funnel`, query, signal);
export const map = (name, query, signal) => call("POST", `${of(name)}/insight/map`, query, signal);
export const explain = (name, query, signal) => call("POST", `${of(name)}/points/explain`, query, signal);
export const points = (name, ids, signal) =>
  call("POST", `${of(name)}/points`, { ids, with_payload: true, with_vector: false }, signal);

// What the page shows instead of a view: no collections, no rows, a broken collection, no key.

import { key } from "./api.js";
import { count, el, notice } from "./dom.js";

const code = (text) => el("pre", { class: "code", tabindex: "0" }, text);

export function noCollections() {
  return el(
    "section", { class: "state" }, el("h1", {}, "No collections yet"),
    el("p", {}, "This server has an empty directory. Create a collection with any client of Qdrant's REST API:"),
    code(
      `curl -X PUT ${location.origin}/collections/first \\\n` +
      `  -H 'content-type: application/json' \\\n  -d '{"vectors": {"size": 384, "distance": "Cosine"}}'`,
    ),
    el("p", {}, "It needs no training: it learns its codes by itself once it has some thousands of rows."),
  );
}

export function empty(name) {
  return el(
    "section", { class: "state" }, el("h1", {}, `${name} has no rows yet`),
    el("p", {}, "There is nothing to search or to draw. Add points, for example:"),
    code(
      `curl -X PUT ${location.origin}/collections/${encodeURIComponent(name)}/points \\\n` +
      "  -H 'content-type: application/json' \\\n  -d '{\"points\": [{\"id\": 1, \"vector\": [0.1, ...], \"payload\": {}}]}'",
    ),
  );
}

export function broken(name, reason) {
  return el(
    "section", { class: "state" }, el("h1", {}, `${name} cannot be served`),
    notice("bad", "The server reports", el("p", {}, reason ?? "no reason")),
    el("p", {}, "Other collections of this server are not affected. ",
      "Check the files of this one with ", el("code", {}, "interlace verify"),
      ", or restore a snapshot, and restart the server."),
  );
}

export function unauthorised(again) {
  const input = el("input", {
    type: "password", id: "api-key", autocomplete: "off", required: true, "aria-describedby": "key-note",
  });
  const rejected = key.get() !== null;
  key.forget();
  const form = el(
    "form", {
      class: "state", onsubmit: (event) => {
        event.preventDefault();
        key.set(input.value.trim());
        again();
      },
    },
    el("h1", {}, "An API key is needed"),
    rejected ? notice("bad", "The server does not accept this key.") : null,
    el("p", {}, el("label", { for: "api-key" }, "API key"), input),
    el("p", { id: "key-note", class: "quiet" },
      "A read-only key is enough for this page. The key stays in this tab until you close it."),
    el("button", { class: "main" }, "Continue"),
  );
  queueMicrotask(() => input.focus());
  return form;
}

/** A line above a view for collections without codes. */
export function learningNotice({ health, coded, rows, learn_at: at }) {
  if (health.state === "learned") return null;
  if (coded) return notice("note", "Learning again", el("p", {}, "Better codes are being learned in the background."));
  const text = health.state === "learning"
    ? "Codes are being learned in the background; searches compare the vectors themselves meanwhile."
    : `The collection keeps its vectors and compares all of them: answers are exact. ${health.learns
      ? `It learns codes by itself at ${count(at)} rows` : `Codes can be learned from ${count(at)} rows on, by relearn()`} (now ${count(rows)}).`;
  return notice("note", health.state === "learning" ? "Learning" : "Collecting rows", el("p", {}, text));
}

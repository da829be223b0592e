// Payloads as text, with pictures where a field holds an image as a data URL.

import { idText } from "./query.js";
import { toJson } from "./api.js";
import { el } from "./dom.js";

const IMAGE = /^data:image\/(png|jpeg|gif|webp|bmp);base64,[A-Za-z0-9+/]+={0,2}$/;

export const isImage = (value) => typeof value === "string" && value.length < 4e6 && IMAGE.test(value);

/** Pictures of a payload as elements. */
export function pictures(payload, id) {
  return Object.entries(payload ?? {})
    .filter(([, value]) => isImage(value))
    .map(([name, value]) => el("img", { src: value, alt: `${name} of row ${idText(id)}`, class: "picture" }));
}

/** The other fields. */
export function fields(payload) {
  const shown = Object.entries(payload ?? {}).filter(([, value]) => !isImage(value));
  if (!shown.length) return null;
  return el(
    "dl", { class: "payload" },
    shown.map(([name, value]) => {
      const text = typeof value === "string" ? value : toJson(value);
      return el("div", {}, el("dt", {}, name), el("dd", {}, text.length > 600 ? `${text.slice(0, 600)}…` : text));
    }),
  );
}

// What was learned: variances with psi and the prior, books and their energy.

import * as api from "../api.js";
import { bars, curves, legend } from "../charts.js";
import { count, drawn, el, notice, number, panel, percent, plural, svg, table } from "../dom.js";

export const title = "Codes";
export const waiting = "Reading the codebooks";

export async function render({ name, signal }) {
  const found = await api.insight(name, "learned", signal);
  const node = el("div", { class: "view" }, el("h1", {}, "What was learned"));
  if (!found.learned) {
    node.append(notice("note", "No codes yet", el("p", {}, "This collection still keeps its vectors. Variances and books appear once it has learned.")));
    return node;
  }
  node.append(el("p", { class: "lead" },
    `Layout ${found.layout}: ${plural(found.books.length, "book")}, ` + (found.n_crude < found.books.length
      ? `of which search reads ${count(found.n_crude)} first (the crude ones).`
      : "all of which search reads in its first step.")));
  if (found.variances.length) node.append(el("div", { class: "columns" }, variances(found), prior(found)));
  node.append(books(found));
  return node;
}

function variances({ variances: values, psi }) {
  const chosen = psi.filter(Boolean).length;
  const total = values.reduce((sum, value) => sum + value, 0);
  const inside = values.reduce((sum, value, i) => sum + (psi[i] ? value : 0), 0);
  return panel(
    "Variances",
    drawn((width) => bars({
      width, values, marked: psi, xLabel: "dimension, along the axes of the books",
      label: `Variances of ${values.length} dimensions; ${chosen} of them are in psi and hold ${percent(inside / total)} of the variance`,
    })),
    legend(["first", `psi: ${count(chosen)} dimensions, ${percent(inside / total)} of the variance`], ["second", "the others"]),
  );
}

function prior({ prior: found, variances: values, psi }) {
  if (!found) return panel("Prior", el("p", { class: "quiet" }, "There is no prior for these variances."));
  return panel(
    "Prior",
    drawn((width) => curves({
      width, x: found.variances, rug: values, marked: psi, xLabel: "variance, on a logarithmic scale",
      series: [{ values: found.density.map((value, i) => value * found.variances[i]), kind: "one" }, { values: found.high_share, kind: "three" }],
      label: "Density of the bi-modal prior over variances, and the share of its upper mode",
    })),
    legend(["one", "density of the prior on this scale"], ["three", "probability of the upper mode"], ["first", "variances in psi"], ["second", "the others"]),
    el("p", { class: "quiet" }, `Weights ${number(found.pi1, 3)} and ${number(found.pi2, 3)}. Each curve is scaled to its own maximum.`),
  );
}

function books(found) {
  const most = Math.max(...found.books.map(({ energy }) => energy)) || 1;
  const dim = found.variances.length || Math.max(...found.books.map(({ dims }) => Math.max(-1, ...dims))) + 1;
  const rows = found.books.map((book) => {
    const fill = el("span", { class: `fill ${book.crude ? "first" : "second"}` });
    fill.style.width = `${(100 * book.energy) / most}%`;
    return [
      book.book === 0 ? "0 (cells)" : String(book.book), book.crude ? "crude" : "refine", count(book.words),
      el("span", { class: "support" }, strip(book, dim), el("small", {}, count(book.dims.length || dim))),
      el("span", { class: "energy" }, el("span", { class: "distance", "aria-hidden": "true" }, fill), el("small", {}, number(book.energy, 3))),
    ];
  });
  return panel(
    "Books",
    table("Books and their energy", ["Book", "Step", "Words", "Dimensions", "Energy"], rows, "figures books"),
    el("p", { class: "quiet" }, "Energy is the mean squared length of the words of a book. Stripes show the dimensions on which its words are not zero."),
  );
}

function strip({ dims, crude }, dim) {
  const width = 120;
  const root = svg("svg", { width, height: 12, viewBox: `0 0 ${dim} 12`, preserveAspectRatio: "none", "aria-hidden": "true" });
  root.append(svg("rect", { class: "strip", x: 0, y: 0, width: dim, height: 12 }));
  const shown = dims.length ? dims : [...Array(dim).keys()];
  for (let i = 0; i < shown.length; ) {
    let j = i;
    while (j + 1 < shown.length && shown[j + 1] === shown[j] + 1) j += 1;
    root.append(svg("rect", { class: crude ? "bar first" : "bar second", x: shown[i], y: 0, width: shown[j] - shown[i] + 1, height: 12 }));
    i = j + 1;
  }
  return root;
}

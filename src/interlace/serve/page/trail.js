// What became of one row in a search, in words: from explanations of the server, without elements of the page.

import { count, number } from "./dom.js";

/** Explanations of a whole search, and of its part by codes; ``own`` is 1 for a search by id, which finds that row too. */
export async function traced(explain, request, own) {
  let whole = await explain(request);
  if (own) {
    const rerank = whole.rerank ? whole.rerank.depth + own : 0;
    whole = await explain({ ...request, limit: request.limit + own, params: { ...request.params, rerank } });
  }
  return { whole, codes: whole.rerank?.codes ?? whole };
}

/** One line, and its kind: ``ok`` for a hit, ``lost`` for a row that should be one, ``left`` for one that should not. */
export function verdictOf(id, whole, steps, own) {
  const last = steps[steps.length - 1];
  if (last.passed) return { kind: "ok", text: `Row ${id} is found` };
  if (whole.nearest) return { kind: "lost", text: `Row ${id} was lost: ${last.title.toLowerCase()}` };
  if (whole.lost === "removed") return { kind: "left", text: `Row ${id} was removed` };
  if (whole.lost === "filter") return { kind: "left", text: `Row ${id} is left out by the filter` };
  return { kind: "left", text: `Row ${id} is not among the ${count(whole.k - own)} nearest` };
}

/** The steps up to the one at which the row is left out; ``scale`` has what was compared and what was allowed. */
export function stepsOf(whole, codes, place, own) {
  const found = [];
  const add = (title, passed, text, scale) => found.push({ title, passed, text, scale });
  const end = () => found.length && !found[found.length - 1].passed;
  if (codes.lost === "removed" || codes.lost === "filter") {
    add(codes.lost === "removed" ? "Removed" : "Filter", false,
      codes.lost === "removed" ? "The row was removed from the collection." : "The filter does not allow this row.");
    return found;
  }
  add("Filter", true, "The row may be returned.");
  if (codes.cell < 0) {
    const among = `the ${count(whole.k - own)} hits`;
    add("Compared", whole.lost === "found",
      "Rows have no codes yet: the search compares all vectors. " + (whole.lost === "found"
        ? `By its vector it is row ${place(whole.rank)}, among ${among}.`
        : `Its distance ${number(whole.distance)} is row ${place(whole.rank)}, beyond ${among}, which end at ` +
          `${number(whole.kth_distance)}: too far by ${number(whole.by)}.`),
      [whole.distance, whole.kth_distance]);
    return found;
  }
  const where = `Its cell ${codes.cell} is number ${count(codes.cell_rank)} of ${count(codes.cells)} by distance to the query.`;
  if (codes.lost === "cell not visited" || codes.lost === "cell passed over" || (codes.lost === "beyond k" && !codes.visited)) {
    const text = codes.lost === "cell not visited"
      ? `The cell is ${number(codes.value)} farther than the nearest one; the margin allows ${number(codes.limit)}.`
      : `No row of the cell can be nearer than ${number(codes.floor)}, and the ${count(codes.k - own)} best rows are within ${number(codes.kth_distance)}.`;
    const more = codes.lost === "beyond k"
      ? ` It would not have been a hit: by code it is row ${place(codes.rank)} of the collection.`
      : ` It is a miss of the margin: by code it is row ${place(codes.rank)}.`;
    add("Cell not visited", false, `${where} ${codes.lost === "beyond k" ? "The search ended before this cell." : text}${more}`,
      [codes.value, codes.limit, "cell"]);
    return found;
  }
  add("Cell visited", true, where);
  if (codes.lost === "crude step" || (codes.lost === "beyond k" && codes.limit !== null && codes.value > codes.limit)) {
    add("Crude step", false,
      `Its crude distance ${number(codes.crude)} is above the limit ${number(codes.limit)} by ${number(codes.crude - codes.limit)}, ` +
      `so the rest of its code was not read. By code it is row ${place(codes.rank)} of the collection.`,
      [codes.crude, codes.limit]);
    return found;
  }
  add("Crude step", true,
    codes.limit === null
      ? `There was no limit yet when its crude distance ${number(codes.crude)} was compared: it survived.`
      : `Its crude distance ${number(codes.crude)} was within the limit ${number(codes.limit)}: it survived.`,
    [codes.crude, codes.limit]);
  const among = whole.rerank ? `the ${count(codes.k - own)} rows to re-rank` : `the ${count(codes.k - own)} hits`;
  add(whole.rerank ? "Best by code" : "Full distance", codes.lost === "found",
    codes.lost === "found"
      ? `By code it is row ${place(codes.rank)}, among ${among}.`
      : `Its distance by code ${number(codes.distance)} is row ${place(codes.rank)}, beyond ${among}, which end at ` +
        `${number(codes.kth_distance)}: too far by ${number(codes.by)}.`,
    [codes.distance, codes.kth_distance]);
  if (!end() && whole.rerank) {
    const { rank, distance, kth_distance: kth } = whole.rerank;
    add("Re-rank", whole.rerank.found,
      whole.rerank.found
        ? `Compared with its original vector it is hit ${place(rank)} of ${count(whole.k - own)}, at ${number(distance)}.`
        : `Compared with its original vector it is row ${place(rank)}, at ${number(distance)}. The hits end at ${number(kth)}: ` +
          `too far by ${number(distance - kth)}.`,
      [distance, kth]);
  }
  return found;
}

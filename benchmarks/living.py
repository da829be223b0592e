"""Sections of RESULTS.md about stores, filters, re-ranking, drift and agreement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import store_bars
import tables

Case = dict[str, Any]


def filters(found: Case) -> str:
    """Each selectivity of each layout compared with the unfiltered exact scan."""
    data, bar = found["data"], found["bar"]
    layouts = found["layouts"]
    worst = {
        name: min(s["unfiltered/batch"] for s in layout["selectivities"] if s["selectivity"] == bar["selectivity"])
        for name, layout in layouts.items()
    }
    reached = sum(ratio >= bar["batch"] for ratio in worst.values())
    scans = ", ".join(f"{name} {layout['unfiltered_us']:.0f} us" for name, layout in layouts.items())
    intro = (
        f"{data['name']}, {data['rows']:,} rows x {data['dim']}, {found['n_bytes']} bytes, k = {found['k']}, exact, "
        "one thread. Speed-up over the unfiltered scan, in processor time: *batch* is one call of "
        f"{data['queries']:,} queries including the preparation of the filter; *single* is a call of one query "
        "including it; *ready* is a call of one query with a filter prepared by `allow`. One unfiltered query in a "
        f"batch: {scans}. Preparing a filter reads a mask of all rows. Target: {bar['batch']:g}x in a batch at "
        f"{bar['selectivity']:.0%} of the rows, reached by {reached} of {len(worst)} layouts."
    )
    head = ("layout", "rows allowed", "rows", "batch", "single", "ready", "preparation, ms", "rows scanned", "recall")
    rows = [
        (
            name,
            f"{100 * s['selectivity']:g} %",
            f"{s['rows']:,}",
            *(f"{tables.times(s[f'unfiltered/{mode}'])}x" for mode in ("batch", "single", "ready")),
            f"{s['ready_ms']:.2f}",
            f"{s['scanned_per_query']:,.0f}",
            f"{s['recall']:.4f}",
        )
        for name, layout in layouts.items()
        for s in layout["selectivities"]
    ]
    return f"## Filters\n\n{intro}\n\n{tables.table(head, rows)}"


def rerank(found: Case) -> str:
    """Recall and speed of each re-rank depth, and the speed relative to faiss at equal recall."""
    data, at = found["data"], found["ratio_to_faiss_at_recall"]
    names = list(dict.fromkeys(method["method"] for method in found["methods"]))
    intro = (
        f"{data['name']}, {data['rows']:,} rows x {data['dim']}, codes of {found['methods'][0]['code_bytes']} bytes "
        f"and kept originals, k = {found['k']}, {data['queries']:,} queries in one call, one thread; interleaved "
        "rounds in one process, medians. The first table is the speed relative to faiss at each recall, both with "
        "the fastest setting that reaches it."
    )
    ratios = tables.table(
        ("recall@10", *names), [(recall, *(f"{tables.times(row[n])}x" for n in names)) for recall, row in at.items()]
    )
    rows = [
        (
            method["method"],
            _setting(method),
            f"{method['recall']:.4f}",
            f"{method['qps']['median']:,.0f}",
        )
        for method in found["methods"]
    ]
    settings = tables.table(("method", "setting", "recall@10", "queries per second"), rows)
    parts = ["## Re-ranking by kept originals", intro, ratios, settings]
    if "row_costs" in found:
        parts.append(_row_costs(found["row_costs"]))
    return "\n\n".join(parts)


def _row_costs(lines: list[Case]) -> str:
    """What a re-ranked row costs, by difference to the search of the codes and by difference of two depths."""
    names = list(lines[0]["us_per_row"])
    head = ("method", "queries", "us by codes only", *(f"us per row, {name}" for name in names))
    rows = [
        (
            line["method"],
            line["mode"],
            f"{line['us']['codes']:.1f}",
            *(f"{line['us_per_row'][name]:.3f}" for name in names),
        )
        for line in lines
    ]
    note = (
        "Processor time of one re-ranked row: the difference of re-ranking 100 rows and finding them by their codes, "
        "and that of two depths, which includes keeping more candidates. The target is 0.2 us."
    )
    return f"{note}\n\n{tables.table(head, rows)}"


def _setting(method: Case) -> str:
    """Arguments of `search`."""
    given = {name: value for name, value in method.items() if name not in ("method", "code_bytes", "recall", "qps")}
    return ", ".join(f"{name.removesuffix('_asked')}={value}" for name, value in given.items())


def drift(found: Case) -> str:
    """Drift reported by `health`, and the recall of old and new codebooks."""
    data = found["data"]
    intro = (
        f"{data['name']}, {data['rows']:,} rows x {data['dim']}, {found['n_bytes']} bytes. Codebooks are learned "
        "from one half of the rows; in the other half the given number of dimensions is permuted. *Drift* is the value "
        "of `health`: the error of new rows relative to that of held-out rows of learning. Recall is given for the old "
        "codebooks and for new codebooks learned from the changed rows."
    )
    head = ("dimensions moved", "drift", f"recall@{found['k']}, old books", "new books", "old / new")
    rows = [
        (
            str(r["moved_dims"]),
            f"{r['drift']:.2f}",
            f"{r['recall_old_books']:.3f}",
            f"{r['recall_new_books']:.3f}",
            f"{r['ratio']:.2f}",
        )
        for r in found["results"]
    ]
    return f"## Drift\n\n{intro}\n\n{tables.table(head, rows)}"


def violated(result: Case) -> bool:
    """Whether an agreement is below its target by more than its 95 % interval."""
    return bool(result["agreement"] + result["half_interval"] < result["target"])


def agreement(found: Case) -> str:
    """Measured agreement of calibrated margins with their targets."""
    results = found["results"]
    broken = [r for r in results if violated(r)]
    intro = (
        f"{found['n_bytes']} bytes, margins calibrated by `Index.build`, SIMD level "
        f"{found['environment']['simd_levels'][-1]}; measured by `benchmarks/agreement.py`. Agreement is the mean "
        "share of the k rows of the exact search of the codes. *Exactly* means that the calibration does not support "
        "the target, or is no longer valid for the rows, so that the search is exact. *Scanned* is the share of rows "
        f"whose codes are read.\n\n**{len(broken)} violations in {len(results)} measurements**; a violation is "
        "an agreement below its target by more than the 95 % interval."
    )
    parts = [f"## Agreement of calibrated margins\n\n{intro}", _agreement_grid(results)]
    if broken:
        parts.append(f"Violations:\n\n{_agreement_rows(broken)}")
    parts.append(f"<details><summary>All measurements</summary>\n\n{_agreement_rows(results)}\n\n</details>")
    return "\n\n".join(parts)


def _agreement_grid(results: list[Case]) -> str:
    """A row for each kind of queries and layout; violations in bold, exact searches as =."""
    columns = sorted({(r["k"], r["target"]) for r in results})
    rows: dict[tuple[str, ...], dict[tuple[int, float], str]] = {}
    for r in results:
        key = (f"{r['data']} ({r['rows']:,})", f"{r['queries']} ({r['n_queries']:,})", f"`{r['layout']}`")
        text = "=" if r["exact"] else f"{r['agreement']:.5f}"
        rows.setdefault(key, {})[r["k"], r["target"]] = f"**{text}**" if violated(r) else text
    head = ("data", "queries", "layout", *(f"k = {k}, {target:g}" for k, target in columns))
    note = "Agreement by k and target; = is an exact search, bold a violation.\n\n"
    return note + tables.table(head, [(*key, *(cells.get(c, "-") for c in columns)) for key, cells in rows.items()])


def _agreement_rows(results: list[Case]) -> str:
    head = ("data", "queries", "layout", "k", "target", "agreement", "ran exactly", "scanned", "scanned by exact")
    rows = [
        (
            f"{r['data']} ({r['rows']:,})",
            f"{r['queries']} ({r['n_queries']:,})",
            f"`{r['layout']}`",
            str(r["k"]),
            f"{r['target']:g}",
            f"{r['agreement']:.5f} ± {r['half_interval']:.5f}",
            "yes" if r["exact"] else "no",
            f"{r['scanned']:.1%}",
            f"{r['scanned_exact']:.1%}",
        )
        for r in results
    ]
    return tables.table(head, rows)


def merged(slices: list[Case]) -> Case:
    """All slices of the agreement as one result, with the environment of each."""
    return slices[0] | {
        "results": [r for one in slices for r in one["results"]],
        "slices": {one["slice"]: one["environment"] for one in slices},
    }


#: Kind of a result -> its format that this page knows, and its section; in the order of the page.
SECTIONS: dict[str, tuple[int, Callable[[Case], str]]] = {
    "store": (store_bars.FORMAT, store_bars.section),
    "filters": (1, filters),
    "rerank": (1, rerank),
    "drift": (1, drift),
    "agreement": (1, agreement),
}

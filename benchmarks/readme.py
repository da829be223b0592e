"""The short table of README.md, from the same JSON as RESULTS.md."""

from __future__ import annotations

from typing import Any

from tables import times

BEGIN, END = "<!-- results: begin, made by benchmarks/report.py -->", "<!-- results: end -->"
LABELS = {  # name and margin in the JSON -> name in the table
    ("auto", "0.999"): "`auto`, default margin",
    ("residual", "0.999"): "`residual`, default margin",
    ("hybrid", "0.999"): "`hybrid`, default margin",
    ("hybrid", "exact"): "`hybrid`, exact",
    ("subspace", "exact"): "`subspace`, exact",
    ("IndexPQFastScan", None): "faiss `IndexPQFastScan`",
    ("IndexPQ", None): "faiss `IndexPQ`",
    ("ResidualQuantizer", None): "faiss `IndexResidualQuantizer`",
}


SET, PLOT = "sift-grown-1m", "recall-speed-1m.png"
SHOWN = (  # peers of the plot, of those in RESULTS.md
    *("faiss IVF4096,PQ8", "faiss IVF4096,PQ16", "faiss IVF4096,PQ16x4fs", "faiss IVF4096,PQ32x4fs"),
    *("faiss OPQ16_128,IVF4096,PQ16", "faiss IVF4096,RaBitQfs", "faiss IVF4096,PQ32x4fs,RFlat"),
    *("faiss IVF4096,PQ16x4fs,RFlat", "faiss IVF4096,SQ4", "hnswlib M=16", "USearch M=16 float16"),
)


def with_results(
    readme: str, cases: dict[tuple[str, int], dict[str, Any]], partitions: dict[str, dict[str, Any]] | None = None
) -> str:
    """README.md with a new plot and table between its two marks; unchanged if there are no results."""
    if not cases and not partitions:
        return readme
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    plot = _plot(partitions[SET]) if partitions and SET in partitions else ""
    return f"{before}{BEGIN}\n{plot}{_table(cases) if cases else ''}{END}{after}"


def _plot(case: dict[str, Any]) -> str:
    data = case["data"]
    return (
        f"![Recall against queries per second]({'benchmarks/' + PLOT})\n\n"
        f"{data['rows']:,} vectors ({data['description']}), one core, {case['simd']}; bytes are those of the saved "
        "index with its ids, per vector. All settings are in [benchmarks/RESULTS.md](benchmarks/RESULTS.md).\n\n"
    )


def _table(cases: dict[tuple[str, int], dict[str, Any]]) -> str:
    levels = sorted({case["simd"] for case in cases.values()})
    lines = [
        f"One thread, k = 10, our SIMD level {', '.join(levels)}, faiss at its best one, ratios within one run; "
        "all results are in [benchmarks/RESULTS.md](benchmarks/RESULTS.md).",
        "",
        "| data, bytes | method | recall@10 | bytes per vector | batch, x FastScan | one by one, x FastScan |",
        "|---|---|---|---|---|---|",
    ]
    for (name, n_bytes), case in cases.items():
        for method in case["methods"]:
            label = LABELS.get((method["name"].removeprefix("faiss "), method.get("margin")))
            if label is None:
                continue
            ratios = method["ratios"]["FastScan"]
            lines.append(
                f"| {name}, {n_bytes} | {label} | {method['recall']['10']:.3f} | {method['bytes_per_vector']:.2f} "
                f"| {times(ratios['batch@10'])} | {times(ratios['single@10'])} |"
            )
    return "\n".join(lines) + "\n"

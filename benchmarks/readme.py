"""The chart and the short table of README.md, from the same JSON as RESULTS.md."""

from __future__ import annotations

from typing import Any

BEGIN, END = "<!-- results: begin, made by benchmarks/report.py -->", "<!-- results: end -->"
SET, PLOT = "sift-grown-1m", "recall-speed-1m.png"
#: Ours and the peer of the same kind: codes alone, and with the vectors.
CODES = ("interlace 8 bytes", "faiss IVF4096,PQ8")
VECTORS = ("interlace 16 bytes, float16 originals", "hnswlib M=16")
AGREEMENT, RECALL = 0.99, 0.98  # what a compared setting reaches
Case = dict[str, Any]


def with_results(readme: str, cases: dict[tuple[str, int], Case], partitions: dict[str, Case] | None = None) -> str:
    """README.md with a new chart and table between its two marks; unchanged if there are no results."""
    if not partitions or SET not in partitions:
        return readme
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    case = partitions[SET]
    return f"{before}{BEGIN}\n{_plot(case)}{_table(case)}{END}{after}"


def _plot(case: Case) -> str:
    data = case["data"]
    return (
        f"![Recall against queries per second]({'benchmarks/' + PLOT})\n\n"
        f"{data['rows']:,} vectors ({data['description']}), one core, {case['simd']}; bytes are those of the saved "
        "index with its ids, per vector. Our margins are calibrated with a sample of queries; "
        "[LIMITS.md](benchmarks/LIMITS.md) says what is slower without one. "
        "All settings are in [benchmarks/RESULTS.md](benchmarks/RESULTS.md).\n\n"
    )


def _table(case: Case) -> str:
    """Four rows; empty if a method is missing or reaches neither bound."""
    codes = [fastest(case, name, agreement=AGREEMENT) for name in CODES]
    vectors = [fastest(case, name, recall=RECALL) for name in VECTORS]
    chosen = [point for point in (*codes, *vectors) if point is not None]
    if len(chosen) < 4:
        return ""
    methods = {method["name"]: method for method in case["methods"]}
    sizes = [methods[name]["bytes"]["total"] for name in (*CODES, *VECTORS)]
    speeds = [
        *(f"{_ratio(chosen[0], chosen[1], 'batch')}x ({_ratio(chosen[0], chosen[1], 'single')}x)", "1x (1x)"),
        *(f"{_ratio(chosen[2], chosen[3], 'batch')}x ({_ratio(chosen[2], chosen[3], 'single')}x)", "1x (1x)"),
    ]
    rows = [
        ["measure", "interlace, 8-byte codes", CODES[1], "interlace, 16-byte codes and float16 vectors", VECTORS[1]],
        ["---"] * 5,
        ["bytes per vector", *(f"{size:.3g}" for size in sizes)],
        ["recall@10", *(f"{point['recall']['10']:.3f}" for point in chosen)],
        ["speed in batches (one by one)", *speeds],
        ["learns codes from labels", "yes", "no", "yes", "no"],
    ]
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return (
        "\n".join(lines) + "\n\n"
        f"Codes: the fastest setting that agrees at least {AGREEMENT} with the exhaustive search of the same index. "
        f"With vectors: the fastest setting with a recall@10 of at least {RECALL}. "
        "Speed is relative to the peer beside it.\n"
    )


def fastest(case: Case, name: str, *, agreement: float = 0.0, recall: float = 0.0) -> Case | None:
    """The setting of a method that reaches both and takes the least time in batches."""
    points = [point for method in case["methods"] if method["name"] == name for point in method["points"]]
    enough = [p for p in points if p["recall"]["10"] >= recall and (not agreement or p["agreement"] >= agreement)]
    return min(enough, key=lambda p: p["us"]["batch@10"]["median"], default=None)


def _ratio(ours: Case, peer: Case, how: str) -> str:
    return f"{peer['us'][f'{how}@10']['median'] / ours['us'][f'{how}@10']['median']:.2f}"

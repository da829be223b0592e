"""RESULTS.md and its plot from the JSON of benchmarks/results, and from nothing else.

    python benchmarks/report.py [--results FOLDER] [--output RESULTS.md] [--readme README.md] [--no-plot] [--check]

The same JSON gives the same bytes; --check fails if RESULTS.md is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bars
import code_bars
import code_tables
import cost_bars
import living
import partition_bars
import partition_tables
import readme
import tables

HERE = Path(__file__).resolve().parent
ORDER = ("sift300k", "sift-grown-1m", "sift-grown-10m", "mnist784")  # then any other set by name
Cases = dict[tuple[str, int], dict[str, Any]]
TABLES = partition_tables.OF_KIND | code_tables.OF_KIND


def main(argv: list[str] | None = None) -> int:
    """Write, or with --check only compare."""
    options = _parser().parse_args(argv)
    found = read(options.results)
    cases, streaming = found.cases, found.streaming
    if not cases and streaming is None and not found.partitions:
        print(f"no results in {options.results}: run benchmarks/peers.py", file=sys.stderr)
        return 1
    pages = {options.output: markdown(found, options.output.with_suffix(".png").name)}
    if options.readme:
        pages[options.readme] = readme.with_results(options.readme.read_text(), cases, found.partitions)
    if options.check:
        stale = [page.name for page, text in pages.items() if not page.exists() or page.read_text() != text]
        if stale:
            print(f"{', '.join(stale)} out of date: run benchmarks/report.py", file=sys.stderr)
        return int(bool(stale))
    for page, text in pages.items():
        page.write_text(text)
    if not options.no_plot:
        _draw(found, options.output)
    return 0


def _draw(found: Found, output: Path) -> None:
    """All plots, beside the page."""
    import partition_plot  # the only parts that need matplotlib
    import plot

    if found.cases:
        plot.draw(found.cases, output.with_suffix(".png"))
    for front in found.fronts:
        plot.draw_front(front, output.with_name(_front_name(front)))
    for case in found.partitions.values():
        partition_plot.draw(case, output.with_name(partition_tables.plot_name(case)))
    if readme.SET in found.partitions:
        partition_plot.draw(found.partitions[readme.SET], output.with_name(readme.PLOT), short=True)
    if found.growth is not None:
        partition_plot.draw_growth(found.growth, output.with_name("growth.png"))


@dataclass(frozen=True)
class Found:
    """Results in a folder: searches and codes by data set and bytes, fronts, the streaming limit."""

    cases: Cases
    codes: Cases
    fronts: list[dict[str, Any]]
    streaming: dict[str, Any] | None
    living: dict[str, dict[str, Any]] = field(default_factory=dict)  #: stores and agreement, by kind
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)  #: by data set
    growth: dict[str, Any] | None = None
    building: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  #: of one table each, by kind


def read(folder: Path) -> Found:
    """Every result, in the order of the report."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        kinds.setdefault(found["kind"], []).append(found)
    if slices := [json.loads(path.read_text()) for path in sorted((folder / "agreement").glob("*.json"))]:
        kinds["agreement"] = [living.merged(slices)]
    return Found(
        cases=_by_place(kinds.get("peers", [])),
        codes=_by_place(kinds.get("codes", [])),
        fronts=kinds.get("front", []),
        streaming=next(iter(kinds.get("streaming", [])), None),
        living={
            kind: found
            for kind, (known, _) in living.SECTIONS.items()
            for found in kinds.get(kind, [])
            if found["format"] == known
        },
        partitions={
            case["data"]["name"]: case
            for case in sorted(kinds.get("partitions", []), key=lambda case: _place(case["data"]["name"], 0))
        },
        growth=next(iter(kinds.get("growth", [])), None),
        building=sorted(kinds.get("building", []), key=lambda found: found["rows"]),
        tables={kind: kinds[kind][0] for kind in TABLES if kind in kinds},
    )


def _by_place(found: list[dict[str, Any]]) -> Cases:
    named = {(case["data"]["name"], case["n_bytes"]): case for case in found}
    return dict(sorted(named.items(), key=lambda item: _place(*item[0])))


def _front_name(front: dict[str, Any]) -> str:
    return f"front-{front['data']['name']}-{front['n_bytes']}.png"


def _place(name: str, n_bytes: int) -> tuple[int, str, int]:
    return (ORDER.index(name) if name in ORDER else len(ORDER), name, n_bytes)


def markdown(found: Found, plot_name: str) -> str:
    """The whole page."""
    cases, streaming = found.cases, found.streaming
    parts = [
        "# Results",
        "Generated by `benchmarks/report.py` from `benchmarks/results/*.json`; do not edit. Speeds are medians over "
        "interleaved rounds in one process on one thread; compare them only as ratios within one run. "
        "Recall@k is the share of the true k nearest among the k found. [Runs](#runs) has the date, commit and machine "
        "of each result, and [quantizers](../docs/quantizers.md) describes the methods.",
        *_warning(found),
        _bars(found),
    ]
    parts += [partition_tables.case(case) for case in found.partitions.values()]
    parts += [partition_tables.growth(found.growth)] if found.growth is not None else []
    parts += [partition_tables.building(found.building)] if found.building else []
    parts += [TABLES[kind](result) for kind, result in found.tables.items()]
    if cases:
        parts.append(f"![recall@10 against queries per second]({plot_name})")
    for front in found.fronts:
        parts.append(tables.front(front, _front_name(front)))
    for codes in found.codes.values():
        parts.append(tables.codes(codes))
    for case in cases.values():
        parts.append(tables.case(case))
    if streaming is not None:
        parts.append(tables.streaming(streaming))
    parts += [living.SECTIONS[kind][1](result) for kind, result in found.living.items()]
    parts.append(_runs(found))
    return "\n\n".join(parts) + "\n"


def _warning(found: Found) -> list[str]:
    cases = [*found.cases.values(), *found.partitions.values(), *([found.streaming] if found.streaming else [])]
    return ["**Some of these are quick runs, which only show that the benchmark runs.**"] * any(
        case["quick"] for case in cases
    )


def _runs(results: Found) -> str:
    named = [(f"{name}-{n_bytes}", case) for (name, n_bytes), case in results.cases.items()]
    named += [(f"codes-{name}-{n_bytes}", case) for (name, n_bytes), case in results.codes.items()]
    named += [(f"front-{front['data']['name']}-{front['n_bytes']}", front) for front in results.fronts]
    named += [("streaming", results.streaming)] if results.streaming is not None else []
    named += [(f"partitions-{name}", case) for name, case in results.partitions.items()]
    named += [("growth", results.growth)] if results.growth is not None else []
    named += [(f"building {found['data']}", found) for found in results.building]
    named += results.tables.items()
    for kind, found in results.living.items():
        slices = found.get("slices", {})
        named += [(f"{kind}: {name}", {"environment": e}) for name, e in slices.items()] or [(kind, found)]
    head = (
        "result",
        "date",
        "commit",
        "CPU",
        "cores",
        "load",
        "our SIMD level",
        "compiler",
        "Python",
        "NumPy",
        "faiss",
    )
    rows = []
    for name, found in named:
        e = found["environment"]
        commit = e["commit"][:10] + (" + changes" if e["uncommitted_code"] else "")
        cpu = f"{e['cpu']} ({' '.join(e['flags'])})"
        versions = (e["compiler"], e["python"], e["numpy"], e["faiss"])
        rows.append(
            (name, e["date"], commit, cpu, str(e["cores"]), str(e["load_at_start"]), found.get("simd", "-"), *versions)
        )
    return "## Runs\n\n" + tables.table(head, rows)


def _bars(results: Found) -> str:
    cases = results.cases
    found = partition_bars.all_bars(results.partitions, results.growth)
    found += code_bars.all_bars(results.tables, results.living.get("agreement"))
    found += cost_bars.all_bars(results.tables, results.living.get("rerank"), results.building)
    found += bars.all_bars(cases, results.streaming, results.codes)
    levels = sorted({case["simd"] for case in [*results.partitions.values(), *cases.values()]})
    reached = sum(bar.reached for bar in found)
    unmeasured = sum(bar.is_open for bar in found)
    missed = len(found) - reached - unmeasured
    text = f"{reached} of {len(found)} reached, {missed} not reached, {unmeasured} not or not fully measured."
    if levels:
        text += f" Our SIMD level in these runs: {', '.join(levels)}; every peer runs at its best level."
    text += " [LIMITS.md](LIMITS.md) explains the targets that were not reached."
    head = ("where", "target", "needed", "measured", "verdict")
    rows = [(bar.where, bar.what, bar.goal(), bar.show(bar.measured), bar.verdict()) for bar in found]
    return f"## Targets\n\n{text}\n\n{tables.table(head, rows)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the JSON")
    parser.add_argument("--readme", type=Path, help="page whose table of results is replaced as well")
    parser.add_argument(
        "--output", type=Path, default=HERE / "RESULTS.md", help="page to write; the plot is written next to it"
    )
    parser.add_argument("--no-plot", action="store_true")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    return parser


if __name__ == "__main__":
    sys.exit(main())

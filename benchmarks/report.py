"""RESULTS.md and its plot from the JSON of benchmarks/results, and from nothing else.

    python benchmarks/report.py [--results FOLDER] [--output RESULTS.md] [--readme README.md] [--no-plot] [--check]

The same JSON gives the same bytes; --check tells whether RESULTS.md is up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bars
import living
import readme
import tables

HERE = Path(__file__).resolve().parent
ORDER = ("sift300k", "sift1m", "mnist784")  # then any other set by name
Cases = dict[tuple[str, int], dict[str, Any]]


def main(argv: list[str] | None = None) -> int:
    """Write, or with --check only compare."""
    options = _parser().parse_args(argv)
    found = read(options.results)
    cases, streaming = found.cases, found.streaming
    if not cases and streaming is None:
        print(f"no results in {options.results}: run benchmarks/peers.py", file=sys.stderr)
        return 1
    pages = {options.output: markdown(found, options.output.with_suffix(".png").name)}
    if options.readme:
        pages[options.readme] = readme.with_results(options.readme.read_text(), cases)
    if options.check:
        stale = [page.name for page, text in pages.items() if not page.exists() or page.read_text() != text]
        if stale:
            print(f"{', '.join(stale)} not what the results say: run benchmarks/report.py", file=sys.stderr)
        return int(bool(stale))
    for page, text in pages.items():
        page.write_text(text)
    if not options.no_plot and cases:
        import plot  # matplotlib is needed for nothing else

        plot.draw(cases, options.output.with_suffix(".png"))
        for front in found.fronts:
            plot.draw_front(front, options.output.with_name(_front_name(front)))
    return 0


@dataclass(frozen=True)
class Found:
    """What the folder of results holds: searches and codes by data set and bytes, fronts, the streaming limit."""

    cases: Cases
    codes: Cases
    fronts: list[dict[str, Any]]
    streaming: dict[str, Any] | None
    living: dict[str, dict[str, Any]] = field(default_factory=dict)  #: of a store, by kind


def read(folder: Path) -> Found:
    """Every result, in the order of the report."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        kinds.setdefault(found["kind"], []).append(found)
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
        "Made by `benchmarks/report.py` from `benchmarks/results/*.json`; do not edit. Speeds are medians over "
        "interleaved rounds in one process on one thread, and mean something only as ratios within one run. "
        "Recall@k is the share of the true k nearest among the k found. Baselines of `il.quantizers` are compared in "
        "[docs/quantizers.md](../docs/quantizers.md).",
        *_warning(cases, streaming),
        _runs(found),
        _bars(found),
    ]
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
    return "\n\n".join(parts) + "\n"


def _warning(cases: Cases, streaming: dict[str, Any] | None) -> list[str]:
    found = [*cases.values(), *([streaming] if streaming else [])]
    return ["**Quick runs are among these: they prove that the benchmark runs, nothing else.**"] * any(
        case["quick"] for case in found
    )


def _runs(results: Found) -> str:
    named = [(f"{name}-{n_bytes}", case) for (name, n_bytes), case in results.cases.items()]
    named += [(f"codes-{name}-{n_bytes}", case) for (name, n_bytes), case in results.codes.items()]
    named += [(f"front-{front['data']['name']}-{front['n_bytes']}", front) for front in results.fronts]
    named += [("streaming", results.streaming)] if results.streaming is not None else []
    named += results.living.items()
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
    found = bars.all_bars(cases, results.streaming, results.codes)
    levels = sorted({case["simd"] for case in cases.values()})
    reached = sum(bar.reached for bar in found)
    unmeasured = sum(bar.measured is None for bar in found)
    text = f"{reached} of {len(found)} reached, {len(found) - reached - unmeasured} not, {unmeasured} not measured."
    if levels:
        text += f" Our SIMD level in these runs: {', '.join(levels)}; every peer at its best one."
    text += " What is in the way of the others: [LIMITS.md](LIMITS.md)."
    head = ("where", "bar", "needed", "measured", "verdict")
    rows = [(bar.where, bar.what, bar.show(bar.needed), bar.show(bar.measured), bar.verdict()) for bar in found]
    return f"## Bars\n\n{text}\n\n{tables.table(head, rows)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the JSON")
    parser.add_argument("--readme", type=Path, help="page whose table of results is made anew, too")
    parser.add_argument(
        "--output", type=Path, default=HERE / "RESULTS.md", help="page to write; the plot lies beside it"
    )
    parser.add_argument("--no-plot", action="store_true")
    parser.add_argument("--check", action="store_true", help="write nothing; fail unless the page is up to date")
    return parser


if __name__ == "__main__":
    sys.exit(main())

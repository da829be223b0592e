"""Targets of codes: recall on text vectors, long codes against FastScan, speed of coding; and of calibrated margins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bars import Bar
from living import violated

Case = dict[str, Any]
MODES = ("batch", "single")
TEXT_BYTES = (16, 32, 64)
OURS = ("auto", "residual", "hybrid")  # methods of text_codes.py that are not those of faiss
TITLES = {"opq": "OPQ", "rq": "RQ", "rabitq": "RaBitQ", "sq4": "SQ"}  # peers that the target names
BEFORE = 0.02  # recall, against our own residual codes of before
#: Dimensions at most -> share of FastScan's speed, and recall beyond its recall.
LONG = {384: (0.5, 0.05), 1536: (1.0, 0.0)}
LONG_BYTES = {384: (48, 64), 1536: (64,)}
LONG_SETS = ("text", "spectrum384", "spectrum768", "spectrum1536")
CODING, CODING_BYTES = 4.0, (8, 16)
#: Data that the table of agreement must have, each with all layouts.
AGREEMENT_SETS = ("sift300k", "sift-grown-1m", "text128k", "mnist784", "clusters", "isotropic")
LAYOUTS = ("subspace", "hybrid", "residual")


def all_bars(tables: dict[str, Case], agreement: Case | None) -> list[Bar]:
    """Text vectors, long codes, coding, agreement; ``tables`` by kind of result."""
    bars = [bar for n_bytes in TEXT_BYTES for bar in _text(tables.get("text-codes"), n_bytes)]
    bars += [bar for name in LONG_SETS for bar in _long(tables.get("long-codes"), name)]
    bars += [bar for n_bytes in CODING_BYTES for bar in _coding(tables.get("coding"), n_bytes)]
    return [*bars, _agreement(agreement)]


def text_entries(found: Case, n_bytes: int) -> dict[str, Case]:
    """What was measured of all rows at some code bytes, by method."""
    chosen = [e for e in found["entries"] if e["rows"] == found["data"]["rows"] and e["n_bytes"] == n_bytes]
    return {e["method"]: e for e in chosen if "recall" in e}


def _text(found: Case | None, n_bytes: int) -> Iterator[Bar]:
    """Our default and our best layout against the best of faiss; peers without a result are named."""
    where = f"text128k, cosine, {n_bytes} code bytes"
    entries = text_entries(found, n_bytes) if found else {}
    theirs = {name: e for name, e in entries.items() if name not in OURS}
    ours = {name: e for name, e in entries.items() if name in OURS}
    what = "recall@10 no less than the best of faiss OPQ, RQ, RaBitQ, SQ at the same code bytes"
    best = max(ours, key=lambda name: float(ours[name]["recall"]), default=None)
    if theirs:
        what += f" ({max(theirs, key=lambda name: float(theirs[name]['recall']))})"
    without = ", ".join(title for name, title in TITLES.items() if name not in theirs)
    floor = max((float(e["recall"]) for e in theirs.values()), default=None)
    for who, name in (("default (auto)", "auto"), (f"best layout ({best or '-'})", best)):
        measured = None if floor is None or name not in ours else float(ours[name]["recall"])
        yield Bar(where, f"{who}: {what}", floor, measured, "", without=without)
    residual = ours.get("residual")
    before = None if residual is None else float(residual["recall_by_products"]) + BEFORE
    yield Bar(
        where,
        f"best layout ({best or '-'}): recall@10 no less than our residual codes ranked by products, as they were "
        f"before format 4, + {BEFORE:g}",
        before,
        None if residual is None or best is None else float(ours[best]["recall"]),
        "",
    )


def _long(found: Case | None, name: str) -> Iterator[Bar]:
    """The fastest of our layouts with enough recall, at each margin; and the most recall of any."""
    lines = [line for line in (found["results"] if found else []) if line["set"] == name]
    if not lines:
        for mode in MODES:
            yield Bar(f"long codes, {name}", f"{mode} speed against FastScan of the same bytes", 1.0, None)
        return
    dim = lines[0]["dim"]
    most = next(limit for limit in LONG if dim <= limit)
    speed, more = LONG[most]
    for n_bytes in LONG_BYTES[most]:
        where = f"long codes, {name} ({dim} dimensions), {n_bytes} bytes"
        same = [line for line in lines if line["n_bytes"] == n_bytes]
        for peer in (line for line in same if line["kind"] == "faiss"):
            floor = peer["recall"] + more
            for margin in dict.fromkeys(line["margin"] for line in same if line["kind"] == "ours"):
                ours = [line for line in same if line["kind"] == "ours" and line["margin"] == margin]
                enough = [line for line in ours if line["recall"] >= floor and line["recall"] > peer["recall"]]
                who = f"margin {'default' if margin is None else margin}"
                recall = max(line["recall"] for line in ours)
                beyond = f"{peer['name']} + {more:g}" if more else f"{peer['name']}"
                yield Bar(where, f"{who}: recall@10 no less than {beyond}", floor, recall, "")
                for mode in MODES:
                    us = min((line["us"][mode] for line in enough), default=None)
                    ratio = 0.0 if us is None else peer["us"][mode] / us
                    yield Bar(where, f"{who}: {mode} speed at that recall against {peer['name']}", speed, ratio)


def _coding(found: Case | None, n_bytes: int) -> Iterator[Bar]:
    """Our fastest effort whose error is no more than that of faiss; 0 if there is none."""
    entries = [e for e in (found["entries"] if found else []) if e["n_bytes"] == n_bytes]
    where, what = f"coding, {n_bytes} bytes", "speed of coding at no more error than {}"
    peers = [e for e in entries if e["method"].startswith("faiss")]
    if not peers:
        yield Bar(where, what.format("faiss RQ"), CODING, None)
    for peer in peers:
        enough = [e for e in entries if e["method"].startswith("interlace") and e["error"] <= peer["error"]]
        us = min((e["microseconds"] for e in enough), default=None)
        yield Bar(where, what.format(peer["method"]), CODING, 0.0 if us is None else peer["microseconds"] / us)


def _agreement(found: Case | None) -> Bar:
    """Not measured if a layout of one of the sets is missing."""
    results = found["results"] if found else []
    there = {(r["data"], r["layout"]) for r in results}
    missing = [f"{name} {layout}" for name in AGREEMENT_SETS for layout in LAYOUTS if (name, layout) not in there]
    what = f"violations in {len(results):,} measurements of calibrated margins, k = 1, 10, 100, all layouts"
    if missing and results:
        what += f"; missing: {', '.join(missing)}"
    n = None if missing else float(sum(violated(r) for r in results))
    return Bar("agreement", what, 0.0, n, "n", most=True)

"""Targets of the comparison with partitions and graphs, and of growth, compared with the measurements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bars import Bar

Case = dict[str, Any]
Point = dict[str, Any]
SET = "sift-grown-1m"
#: Case -> what follows the name of our index in it: as ``Index.build`` makes it, and after ``calibrate(queries)``.
PARTITIONED = {f"{SET}-by-rows": ", calibrated by rows", SET: ""}
HOW = {f"{SET}-by-rows": "as Index.build makes it", SET: "after calibrate(queries)"}
BYTES = (8, 16)
MODES = ("batch", "single")
BETTER, FASTER, SMALLER = 0.02, 2.0, 0.60  # recall, speed, bytes, against IVF4096,PQ of the same code bytes
PROMISED = (0.99, 0.999)  # margins
AGREED = 0.99  # where the peer's answers agree with those of all its lists
FAST_AGREED, FAR_BETTER = 0.98, 0.10  # the same of FastScan, and how much less it may find ("far higher recall")
GROWTH, SMALL, LARGE = 2.5, 1_000_000, 10_000_000
RECALLS = (0.90, 0.95, 0.98)
REFINED = {"faiss IVF4096,PQ32x4fs,RFlat": 1.0, "faiss IVF4096,PQ16x4fs,RFlat": 1.5, "hnswlib M=16": 1.0}
GRAPH, TENTH = "hnswlib M=16", 0.1


def us(point: Point, mode: str) -> float:
    """Median time per query at k = 10."""
    return float(point["us"][f"{mode}@10"]["median"])


def curve(case: Case | None, name: str) -> Case | None:
    """A method of a case."""
    return next((m for m in (case["methods"] if case else []) if m["name"] == name), None)


def fastest(points: list[Point], recall: float, mode: str = "batch") -> Point | None:
    """The fastest point with at least this recall@10."""
    enough = [p for p in points if p["recall"]["10"] >= recall]
    return min(enough, key=lambda p: us(p, mode), default=None)


def all_bars(cases: dict[str, Case], growth: Case | None) -> list[Bar]:
    """Partitions, growth, re-ranking."""
    case = cases.get(SET)
    bars = [bar for name in PARTITIONED for n_bytes in BYTES for bar in _partitions(name, cases.get(name), n_bytes)]
    bars += [bar for name in PARTITIONED for n_bytes in BYTES for bar in _fast_scan(name, cases.get(name), n_bytes)]
    return [*bars, *_growth(growth), *_refined(case)]


def _where(name: str, n_bytes: int) -> str:
    return f"{SET}, {n_bytes} code bytes, {HOW[name]}"


def _promised(ours: Case) -> list[Point]:
    return [p for p in ours["points"] if p["setting"]["margin"] in PROMISED]


def _partitions(name: str, case: Case | None, n_bytes: int) -> Iterator[Bar]:
    where, title = _where(name, n_bytes), f"faiss IVF4096,PQ{n_bytes}"
    ours, peer = curve(case, f"interlace {n_bytes} bytes{PARTITIONED[name]}"), curve(case, title)
    what = f"recall@10 no less than {title} at any nprobe + {BETTER:g}"
    speed = f"speed against {title} where it agrees {AGREED:g} with all its lists"
    size = f"total bytes per vector against {title}"
    if ours is None or peer is None:
        yield Bar(where, what, None, None, "")
        for mode in MODES:
            yield Bar(where, f"{mode} {speed}", FASTER, None)
        yield Bar(where, size, SMALLER, None, "%", most=True)
        return
    needed = max(p["recall"]["10"] for p in peer["points"]) + BETTER
    agreed = [p for p in peer["points"] if p.get("agreement", 0) >= AGREED]
    for point in _promised(ours):
        yield Bar(where, f"margin {point['setting']['margin']}: {what}", needed, point["recall"]["10"], "")
        for mode in MODES:
            one = min(agreed, key=lambda p: us(p, mode), default=None)
            ratio = None if one is None else us(one, mode) / us(point, mode)
            yield Bar(where, f"margin {point['setting']['margin']}: {mode} {speed}", FASTER, ratio)
    yield Bar(where, size, SMALLER, ours["bytes"]["total"] / peer["bytes"]["total"], "%", most=True)


def _fast_scan(name: str, case: Case | None, n_bytes: int) -> Iterator[Bar]:
    """FastScan of the same code bytes where it agrees enough; at its best agreement if it never does."""
    where, title = _where(name, n_bytes), f"faiss IVF4096,PQ{2 * n_bytes}x4fs"
    ours, peer = curve(case, f"interlace {n_bytes} bytes{PARTITIONED[name]}"), curve(case, title)
    if ours is None or peer is None:
        yield Bar(where, f"recall@10 no less than {title} at any nprobe + {FAR_BETTER:g}", None, None, "")
        for mode in MODES:
            yield Bar(where, f"{mode} speed against {title} where it agrees {FAST_AGREED:g}", 1.0, None)
        return
    best = max(p["agreement"] for p in peer["points"])
    agreed = [p for p in peer["points"] if p["agreement"] >= min(FAST_AGREED, best)]
    at = f"where it agrees {FAST_AGREED:g}"
    if best < FAST_AGREED:
        at = f"at its best agreement, {best:.3f} (it never agrees {FAST_AGREED:g})"
    needed = max(p["recall"]["10"] for p in peer["points"]) + FAR_BETTER
    for point in _promised(ours):
        who = f"margin {point['setting']['margin']}"
        what = f"{who}: recall@10 no less than {title} at any nprobe + {FAR_BETTER:g}"
        yield Bar(where, what, needed, point["recall"]["10"], "")
        for mode in MODES:
            one = min(us(p, mode) for p in agreed)
            yield Bar(where, f"{who}: {mode} speed against {title} {at}", 1.0, one / us(point, mode))


def _growth(growth: Case | None) -> Iterator[Bar]:
    lines = {line["rows"]: line for line in (growth["results"] if growth else []) if line["kind"] == "interlace"}
    agreed = f"at an agreement of {growth['target']:g}" if growth else "at equal agreement"
    for mode in MODES:
        ratio = us(lines[LARGE], mode) / us(lines[SMALL], mode) if {SMALL, LARGE} <= lines.keys() else None
        yield Bar("growth", f"{mode}: time of {LARGE:,} rows against {SMALL:,}, {agreed}", GROWTH, ratio, most=True)


def _refined(case: Case | None) -> Iterator[Bar]:
    """Our fastest setting of any index that keeps originals, against the fastest of each peer, at each recall."""
    methods = [m for m in (case["methods"] if case else []) if m["kind"] == "interlace" and m["family"] == "refined"]
    points = [p for m in methods for p in m["points"]]
    for wanted in RECALLS:
        for name, needed in REFINED.items():
            peer = curve(case, name)
            for mode in MODES:
                what = f"recall@10 of {wanted:g} by re-ranking: {mode} speed against {name}"
                if peer is None or not points:
                    yield Bar(SET, what, needed, None)
                    continue
                ours, other = fastest(points, wanted, mode), fastest(peer["points"], wanted, mode)
                if other is None:
                    continue  # the peer does not get there
                yield Bar(SET, what, needed, 0.0 if ours is None else us(other, mode) / us(ours, mode))
    graph = curve(case, GRAPH)
    share = None
    if methods and graph:
        share = max(_in_memory(m["bytes"]) for m in methods) / graph["bytes"]["total"]
    what = f"bytes per vector in memory, without the mapped originals, against {GRAPH}"
    yield Bar(SET, what, TENTH, share, "%", most=True)


def _in_memory(n_bytes: dict[str, float]) -> float:
    return n_bytes["total"] - n_bytes.get("vectors", 0.0)

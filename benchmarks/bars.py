"""Targets of the index compared with the measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

FASTSCAN, PQ, OPQ, RQ = "faiss IndexPQFastScan", "faiss IndexPQ", "faiss OPQ+PQ", "faiss ResidualQuantizer"
SETS = ("sift300k", "sift-grown-1m")  # the targets are for real SIFT vectors
BYTES = (8, 16)
MODES = ("batch", "single")
SCAN_SHARE = {2: 0.60, 4: 0.90}  # of the streaming rate, by crude columns
TWO_THREADS = 1.8
CALIBRATED = 0.999
UNITS = {"us": 2, "s": 0, "GB": 2}  # decimals

Case = dict[str, Any]


@dataclass(frozen=True)
class Bar:
    """A target; ``measured`` is None without a result, and ``needed`` as well if it depends on one."""

    where: str
    what: str
    needed: float | None
    measured: float | None
    unit: str = "x"  # a ratio; "" for a recall or an agreement, "%" for a share, "n" for a count, or what UNITS has
    most: bool = False  # the measurement must be at most the target
    without: str = ""  # peers that have no result: with them the target may be higher

    @property
    def is_open(self) -> bool:
        """Whether there is no verdict: nothing was measured, or what was may not be enough."""
        if self.measured is None or self.needed is None:
            return True
        return bool(self.without) and self.measured >= self.needed

    @property
    def reached(self) -> bool:
        """Whether the target is reached; False if that is open."""
        if self.measured is None or self.needed is None or self.is_open:
            return False
        return self.measured <= self.needed if self.most else self.measured >= self.needed

    def verdict(self) -> str:
        """Whether it is reached, and by how much."""
        if self.measured is None or self.needed is None:
            return "not measured"
        if self.is_open:
            return f"open, {self.without} not measured"
        word = "reached" if self.reached else "**not reached**"
        if self.unit == "x" or self.unit in UNITS:
            return f"{word}, {self.measured / self.needed - 1:+.0%}"
        if self.unit == "n":
            return word
        if self.unit == "%":
            return f"{word}, {100 * (self.measured - self.needed):+.1f} points"
        return f"{word}, {self.measured - self.needed:+.4f}"

    def show(self, value: float | None) -> str:
        """A number with its unit."""
        if value is None:
            return "-"
        if self.unit in UNITS:
            return f"{value:,.{UNITS[self.unit]}f} {self.unit}"
        return {"x": f"{value:.2f}x", "%": f"{value:.0%}", "n": f"{value:.0f}"}.get(self.unit, f"{value:.4f}")

    def goal(self) -> str:
        """The target with its unit."""
        return ("at most " if self.most and self.needed is not None else "") + self.show(self.needed)


def all_bars(
    cases: dict[tuple[str, int], Case], streaming: Case | None, codes: dict[tuple[str, int], Case] | None = None
) -> list[Bar]:
    """Speed and recall, SIMD levels, threads, agreement, codes, the crude scan."""
    wanted = [(name, n_bytes) for name in SETS for n_bytes in BYTES]
    bars = [bar for key in wanted for bar in _speed(f"{key[0]}, {key[1]} bytes", cases.get(key))]
    bars += [bar for name in SETS for bar in _avx2(f"{name}, 8 bytes", cases.get((name, 8)))]
    bars += [bar for key in wanted for bar in _threads(f"{key[0]}, {key[1]} bytes", cases.get(key))]
    bars += [bar for (name, n_bytes), case in cases.items() for bar in _agreement(f"{name}, {n_bytes} bytes", case)]
    for (name, n_bytes), case in (codes or {}).items():
        bars += _codes(f"codes of {name}, {n_bytes} bytes", case)
    return bars + list(_scan(streaming))


def _codes(where: str, case: Case) -> Iterator[Bar]:
    """Recall of our best layout at its default effort, coding at the error of the residual quantizer, learning."""
    methods = {method["name"]: method for method in case["methods"]}
    ours = [m for name, m in methods.items() if name.startswith("interlace") and name.endswith("balanced")]
    if not ours:
        return
    best = max(ours, key=lambda m: float(m["recall"]["10"]))
    peers = ("faiss PQ", "faiss OPQ+PQ", "faiss ResidualQuantizer, beam 5", "faiss LocalSearchQuantizer")
    for peer in peers:
        if peer in methods:
            floor = methods[peer]["recall"]["10"]
            who = best["name"].removeprefix("interlace ")
            yield Bar(where, f"{who}: recall@10 no less than {peer}", floor, best["recall"]["10"], "")
    for name, how in ((peers[2], "with its tables"), (f"{peers[2]}, as it comes", "as it comes")):
        if (rq := methods.get(name)) is None:
            continue
        enough = [m for who, m in methods.items() if who.startswith("interlace") and m["error"] <= rq["error"]]
        fastest = min((m["encode_microseconds"] for m in enough), default=None)
        ratio = None if fastest is None else rq["encode_microseconds"] / fastest
        yield Bar(where, f"coding speed against ResidualQuantizer {how}, at no more error", 10.0, ratio)
    if (opq := methods.get(peers[1])) is not None:
        ratio = opq["train_seconds"] / best["train_seconds"]
        yield Bar(where, "time of OPQ to learn, against ours", 0.5, ratio)


def find(case: Case | None, name: str, margin: str | None = None) -> dict[str, Any] | None:
    """A method of a case."""
    methods = case["methods"] if case else []
    return next((m for m in methods if m["name"] == name and m.get("margin") == margin), None)


def _recall(method: dict[str, Any] | None) -> float | None:
    return method["recall"]["10"] if method else None


def _speed(where: str, case: Case | None) -> Iterator[Bar]:
    floors = {"subspace": (FASTSCAN,), "hybrid": (PQ, OPQ)}
    for layout, peers in floors.items():
        method = find(case, layout, "exact")
        for mode in MODES:
            for reference, needed in (("FastScan", 3.0), ("IndexPQ", 10.0)):
                ratio = method["ratios"][reference][f"{mode}@10"] if method else None
                yield Bar(where, f"{layout}, exact: {mode} speed against {reference}", needed, ratio)
        for peer in peers:
            yield from _recall_bar(where, f"{layout}, exact", method, case, peer)
    rq = find(case, RQ)
    for layout in ("residual", "auto"):
        method = find(case, layout, "0.999")
        who = f"{layout}, 0.999" + (f" (chose {method['chose']})" if method and "chose" in method else "")
        for mode in MODES:
            task = f"{mode}@10"
            ratio = method["ratios"]["FastScan"][task] if method else None
            yield Bar(where, f"{who}: {mode} speed against FastScan", 2.0, ratio)
            if method and rq:
                ratio = method["qps"][task]["median"] / rq["qps"][task]["median"]
                yield Bar(where, f"{who}: {mode} speed against {RQ}", 20.0, ratio)
        yield from _recall_bar(where, who, method, case, RQ)


def _recall_bar(where: str, who: str, method: dict[str, Any] | None, case: Case | None, peer: str) -> Iterator[Bar]:
    """No target if the case ran without the peer."""
    floor = _recall(find(case, peer))
    if floor is not None:
        yield Bar(where, f"{who}: recall@10 no less than {peer}", floor, _recall(method), "")


def _avx2(where: str, case: Case | None) -> Iterator[Bar]:
    rates = {(entry["name"], entry["level"]): entry["qps"] for entry in (case["levels"] if case else [])}
    peer = rates.get((FASTSCAN, "AVX2"))
    for layout in ("subspace", "hybrid"):
        ours = rates.get((layout, "avx2"))
        for mode in MODES:
            task = f"{mode}@10"
            ratio = ours[task]["median"] / peer[task]["median"] if ours and peer else None
            yield Bar(where, f"{layout}, exact, forced to avx2: {mode} speed against FastScan at AVX2", 1.0, ratio)


def _threads(where: str, case: Case | None) -> Iterator[Bar]:
    measured = {entry["layout"]: entry["speedup"] for entry in (case["threads"] if case else [])}
    for layout in ("subspace", "hybrid", "residual"):
        yield Bar(where, f"{layout}, exact: two threads against one, batch", TWO_THREADS, measured.get(layout))


def _agreement(where: str, case: Case) -> Iterator[Bar]:
    """The worst layout and k."""
    exact = [value for m in case["methods"] if m.get("margin") == "exact" for value in m["agreement"].values()]
    yield Bar(where, "exact: agreement with the exhaustive scan, lowest of layouts and k", 1.0, min(exact), "")
    found = [entry for entry in case["calibration"] if entry["target"] == CALIBRATED]
    worst = min(found, key=lambda entry: entry["agreement"])
    who = f"calibrated {CALIBRATED}: agreement on held-out queries, lowest ({worst['layout']}, k = {worst['k']})"
    yield Bar(where, who, CALIBRATED, worst["agreement"], "")


def _scan(streaming: Case | None) -> Iterator[Bar]:
    results = streaming["results"] if streaming else []
    level = streaming["simd"] if streaming else ""
    for columns, needed in SCAN_SHARE.items():
        found = [entry for entry in results if entry["level"] == level and entry["columns"] == columns]
        if not found:
            yield Bar("crude scan", f"{columns} columns: share of the streaming rate", needed, None, "%")
        for entry in found:
            what = f"{columns} columns in {entry['where']}: share of the streaming rate ({level})"
            yield Bar("crude scan", what, needed, entry["ratio"], "%")

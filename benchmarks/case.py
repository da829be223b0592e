"""One case: a data set at a number of bytes, ours against the peers, into one dictionary for the JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import faiss_peers
import machine
import ours
from datasets import BenchSet
from measure import Method, one_thread, race
from plan import Plan

from interlace import Index, _native

FORMAT = 1
LEVEL_BYTES = 8  # SIMD levels are compared at this many bytes
REFERENCES = {"FastScan": faiss_peers.FASTSCAN, "IndexPQ": faiss_peers.PQ}


def run(data: BenchSet, n_bytes: int, plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Build, check, time; everything on one thread but the comparison of two with one."""
    started = time.perf_counter()
    with one_thread():
        indexes, entries = _build_ours(data, n_bytes, plan, say)
        exhaustive = {}
        for layout, index in indexes.items():
            say(f"exhaustive answers of {layout}")
            exhaustive[layout] = ours.exhaustive_answers(index, data, plan)
        peers = faiss_peers.build_all(data, n_bytes, ours.training_rows(len(data.x), plan.seed), plan, say)
        methods = [ours.method(index, margin, plan.timed) for index in indexes.values() for margin in ours.MARGINS]
        for method in methods:
            say(f"answers of {method.key}")
            layout, margin = method.facts["name"], _margin(method)
            method.facts |= entries[layout] | ours.quality(indexes[layout], margin, data, plan, exhaustive[layout])
        for peer in peers:
            say(f"answers of {peer.key}")
            peer.facts |= faiss_peers.quality(peer, data, plan)
        rates = race([*methods, *peers], data.queries, plan.rounds, say=say)
        say("calibrated margins")
        calibrated = [row for layout, index in indexes.items() for row in ours.calibration(index, data, plan, exhaustive[layout])]
        levels = _levels(indexes, peers, data, plan, say) if n_bytes == LEVEL_BYTES else []
        threads = _threads(indexes, data, plan, say)
    lines = _lines([*methods, *peers], rates)
    return {
        "format": FORMAT,
        "kind": "peers",
        "data": {
            "name": data.name,
            "description": data.description,
            "generated": data.generated,
            "rows": len(data.x),
            "dim": data.x.shape[1],
            "queries": len(data.queries),
            "training_rows": len(ours.training_rows(len(data.x), plan.seed)),
            "seed": data.seed,
        },
        "n_bytes": n_bytes,
        "environment": machine.environment(),
        "simd": _native.simd_level(),
        "faiss_levels": list(faiss_peers.levels()),
        "protocol": plan.as_json(),
        "methods": lines,
        "levels": levels,
        "threads": threads,
        "calibration": calibrated,
        "seconds": round(time.perf_counter() - started, 1),
    }


def _margin(method: Method) -> float | str:
    text = method.facts["margin"]
    return text if text in ("exact", "paper") else float(text)


def _build_ours(data: BenchSet, n_bytes: int, plan: Plan, say: Callable[[str], None]) -> tuple[dict[str, Index], dict[str, Any]]:
    indexes, entries = {}, {}
    for layout in ours.LAYOUTS:
        say(f"building {layout}")
        index, seconds = ours.build(data, n_bytes, layout, plan.seed)
        indexes[layout] = index
        entries[layout] = {
            "bytes_per_vector": round(index.report().code_bytes_per_vector, 4),
            "build": seconds,
            "trained_rows": len(ours.training_rows(len(data.x), plan.seed)),
        }
    return indexes, entries


def _lines(methods: list[Method], rates: dict[str, dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One entry per method, with its speed against the two references of the same run."""
    out = []
    for method in methods:
        qps = rates[method.key]
        ratios = {
            name: {task: round(qps[task]["median"] / rates[key][task]["median"], 4) for task in qps}
            for name, key in REFERENCES.items()
        }
        out.append(method.facts | {"queries_timed": method.n_timed, "qps": qps, "ratios": ratios})
    return out


def _levels(
    indexes: dict[str, Index], peers: list[Method], data: BenchSet, plan: Plan, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Exact margin, k = 10, at every SIMD level of ours, and FastScan at every level of faiss, in one race."""
    say("SIMD levels")
    fastscan = next(peer for peer in peers if peer.key == faiss_peers.FASTSCAN)

    def n_timed(level: str) -> int:
        return plan.timed_scalar if level in ("scalar", "NONE") else plan.timed

    methods = [ours.method(index, "exact", n_timed(level), level=level) for level in machine.simd_levels() for index in indexes.values()]
    methods += [faiss_peers.at_level(fastscan, level, n_timed(level)) for level in faiss_peers.levels()]
    before = _native.simd_level()
    try:
        rates = race(methods, data.queries, plan.rounds, tasks=(("batch", 10), ("single", 10)), say=say)
    finally:
        _native.force_simd_level(before)
    names = ("name", "kind", "margin", "level")
    return [{n: m.facts[n] for n in names if n in m.facts} | {"queries_timed": m.n_timed, "qps": rates[m.key]} for m in methods]


def _threads(indexes: dict[str, Index], data: BenchSet, plan: Plan, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Nothing where there is one core only."""
    if machine.environment()["cores"] < 2:
        return []
    say("two threads")
    methods = [ours.method(index, "exact", plan.timed, threads=t) for index in indexes.values() for t in (1, 2)]
    rates = race(methods, data.queries, plan.rounds, tasks=(("batch", 10),), say=say)
    return ours.speedups(rates, list(indexes), "exact", _native.simd_level())

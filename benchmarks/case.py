"""One case: our index and the peers on one data set at one number of bytes, as a dictionary for the JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import faiss_peers
import machine
import ours
from bench_sets import BenchSet
from interlace import Index, _native
from measure import Method, one_thread, race
from plan import Plan

FORMAT = 1
LEVEL_BYTES = 8  # SIMD levels are compared at this many bytes
REFERENCES = {"FastScan": faiss_peers.FASTSCAN, "IndexPQ": faiss_peers.PQ}


def run(
    data: BenchSet, n_bytes: int, plan: Plan, say: Callable[[str], None], wait: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Build, check, wait and time, on one thread except for the comparison of two threads with one."""
    started = time.perf_counter()
    train = ours.training_rows(len(data.x), plan)
    with one_thread():
        indexes, entries = _build_ours(data, n_bytes, plan, say)
        peers = faiss_peers.build_all(data, n_bytes, train, plan, say)
        methods, calibration = _answer_ours(indexes, entries, data, plan, say)
        methods.append(_auto(data, n_bytes, plan, say))
        for peer in peers:
            say(f"answers of {peer.key}")
            peer.facts |= faiss_peers.quality(peer, data, plan)
        wait()
        environment = machine.environment()
        rates = race([*methods, *peers], data.queries, plan.rounds, say=say)
        levels = _levels(indexes, peers, data, plan, say) if n_bytes == LEVEL_BYTES else []
        threads = _threads(indexes, data, plan, say) if environment["cores"] > 1 else []
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
            "training_rows": len(train),
            "seed": data.seed,
        },
        "n_bytes": n_bytes,
        "quick": plan.quick,
        "environment": environment,
        "simd": _native.simd_level(),
        "faiss_levels": list(faiss_peers.levels()),
        "protocol": plan.as_json(),
        "methods": _lines([*methods, *peers], rates),
        "levels": levels,
        "threads": threads,
        "calibration": calibration,
        "seconds": round(time.perf_counter() - started, 1),
    }


def _build_ours(
    data: BenchSet, n_bytes: int, plan: Plan, say: Callable[[str], None]
) -> tuple[dict[str, Index], dict[str, Any]]:
    """Indexes and their facts for the JSON, by layout."""
    indexes, entries = {}, {}
    for layout in ours.LAYOUTS:
        say(f"building {layout}")
        index, seconds = ours.build(data, n_bytes, layout, plan)
        indexes[layout] = index
        entries[layout] = {"bytes_per_vector": round(index.report().code_bytes_per_vector, 4), "build": seconds}
    return indexes, entries


def _answer_ours(
    indexes: dict[str, Index], entries: dict[str, Any], data: BenchSet, plan: Plan, say: Callable[[str], None]
) -> tuple[list[Method], list[dict[str, Any]]]:
    """A method per layout and margin with its quality, and the agreement of the calibrated margins."""
    methods, calibration = [], []
    for layout, index in indexes.items():
        say(f"answers of {layout}")
        exhaustive = ours.exhaustive_answers(index, data, plan)
        for margin in (*ours.MARGINS, ours.LOOSE):
            found = ours.quality(index, margin, data, plan, exhaustive)
            if isinstance(margin, float):
                calibration += ours.calibration(layout, margin, found, plan)
            if margin != ours.LOOSE:
                method = ours.method(index, margin, plan.timed)
                method.facts |= entries[layout] | found
                methods.append(method)
    return methods, calibration


def _auto(data: BenchSet, n_bytes: int, plan: Plan, say: Callable[[str], None]) -> Method:
    """The defaults of `Index.build`: the layout chosen on held-out rows, the default margin."""
    say(f"building {ours.AUTO}")
    index, seconds = ours.build(data, n_bytes, ours.AUTO, plan)
    method = ours.method(index, ours.DEFAULT_MARGIN, plan.timed, name=ours.AUTO)
    method.facts |= {
        "chose": index.codebooks.layout,
        "n_crude": index.codebooks.n_crude,
        "bytes_per_vector": round(index.report().code_bytes_per_vector, 4),
        "build": seconds,
    }
    method.facts |= ours.quality(index, ours.DEFAULT_MARGIN, data, plan, ours.exhaustive_answers(index, data, plan))
    return method


def _lines(methods: list[Method], rates: dict[str, dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One entry per method, with its speed relative to the two references of the same run."""
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
    """Exact margin, k = 10, at every SIMD level of ours, and FastScan at every level of faiss, in one run."""
    say("SIMD levels")
    fastscan = next(peer for peer in peers if peer.key == faiss_peers.FASTSCAN)

    def n_timed(level: str) -> int:
        return plan.timed_scalar if level in ("scalar", "NONE") else plan.timed

    methods = [
        ours.method(index, "exact", n_timed(level), level=level)
        for level in machine.simd_levels()
        for index in indexes.values()
    ]
    methods += [faiss_peers.at_level(fastscan, level, n_timed(level)) for level in faiss_peers.levels()]
    before = _native.simd_level()
    try:
        rates = race(methods, data.queries, plan.rounds, tasks=(("batch", 10), ("single", 10)), say=say)
    finally:
        _native.force_simd_level(before)
    names = ("name", "kind", "margin", "level")
    return [
        {n: m.facts[n] for n in names if n in m.facts} | {"queries_timed": m.n_timed, "qps": rates[m.key]}
        for m in methods
    ]


def _threads(indexes: dict[str, Index], data: BenchSet, plan: Plan, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Batch, k = 10, exact margin."""
    say("two threads")
    methods = [ours.method(index, "exact", plan.timed, threads=t) for index in indexes.values() for t in (1, 2)]
    rates = race(methods, data.queries, plan.rounds, tasks=(("batch", 10),), say=say)
    return ours.speedups(rates, list(indexes), "exact", _native.simd_level())

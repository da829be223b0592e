"""Our side of the comparison: every layout with every margin."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_sets import BenchSet, FloatArray
from interlace import Index, _native
from interlace.evaluate.answers import agreement, recall
from interlace.learn.sample import training_rows as learned_from
from measure import KS, Ids, Method
from plan import Plan

LAYOUTS = ("subspace", "hybrid", "residual")
AUTO, DEFAULT_MARGIN = "auto", 0.999  # the defaults
MARGINS: tuple[float | str, ...] = ("exact", 0.999, "paper")
LOOSE = 0.99  # a calibrated margin whose agreement is checked, but not its speed
INF = float("inf")


def training_rows(n: int, plan: Plan) -> NDArray[np.int64]:
    """The rows that ``Index.build`` learns from (checked by a test), also used by all peers."""
    return learned_from(n, plan.train_rows, np.random.default_rng(plan.seed))


class Phases:
    """Seconds of the phases that ``Index.build`` reports."""

    def __init__(self) -> None:
        self.started = {"train": time.perf_counter()}

    def __call__(self, what: str, done: float) -> None:
        phase = {"coding": "encode", "calibrating": "calibrate", "done": "end"}.get(what, "train")
        self.started.setdefault(phase, time.perf_counter())

    def seconds(self) -> dict[str, float]:
        """Each phase lasts until the next begins."""
        names, times = list(self.started), list(self.started.values())
        return {name: round(b - a, 3) for name, a, b in zip(names, times[:-1], times[1:], strict=False)}


def build(data: BenchSet, n_bytes: int, layout: str, plan: Plan) -> tuple[Index, dict[str, float]]:
    """An index of the whole set, and how long it took on one thread."""
    phases = Phases()
    index = Index.build(
        data.x,
        n_bytes=n_bytes,
        layout=layout,
        seed=plan.seed,
        max_train_rows=plan.train_rows,
        threads=1,
        progress=phases,
    )
    return index, phases.seconds()


def method(
    index: Index, margin: float | str, n_timed: int, *, level: str | None = None, threads: int = 1, name: str = ""
) -> Method:
    """One margin of one index. ``level`` forces a SIMD level, the way INTERLACE_SIMD does at start."""
    name = name or index.codebooks.layout
    level = level or _native.simd_level()

    def search(queries: FloatArray, k: int) -> Ids:
        return index.search(queries, k, margin=margin, threads=threads).ids

    def prepare(mode: str, k: int) -> None:
        _native.force_simd_level(level)

    key = f"{name} {margin} {level} {threads}"
    facts = {"name": name, "kind": "interlace", "margin": str(margin), "level": level}
    return Method(key, search, n_timed, prepare, facts)


def quality(index: Index, margin: float | str, data: BenchSet, plan: Plan, exhaustive: Ids) -> dict[str, Any]:
    """Recall, agreement with the exhaustive scan, and work of one margin, by k; not on calibration queries."""
    out: dict[str, Any] = {"recall": {}, "agreement": {}, "work": {}}
    queries, truth = data.queries[: plan.answered], data.truth[: plan.answered]
    for k in KS:
        found = index.search(queries, k, margin=margin, threads=1)
        total = found.stats.queries * found.stats.rows
        out["recall"][str(k)] = round(recall(found, truth, k), 5)
        out["agreement"][str(k)] = round(agreement(found.ids, exhaustive[:, :k]), 6)
        out["work"][str(k)] = {
            "rule": found.stats.margin,
            "ops_per_vector": round(found.stats.ops_per_vector, 4),
            "scanned_share": round(found.stats.scanned / total, 5),
            "survivors_share": round(found.stats.survivors / total, 6),
        }
    return out


def exhaustive_answers(index: Index, data: BenchSet, plan: Plan) -> Ids:
    """Exhaustive answers to compare with; the answer for a smaller k is a prefix."""
    return index.search(data.queries[: plan.answered], max(KS), margin=INF, threads=1).ids


def calibration(layout: str, target: float, found: dict[str, Any], plan: Plan) -> list[dict[str, Any]]:
    """Measured agreement of a calibrated margin, from its :func:`quality`."""
    return [
        {
            "layout": layout,
            "target": target,
            "k": k,
            "agreement": found["agreement"][str(k)],
            "rule": found["work"][str(k)]["rule"],
            "queries": plan.answered,
        }
        for k in KS
    ]


def speedups(
    rates: dict[str, dict[str, dict[str, Any]]], layouts: list[str], margin: str, level: str
) -> list[dict[str, Any]]:
    """Speed-up of two threads over one, batch, k = 10, from one run."""
    out = []
    for layout in layouts:
        one, two = (rates[f"{layout} {margin} {level} {threads}"]["batch@10"]["median"] for threads in (1, 2))
        out.append({"layout": layout, "margin": margin, "one": one, "two": two, "speedup": round(two / one, 3)})
    return out

"""Curves: one index with a grid of settings, each with its recall, agreement and time, and the bytes of the index."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench_sets import BenchSet, FloatArray
from interlace.evaluate.answers import agreement, recall
from measure import Ids, Method, Search, race, seconds_per_query, significant, task_name

Setting = dict[str, Any]
K, LARGE_K = 10, 100
TASKS = (("batch", K), ("single", K))
LARGE_TASKS = (("batch", LARGE_K),)
#: Codes only, codes with the vectors beside them, or a graph over the vectors.
FAMILIES = ("codes", "refined", "graph")


@dataclass(frozen=True)
class CurvePlan:
    """Sizes of a run; written into its JSON."""

    seed: int = 0
    quick: bool = False
    answered: int = 2000  # queries behind recall
    agreed: int = 1000  # queries behind the agreement with the exhaustive setting
    timed: int = 500  # most queries of a round
    least_timed: int = 20
    turn_seconds: float = 0.1  # a slow setting answers as many queries as take this long
    rounds: int = 5

    def as_json(self) -> dict[str, Any]:
        """The protocol in the JSON."""
        return vars(self) | {
            "threads": 1,
            "clock": "processor time of the process",
            "order": "all settings of all methods in one process, once per round, every other round backwards; each "
            "answers a tenth of its queries untimed before every timing",
            "bytes": "size of the saved index divided by its rows: codes, ids and structure",
        }


def plan_for(n_rows: int, *, seed: int, quick: bool) -> CurvePlan:
    """Fewer queries for many rows; --quick only shows that the benchmark runs."""
    if quick:
        return CurvePlan(seed, True, answered=100, agreed=100, timed=50, least_timed=10, turn_seconds=0.02, rounds=2)
    return CurvePlan(seed, answered=1000, agreed=500) if n_rows > 2_000_000 else CurvePlan(seed)


@dataclass
class Curve:
    """One index; ``settings`` are what its search is given, as JSON."""

    name: str
    kind: str  # library
    family: str
    settings: list[Setting]
    search: Callable[[FloatArray, int, Setting], Ids]
    n_bytes: dict[str, float]  # bytes per vector by part, and in total
    build: dict[str, Any]
    prepare: Callable[[str, int, Setting], None] = lambda mode, k, setting: None  # not timed
    exhaustive: Ids | None = None  # [at least plan.agreed, at least K]: answers of the setting that skips nothing
    levels: tuple[str, ...] = ()  # SIMD levels to choose from
    set_level: Callable[[str], None] = lambda level: None
    large_k: bool = False  # also with k = 100
    facts: dict[str, Any] = field(default_factory=dict)
    describe: Callable[[FloatArray, int, Setting], dict[str, Any]] | None = None  # facts of one setting

    def key(self, setting: Setting) -> str:
        """A name for one point."""
        return f"{self.name} {setting}"

    def method(self, setting: Setting, n_timed: int) -> Method:
        """One point, to be timed."""
        chosen = self.facts.get("level", {})

        def prepare(mode: str, k: int) -> None:
            if chosen:
                self.set_level(chosen[mode])
            self.prepare(mode, k, setting)

        def search(queries: FloatArray, k: int) -> Ids:
            return self.search(queries, k, setting)

        return Method(self.key(setting), search, n_timed, prepare)

    def choose_levels(self, queries: FloatArray) -> None:
        """The fastest SIMD level of each mode, on the middle setting."""
        if not self.levels:
            return
        setting, tried = self.settings[len(self.settings) // 2], {}
        for mode, k in TASKS:
            for level in self.levels:
                self.facts["level"] = {mode: level}
                method = self.method(setting, len(queries))
                tried[mode, level] = min(seconds_per_query(method, queries, mode, k, time.process_time) for _ in "123")
        self.facts["level"] = {mode: min(self.levels, key=lambda s: tried[mode, s]) for mode, _ in TASKS}


def measured(
    curves: list[Curve], data: BenchSet, plan: CurvePlan, say: Callable[[str], None], *, large: bool = True
) -> list[dict[str, Any]]:
    """Every point of every curve, as JSON."""
    points: dict[str, dict[str, Any]] = {}
    methods, larger = [], []
    queries = data.queries
    for curve in curves:
        say(f"answers of {curve.name}")
        curve.choose_levels(queries[: plan.least_timed * 2])
        for setting in curve.settings:
            method = curve.method(setting, plan.least_timed)
            points[method.key] = {"setting": setting} | quality(curve, setting, method, data, plan)
            seconds_per_query(method, queries[: plan.least_timed], "batch", K, time.process_time)
            took = seconds_per_query(method, queries[: plan.least_timed], "batch", K, time.process_time)
            fits = int(plan.turn_seconds / max(took, 1e-9))
            method.n_timed = min(max(plan.least_timed, fits), plan.timed, len(queries))
            points[method.key]["queries_timed"] = method.n_timed
            methods.append(method)
            if curve.large_k:
                larger.append(method)
    say(f"timing {len(methods)} settings")
    times = times_of(methods, queries, plan, TASKS, say)
    if large and larger:
        say(f"timing {len(larger)} settings with k = {LARGE_K}")
        for key, found in times_of(larger, queries, plan, LARGE_TASKS, say).items():
            times[key] |= found
    out = []
    for curve in curves:
        keys = [curve.key(setting) for setting in curve.settings]
        out.append(
            {
                "name": curve.name,
                "kind": curve.kind,
                "family": curve.family,
                "bytes": {part: round(value, 4) for part, value in curve.n_bytes.items()},
                "build": curve.build,
                **curve.facts,
                "points": [points[key] | {"us": times[key]} for key in keys],
            }
        )
    return out


def quality(curve: Curve, setting: Setting, method: Method, data: BenchSet, plan: CurvePlan) -> dict[str, Any]:
    """Recall against the true neighbours, and agreement with the setting that skips nothing."""
    asked, truth = data.queries[: plan.answered], data.truth[: plan.answered]
    out: dict[str, Any] = {"recall": {}}
    found = method.answers(asked, K)
    out["recall"][str(K)] = round(recall(found, truth, K), 5)
    if curve.exhaustive is not None:
        n = min(plan.agreed, len(asked))
        out["agreement"] = round(agreement(found[:n], curve.exhaustive[:n, :K]), 5)
    if curve.large_k:
        n = min(plan.agreed, len(asked))
        out["recall"][str(LARGE_K)] = round(recall(method.answers(asked[:n], LARGE_K), truth[:n], LARGE_K), 5)
    if curve.describe is not None:
        out |= curve.describe(asked, K, setting)
    return out


def times_of(
    methods: list[Method],
    queries: FloatArray,
    plan: CurvePlan,
    tasks: tuple[tuple[str, int], ...],
    say: Callable[[str], None],
) -> dict[str, dict[str, dict[str, Any]]]:
    """Microseconds per query by key and task."""
    rates = race(methods, queries, plan.rounds, tasks, say, clock=time.process_time, warm=True)
    return {
        key: {
            task: {
                "median": significant(1e6 / rate["median"], 5),
                "best": significant(1e6 / rate["best"], 5),
                "rounds": [significant(1e6 / one, 5) for one in rate["rounds"]],
            }
            for task, rate in by_task.items()
        }
        for key, by_task in rates.items()
    }


def point_us(point: dict[str, Any], mode: str = "batch", k: int = K) -> float:
    """Median time per query of a point in the JSON."""
    return float(point["us"][task_name(mode, k)]["median"])


def float_rows(data: BenchSet, rows: slice | NDArray[np.int64]) -> FloatArray:
    """Some rows as float32, of length 1 for cosine: what peers are given."""
    out = np.ascontiguousarray(data.x[rows], np.float32)
    return unit(out) if data.metric == "cosine" else out


def unit(x: FloatArray) -> FloatArray:
    """Rows of length 1."""
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30), np.float32)


class Clock:
    """Processor and wall seconds of the steps of a build, and the load of the machine meanwhile."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {"load": round(os.getloadavg()[0], 2)}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Adds to the seconds of a step."""
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            yield
        finally:
            for kind, since, now in (("cpu", cpu, time.process_time()), ("wall", wall, time.perf_counter())):
                at = f"{name}_{kind}_seconds"
                self.facts[at] = round(self.facts.get(at, 0.0) + now - since, 2)


def size_of(path: Path) -> int:
    """Bytes of a file or of all files of a folder."""
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


__all__ = ["Curve", "CurvePlan", "Search", "measured", "plan_for"]

"""Timing: all methods in one process, in interleaved rounds, so that changes of machine speed affect all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Search = Callable[[NDArray[np.float32], int], Ids]
KS = (10, 100)
MODES = ("batch", "single")
TASKS = tuple((mode, k) for k in KS for mode in MODES)


def task_name(mode: str, k: int) -> str:
    """Name of a task in the JSON."""
    return f"{mode}@{k}"


@dataclass
class Method:
    """One line of a table. ``facts`` goes into the JSON as it is."""

    key: str
    search: Search  # [n, dim] queries and k -> ids [n, k]
    n_timed: int  # queries of a round; slow methods get few
    prepare: Callable[[str, int], None] = lambda mode, k: None  # before a task, not timed: globals of faiss and of ours
    facts: dict[str, Any] = field(default_factory=dict)
    answer: Search | None = None  # a faster way to the same answers, if ``search`` is too slow for all queries
    pad: int = 0  # columns of zeros behind the queries, for a peer that needs a multiple of its sub-quantizers

    def inputs(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Queries in the format of ``search``."""
        return np.pad(queries, ((0, 0), (0, self.pad))) if self.pad else queries

    def answers(self, queries: NDArray[np.float32], k: int) -> Ids:
        """Ids of all queries, for recall."""
        self.prepare("batch", k)
        return (self.answer or self.search)(self.inputs(queries), k)


def seconds_per_query(
    method: Method, queries: NDArray[np.float32], mode: str, k: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """One timing, all queries (as :meth:`Method.inputs` gives them) in one call or one call each."""
    method.prepare(mode, k)
    calls = [queries] if mode == "batch" else [queries[i : i + 1] for i in range(len(queries))]
    started = clock()
    for part in calls:
        method.search(part, k)
    return (clock() - started) / len(queries)


def race(
    methods: list[Method],
    queries: NDArray[np.float32],
    rounds: int,
    tasks: tuple[tuple[str, int], ...] = TASKS,
    say: Callable[[str], None] = lambda text: None,
    *,
    clock: Callable[[], float] = time.perf_counter,
    warm: bool = False,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Queries per second by method and task: median, best and every round.

    Each method answers a few queries untimed first; every other round runs backwards, so that no method always
    follows the same neighbour. With ``warm`` each answers them before every timing: where there are many indexes, each
    finds the caches full of the others.
    """
    spent: dict[str, dict[str, list[float]]] = {m.key: {task_name(*task): [] for task in tasks} for m in methods}
    inputs = {m.key: m.inputs(queries[: m.n_timed]) for m in methods}
    with quiet():
        for turn in range(rounds):
            say(f"round {turn + 1} of {rounds}")
            for mode, k in tasks:
                for method in methods if turn % 2 == 0 else reversed(methods):
                    asked = inputs[method.key]
                    if turn == 0 or warm:
                        seconds_per_query(method, asked[: max(1, len(asked) // 10)], mode, k)
                    spent[method.key][task_name(mode, k)].append(seconds_per_query(method, asked, mode, k, clock))
    return {key: {task: _rates(seconds) for task, seconds in by_task.items()} for key, by_task in spent.items()}


def _rates(seconds: list[float]) -> dict[str, Any]:
    return {
        "median": significant(1 / median(seconds)),
        "best": significant(1 / min(seconds)),
        "rounds": [significant(1 / s) for s in seconds],
    }


def significant(value: float, digits: int = 6) -> float:
    """Rounded to the precision of the clock."""
    return float(f"{value:.{digits}g}")


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection inside a timing."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def one_thread() -> Iterator[None]:
    """Every library in the process on one thread: NumPy's BLAS, and OpenMP with the BLAS of faiss."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        with threadpoolctl.threadpool_limits(1):
            yield
    finally:
        faiss.omp_set_num_threads(before)

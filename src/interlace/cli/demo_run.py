"""The demo: three layouts compared with exact search and, if it is installed, faiss.

``run()`` measures, ``table()`` formats the result. All methods run on one thread in the same process in interleaved
rounds; the fastest round is reported.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import ICQ, Index, evaluate
from ..errors import InputError
from ..inputs.arrays import FloatArray
from ..inputs.literals import Layout, Margin
from ..progress import Progress, silent
from .demo_data import augmented_digits, clustered
from .demo_peers import DemoMethod, Search, exact, faiss_indexes

K = 10
N_BYTES = 8
LAYOUTS: tuple[Layout, ...] = ("hybrid", "subspace", "residual")
MARGINS: tuple[Margin, ...] = ("exact", 0.999)
#: Margins of the survivors panel.
MARGIN_RANGE: tuple[Margin, ...] = (0.99, 0.999, 0.9999, "exact")


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    method: str
    kind: str  #: interlace, faiss or exact
    recall: float
    bytes_per_vector: float
    ops_per_vector: float | None  #: table additions per database vector; None for exact search
    microseconds: float  #: per query, in a batch
    speed: float  #: relative to ``Result.reference``
    detail: str  #: the rule that ran, or the SIMD level


@dataclass(frozen=True)
class Result:
    """Measurements; ``survivors`` is the share of rows whose full distance was computed, by layout and margin."""

    data: str
    rows: int
    dim: int
    queries: int
    reference: str
    lines: list[Line]
    survivors: dict[str, dict[str, float]]
    agreement: dict[str, float]
    chosen: str  #: the layout that layout="auto" chose for these data
    why: str
    seconds: float


def run(
    rows: int = 54_000, n_queries: int = 1_000, *, rounds: int = 5, seed: int = 0, progress: Progress = silent
) -> Result:
    """Build every method, measure its recall against exact search, time it."""
    started = time.perf_counter()
    with _one_blas_thread():
        try:
            x, q, what = augmented_digits(rows, n_queries, seed)
        except InputError:
            x, q, what = clustered(rows, n_queries, seed)
        progress("exact neighbours", 0.0)
        truth, _ = evaluate.exact_neighbours(x, q, K)
        methods: list[DemoMethod] = []
        survivors: dict[str, dict[str, float]] = {}
        agreement: dict[str, float] = {}
        # The layout that auto chooses is one of LAYOUTS; it is learned only once.
        model = ICQ(N_BYTES, seed=seed, threads=1, progress=_part(progress, "auto", 0.1, 0.3)).fit(x)
        for i, layout in enumerate(LAYOUTS):
            part = _part(progress, layout, 0.4 + 0.1 * i, 0.1)
            if layout == model.choice_.layout:
                index = model.set_params(progress=part).index(x)
            else:
                index = Index.build(x, n_bytes=N_BYTES, layout=layout, seed=seed, threads=1, progress=part)
            methods += [_ours(index, q, margin) for margin in MARGINS]
            survivors[layout], agreement[layout] = _pruning(index, q)
        progress("faiss", 0.75)
        methods += faiss_indexes(x, q, K, N_BYTES)
        methods.append(exact(x, q, K))
        answers, best = _race(methods, rounds, _part(progress, "timing", 0.8, 0.2))
    named = {m.name: seconds for m, (_, seconds) in zip(methods, best, strict=True)}
    reference = next(name for name in ("faiss IndexPQFastScan", "exact search") if name in named)
    lines = [
        Line(
            method=method.name,
            kind=method.kind,
            recall=evaluate.recall(ids, truth, K),
            bytes_per_vector=method.bytes_per_vector,
            ops_per_vector=method.ops_per_vector,
            microseconds=seconds / len(q) * 1e6,
            speed=named[reference] / seconds,
            detail=detail,
        )
        for method, ids, (detail, seconds) in zip(methods, answers, best, strict=True)
    ]
    progress("done", 1.0)
    return Result(
        data=what,
        rows=len(x),
        dim=x.shape[1],
        queries=len(q),
        reference=reference,
        lines=lines,
        survivors=survivors,
        agreement=agreement,
        chosen=model.choice_.layout,
        why=model.choice_.why,
        seconds=time.perf_counter() - started,
    )


def _part(progress: Progress, label: str, start: float, share: float) -> Progress:
    return lambda what, done: progress(f"{label}: {what}" if what else label, start + share * done)


def _ours(index: Index, q: FloatArray, margin: Margin) -> DemoMethod:
    stats = index.search(q, K, margin=margin, threads=1).stats
    searches: dict[str, Search] = {f"margin {stats.margin}": lambda: index.search(q, K, margin=margin, threads=1).ids}
    name = f"{index.codebooks.layout}, {margin}"
    return DemoMethod(name, "interlace", index.report().code_bytes_per_vector, stats.ops_per_vector, searches)


def _pruning(index: Index, q: FloatArray) -> tuple[dict[str, float], float]:
    """Share of rows that survive the crude step, by margin, and the agreement of the default margin with exact."""
    found = {margin: index.search(q, K, margin=margin, threads=1) for margin in MARGIN_RANGE}
    shares = {str(margin): m.stats.survivors / (len(q) * len(index)) for margin, m in found.items()}
    return shares, evaluate.agreement(found[0.999], found["exact"])


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """NumPy on one thread, if threadpoolctl (a dependency of scikit-learn) is installed."""
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ImportError:
        yield
        return
    with threadpoolctl.threadpool_limits(1):
        yield


def _race(
    methods: list[DemoMethod], rounds: int, progress: Progress
) -> tuple[list[NDArray[Any]], list[tuple[str, float]]]:
    """Answers of each method, and the detail and seconds of its fastest search."""
    answers = [next(iter(method.searches.values()))() for method in methods]
    seconds = [dict.fromkeys(method.searches, np.inf) for method in methods]
    for turn in range(rounds):
        progress(f"round {turn + 1} of {rounds}", turn / rounds)
        for method, times in zip(methods, seconds, strict=True):
            for detail, search in method.searches.items():
                started = time.perf_counter()
                search()
                times[detail] = min(times[detail], time.perf_counter() - started)
    return answers, [min(times.items(), key=lambda item: item[1]) for times in seconds]


def table(result: Result) -> str:
    """A table of recall, bytes and speed of every method, with notes."""
    head = ("method", "recall@10", "bytes/vector", "ops/vector", "us/query", "speed", "how")
    rows = [
        (
            f"{'interlace ' if line.kind == 'interlace' else ''}{line.method}",
            f"{line.recall:.3f}",
            f"{line.bytes_per_vector:.2f}",
            "-" if line.ops_per_vector is None else f"{line.ops_per_vector:.2f}",
            f"{line.microseconds:.1f}",
            f"{line.speed:.2f}x",
            line.detail,
        )
        for line in result.lines
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def text(row: tuple[str, ...]) -> str:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:6], widths[1:6], strict=True)), row[6]]
        return "  ".join(cells).rstrip()

    taken = next(line for line in result.lines if line.method == f"{result.chosen}, {MARGINS[-1]}")
    notes = [
        f"data: {result.data}",
        f"layout: auto (the default) chose {result.chosen}: recall {taken.recall:.3f} at {taken.ops_per_vector:.2f} "
        "ops/vector with the default margin",
        f"reason: {result.why}",
        f"speed: relative to {result.reference}; k = {K}, one thread, all queries in one batch",
        "ops: additions of table entries per database vector and query",
    ]
    return "\n".join([text(head), "  ".join("-" * w for w in widths), *(text(row) for row in rows), "", *notes])

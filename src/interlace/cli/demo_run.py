"""The demo: default settings, and three variants of them, compared with exact search and, if it is installed, faiss.

``run()`` measures, ``table()`` formats the result. All methods search on one thread in the same process in interleaved
rounds; the fastest round is reported. Learning may use all threads: it is not compared.
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

from .. import ICQ, Index, Matches, evaluate
from ..errors import InputError
from ..inputs.arrays import FloatArray
from ..inputs.literals import Layout, Margin
from ..progress import Progress, part, silent
from .demo_data import augmented_digits, clustered
from .demo_peers import DemoMethod, Search, exact, faiss_indexes

K = 10
N_BYTES = 8
MARGIN = 0.999
#: The layout with the fastest search.
FAST: Layout = "hybrid"
#: Codes alone come first, because the peers have codes of the same length.
CODES, DEFAULT_NAME, EXACT, QUICK = "margin=0.999", "default (recall=0.95)", 'margin="exact"', f'layout="{FAST}"'


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
    """Measurements; ``scanned`` and ``survivors`` are shares of all rows, of the default search."""

    data: str
    rows: int
    dim: int
    queries: int
    reference: str
    lines: list[Line]
    scanned: float  #: rows whose first bytes were read
    survivors: float  #: rows whose full distance was computed
    agreement: float  #: of the default search with the exhaustive search of the same codes
    chosen: str  #: the layout that layout="auto" chose for these data
    why: str
    seconds: float


def run(
    rows: int = 25_000, n_queries: int = 1_000, *, rounds: int = 4, seed: int = 0, progress: Progress = silent
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
        model = ICQ(N_BYTES, seed=seed, progress=part(progress, 0.1, 0.4, "default")).fit(x)
        index = model.set_params(progress=part(progress, 0.4, 0.5, "default")).index(x, originals="float16")
        found = index.search(q, K, margin=MARGIN, threads=1)
        complete = index.search(q, K, margin="exact", threads=1)
        methods = [_ours(CODES, index, q), _ours(DEFAULT_NAME, index, q, None), _ours(EXACT, index, q, "exact")]
        if model.choice_.layout != FAST:
            report = part(progress, 0.5, 0.75, FAST)
            fast = Index.build(x, n_bytes=N_BYTES, layout=FAST, seed=seed, progress=report)
            methods.append(_ours(QUICK, fast, q))
        progress("faiss", 0.75)
        methods += faiss_indexes(x, q, K, N_BYTES)
        methods.append(exact(x, q, K))
        answers, best = _race(methods, rounds, part(progress, 0.8, 1.0, "timing"))
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
        scanned=found.stats.scanned / (len(q) * len(x)),
        survivors=found.stats.survivors / (len(q) * len(x)),
        agreement=evaluate.agreement(found, complete),
        chosen=model.choice_.layout,
        why=model.choice_.why,
        seconds=time.perf_counter() - started,
    )


def _ours(name: str, index: Index, q: FloatArray, margin: Margin | None = MARGIN) -> DemoMethod:
    def search() -> Matches:
        return index.search(q, K, margin=margin, threads=1)

    stats = search().stats
    size = index.report().code_bytes_per_vector + (2 * index.dim if stats.reranked else 0)  # float16
    searches: dict[str, Search] = {f"margin {stats.margin}": lambda: search().ids}
    return DemoMethod(name, "interlace", size, stats.ops_per_vector, searches)


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
    """A table of recall, bytes and speed of every method, and what it says in words."""
    head = ("method", "recall@10", "bytes/vector", "us/query", "speed")
    rows = [
        (
            full_name(line),
            f"{line.recall:.3f}",
            f"{line.bytes_per_vector:.1f}",
            f"{line.microseconds:.1f}",
            f"{line.speed:.2f}x",
        )
        for line in result.lines
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def text(row: tuple[str, ...]) -> str:
        return "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])

    return "\n".join([text(head), "  ".join("-" * w for w in widths), *map(text, rows), "", *_notes(result)])


def full_name(line: Line) -> str:
    """The name with that of the library."""
    return f"{'interlace, ' if line.kind == 'interlace' else ''}{line.method}"


def _notes(result: Result) -> list[str]:
    lines = {line.method: line for line in result.lines}
    ours = [name for name in (CODES, QUICK) if name in lines]
    peers = [line.method for line in result.lines if line.kind == "faiss"]
    return [
        "In words:",
        *(f"- {_compared(lines[name], lines[peer])}" for name in ours for peer in peers),
        f"- a search with {CODES} read the first bytes of {result.scanned:.1%} of the rows and computed the full "
        f"distance of {result.survivors:.2%}; {result.agreement:.2%} of its hits are those of an exhaustive search of "
        "the codes",
        "- by default a search compares its best candidates with their vectors, which are kept as float16",
        f"- the default chose layout={result.chosen!r}: {result.why}",
        "",
        "How it was measured:",
        f"- data: {result.data}",
        f"- speed: relative to {result.reference}; {K} hits, one thread, all queries in one batch",
        "- recall@10: the share of the true 10 nearest vectors among the 10 hits",
        *(["- without faiss, which is not installed: pip install 'interlace[faiss]'"] if not peers else []),
    ]


def _compared(ours: Line, peer: Line) -> str:
    better = "better" if ours.recall > peer.recall else "no better"
    speed = peer.microseconds / ours.microseconds
    how = f"{speed:.2f} times as fast" if speed >= 1 else f"{1 / speed:.2f} times slower"
    return f"{full_name(ours)} against {peer.method}: recall {better}, {ours.recall:.3f} to {peer.recall:.3f}; {how}"

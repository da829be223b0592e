"""A search to look at: three layouts against exact search and, where it is installed, faiss, on data that is at hand.

``run()`` measures, ``table()`` shows it as text. Every method runs on one thread, in the same process, in interleaved
rounds; the best round counts.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..estimators.icq import ICQ
from ..evaluate import answers as evaluate
from ..index.index import Index
from ..inputs.arrays import FloatArray
from ..inputs.literals import Layout, Margin
from ..paper.datasets.sets import digits
from ..progress import Progress, silent

K = 10
N_BYTES = 8
LAYOUTS: tuple[Layout, ...] = ("hybrid", "subspace", "residual")
MARGINS: tuple[Margin, ...] = ("exact", 0.999)
#: Margins of the survivors panel, from careless to exact.
MARGIN_RANGE: tuple[Margin, ...] = (0.99, 0.999, 0.9999, "exact")
#: Noise added to every copy of a digit; pixels go from 0 to 16.
NOISE = 1.0
SHIFTS = [(dy, dx) for dy in (0, -1, 1) for dx in (0, -1, 1)]

Search = Callable[[], NDArray[Any]]


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    method: str
    kind: str  #: interlace, faiss or exact
    recall: float
    bytes_per_vector: float
    ops_per_vector: float | None  #: table additions per database vector; exact search has no tables
    microseconds: float  #: per query, in a batch
    speed: float  #: against ``Result.reference``
    detail: str  #: the rule that ran, or the SIMD level


@dataclass(frozen=True)
class Result:
    """What a run measured; ``survivors`` is the share of rows compared with the whole code, by layout and margin."""

    data: str
    rows: int
    dim: int
    queries: int
    reference: str
    lines: list[Line]
    survivors: dict[str, dict[str, float]]
    agreement: dict[str, float]
    chosen: str  #: what layout="auto" takes for these data
    why: str
    seconds: float


@dataclass
class _Method:
    name: str
    kind: str
    bytes_per_vector: float
    ops_per_vector: float | None
    searches: dict[str, Search]  #: by detail; the fastest one counts


def augmented_digits(rows: int, n_queries: int, seed: int) -> tuple[FloatArray, FloatArray, str]:
    """Rows, queries and what they are. Queries are copies of images that no row was made of."""
    base = digits()
    rng = np.random.default_rng(seed)

    def copies(images: NDArray[Any], n: int) -> FloatArray:
        shifted = np.concatenate([_shift(images.reshape(-1, 8, 8), dy, dx) for dy, dx in SHIFTS]).reshape(-1, 64)
        times = -(-n // len(shifted))
        noisy = np.concatenate([shifted + rng.normal(0, NOISE, shifted.shape) for _ in range(times)])
        return np.asarray(noisy[rng.permutation(len(noisy))[:n]].clip(0, 16), np.float32)

    x, q = copies(base.x, rows), copies(base.queries, n_queries)
    what = (
        f"scikit-learn's digits, {len(base.x)} images shifted by up to one pixel with noise of sd {NOISE:g}, made into "
        f"{len(x):,} x 64; {len(q):,} queries from {len(base.queries)} other images"
    )
    return x, q, what


def _shift(images: NDArray[Any], dy: int, dx: int) -> NDArray[Any]:
    """Images [n, 8, 8] moved by (dy, dx), zeros coming in."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    return padded[:, 1 - dy : 9 - dy, 1 - dx : 9 - dx]


def clustered(rows: int, n_queries: int, seed: int) -> tuple[FloatArray, FloatArray, str]:
    """What takes the place of the digits without scikit-learn: Gaussian clusters with a falling spectrum."""
    rng = np.random.default_rng(seed)
    scale = 1 / np.sqrt(1 + np.arange(64))
    centres = rng.normal(size=(200, 64)) * scale
    points = (
        centres[rng.integers(0, len(centres), rows + n_queries)] + 0.5 * rng.normal(size=(rows + n_queries, 64)) * scale
    )
    x = points.astype(np.float32)
    what = f"generated, {rows:,} x 64 in 200 Gaussian clusters: scikit-learn with its digits is not installed"
    return x[:rows], x[rows:], what


def run(
    rows: int = 54_000, n_queries: int = 1_000, *, rounds: int = 5, seed: int = 0, progress: Progress = silent
) -> Result:
    """Build every method, check it against exact search, time it."""
    started = time.perf_counter()
    with _one_blas_thread():
        try:
            x, q, what = augmented_digits(rows, n_queries, seed)
        except InputError:
            x, q, what = clustered(rows, n_queries, seed)
        progress("exact neighbours", 0.0)
        truth, _ = evaluate.exact_neighbours(x, q, K)
        methods: list[_Method] = []
        survivors: dict[str, dict[str, float]] = {}
        agreement: dict[str, float] = {}
        # The layout that auto takes is learned once: it is one of those below.
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
        methods += _peers(x, q)
        methods.append(_exact(x, q))
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


def _ours(index: Index, q: FloatArray, margin: Margin) -> _Method:
    stats = index.search(q, K, margin=margin, threads=1).stats
    searches: dict[str, Search] = {f"margin {stats.margin}": lambda: index.search(q, K, margin=margin, threads=1).ids}
    name = f"{index.codebooks.layout}, {margin}"
    return _Method(name, "interlace", index.report().code_bytes_per_vector, stats.ops_per_vector, searches)


def _pruning(index: Index, q: FloatArray) -> tuple[dict[str, float], float]:
    """Share of rows that survive the crude step by margin, and the agreement of the default margin with exact."""
    found = {margin: index.search(q, K, margin=margin, threads=1) for margin in MARGIN_RANGE}
    shares = {str(margin): m.stats.survivors / (len(q) * len(index)) for margin, m in found.items()}
    return shares, evaluate.agreement(found[0.999], found["exact"])


def _exact(x: FloatArray, q: FloatArray) -> _Method:
    def search() -> NDArray[Any]:
        return evaluate.exact_neighbours(x, q, K, dtype=np.float32)[0]

    return _Method("exact search", "exact", 4.0 * x.shape[1], None, {"NumPy, float32": search})


def _peers(x: FloatArray, q: FloatArray) -> list[_Method]:
    """faiss at the same bytes, if it is installed."""
    try:
        import faiss
    except ImportError:
        return []
    dim = x.shape[1]
    peers = {
        "faiss IndexPQ": (faiss.IndexPQ(dim, N_BYTES, 8), N_BYTES),
        # 4-bit codes: twice as many of them in the same bytes.
        "faiss IndexPQFastScan": (faiss.IndexPQFastScan(dim, 2 * N_BYTES, 4), 2 * N_BYTES),
    }
    methods = []
    for name, (index, ops) in peers.items():
        with _faiss_alone(faiss):
            index.train(x)
            index.add(x)
        searches = {level: _faiss_search(faiss, index, q, number) for level, number in _faiss_levels(faiss).items()}
        methods.append(_Method(name, "faiss", float(index.sa_code_size()), float(ops), searches))
    return methods


def _faiss_levels(faiss: Any) -> dict[str, int | None]:
    """Every SIMD level this machine has: the highest is not always the fastest (IndexPQ on AVX-512)."""
    config = getattr(faiss, "SIMDConfig", None)
    if config is None:
        return {"default SIMD": None}
    names = {
        value: name.removeprefix("SIMDLevel_") for name, value in vars(faiss).items() if name.startswith("SIMDLevel_")
    }
    names.pop(getattr(faiss, "SIMDLevel_COUNT", -1), None)
    return {name: level for level, name in sorted(names.items()) if config.is_simd_level_available(level)}


def _faiss_search(faiss: Any, index: Any, q: FloatArray, level: int | None) -> Search:
    def search() -> NDArray[Any]:
        with _faiss_alone(faiss, level):
            found: NDArray[Any] = index.search(q, K)[1]
            return found

    return search


@contextmanager
def _faiss_alone(faiss: Any, level: int | None = None) -> Iterator[None]:
    """One thread and one SIMD level, both put back afterwards: they are global in faiss."""
    threads = faiss.omp_get_max_threads()
    before = faiss.SIMDConfig.get_level() if level is not None else None
    faiss.omp_set_num_threads(1)
    try:
        if level is not None:
            faiss.SIMDConfig.set_level(level)
        yield
    finally:
        faiss.omp_set_num_threads(threads)
        if before is not None:
            faiss.SIMDConfig.set_level(before)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """NumPy on one thread, if threadpoolctl (it comes with scikit-learn) can be had."""
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ImportError:
        yield
        return
    with threadpoolctl.threadpool_limits(1):
        yield


def _race(
    methods: list[_Method], rounds: int, progress: Progress
) -> tuple[list[NDArray[Any]], list[tuple[str, float]]]:
    """Answers of each method, then the detail and the seconds of its fastest way; the first round warms up."""
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
    """The one table: recall and bytes beside every speed."""
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
        f"auto, the default layout, takes {result.chosen}: with the default margin recall {taken.recall:.3f} for "
        f"{taken.ops_per_vector:.2f} ops/vector",
        f"why {result.chosen}: {result.why}",
        f"speed: against {result.reference}; k = {K}, one thread, all queries in one batch",
        "ops: additions of table entries per database vector and query",
    ]
    return "\n".join([text(head), "  ".join("-" * w for w in widths), *(text(row) for row in rows), "", *notes])

"""The data sets of the benchmark: rows, queries, and the true neighbours of the queries.

``sift-grown-1m`` and larger ones are made from the 300k real rows (grown.py); they are kept in a cache folder because
their neighbours take minutes.
Where the files of a set are missing, a generated set takes its place under a name that says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import grown
from cache import cache_folder, kept_array
from interlace import data as data_sets
from interlace.evaluate.answers import exact_neighbours

FloatArray = NDArray[np.float32]
TRUTH = 100  # neighbours kept per query
TRUTH_BLOCK = 500_000  # rows in float32 at a time
ROOT = Path(__file__).resolve().parent.parent
QUICK_ROWS, QUICK_QUERIES = 20_000, 100
CALIBRATION = 12_000  # queries that calibrate, as many as rows do by default


@dataclass(frozen=True, eq=False)
class BenchSet:
    """Rows, queries and true neighbours."""

    name: str
    description: str
    generated: bool  # no real vectors at all; ``sift-grown-1m`` counts as real
    x: NDArray[Any]  # float32; bytes of a mapped file for more than a million rows
    queries: FloatArray
    truth: NDArray[np.int64]  # [n_queries, TRUTH]
    seed: int
    metric: str = "l2"
    #: Vectors like the queries, where rows are not like them: rows made between neighbours are nearer to others.
    calibration: FloatArray | None = None


Loader = Callable[[int, bool, Callable[[str], None]], BenchSet]


def load(name: str, *, seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    """A data set by name, or its generated replacement."""
    loaders: dict[str, Loader] = {
        "sift100k": _sift(100_000),
        "sift300k": _sift(300_000),
        "sift-grown-1m": _grown(1_000_000, "1m", as_float=True),
        "sift-grown-3m": _grown(3_000_000, "3m", as_float=False),
        "sift-grown-10m": _grown(10_000_000, "10m", as_float=False),
        "mnist784": _mnist784,
        "text128k": _text128k,
        "spectrum768": _spectrum768,
        "generated300k": _generated300k,
    }
    return loaders[name](seed, quick, say)


def _sift_rows(
    seed: int, say: Callable[[str], None]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[Any] | None, str]:
    """Rows, queries, true neighbours if the file has them, and the stem of the name."""
    try:
        data = data_sets.sift300k()
    except FileNotFoundError:
        say("sift300k is not here: a generated set takes its place")
        x, queries = clustered(300_000, 128, 2000, seed)
        return x, queries, None, "generated"
    return data.x, data.queries, data.truth, "sift"


def _sift(n: int) -> Loader:
    """The first n real rows, which are a random sample."""

    def load(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
        x, queries, truth, stem = _sift_rows(seed, say)
        if n < len(x):
            x, truth = x[:n], None
        what = "real SIFT descriptors" if stem == "sift" else "generated clusters, no real vectors"
        return _finished(f"{stem}{n // 1000}k", f"{what}, uint8", stem != "sift", x, queries, truth, seed, quick)

    return load


def _generated300k(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    x, queries = clustered(QUICK_ROWS if quick else 300_000, 128, 2000, seed)
    return _finished("generated300k", "generated clusters, no real vectors, uint8", True, x, queries, None, seed, quick)


def _mnist784(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    try:
        data = data_sets.mnist()
    except FileNotFoundError:
        say("mnist is not here: a generated set takes its place")
        x, queries = clustered(60_000, 784, 1000, seed)
        return _finished(
            "generated784", "generated clusters, no real vectors, uint8", True, x, queries, None, seed, quick
        )
    return _finished(
        "mnist784", "pixels of the MNIST digits, uint8", False, data.x, data.queries[:1000], None, seed, quick
    )


def _grown(n: int, name: str, *, as_float: bool) -> Loader:
    """SIFT grown to n rows; bytes of a mapped file where float32 would take gigabytes."""

    def load(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
        base, queries, _, stem = _sift_rows(seed, say)
        real, title = len(base), f"{stem}-grown-{name}"
        kind = "real SIFT descriptors" if stem == "sift" else "generated rows"
        if quick:  # the same recipe, small
            base = base[: QUICK_ROWS * 3 // 10]
            x = np.concatenate([base, grown.make_rows(base, QUICK_ROWS - len(base), seed)])
            what = f"{len(base):,} {kind} and {len(x) - len(base):,} rows made between one of them and a neighbour"
            return _finished(title, f"{what}, uint8", stem != "sift", x, queries, None, seed, quick)
        x = grown.rows(base, n, cache_folder(), stem, seed, say)
        truth = kept_array(
            cache_folder() / f"{title}-v{grown.VERSION}-seed{seed}-truth.npy", lambda: neighbours(x, queries)
        )
        what = f"{real:,} {kind} and {n - real:,} rows made between one of them and a neighbour"
        found = _finished(title, f"{what}, uint8", stem != "sift", x, queries, truth, seed, quick, as_float=as_float)
        return replace(found, calibration=_like_queries(seed))

    return load


def _like_queries(seed: int) -> FloatArray | None:
    """Descriptors of photographs that have no row and no query in the set."""
    try:
        learn = data_sets.sift300k().learn
    except FileNotFoundError:
        return None
    assert learn is not None
    chosen = np.random.default_rng(seed).choice(len(learn), CALIBRATION, replace=False)
    return np.ascontiguousarray(learn[np.sort(chosen)], np.float32)


def _text128k(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    path = data_file("text128k", "text128k.npz")
    if path is None:
        say("text128k is not here: a generated set takes its place")
        x, queries = spectrum(128_000, 256, 2000, seed)
        name, what = "generated-text128k", "generated vectors with a falling spectrum"
        return _finished(name, what, True, x, queries, None, seed, quick, metric="cosine")
    with np.load(path) as file:
        x, queries, truth = (file[name] for name in ("base", "query", "truth"))
    what = "mean token vectors of package descriptions and dictionary definitions, float16, cosine"
    return _finished("text128k", what, False, x, queries, truth, seed, quick, metric="cosine")


def _spectrum768(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    x, queries = spectrum(QUICK_ROWS if quick else 100_000, 768, 2000, seed)
    what = "generated clusters with a falling spectrum, no real vectors, float32"
    cache = None if quick else cache_folder() / f"spectrum768-seed{seed}-truth.npy"
    truth = kept_array(cache, lambda: neighbours(x, queries))
    return _finished("spectrum768", what, True, x, queries, truth, seed, quick)


def _finished(
    name: str,
    what: str,
    generated: bool,
    x: NDArray[Any],
    queries: NDArray[Any],
    truth: NDArray[Any] | None,
    seed: int,
    quick: bool,
    *,
    metric: str = "l2",
    as_float: bool = True,
) -> BenchSet:
    if quick:
        x, queries, truth = x[:QUICK_ROWS], queries[:QUICK_QUERIES], None
    if truth is None:
        truth = neighbours(x, queries, metric)
    rows = np.ascontiguousarray(x, np.float32) if as_float else x
    asked = np.ascontiguousarray(queries, np.float32)
    return BenchSet(name, what, generated, rows, asked, truth.astype(np.int64), seed, metric)


def neighbours(x: NDArray[Any], queries: NDArray[Any], metric: str = "l2") -> NDArray[np.int64]:
    """The truth. Bytes of up to 256 dimensions have exact float32 distances; 784 do not, and take double precision."""
    exact_in_float = x.dtype == np.uint8 and x.shape[1] <= 256
    if exact_in_float and len(x) > TRUTH_BLOCK and metric == "l2":
        return _neighbours_by_blocks(x, queries)
    return exact_neighbours(x, queries, TRUTH, metric, dtype=np.float32 if exact_in_float else np.float64)[0]


def _neighbours_by_blocks(x: NDArray[np.uint8], queries: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The same for millions of bytes, whose float32 copy would take gigabytes; ties go to the smaller row."""
    asked = np.ascontiguousarray(queries, np.float32)
    ids = np.empty((len(asked), 0), np.int64)
    distances = np.empty((len(asked), 0), np.float32)
    for at in range(0, len(x), TRUTH_BLOCK):
        found = faiss.knn(asked, np.ascontiguousarray(x[at : at + TRUTH_BLOCK], np.float32), TRUTH)
        distances, ids = np.concatenate([distances, found[0]], 1), np.concatenate([ids, found[1] + at], 1)
        order = np.lexsort((ids, distances), axis=1)[:, :TRUTH]
        distances, ids = np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1)
    return ids


def clustered(n: int, dim: int, n_queries: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Gaussian clusters with a falling spectrum in a random basis, as bytes; queries from the same clusters."""
    rng = np.random.default_rng(seed)
    scale = 60 / np.sqrt(1 + np.arange(dim))
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    centres = rng.normal(size=(1000, dim)) * scale
    points = centres[rng.integers(0, len(centres), n + n_queries)] + 0.7 * rng.normal(size=(n + n_queries, dim)) * scale
    x = np.rint((points @ basis + 128).clip(0, 255)).astype(np.uint8)
    return x[:n], x[n:]


def spectrum(n: int, dim: int, n_queries: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Like :func:`clustered` in float32: 2,000 clusters, scales that fall with the square root of the dimension."""
    rng = np.random.default_rng([seed, dim])
    scale = 1 / np.sqrt(1 + np.arange(dim, dtype=np.float32))
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0].astype(np.float32)
    centres = rng.normal(size=(2000, dim)).astype(np.float32) * scale
    points = 0.7 * rng.standard_normal((n + n_queries, dim), np.float32) * scale
    points += centres[rng.integers(0, len(centres), n + n_queries)]
    x = points @ basis
    return x[:n], x[n:]


def data_file(*parts: str) -> Path | None:
    """A file of INTERLACE_DATA, else of ../shared/data beside the checkout; None if there is none."""
    named = os.environ.get("INTERLACE_DATA")
    path = (Path(named) if named else ROOT.parent / "shared" / "data").joinpath(*parts)
    return path if path.exists() else None

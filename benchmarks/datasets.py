"""The data sets of the benchmark: rows, queries, and the true neighbours of the queries.

``sift1m`` is made here, from the 300k real rows; it is kept in a cache folder because its neighbours take minutes.
Where the files of a set are missing, a generated set takes its place under a name that says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from interlace import data as data_sets
from interlace.evaluate.answers import exact_neighbours

FloatArray = NDArray[np.float32]
TRUTH = 100  # neighbours kept per query
NEIGHBOURS = 10  # a made row moves towards one of this many
MADE_VERSION = 1  # of what the cache holds; a change of make_rows needs a new one
QUICK_ROWS, QUICK_QUERIES = 20_000, 100


@dataclass(frozen=True, eq=False)
class BenchSet:
    """Rows, queries and true neighbours; float32 for all methods."""

    name: str
    description: str
    generated: bool  # no real vectors at all; ``sift1m`` counts as real
    x: FloatArray
    queries: FloatArray
    truth: NDArray[np.int64]  # [n_queries, TRUTH]
    seed: int


def load(name: str, *, seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    """A data set by name, or its generated replacement."""
    loaders: dict[str, Callable[..., BenchSet]] = {
        "sift300k": _sift300k,
        "sift1m": _sift1m,
        "mnist784": _mnist784,
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


def _sift300k(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    x, queries, truth, stem = _sift_rows(seed, say)
    what = "real SIFT descriptors" if stem == "sift" else "generated clusters, no real vectors"
    return _finished(f"{stem}300k", f"{what}, uint8", stem != "sift", x, queries, truth, seed, quick)


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


def _sift1m(seed: int, quick: bool, say: Callable[[str], None]) -> BenchSet:
    base, queries, _, stem = _sift_rows(seed, say)
    n_made = 700_000
    if quick:  # the same recipe, small
        base, n_made = base[: QUICK_ROWS * 3 // 10], QUICK_ROWS * 7 // 10
    cache = None if quick else cache_folder() / f"{stem}1m-v{MADE_VERSION}-seed{seed}.npz"
    if cache is not None and cache.exists():
        with np.load(cache) as kept:
            made, truth = kept["made"], kept["truth"]
        x = np.concatenate([base, made])
    else:
        say(f"making {n_made} rows: all neighbours of {len(base)} rows, minutes the first time")
        x = np.concatenate([base, make_rows(base, n_made, seed)])
        truth = neighbours(x, queries)
        if cache is not None:
            _write_npz(cache, made=x[len(base) :], truth=truth)
    kind = "real SIFT descriptors" if stem == "sift" else "generated rows"
    what = f"{len(base):,} {kind} and {n_made:,} rows made between one of them and a neighbour"
    return _finished(f"{stem}1m", f"{what}, uint8", stem != "sift", x, queries, truth, seed, quick)


def _finished(
    name: str,
    what: str,
    generated: bool,
    x: NDArray[Any],
    queries: NDArray[Any],
    truth: NDArray[Any] | None,
    seed: int,
    quick: bool,
) -> BenchSet:
    if quick:
        x, queries, truth = x[:QUICK_ROWS], queries[:QUICK_QUERIES], None
    if truth is None:
        truth = neighbours(x, queries)
    rows, asked = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(queries, np.float32)
    return BenchSet(name, what, generated, rows, asked, truth.astype(np.int64), seed)


def neighbours(x: NDArray[Any], queries: NDArray[Any]) -> NDArray[np.int64]:
    """The truth. Bytes of up to 256 dimensions have exact float32 distances; 784 do not, and take double precision."""
    exact_in_float = x.dtype == np.uint8 and x.shape[1] <= 256
    return exact_neighbours(x, queries, TRUTH, dtype=np.float32 if exact_in_float else np.float64)[0]


def make_rows(base: NDArray[np.uint8], n: int, seed: int) -> NDArray[np.uint8]:
    """n rows, each a random row moved 20-80 % of the way to one of its ten nearest neighbours, rounded."""
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, len(base), n)
    ranks = rng.integers(0, NEIGHBOURS, n)
    steps = rng.uniform(0.2, 0.8, n).astype(np.float32)
    distinct, place = np.unique(starts, return_inverse=True)
    others = _nearest_others(base, distinct)
    ends = others[place, ranks]
    made = np.empty((n, base.shape[1]), np.uint8)
    for at in range(0, n, 50_000):  # bounded memory
        part = slice(at, at + 50_000)
        a, b = base[starts[part]].astype(np.float32), base[ends[part]].astype(np.float32)
        made[part] = np.rint(a + steps[part, None] * (b - a))
    return made


def _nearest_others(base: NDArray[np.uint8], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows [n, NEIGHBOURS] nearest to the given ones, without the row itself; duplicates of it count."""
    x = base.astype(np.float32)
    found = faiss.knn(x[rows], x, NEIGHBOURS + 1)[1]
    own = found == rows[:, None]
    own[~own.any(1), -1] = True  # crowded out by duplicates
    return found[~own].reshape(len(rows), NEIGHBOURS)


def clustered(n: int, dim: int, n_queries: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Gaussian clusters with a falling spectrum in a random basis, as bytes; queries from the same clusters."""
    rng = np.random.default_rng(seed)
    scale = 60 / np.sqrt(1 + np.arange(dim))
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    centres = rng.normal(size=(1000, dim)) * scale
    points = centres[rng.integers(0, len(centres), n + n_queries)] + 0.7 * rng.normal(size=(n + n_queries, dim)) * scale
    x = np.rint((points @ basis + 128).clip(0, 255)).astype(np.uint8)
    return x[:n], x[n:]


def cache_folder() -> Path:
    """Folder of generated data sets, outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "interlace"


def _write_npz(path: Path, **arrays: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + f".{os.getpid()}")
    with open(partial, "wb") as file:
        np.savez(file, **arrays)
    os.replace(partial, path)

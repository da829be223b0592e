"""Searches that the demo compares with: exact search in NumPy and, if it is installed, faiss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import evaluate
from ..inputs.arrays import FloatArray

Search = Callable[[], NDArray[Any]]


@dataclass
class DemoMethod:
    """A way to search, and what is known about it before it is timed."""

    name: str
    kind: str
    bytes_per_vector: float
    ops_per_vector: float | None
    searches: dict[str, Search]  #: by detail; the fastest one is reported


def exact(x: FloatArray, q: FloatArray, k: int) -> DemoMethod:
    """Brute force over all vectors."""

    def search() -> NDArray[Any]:
        return evaluate.exact_neighbours(x, q, k, dtype=np.float32)[0]

    return DemoMethod("exact search", "exact", 4.0 * x.shape[1], None, {"NumPy, float32": search})


def faiss_indexes(x: FloatArray, q: FloatArray, k: int, n_bytes: int) -> list[DemoMethod]:
    """Product quantizers of faiss with the same bytes; none if faiss is not installed."""
    try:
        import faiss
    except ImportError:
        return []
    dim = x.shape[1]
    peers = {
        "faiss IndexPQ": (faiss.IndexPQ(dim, n_bytes, 8), n_bytes),
        # 4-bit codes: twice as many of them in the same bytes.
        "faiss IndexPQFastScan": (faiss.IndexPQFastScan(dim, 2 * n_bytes, 4), 2 * n_bytes),
    }
    methods = []
    for name, (index, ops) in peers.items():
        with one_thread(faiss):
            index.train(x)
            index.add(x)
        searches = {level: _faiss_search(faiss, index, q, k, number) for level, number in simd_levels(faiss).items()}
        methods.append(DemoMethod(name, "faiss", float(index.sa_code_size()), float(ops), searches))
    return methods


def simd_levels(faiss: Any) -> dict[str, int | None]:
    """Every SIMD level of this machine: the highest is not always the fastest (IndexPQ on AVX-512)."""
    config = getattr(faiss, "SIMDConfig", None)
    if config is None:
        return {"default SIMD": None}
    names = {
        value: name.removeprefix("SIMDLevel_") for name, value in vars(faiss).items() if name.startswith("SIMDLevel_")
    }
    names.pop(getattr(faiss, "SIMDLevel_COUNT", -1), None)
    return {name: level for level, name in sorted(names.items()) if config.is_simd_level_available(level)}


def _faiss_search(faiss: Any, index: Any, q: FloatArray, k: int, level: int | None) -> Search:
    def search() -> NDArray[Any]:
        with one_thread(faiss, level):
            found: NDArray[Any] = index.search(q, k)[1]
            return found

    return search


@contextmanager
def one_thread(faiss: Any, level: int | None = None) -> Iterator[None]:
    """One thread and one SIMD level, both restored afterwards because they are global in faiss."""
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

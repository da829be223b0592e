"""Random codebooks and codes for tests: nothing learned, every structure the search must handle."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from interlace import Book, Codebooks, Index, Norm, _native
from interlace.codec.metric import Metric, metric_of
from interlace.codec.space import Space
from interlace.engine.engine import Engine
from interlace.engine.margins import Calibration, Rule
from interlace.engine.segments import Segment
from interlace.index.ids import Ids
from interlace.index.searcher import Searcher

#: Beside the learned layouts: ``additive`` books overlap and no norm covers them, ``constant`` ones have the constant
#: of composite quantization, ``partial`` ones overlap here and there.
LAYOUTS = ("subspace", "hybrid", "residual", "additive", "constant", "partial")


def random_supports(rng: np.random.Generator, layout: str, dim: int, n_books: int) -> list[np.ndarray]:
    """Dimensions of each book."""
    everything = np.arange(dim)
    if layout == "subspace":
        return np.array_split(everything, n_books)
    if layout == "hybrid":
        return [everything, *np.array_split(everything, n_books - 1)] if n_books > 1 else [everything]
    if layout == "groups":  # three books after the first on each part
        parts = np.array_split(everything, max(1, (n_books - 1) // 3))
        return [everything, *(parts[min(i // 3, len(parts) - 1)] for i in range(n_books - 1))]
    if layout == "partial":
        return [np.flatnonzero(rng.random(dim) < rng.choice([0.1, 0.4, 0.9])) for _ in range(n_books)]
    return [everything] * n_books


def random_norms(rng: np.random.Generator, layout: str, n_books: int, n_words: int, scale: float) -> list[Norm]:
    """Norms that cover all books after the first, where the layout has them."""

    def norm(n_values: int, covers: range) -> Norm:
        values = np.sort(rng.normal(size=n_values) * 3 * scale**2).astype(np.float32)
        return Norm(values, tuple(covers), crude=bool(rng.integers(2)))

    if n_books < 3 or layout not in ("residual", "constant", "partial"):
        return []
    if layout == "residual":
        norms = [norm(n_words, range(1, n_books))]
        return [norm(n_words, range(1, 3)), *norms] if rng.random() < 0.3 else norms
    if layout == "constant":
        norms = [norm(1, range(1, n_books))]
        return [norm(n_words, range(1, 3)), *norms] if rng.random() < 0.3 else norms
    return [norm(n_words, range(1, n_books))] if rng.random() < 0.3 else []


def random_codebooks(
    rng: np.random.Generator,
    layout: str = "hybrid",
    *,
    dim: int = 12,
    n_books: int = 4,
    n_words: int = 16,
    n_crude: int = 2,
    metric: str | Metric = "l2",
    beam: int = 3,
    sweeps: int = 0,
    integers: bool = False,
    scale: float = 1.0,
) -> Codebooks:
    """``integers`` draws words from few values, so that distances tie all the time."""

    def words(n: int, width: int, spread: float) -> np.ndarray:
        if integers:
            return (rng.integers(-2, 3, (n, width)) * scale).astype(np.float32)
        return (rng.normal(size=(n, width)) * spread * scale).astype(np.float32)

    supports = random_supports(rng, layout, dim, n_books)
    books = [Book(words(n_words, len(s), 2.0 / (1 + i)), s) for i, s in enumerate(supports)]
    return Codebooks(
        books,
        dim=dim,
        n_crude=min(n_crude, n_books),
        metric=metric,
        mean=np.zeros(dim) if integers else rng.normal(size=dim) * scale,
        rotation=None if integers else np.linalg.qr(rng.normal(size=(dim, dim)))[0],
        norms=random_norms(rng, layout, n_books, n_words, scale) if metric_of(metric).is_squared else [],
        beam=min(beam, n_words),
        sweeps=sweeps,
        layout=layout,
        residual_variance=1.5,
    )


def random_codes(rng: np.random.Generator, codebooks: Codebooks, n: int) -> np.ndarray:
    """Codes of n rows, valid for the books, skewed so that some cells are crowded and some empty."""
    sizes = codebooks.column_sizes
    draws = [np.minimum((rng.random(n) ** 2 * size).astype(np.int64), size - 1) for size in sizes]
    return np.stack(draws, axis=1).astype(np.uint8).reshape(n, len(sizes))


def with_cells(codebooks: Codebooks, cells: NDArray[np.float32]) -> Codebooks:
    """The same books after these cells."""
    arrays, description = codebooks.to_arrays()
    return Codebooks.from_arrays({**arrays, "words.0": cells}, description)


def coded(codebooks: Codebooks, cells: NDArray[np.int64], columns: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes of rows in these cells."""
    return np.concatenate([codebooks.cells.to_codes(cells), columns], axis=1)


def index_of(codebooks: Codebooks, *parts: np.ndarray) -> Index:
    """An index with these codes, one segment per part."""
    segments = tuple(Segment.pack(codes, codebooks) for codes in parts if len(codes))
    return index_with(codebooks, segments, Ids.default(sum(len(codes) for codes in parts)))


def index_with(
    codebooks: Codebooks, segments: tuple[Segment, ...], ids: Ids, calibration: Calibration | None = None
) -> Index:
    """An index of packed rows."""
    return Index.of(Searcher(Space(codebooks), Engine(codebooks, segments, ids.removed, calibration), ids))


def with_segments(index: Index, segments: tuple[Segment, ...]) -> Index:
    """The same index with other packed rows."""
    return index_with(index.codebooks, segments, index.ids_of_rows, index.calibration)


def stopping_rule(
    label: str,
    *,
    share: float,
    weight: float,
    stop: float,
    least: float,
    reach: float,
    inner: float = 0.0,
    slack: float = -math.inf,
) -> Rule:
    """A rule that stops by rank and gap only, whatever tau is, unless there is a slack."""
    return Rule(
        _native.Rule.calibrated(
            share=share, weight=weight, stop=stop, slack=slack, least=least, reach=reach, inner=inner
        ),
        "calibrated",
        label,
    )

"""Random codebooks and codes for tests: nothing learned, every structure the search must handle."""

from __future__ import annotations

import numpy as np

from interlace import Book, Codebooks, Index, Norm
from interlace.ids import Ids
from interlace.segments import Segment

LAYOUTS = ("subspace", "hybrid", "residual")


def random_codebooks(
    rng: np.random.Generator,
    layout: str = "hybrid",
    *,
    dim: int = 12,
    n_books: int = 4,
    n_words: int = 16,
    n_crude: int = 2,
    metric: str = "l2",
    beam: int = 3,
    integers: bool = False,
) -> Codebooks:
    """``integers`` draws words from few values, so that distances tie all the time."""

    def words(n: int, width: int, scale: float) -> np.ndarray:
        if integers:
            return rng.integers(-2, 3, (n, width)).astype(np.float32)
        return (rng.normal(size=(n, width)) * scale).astype(np.float32)

    everything = np.arange(dim)
    if layout == "residual":
        supports = [everything] * n_books
    elif layout == "hybrid":
        supports = [everything, *np.array_split(everything, n_books - 1)] if n_books > 1 else [everything]
    else:
        supports = np.array_split(everything, n_books)
    books = [Book(words(n_words, len(s), 2.0 / (1 + i)), s) for i, s in enumerate(supports)]
    norms = []
    if layout == "residual" and metric == "l2" and n_books > 2:
        values = np.sort(rng.normal(size=min(n_words, 256)) * 3).astype(np.float32)
        norms = [Norm(values, tuple(range(1, n_books)), crude=bool(rng.integers(2)))]
    rotation = None if integers else np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return Codebooks(
        books,
        dim=dim,
        n_crude=min(n_crude, n_books),
        metric=metric,
        mean=np.zeros(dim) if integers else rng.normal(size=dim),
        rotation=rotation,
        norms=norms,
        beam=min(beam, n_words),
        layout=layout,
        residual_variance=1.5,
    )


def random_codes(rng: np.random.Generator, codebooks: Codebooks, n: int) -> np.ndarray:
    """Codes of n rows, valid for the books, skewed so that some cells are crowded and some empty."""
    sizes = [codebooks.n_cells]
    sizes += [
        len(codebooks.books[c].words) if c >= 0 else len(codebooks.norms[-1 - c].values) for c in codebooks.columns
    ]
    draws = [np.minimum((rng.random(n) ** 2 * size).astype(np.int64), size - 1) for size in sizes]
    return np.stack(draws, axis=1).astype(np.uint8).reshape(n, len(sizes))


def index_of(codebooks: Codebooks, *parts: np.ndarray) -> Index:
    """An index with these codes, one segment per part."""
    index = Index(codebooks)
    index._segments = tuple(Segment.pack(codes, codebooks) for codes in parts if len(codes))
    index._ids = Ids.default(sum(len(codes) for codes in parts))
    return index

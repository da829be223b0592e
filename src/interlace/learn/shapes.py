"""What an index will consist of, from its settings alone: books, columns, and the bytes of each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..codec.codebooks import MAX_WORDS
from ..codec.encode import EFFORTS
from ..engine.margins import KS, TARGETS
from ..engine.segments import BLOCK
from .schedule import default_crude, tried_layouts, usual_layout

EVERY_SAMPLE = 256  # kSample of cpp/core/elias_fano.h
DENSE_STEP = 32  # values that Books::compute_dense_words rounds a word up to
#: A share, the weight and stop of cells, a slack and the strays for each k and target; the farthest hit for each k.
CALIBRATION_BYTES = 4 * len(KS) * (len(TARGETS) * 5 + 1)

Span = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """Books and columns that learning will make (layouts.py).

    ``spans`` are the first dimension of each book and the one behind its last, the cell's book first. How a split
    shares the dimensions is the data's affair: here parts are equal.
    """

    dim: int
    metric: str
    layout: str
    spans: tuple[Span, ...]
    n_words: int  # of every book
    n_values: int  # of a norm column
    n_norms: int
    n_crude: int  # books
    beam: int
    sweeps: int
    rotation: str  # principal, learned or none

    @property
    def widths(self) -> tuple[int, ...]:
        """Dimensions of each book."""
        return tuple(stop - start for start, stop in self.spans)

    @property
    def n_books(self) -> int:
        """Norm columns not counted."""
        return len(self.spans)

    @property
    def n_columns(self) -> int:
        """Stored bytes of a row; the cell is implied."""
        return self.n_books - 1 + self.n_norms

    @property
    def n_crude_columns(self) -> int:
        """Those of them that the crude step reads."""
        return self.n_crude - 1 + self.n_norms

    @property
    def rotated(self) -> bool:
        """Whether the books stand on axes of their own."""
        return self.rotation != "none"

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of books that share dimensions."""
        return tuple((i, j) for j in range(self.n_books) for i in range(j) if _overlap(self.spans[i], self.spans[j]))

    @property
    def n_pairs(self) -> int:
        """Such pairs after the first book; coding makes a table of cross terms for each."""
        return sum(i > 0 for i, _ in self.pairs)

    @property
    def n_dense(self) -> int:
        """Books whose words are kept as int16 over all dimensions, for the cross terms of the second step."""
        if self.metric != "l2" or self.n_norms:
            return 0
        return len({book for pair in self.pairs if pair[0] > 0 for book in pair})

    def code_bytes(self, n: int) -> int:
        """Code columns of n rows; crude ones fill whole blocks."""
        blocks = -(-n // BLOCK)
        return blocks * BLOCK * self.n_crude_columns + n * (self.n_columns - self.n_crude_columns)

    def row_bytes(self, n: int) -> int:
        """Row numbers and bounds of the cells, when all cells are equally full."""
        return row_number_bytes(n, self.n_words)

    def learned_bytes(self) -> int:
        """Words, supports, rotation, mean and what describes them, as a file holds them."""
        words = sum(self.n_words * width + width for width in self.widths)
        if self.layout == "residual":
            described = self.n_books  # the energy of each
        else:
            crude = [range(*span) for span in self.spans[self.layout == "hybrid" : self.n_crude]]
            described = self.dim + len(set().union(*crude))
        return 4 * (words + self.n_norms * self.n_values + described + self.dim + self.rotated * self.dim**2)

    def table_bytes(self) -> int:
        """What the native core computes when an index is opened (Books::bytes in cpp/core/books.cpp)."""
        padded = sum(MAX_WORDS * (width + 1) for width in self.widths)  # words and their squares
        cell_terms = self.n_words * self.n_columns * MAX_WORDS if any(i == 0 for i, _ in self.pairs) else 0
        dense = self.n_dense * MAX_WORDS
        return 4 * (padded + dense) + 2 * (cell_terms + dense * -(-self.dim // DENSE_STEP) * DENSE_STEP)

    def pair_bytes(self) -> int:
        """Tables of cross terms at their peak: made when the first row is coded, from floats."""
        return self.n_pairs * MAX_WORDS * (2 * MAX_WORDS + 4 * self.n_words)

    def floor_bytes(self) -> int:
        """The least cross term of each cell."""
        return 4 * self.n_words if self.n_dense else 0

    def n_sections(self) -> int:
        """Arrays in a file, those of ids left out."""
        return 3 + self.rotated + 2 * self.n_books + self.n_norms + 6 + (self.n_dense > 0) + 2


class Asked(Protocol):
    """What decides the shape: checked :class:`interlace.learn.learning.Settings`, which stand above this module."""

    @property
    def n_bytes(self) -> int | None: ...
    @property
    def n_words(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def n_crude(self) -> int | str | None: ...
    @property
    def rotation(self) -> str: ...
    @property
    def cross(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def effort(self) -> str: ...
    def layouts(self) -> tuple[str, ...]:
        """Those that the other settings allow."""


def shape_of(dim: int, settings: Asked, n_train: int, layout: str | None = None) -> Shape:
    """The shape that checked settings give to this many rows without two alike; ``layout`` instead of theirs."""
    assert settings.n_bytes is not None
    n_bytes, layout = settings.n_bytes, layout or assumed_layout(dim, settings, n_train)
    additive = settings.cross in ("exact", "byte")
    n_norms = int(settings.cross == "byte" and settings.metric == "l2")
    n_books = n_bytes - n_norms
    spans: tuple[Span, ...]
    if layout == "residual":
        spans = ((0, dim),) * n_books
    elif layout == "hybrid":
        spans = ((0, dim), *(split(dim, n_books - 1, additive) if n_books > 1 else ()))
    else:
        spans = split(dim, n_books, additive)
    if not any(_overlap(a, b) for i, a in enumerate(spans[1:]) for b in spans[1 : 1 + i]):
        n_norms = 0  # nothing to store there
    default = len(spans) if layout == "residual" and not n_norms else default_crude(len(spans))
    asked = settings.n_crude
    beam, sweeps = EFFORTS[settings.effort]
    rotation = "principal" if settings.rotation == "auto" else settings.rotation
    return Shape(
        dim=dim,
        metric=settings.metric,
        layout=layout,
        spans=spans,
        n_words=min(settings.n_words, n_train),
        n_values=min(MAX_WORDS, max(2, n_train)),
        n_norms=n_norms,
        n_crude=min(asked if isinstance(asked, int) else default, len(spans)),
        beam=min(beam, MAX_WORDS),
        sweeps=sweeps,
        rotation="none" if layout == "residual" else rotation,
    )


def assumed_layout(dim: int, settings: Asked, n_train: int) -> str:
    """The layout asked for; for ``"auto"``, which tries them on the data, the slowest to learn that it may choose."""
    assert settings.n_bytes is not None
    if settings.layout != "auto":
        return settings.layout
    tried = candidates(dim, settings, n_train)
    if tried:
        return tried[-1]
    return usual_layout(settings.layouts(), settings.n_bytes, dim, n_train, settings.effort)[0]


def candidates(dim: int, settings: Asked, n_train: int) -> tuple[str, ...]:
    """Layouts that ``"auto"`` tries, the slowest to learn last; none where there is nothing to compare."""
    assert settings.n_bytes is not None
    if settings.layout != "auto":
        return ()
    return tried_layouts(settings.layouts(), settings.n_bytes, dim, n_train, settings.effort)


def _overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def split(dim: int, n_books: int, additive: bool) -> tuple[Span, ...]:
    """Product books on parts as equal as can be; additive ones half on the first dimensions, half on the others."""
    if not additive:
        n_books = min(n_books, dim)
        bounds = [i * (dim // n_books) + min(i, dim % n_books) for i in range(n_books + 1)]
        return tuple(zip(bounds[:-1], bounds[1:], strict=True))
    if n_books == 1 or dim == 1:
        return ((0, dim),) * n_books
    n_first = n_books // 2
    return ((0, dim // 2),) * n_first + ((dim // 2, dim),) * (n_books - n_first)


def row_number_bytes(n: int, n_cells: int) -> int:
    """Bytes of ``cell_starts``, ``low``, ``high`` and ``samples`` for n rows in equally full cells (docs/format.md)."""
    low = high = samples = 0
    for size, cells in ((n // n_cells, n_cells - n % n_cells), (n // n_cells + 1, n % n_cells)):
        if size and cells:
            bits = (n // size).bit_length() - 1
            low += cells * size * bits
            high += cells * (size + (n >> bits) + 1)
            samples += cells * -(-size // EVERY_SAMPLE)
    return 8 * (n_cells + 1) + 8 * (low // 64 + 2) + 8 * (high // 64 + 1) + 4 * samples

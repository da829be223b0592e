"""What an index will consist of, from its settings alone: books, columns, and the bytes of each part."""

from __future__ import annotations

from dataclasses import dataclass

from .codebooks import MAX_WORDS
from .encode import EFFORTS
from .errors import InputError
from .quantizers import LAYOUTS
from .quantizers.layouts import default_crude
from .segments import BLOCK

#: Explicit ids in a file, bytes per row: the id, its place in the sorted section, the sorted key (docs/format.md).
INT64_ID_BYTES = 8 + 4 + 8
STRING_ID_BYTES = 8 + 4 + 8  # offset instead of the id; the text comes on top
#: What a string id is taken to be long, in bytes of UTF-8.
STRING_LENGTH = 16
EVERY_SAMPLE = 256  # kSample of cpp/core/elias_fano.h


@dataclass(frozen=True)
class Shape:
    """Books and columns that learning will make (quantizers/layouts.py); ``widths`` are the dimensions of each book."""

    dim: int
    metric: str
    layout: str
    widths: tuple[int, ...]  # the cell's book first; how a split shares the dimensions is the data's affair
    n_words: int  # of every book
    n_norms: int
    n_crude: int  # books
    beam: int

    @property
    def n_books(self) -> int:
        """Norm columns not counted."""
        return len(self.widths)

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
        """Whether the books stand on principal axes."""
        return self.layout != "residual"

    @property
    def n_pairs(self) -> int:
        """Pairs of books after the first that share dimensions, each with a table of cross terms."""
        others = self.n_books - 1
        return others * (others - 1) // 2 if self.layout == "residual" else 0

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
        norms = self.n_norms * self.n_words
        variances = self.dim if self.rotated else self.n_books + 1
        crude = sum(self.widths[self.layout == "hybrid" : self.n_crude]) if self.rotated else 0
        return 4 * (words + norms + variances + crude + self.dim + (self.dim**2 if self.rotated else 0))

    def table_bytes(self) -> int:
        """What the native core computes when an index is opened (Books::bytes in cpp/core/books.cpp)."""
        padded = sum(MAX_WORDS * (width + 1) for width in self.widths)  # words and their squares
        shared = self.layout != "subspace" and self.n_books > 1
        cell_terms = self.n_words * self.n_columns * MAX_WORDS if shared else 0
        return 4 * padded + 2 * (cell_terms + self.n_pairs * MAX_WORDS**2)

    def n_sections(self) -> int:
        """Arrays in a file, those of ids left out."""
        return 3 + self.rotated + 2 * self.n_books + self.n_norms + 6 + 2


def shape_of(dim: int, *, n_bytes: int | None, n_books: int | None, layout: str, metric: str, n_train: int) -> Shape:
    """The shape that ``quantizers.learn`` gives to this many rows without two alike."""
    if layout == "auto":
        layout = "hybrid" if (n_bytes or n_books or 0) > 1 and dim > 1 else "subspace"
    if layout not in LAYOUTS:
        raise InputError(f"layout must be 'auto' or one of {', '.join(LAYOUTS)}, got {layout!r}")
    n_words = min(MAX_WORDS, n_train)
    additive = layout == "residual" and metric == "l2"
    if n_bytes is None:
        assert n_books is not None
        n_bytes = n_books + (additive and n_books > 2)
    n_norms = int(additive and n_bytes > 2)
    widths: tuple[int, ...]
    if layout == "subspace":
        widths, beam = shared(dim, min(n_bytes, dim)), 1
    elif layout == "hybrid":
        widths, beam = (dim, *shared(dim, min(n_bytes - 1, dim))), EFFORTS["balanced"][0]
    else:
        widths, beam = (dim,) * (n_bytes - n_norms), EFFORTS["balanced"][0]
    n_crude = min(default_crude(len(widths)), len(widths))
    return Shape(dim, metric, layout, widths, n_words, n_norms if n_words > 1 else 0, n_crude, beam)


def shared(dim: int, n_books: int) -> tuple[int, ...]:
    """Dimensions in parts as equal as can be."""
    return tuple(dim // n_books + (i < dim % n_books) for i in range(n_books))


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


def id_bytes(kind: str, n: int) -> int:
    """Bytes of the ids of n rows in a file, and in memory once they were looked up."""
    return {"default": 0, "int64": INT64_ID_BYTES * n, "string": (STRING_ID_BYTES + STRING_LENGTH) * n + 8}[kind]

"""What an index will consist of, from its settings alone: books, columns, and the bytes of each part."""

from __future__ import annotations

from dataclasses import dataclass

from ...codec.book import HALF_WIDTH, is_long
from ...codec.codebooks import HALF_ROTATION, MAX_WORDS
from ...codec.encode import EFFORTS
from ...codec.metric import METRICS
from ...engine.margins import KS, TARGETS
from ...engine.segments import BLOCK
from ..axes import HALF_COLUMNS
from ..grouping import group_sizes
from ..layout_rules import compared_layouts, scans_all, usual_layout
from ..schedule import default_crude
from ..settings import Settings

SAMPLE_EVERY = 256  # RowNumbers::kSample of cpp/core/elias_fano.h
DENSE_STEP = 32  # CrossSums::kStep of cpp/core/cross_terms.h: words are padded to a multiple of this many values
#: float32 values of a calibration: share, weight and stop of cells, slack, strays for each k and target; the distance
#: of the farthest hit for each k.
CALIBRATION_BYTES = 4 * len(KS) * (len(TARGETS) * 5 + 1)

Span = tuple[int, int]
#: With more tables than this, rows are compared with those of some only (NearestWords::kAllTables of
#: cpp/core/nearest_words.h).
ALL_TABLES = 16


@dataclass(frozen=True)
class Shape:
    """Books and columns that learning will make (``layouts``).

    ``spans`` are the dimensions [start, stop) of each book; the first book is that of the cells. A real split depends
    on the data; here all parts of a split are equally wide.
    """

    dim: int
    metric: str
    layout: str
    spans: tuple[Span, ...]
    n_words: int  # of every book but the first
    n_cells: int  # words of the first
    n_values: int  # of a norm column
    n_norms: int
    n_crude: int  # books
    beam: int
    sweeps: int
    rotation: str  # principal, learned or none
    parallel: bool = False  # the loss counts errors along the row more than others

    @property
    def widths(self) -> tuple[int, ...]:
        """Dimensions of each book."""
        return tuple(stop - start for start, stop in self.spans)

    @property
    def n_books(self) -> int:
        """Number of books, without norm columns."""
        return len(self.spans)

    @property
    def n_columns(self) -> int:
        """Stored bytes of a row. The code of the cell is not stored, because rows are sorted by cell."""
        return self.n_books - 1 + self.n_norms

    @property
    def n_crude_columns(self) -> int:
        """Columns that the crude step reads."""
        return self.n_crude - 1 + self.n_norms

    @property
    def rotated(self) -> bool:
        """Whether vectors are rotated before they are encoded."""
        return self.rotation != "none"

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of books that share dimensions."""
        return tuple((i, j) for j in range(self.n_books) for i in range(j) if _overlap(self.spans[i], self.spans[j]))

    @property
    def refitted(self) -> bool:
        """Whether the words of a code depend on each other: then the encoder has a beam, and words are refitted."""
        return self.parallel or bool(self.pairs)

    @property
    def n_pairs(self) -> int:
        """Pairs without the first book. Encoding makes a table of cross terms for each."""
        return sum(i > 0 for i, _ in self.pairs)

    @property
    def n_dense(self) -> int:
        """Books whose words are also stored as int16 over all dimensions, for the cross terms of the second step."""
        if not METRICS[self.metric].is_squared or self.n_norms:
            return 0
        first = -1 if self.folds_cells else 0
        return len({book for pair in self.pairs if pair[0] > first for book in pair if book > 0})

    @property
    def folds_cells(self) -> bool:
        """Whether search makes no tables for each cell (Codebooks.folds_cells)."""
        long = self.layout in ("hybrid", "residual") and is_long(self.n_books, self.n_norms)
        wanted = self.n_cells > MAX_WORDS or long
        squared = METRICS[self.metric].is_squared
        return wanted and squared and not self.n_norms and any(i == 0 for i, _ in self.pairs)

    def code_bytes(self, n: int) -> int:
        """Code columns of n rows; crude columns are padded to whole blocks."""
        blocks = -(-n // BLOCK)
        return blocks * BLOCK * self.n_crude_columns + n * (self.n_columns - self.n_crude_columns)

    def row_bytes(self, n: int) -> int:
        """Row numbers and cell bounds of n rows, if all cells are equally full."""
        return row_number_bytes(n, self.n_cells)

    def learned_bytes(self) -> int:
        """Words, supports, rotation, mean and variances, as a file stores them."""
        counts = [self.n_cells, *([self.n_words] * (self.n_books - 1))]
        supports = sum(self.widths)
        words = sum(  # in float16 where they are wide or many
            n * width * (2 if width >= HALF_WIDTH or n > MAX_WORDS else 4)
            for n, width in zip(counts, self.widths, strict=True)
        )
        if self.layout == "residual":
            described = self.dim
        else:
            crude = [range(*span) for span in self.spans[self.layout == "hybrid" : self.n_crude]]
            described = self.dim + len(set().union(*crude))
        half = self.dim >= HALF_ROTATION and self.dim % HALF_COLUMNS == 0
        rotation = self.rotated * self.dim**2 * (2 if half else 4)
        return words + rotation + 4 * (supports + self.n_norms * self.n_values + described + self.dim)

    def table_bytes(self) -> int:
        """Tables that the native core computes for searches (Books::bytes in cpp/core/books.cpp)."""
        tables = [self.n_cell_tables, *([1] * (self.n_books - 1))]
        padded = sum(n * MAX_WORDS * (width + 1) for n, width in zip(tables, self.widths, strict=True))  # and squares
        if self.n_cell_tables > ALL_TABLES:
            padded += -(-self.n_cell_tables // MAX_WORDS) * MAX_WORDS * (self.widths[0] + 1)  # centres of tables
        dense = self.n_dense * MAX_WORDS + (self.n_cells if self.folds_cells else 0)
        squared = METRICS[self.metric].is_squared
        overlapping = {book for pair in self.pairs for book in pair} if squared else set(range(self.n_books))
        wide = (self.widths[book] for book in overlapping if book > 0 and self.widths[book] >= HALF_WIDTH)
        halves = 2 * MAX_WORDS * sum(wide)
        own = self.term_bytes() if squared and not self.folds_cells else 0
        return halves + 4 * (padded + dense) + own + 2 * dense * -(-self.dim // DENSE_STEP) * DENSE_STEP

    def term_bytes(self) -> int:
        """Terms of the cells, int16; coding needs them in any case."""
        return 2 * self.n_cells * self.n_columns * MAX_WORDS if any(i == 0 for i, _ in self.pairs) else 0

    def pair_bytes(self) -> int:
        """Tables of cross terms at their peak, when the first row is encoded: int16, computed from float32."""
        return self.n_pairs * MAX_WORDS * (2 * MAX_WORDS + 4 * self.n_words)

    @property
    def n_cell_tables(self) -> int:
        """Tables of words of the first book."""
        return -(-self.n_cells // MAX_WORDS)

    def floor_bytes(self) -> int:
        """The smallest cross term of each cell, as a file stores it."""
        return 4 * self.n_cells if self.n_dense and not self.folds_cells else 0

    def fixed_bytes(self, n: int, *, reranked: bool = False) -> int:
        """Of n rows whose cells are folded (cpp/core/fixed_parts.h): a byte for each, their sums if codes are long or
        searches are re-ranked by originals, and the floors of the cells."""
        if not self.folds_cells:
            return 0
        n_sums = n if reranked or is_long(self.n_books, self.n_norms) else 0
        return -(-n // BLOCK) * BLOCK + 4 * self.n_cells + 4 * n_sums

    def n_sections(self) -> int:
        """Sections of a file, without those of ids."""
        return 3 + self.rotated + 2 * self.n_books + self.n_norms + 6 + (self.floor_bytes() > 0) + 2


def shape_of(dim: int, settings: Settings, n_train: int, layout: str | None = None) -> Shape:
    """The shape of an index learned from ``n_train`` distinct rows.

    ``layout`` replaces that of the settings; by default it is the :func:`assumed_layout`.
    """
    if layout is None:
        layout = assumed_layout(settings, dim, n_train)
    n_books = settings.max_books
    spans: tuple[Span, ...]
    sizes = group_sizes(n_books, dim, n_train)
    if layout == "residual":
        bounds = split(dim, len(sizes), additive=False)
        spans = ((0, dim), *(span for span, size in zip(bounds, sizes, strict=True) for _ in range(size)))
    elif layout == "hybrid":
        spans = ((0, dim), *(split(dim, n_books - 1, settings.additive) if n_books > 1 else ()))
    else:
        spans = split(dim, n_books, settings.additive)
    overlap = any(_overlap(a, b) for i, a in enumerate(spans[1:]) for b in spans[1 : 1 + i])
    n_norms = int(settings.cross == "byte" and overlap)  # without overlap there are no cross terms to store
    all_crude = (layout == "residual" and not n_norms) or (layout == "hybrid" and scans_all(settings, len(spans)))
    default = len(spans) if all_crude else default_crude(len(spans))
    beam, sweeps = EFFORTS[settings.effort]
    rotation = "principal" if settings.rotation == "auto" else settings.rotation
    return Shape(
        dim=dim,
        metric=settings.metric,
        layout=layout,
        spans=spans,
        n_words=min(settings.n_words, n_train),
        n_cells=settings.n_cells if settings.many_cells else min(settings.n_cells, n_train),
        n_values=min(MAX_WORDS, max(2, n_train)),
        n_norms=n_norms,
        n_crude=min(settings.crude_books or default, len(spans)),
        beam=min(beam, MAX_WORDS),
        sweeps=sweeps,
        rotation="none" if layout == "residual" and len(sizes) == 1 else rotation,
        parallel=settings.parallel_weight > 1,
    )


def assumed_layout(settings: Settings, dim: int, n_train: int) -> str:
    """The layout asked for; for ``"auto"`` the slowest to learn of the layouts that it may choose."""
    compared = compared_layouts(settings, dim, n_train)
    return compared[-1] if compared else usual_layout(settings, dim, n_train)[0]


def _overlap(a: Span, b: Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def split(dim: int, n_books: int, additive: bool) -> tuple[Span, ...]:
    """Product books on parts of nearly equal width; additive books half on the first dimensions, half on the others."""
    if not additive:
        n_books = min(n_books, dim)
        bounds = [i * (dim // n_books) + min(i, dim % n_books) for i in range(n_books + 1)]
        return tuple(zip(bounds[:-1], bounds[1:], strict=True))
    if n_books == 1 or dim == 1:
        return ((0, dim),) * n_books
    n_first = n_books // 2
    return ((0, dim // 2),) * n_first + ((dim // 2, dim),) * (n_books - n_first)


def row_number_bytes(n: int, n_cells: int) -> int:
    """Bytes of ``cell_starts``, ``low``, ``high`` and ``samples`` of n rows in equally full cells (docs/format.md)."""
    low = high = samples = 0
    for size, cells in ((n // n_cells, n_cells - n % n_cells), (n // n_cells + 1, n % n_cells)):
        if size and cells:
            bits = (n // size).bit_length() - 1
            low += cells * size * bits
            high += cells * (size + (n >> bits) + 1)
            samples += cells * -(-size // SAMPLE_EVERY)
    return 8 * (n_cells + 1) + 8 * (low // 64 + 2) + 8 * (high // 64 + 1) + 4 * samples
